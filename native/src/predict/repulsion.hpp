// Close pairs: nearer than any in the training data, where a learnt energy has no meaning and may fall into a hole.
//
// The learnt part sees such a pair at a longer distance, never below a limit: r for r >= outer, then ever more slowly,
// and (outer + inner) / 2 for r <= inner. The screened repulsion of nuclei (Ziegler, Biersack and Littmark) and a wall are
// switched on over the same range. Both have continuous third derivatives.
#pragma once

#include <stdint.h>
#include <vector>

namespace qml {

struct ClosePair {
  int64_t pair;      // as listed in the tile
  double vector[3];  // as it is
  double ratio;      // length that the learnt part sees, over the length
  double slope;      // derivative of that length by the length
  double force;      // derivative of half of the repulsion by the length
};

class Repulsion {
public:
  Repulsion() = default;
  Repulsion(int n_elements, const int32_t *atomic_numbers, const double *outer, const double *inner);

  bool empty() const { return outer2.empty(); }
  // Squared distance below which a pair is close, for a centre of element e and all elements of neighbours.
  const double *limits(int64_t e) const { return outer2.data() + e * n; }
  // Half of the repulsion in eV, and what becomes of the pair.
  double energy(int64_t centre, int64_t neighbour, ClosePair &pair) const;

private:
  int n = 0;
  std::vector<double> outer, inner, outer2, charges, length; // (n, n); charges in eV A, screening length in A
};

} // namespace qml
