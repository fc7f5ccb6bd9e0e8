// The two-body part: log-normal functions of the distance, lanes over the grid.
#pragma once

#include "fchl19/neighbours.hpp"

namespace qml {
namespace QML_ISA {
namespace fchl19 {

// ln R - mean and exp(-(ln R - mean)^2 / (2 variance)) / (R sqrt(2 pi)) on one vector of grid points.
template <class real> struct LogNormal {
  Vector<real> offset, density;

  QML_INLINE LogNormal(const Neighbours<real> &n, int64_t slot, int64_t k) {
    offset = load(n.setup.log_grid2 + k) - n.mean[slot];
    density = load(n.setup.density2 + k) * power_of_two<real>(n.spread[slot] * offset * offset);
  }
  QML_INLINE Vector<real> value(const Neighbours<real> &n, int64_t slot) const { return density * n.amplitude[slot]; }
  QML_INLINE Vector<real> slope(const Neighbours<real> &n, int64_t slot) const {
    return density * fma(fma(offset, n.slope2[slot], broadcast(n.slope1[slot])), offset, broadcast(n.slope0[slot]));
  }
};

// out (padded2): sum over the neighbours of one element.
template <class real> void two_body_values(const Neighbours<real> &n, int64_t element, real *out) {
  for (int64_t k = 0; k < n.setup.padded2; k += lanes_of<real>) {
    Vector<real> total = {};
    for (int64_t slot = n.start[element]; slot < n.start[element + 1]; ++slot) {
      total += LogNormal<real>(n, slot, k).value(n, slot);
    }
    store(out + k, total);
  }
}

// Derivative by the distance of one neighbour, (padded2).
template <class real> QML_INLINE void two_body_slopes(const Neighbours<real> &n, int64_t slot, real *out) {
  for (int64_t k = 0; k < n.setup.padded2; k += lanes_of<real>) {
    store(out + k, LogNormal<real>(n, slot, k).slope(n, slot));
  }
}

// totals[c][at] = derivative of sum(cotangent c * value) by the distance of one neighbour, in lanes yet to be summed;
// cotangents (count, padded2).
template <int count, class real>
QML_INLINE void two_body_pullback(const Neighbours<real> &n, int64_t slot, const real *cotangents,
                                  Vector<real> (&totals)[count][4], int at) {
  for (int c = 0; c < count; ++c) totals[c][at] = Vector<real>{};
  for (int64_t k = 0; k < n.setup.padded2; k += lanes_of<real>) {
    const Vector<real> slope = LogNormal<real>(n, slot, k).slope(n, slot);
    for (int c = 0; c < count; ++c) totals[c][at] += load(cotangents + c * n.setup.padded2 + k) * slope;
  }
}

// Adds this, divided by the distance, for all neighbours of one element: radial (count, capacity).
template <int count, class real>
void add_two_body_pullback(const Neighbours<real> &n, int64_t element, const real *cotangents, real *radial) {
  const int64_t stop = n.start[element + 1];
  for (int64_t slot = n.start[element]; slot < stop; slot += 4) {
    const int here = stop - slot < 4 ? int(stop - slot) : 4;
    Vector<real> totals[count][4] = {};
    for (int i = 0; i < here; ++i) two_body_pullback(n, slot + i, cotangents, totals, i);
    for (int c = 0; c < count; ++c) {
      real sums[4];
      sum_four<real>(totals[c], sums);
      for (int i = 0; i < here; ++i) radial[c * n.setup.capacity + slot + i] += sums[i] * n.inverse_r[slot + i];
    }
  }
}

} // namespace fchl19
} // namespace QML_ISA
} // namespace qml
