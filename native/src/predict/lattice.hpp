// The periodic directions of one structure.
#pragma once

#include "abi/errors.hpp"

#include <cmath>

namespace qml {

class Lattice {
public:
  // Fails where the cell does not span the directions that are periodic.
  Lattice(int64_t structure, const double *cell, const uint8_t *periodic) {
    int n = 0;
    for (int d = 0; d < 3; ++d) {
      repeats[d] = periodic[d] != 0;
      if (!repeats[d]) continue;
      ++n;
      for (int axis = 0; axis < 3; ++axis) vector[d][axis] = cell[3 * d + axis];
    }
    if (n == 0) return;
    complete(n);
    double normal[3];
    cross(vector[1], vector[2], normal);
    const double volume = dot(vector[0], normal);
    const double lengths = length(vector[0]) * length(vector[1]) * length(vector[2]);
    if (!(std::fabs(volume) > 1e-8 * lengths) || !std::isfinite(volume))
      fail(QML_BAD_ARGUMENT,
           "Structure %lld is periodic along [%s, %s, %s] but its cell does not span these directions. Give a cell, or "
           "turn periodicity off.",
           (long long)structure, name(repeats[0]), name(repeats[1]), name(repeats[2]));
    for (int d = 0; d < 3; ++d) {
      cross(vector[(d + 1) % 3], vector[(d + 2) % 3], reciprocal[d]);
      for (double &component : reciprocal[d]) component /= volume;
    }
  }

  // Fails where images within `reach` are too many to be meant, or for all atoms together to be held.
  void require_images(int64_t structure, double reach, int64_t n_atoms) const {
    double count = 1;
    for (int d = 0; d < 3; ++d)
      if (repeats[d]) count *= 2 * reach * length(reciprocal[d]) + 1;
    if (!(count < 1e6 && (count - 1) * double(n_atoms) < 1e8))
      fail(QML_BAD_ARGUMENT, "The cell of structure %lld is so small or flat that an atom has %.3g images within reach. "
           "Check the cell and the unit of length.", (long long)structure, count);
  }

  // wrap: the translation that brings the atom into the cell. f(translation) for each further image of it that may be
  // within `reach` of an atom in the cell, as a translation from there.
  template <class F> void images(int64_t structure, const double *position, double reach, double *wrap, F f) const {
    int64_t low[3] = {0, 0, 0}, high[3] = {0, 0, 0};
    double home[3] = {0, 0, 0};
    for (int d = 0; d < 3; ++d) {
      if (!repeats[d]) continue;
      const double at = dot(position, reciprocal[d]);
      if (!(std::fabs(at) < 1e12)) // no digits left to say where in its cell it is
        fail(QML_BAD_ARGUMENT, "Structure %lld has an atom that lies %.3g cells away. Check the cell and the unit of length.",
             (long long)structure, at);
      home[d] = -std::floor(at);
      // cells between the planes of the lattice that the reach spans
      const double inside = at + home[d], margin = reach * length(reciprocal[d]) * (1 + 1e-12);
      low[d] = int64_t(std::ceil(-margin - inside));
      high[d] = int64_t(std::floor(1 + margin - inside));
    }
    translate(home[0], home[1], home[2], wrap);
    double translation[3];
    for (int64_t i = low[0]; i <= high[0]; ++i)
      for (int64_t j = low[1]; j <= high[1]; ++j)
        for (int64_t k = low[2]; k <= high[2]; ++k) {
          if (i == 0 && j == 0 && k == 0) continue;
          translate(double(i), double(j), double(k), translation);
          f(translation);
        }
  }

private:
  bool repeats[3];
  double vector[3][3], reciprocal[3][3];

  static const char *name(bool value) { return value ? "True" : "False"; }
  static double dot(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
  static double length(const double *a) { return std::sqrt(dot(a, a)); }
  static void cross(const double *a, const double *b, double *out) {
    out[0] = a[1] * b[2] - a[2] * b[1], out[1] = a[2] * b[0] - a[0] * b[2], out[2] = a[0] * b[1] - a[1] * b[0];
  }
  void translate(double i, double j, double k, double *out) const {
    const double steps[3] = {i, j, k};
    out[0] = out[1] = out[2] = 0;
    for (int d = 0; d < 3; ++d)
      if (repeats[d])
        for (int axis = 0; axis < 3; ++axis) out[axis] += steps[d] * vector[d][axis];
  }

  // Directions that do not repeat become unit vectors at right angles to those that do: so the planes of the latter
  // depend on them alone.
  void complete(int n) {
    if (n == 3) return;
    if (n == 2) {
      const int d = !repeats[0] ? 0 : !repeats[1] ? 1 : 2;
      return unit_cross(vector[(d + 1) % 3], vector[(d + 2) % 3], vector[d]);
    }
    const int d = repeats[0] ? 0 : repeats[1] ? 1 : 2, next = (d + 1) % 3, last = (d + 2) % 3;
    int least = 0;
    for (int axis = 1; axis < 3; ++axis)
      if (std::fabs(vector[d][axis]) < std::fabs(vector[d][least])) least = axis;
    double axis[3] = {0, 0, 0};
    axis[least] = 1;
    unit_cross(vector[d], axis, vector[next]);
    unit_cross(vector[d], vector[next], vector[last]);
  }
  static void unit_cross(const double *a, const double *b, double *out) {
    cross(a, b, out);
    const double scale = length(out);
    for (int axis = 0; axis < 3; ++axis) out[axis] = scale > 0 ? out[axis] / scale : 0;
  }
};

} // namespace qml
