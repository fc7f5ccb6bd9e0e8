// How far the learnt energy of a crowded atom has faded, and the repulsion that takes its place.
#include "predict/crowding.hpp"

#include <cmath>

namespace qml {

Crowding::Crowding(int n_elements, const double *reach, const double *onset_, const double *full_,
                   const double *strength_)
    : n(n_elements), reach2(reach, reach + n * n), onset(onset_, onset_ + n), full(full_, full_ + n),
      strength(strength_, strength_ + n) {
  for (double &one : reach2) one *= one;
}

bool Crowding::crowded(int64_t e, double crowding, CrowdedCentre &centre) const {
  const size_t k = size_t(e);
  if (!(crowding > onset[k])) return false;
  const double width = full[k] - onset[k], y = (crowding - onset[k]) / width, w = std::fmin(1.0, y);
  centre.fade = 1 - w * w * w * (10 - 15 * w + 6 * w * w);
  centre.fade_slope = -30 * w * w * (1 - w) * (1 - w) / width;
  centre.energy = strength[k] * y * y * y / (1 + y * y);
  centre.energy_slope = strength[k] * y * y * (3 + y * y) / ((1 + y * y) * (1 + y * y) * width);
  return true;
}

} // namespace qml
