// Two passes over the lists: pairs are counted, then written to their places.
#include "predict/engine_lists.hpp"

#include "abi/checks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qml {
namespace {

// f(atom, element, vector, squared length) for each neighbour of centre i within the cutoff that the model sees.
template <class F> void within(const qml_neighbour_lists &given, int64_t i, double cutoff2, F f) {
  const double *x = given.positions + 3 * int64_t(given.centres[i]);
  for (int32_t k = 0; k < given.counts[i]; ++k) {
    const int32_t atom = given.neighbours[i][k] & given.mask;
    if (given.element[atom] < 0) continue;
    const double *y = given.positions + 3 * int64_t(atom);
    const double v[3] = {y[0] - x[0], y[1] - x[1], y[2] - x[2]}, r2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
    if (r2 < cutoff2) f(atom, given.element[atom], v, r2);
  }
}

} // namespace

void EngineLists::sort(const qml_neighbour_lists &given, int n_elements, double cutoff, int threads) {
  const int64_t n = given.n_centres;
  const double cutoff2 = cutoff * cutoff, shortest2 = shortest_distance * shortest_distance;
  int64_t *element = element_.room(n), *segments = segments_.room(n * n_elements + 2), close = -1;
  int32_t *group = group_.room(n);
  // the count of a segment stands one place behind its beginning
  std::fill(segments, segments + n * n_elements + 2, 0);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < n; ++i) {
    element[i] = given.element[given.centres[i]];
    group[i] = int32_t(i);
    within(given, i, cutoff2, [&](int32_t, int32_t e, const double *, double r2) {
      ++segments[i * n_elements + e + 2];
      if (r2 < shortest2) {
#pragma omp atomic write
        close = i;
      }
    });
  }
  if (close >= 0) refuse(given, close);
  for (int64_t k = 2; k < n * n_elements + 2; ++k) segments[k] += segments[k - 1];
  const int64_t n_pairs = segments[n * n_elements + 1];
  if (n + given.n_all > std::numeric_limits<int32_t>::max())
    fail(QML_UNSUPPORTED, "%lld atoms are too many for one call; use more processes.", (long long)given.n_all);
  int32_t *neighbour = neighbour_.room(n_pairs + 1);
  double *vectors = vectors_.room(3 * n_pairs + 1);
  // each beginning moves to the next one while its segment is filled
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < n; ++i)
    within(given, i, cutoff2, [&](int32_t atom, int32_t e, const double *v, double) {
      const int64_t at = segments[i * n_elements + e + 1]++;
      neighbour[at] = int32_t(n) + atom;
      for (int axis = 0; axis < 3; ++axis) vectors[3 * at + axis] = v[axis];
    });
}

void EngineLists::refuse(const qml_neighbour_lists &given, int64_t i) {
  within(given, i, shortest_distance * shortest_distance, [&](int32_t atom, int32_t, const double *, double r2) {
    fail(QML_BAD_ARGUMENT, "Atoms %d and %d are %.3g Å apart, less than %.3g Å. Two atoms cannot stand on one spot.",
         given.centres[i], atom, std::sqrt(r2), shortest_distance);
  });
}

} // namespace qml
