// Standard deviations from deviations by the members of a committee; model/committee.py is the twin.
#pragma once

#include <stdint.h>

#include <vector>

namespace qml {

// The standard deviation sqrt(scale^2 v^power + noise^2) of an error whose posterior variance is v.
struct Calibration {
  double scale = 0, noise = 0, power = 1;

  double deviation(double variance) const;
};

struct Calibrations {
  Calibration energies;
  double size_exponent = 0;        // the noise of an energy grows with the number of atoms to this power
  std::vector<Calibration> forces; // of each element

  // In eV, of a structure, from the deviations of its atoms (members, atoms), which are `apart` from member to member.
  double of_energy(const double *members, int n_members, int64_t n_atoms, int64_t apart) const;
  // In eV, of an atom, without noise of labels.
  double of_atom_energy(const double *members, int n_members, int64_t apart) const;
  // In eV/A, of each component of the force on an atom of that element, from (members, 3).
  double of_force(int64_t element, const double *members, int n_members, int64_t apart) const;
};

} // namespace qml
