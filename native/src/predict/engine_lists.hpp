// The neighbour lists of an engine, sorted as the kernels need them.
#pragma once

#include "isa/kernels.hpp"
#include "predict/buffer.hpp"

namespace qml {

class EngineLists {
public:
  // Pairs of each centre closer than the cutoff, sorted by the element of the neighbour, with their vectors. Neighbours
  // are numbered from n_centres on: the centres have the numbers before. Fails where two atoms are too close.
  void sort(const qml_neighbour_lists &given, int n_elements, double cutoff, int threads);

  const int64_t *element() const { return element_.begin(); }   // (centres)
  const int64_t *segments() const { return segments_.begin(); } // (centres * n_elements + 1)
  const int32_t *neighbour() const { return neighbour_.begin(); }
  const double *vectors() const { return vectors_.begin(); }    // (pairs, 3)
  const int32_t *own_group() const { return group_.begin(); }   // (centres) 0, 1, ...
  double *forces(int64_t n_all) { return forces_.room(3 * n_all); }
  double *virials(int64_t n_centres) { return virials_.room(9 * n_centres); }

private:
  static void refuse(const qml_neighbour_lists &given, int64_t i);

  Buffer<int64_t> element_, segments_;
  Buffer<int32_t> neighbour_, group_;
  Buffer<double> vectors_, forces_, virials_;
};

} // namespace qml
