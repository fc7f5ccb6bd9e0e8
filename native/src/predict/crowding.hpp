// Crowded atoms: with more neighbours nearby than any atom of the training data, as in matter under great pressure.
//
// The crowding of an atom is the sum of (1 - r^2 / reach^2)^4 over its neighbours. Between `onset` and `full` its learnt
// energy fades out, and a repulsion of strength * y^3 / (1 + y^2) rises, y = (crowding - onset) / (full - onset).
#pragma once

#include <stdint.h>
#include <vector>

namespace qml {

struct CrowdedCentre {
  int64_t row;          // among the centres sorted by element
  double fade;          // factor of the learnt energy
  double fade_slope;    // its derivative by the crowding
  double energy;        // of the repulsion, eV
  double energy_slope;  // its derivative by the crowding
};

class Crowding {
public:
  Crowding() = default;
  Crowding(int n_elements, const double *reach, const double *onset, const double *full, const double *strength);

  bool empty() const { return reach2.empty(); }
  // Squared reach of a centre of element e, for all elements of neighbours.
  const double *reaches(int64_t e) const { return reach2.data() + e * n; }
  // Whether a centre of element e is crowded, and then what becomes of it.
  bool crowded(int64_t e, double crowding, CrowdedCentre &centre) const;

  // Part of a neighbour in the crowding, from its squared distance relative to the squared reach; below 1.
  static double part(double ratio) {
    const double near = 1 - ratio, near2 = near * near;
    return near2 * near2;
  }
  // The derivative of that part by the vector is this times the vector.
  static double slope(double ratio, double squared_reach) {
    const double near = 1 - ratio;
    return -8 * near * near * near / squared_reach;
  }

private:
  int n = 0;
  std::vector<double> reach2, onset, full, strength; // (n, n), then (n)
};

} // namespace qml
