#include "predict/calibration.hpp"

#include <cmath>

namespace qml {

double Calibration::deviation(double variance) const {
  const double raised = power == 1 ? variance : std::pow(variance, power);
  return std::sqrt(scale * scale * raised + noise * noise);
}

double Calibrations::of_energy(const double *members, int n_members, int64_t n_atoms, int64_t apart) const {
  double sum = 0;
  for (int m = 0; m < n_members; ++m) {
    double total = 0;
    for (int64_t i = 0; i < n_atoms; ++i) total += members[m * apart + i];
    sum += total * total;
  }
  const double size = size_exponent == 0 ? 1 : std::pow(double(n_atoms), size_exponent);
  return size * energies.deviation(sum / n_members / (size * size));
}

double Calibrations::of_atom_energy(const double *members, int n_members, int64_t apart) const {
  double sum = 0;
  for (int m = 0; m < n_members; ++m) sum += members[m * apart] * members[m * apart];
  return energies.scale * std::sqrt(sum / n_members);
}

double Calibrations::of_force(int64_t element, const double *members, int n_members, int64_t apart) const {
  double sum = 0;
  for (int m = 0; m < n_members; ++m)
    for (int axis = 0; axis < 3; ++axis) sum += members[m * apart + axis] * members[m * apart + axis];
  return forces[size_t(element)].deviation(sum / (3 * n_members));
}

} // namespace qml
