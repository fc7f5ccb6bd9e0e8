// The neighbour lists of an engine, sorted as the kernels need them.
#pragma once

#include "isa/kernels.hpp"
#include "predict/buffer.hpp"
#include "predict/sorted_pairs.hpp"

namespace qml {

class EngineLists {
public:
  // Pairs of each centre closer than the cutoff, sorted by the element of the neighbour. Neighbours are numbered from
  // n_centres on: the centres have the numbers before. Fails where two atoms are too close, or an index is that of no
  // atom; all else has been checked.
  void sort(const char *name, const qml_neighbour_lists &given, int n_elements, double cutoff, int threads);

  const int64_t *element() const { return element_.begin(); }    // (centres)
  const int64_t *segments() const { return pairs_.segments(); }  // (centres * n_elements + 1)
  const int32_t *neighbour() const { return pairs_.neighbour(); }
  const double *places() const { return places_.begin(); }       // (centres + n_all, 3)
  const int32_t *own_group() const { return group_.begin(); }    // (centres) 0, 1, ...
  double *forces(int64_t n_all) { return forces_.room(3 * n_all); }
  double *virials(int64_t n_centres) { return virials_.room(9 * n_centres); }

private:
  void number(const qml_neighbour_lists &given);

  SortedPairs pairs_;
  Buffer<int64_t> element_;
  Buffer<int32_t> group_, element_of_all_; // (centres), (centres + n_all)
  Buffer<double> places_, forces_, virials_;
};

} // namespace qml
