// Neighbours of one centre: unit vectors, radial functions from tables, spherical harmonics.
#pragma once

#include "density/harmonics.hpp"
#include "isa/centres.hpp"
#include "isa/elementary.hpp"
#include "isa/lanes.hpp"

namespace qml {
namespace QML_ISA {
namespace density {

// Radial functions on an even grid of intervals from 0 to the cutoff, each interval with a polynomial of the fifth degree
// in the fraction of it that is passed: (intervals, 6, width), coefficients of ascending powers.
template <class real> struct RadialTable {
  static constexpr int coefficients = 6;
  const real *table;
  int64_t intervals, width;
  real per_length;

  RadialTable(const void *table, int64_t intervals, int64_t count, double cutoff)
      : table(static_cast<const real *>(table)), intervals(intervals),
        width((count + QML_DENSITY_PADDING - 1) / QML_DENSITY_PADDING * QML_DENSITY_PADDING),
        per_length(real(double(intervals) / cutoff)) {}

  // All functions at r, and their derivatives where `slope` is not null; both (width).
  QML_INLINE void evaluate(real r, real *value, real *slope) const {
    const real along = r * per_length;
    int64_t interval = int64_t(along);
    if (interval >= intervals) interval = intervals - 1; // the cutoff itself, by rounding
    const real x = along - real(interval);
    const real *row = table + interval * coefficients * width;
    for (int64_t n = 0; n < width; n += lanes_of<real>, row += lanes_of<real>) {
      Vector<real> c[coefficients];
      for (int i = 0; i < coefficients; ++i) c[i] = load(row + i * width);
      Vector<real> sum = c[5], tilt = real(5) * c[5];
      for (int i = 4; i >= 1; --i) {
        sum = fma(sum, x, c[i]);
        tilt = i > 1 ? fma(tilt, x, real(i) * c[i]) : tilt;
      }
      store(value + n, fma(sum, x, c[0]));
      if (slope) store(slope + n, per_length * fma(tilt, x, c[1]));
    }
  }
};

// Neighbours within a cutoff, sorted by element.
template <class real> struct Neighbours {
  int64_t count = 0, n_elements;
  real cutoff;
  int64_t *start;         // (n_elements + 1) first slot of each element
  int64_t *pair;          // (slots) index of the caller's pair
  real *unit[3];          // (slots) components of the unit vector
  real *r, *inverse;      // (slots)

  Neighbours(int64_t n_elements, double cutoff, int64_t capacity, ScratchArena &arena)
      : n_elements(n_elements), cutoff(real(cutoff)), start(arena.take<int64_t>(n_elements + 1)),
        pair(arena.take<int64_t>(capacity)) {
    for (real *&component : unit) component = arena.take<real>(capacity);
    r = arena.take<real>(capacity), inverse = arena.take<real>(capacity);
  }

  bool present(int64_t element) const { return start[element] < start[element + 1]; }

  void gather(const int64_t *segments, const real *vectors) {
    constexpr int lanes = lanes_of<real>;
    count = 0;
    for (int64_t element = 0; element < n_elements; ++element) {
      start[element] = count;
      for (int64_t p = segments[element]; p < segments[element + 1]; ++p) {
        const real *v = vectors + 3 * p;
        if (!(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] < cutoff * cutoff)) continue;
        for (int axis = 0; axis < 3; ++axis) unit[axis][count] = v[axis];
        pair[count++] = p;
      }
    }
    start[n_elements] = count;
    for (int64_t slot = count; slot % lanes != 0; ++slot) // an empty slot holds a place where nothing is infinite
      for (int axis = 0; axis < 3; ++axis) unit[axis][slot] = cutoff;
    for (int64_t slot = 0; slot < count; slot += lanes) {
      const Vector<real> x = load(unit[0] + slot), y = load(unit[1] + slot), z = load(unit[2] + slot);
      const Vector<real> distance = root<real>(x * x + y * y + z * z), per = real(1) / distance;
      store(r + slot, distance);
      store(inverse + slot, per);
      store(unit[0] + slot, x * per), store(unit[1] + slot, y * per), store(unit[2] + slot, z * per);
    }
  }

  QML_INLINE void unit_of(int64_t slot, Vector<real> (&u)[3]) const {
    for (int axis = 0; axis < 3; ++axis) u[axis] = load(unit[axis] + slot);
  }
};

} // namespace density
} // namespace QML_ISA
} // namespace qml
