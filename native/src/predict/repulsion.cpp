// The universal screening function of Ziegler, Biersack and Littmark, the smooth step between two distances, and barriers.
#include "predict/repulsion.hpp"

#include <cmath>

namespace qml {
namespace {

constexpr double coulomb = 14.3996454784;    // e^2 / (4 pi epsilon_0), eV A
constexpr double screening = 0.46850;        // 0.8854 Bohr radii, A
constexpr double wall = 20.0;                // eV: light nuclei repel each other too little to hold a learnt attraction
constexpr double stiffness = 40.0;           // eV/A^2: height of a barrier by the square of its width
constexpr double weights[4] = {0.18175, 0.50986, 0.28022, 0.02817};
constexpr double decays[4] = {3.19980, 0.94229, 0.40290, 0.20162};

} // namespace

Repulsion::Repulsion(int n_elements, const int32_t *numbers, const double *outer_, const double *inner_)
    : n(n_elements), outer(outer_, outer_ + n * n), inner(inner_, inner_ + n * n), outer2(outer), charges(outer),
      length(outer), low2(outer.size(), 0.0), high2(outer.size(), 0.0) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      const size_t k = size_t(i) * size_t(n) + size_t(j);
      outer2[k] = outer[k] * outer[k];
      charges[k] = coulomb * numbers[i] * numbers[j];
      length[k] = screening / (std::pow(double(numbers[i]), 0.23) + std::pow(double(numbers[j]), 0.23));
    }
}

void Repulsion::set_gaps(const double *low, const double *high) {
  for (size_t k = 0; k < low2.size(); ++k) low2[k] = low[k] * low[k], high2[k] = high[k] * high[k];
}

double Repulsion::energy(int64_t centre, int64_t neighbour, ClosePair &pair) const {
  const size_t k = size_t(centre * n + neighbour);
  const double *v = pair.vector, r = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
  if (r < outer[k]) return close_energy(k, r, pair);
  const double low = std::sqrt(low2[k]), width = std::fmax(std::sqrt(high2[k]) - low, 1e-12);
  const double x = std::fmin(1.0, std::fmax(0.0, (r - low) / width)), arch = 4 * x * (1 - x);
  const double height = std::fmin(wall, stiffness * width * width);
  pair.ratio = pair.slope = 1;
  pair.force = 6 * height * arch * arch * (1 - 2 * x) / width;
  return 0.5 * height * arch * arch * arch;
}

double Repulsion::close_energy(size_t k, double r, ClosePair &pair) const {
  const double range = outer[k] - inner[k], w = std::fmin(1.0, (outer[k] - r) / range);
  const double step = w * w * w * (10 - 15 * w + 6 * w * w), step_slope = -30 * w * w * (1 - w) * (1 - w) / range;
  const double seen = outer[k] - range * (w - w * w * w * w * (2.5 - 3 * w + w * w));
  pair.ratio = seen / r;
  pair.slope = 1 - step;
  double screened = 0, screened_slope = 0;
  for (int term = 0; term < 4; ++term) {
    const double value = weights[term] * std::exp(-decays[term] * r / length[k]);
    screened += value;
    screened_slope -= decays[term] / length[k] * value;
  }
  const double zbl = charges[k] * screened / r, zbl_slope = charges[k] * screened_slope / r - zbl / r;
  pair.force = 0.5 * (zbl_slope * step + (zbl + wall) * step_slope);
  return 0.5 * (zbl + wall) * step;
}

} // namespace qml
