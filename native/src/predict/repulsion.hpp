// Close pairs: nearer than any in the training data, where a learnt energy has no meaning and may fall into a hole.
//
// The learnt part sees such a pair at a longer distance, never below a limit: r for r >= outer, then ever more slowly,
// and (outer + inner) / 2 for r <= inner. The screened repulsion of nuclei (Ziegler, Biersack and Littmark) and a wall are
// switched on over the same range. Both have continuous third derivatives.
//
// Gaps: distances that no pair of the data has, between those of bonds and all longer ones. A barrier stands there, and the
// learnt part sees such a pair as it is.
#pragma once

#include <stddef.h>
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

  // Ends of the gaps, (n, n) each; both are zero where there is none.
  void set_gaps(const double *low, const double *high);

  bool empty() const { return outer2.empty(); }
  double shortest_seen(int64_t e, int64_t other) const { return outer[size_t(e * n + other)]; }
  // Squared distance below which a pair is close, for a centre of element e and all elements of neighbours.
  const double *limits(int64_t e) const { return outer2.data() + e * n; }
  // Squared ends of the gaps, likewise.
  const double *gap_begins(int64_t e) const { return low2.data() + e * n; }
  const double *gap_ends(int64_t e) const { return high2.data() + e * n; }
  // Half of the repulsion in eV, and what becomes of the pair.
  double energy(int64_t centre, int64_t neighbour, ClosePair &pair) const;

private:
  double close_energy(size_t k, double r, ClosePair &pair) const;
  int n = 0;
  std::vector<double> outer, inner, outer2, charges, length; // (n, n); charges in eV A, screening length in A
  std::vector<double> low2, high2; // (n, n) A^2
};

} // namespace qml
