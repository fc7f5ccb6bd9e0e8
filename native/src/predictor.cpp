// The prediction path of one tile of centres: representation, projection, features, and all the way back.
#include "predictor.hpp"

#include <algorithm>
#include <cstring>

namespace qml {
namespace {

// Centres of one thread that are in flight at once: enough for full lanes of every element, few enough for its cache.
constexpr int64_t rows_per_thread = 512;
// Fewer pairs than this are not worth waking a thread.
constexpr int64_t worth_a_thread = 16384;

int useful(int threads, int64_t pairs) {
  return int(std::max<int64_t>(1, std::min<int64_t>(threads, pairs / worth_a_thread)));
}

} // namespace

template <class real>
void EngineIn<real>::run(const PairList &pairs, const int64_t *element, const Wanted &wanted, int threads) {
  const qml_fchl19 &p = model.representation;
  const int64_t tile = rows_per_thread * threads;
  for (int64_t first = 0; first < pairs.n_centres; first += tile) {
    const int64_t last = std::min(first + tile, pairs.n_centres), n_rows = last - first;
    sort_tile(pairs, element, first, last);
    const int64_t *centre = centre_.begin(), *segments = segments_.begin();
    const int64_t n_pairs = segments[n_rows * p.n_elements];
    measure(pairs, n_rows, threads);
    real *values = values_.room(n_rows * model.size), *projected = projected_.room(n_rows * model.rank);
    real *slope = slope_.room(n_rows * model.rank);
    const double *energy = energy_.room(n_rows);
    model.kernels.fchl19_values(p, n_rows, segments, vectors_.begin(), values, threads);
    multiply(model.project, model.size, model.rank, values, projected, threads);
    contract(threads);
    for (int64_t row = 0; row < n_rows; ++row) wanted.atom_energies[centre[row]] += energy[row];
    if (n_pairs == 0 || (!wanted.forces && !wanted.virial)) continue;

    real *gradient = gradient_.room(3 * n_pairs);
    multiply(model.lift, model.rank, model.size, slope, values, threads);
    model.kernels.fchl19_pullback(p, n_rows, segments, vectors_.begin(), values, gradient, threads);
    sum_gradients(n_rows, wanted.virial, threads);
    scatter(pairs, n_rows, wanted);
  }
}

// Rows of the tile sorted by element, and their segments from 0.
template <class real>
void EngineIn<real>::sort_tile(const PairList &pairs, const int64_t *element, int64_t first, int64_t last) {
  const int n_elements = model.n_elements();
  int64_t *centre = centre_.room(last - first), *first_row = first_row_.room(n_elements + 1);
  int64_t *segment = segments_.room((last - first) * n_elements + 1);
  std::fill(first_row, first_row + n_elements + 1, 0);
  for (int64_t i = first; i < last; ++i) ++first_row[element[i] + 1];
  for (int e = 0; e < n_elements; ++e) first_row[e + 1] += first_row[e];
  for (int64_t i = first; i < last; ++i) centre[first_row[element[i]]++] = i;
  for (int e = n_elements; e > 0; --e) first_row[e] = first_row[e - 1];
  first_row[0] = 0;
  *segment = 0;
  for (int64_t row = 0; row < last - first; ++row) {
    const int64_t *own = pairs.segments + centre[row] * n_elements;
    for (int e = 0; e < n_elements; ++e, ++segment) segment[1] = segment[0] + own[e + 1] - own[e];
  }
}

// Vectors of the pairs of the tile: differences in double, then rounded.
template <class real> void EngineIn<real>::measure(const PairList &pairs, int64_t n_rows, int threads) {
  const int n_elements = model.n_elements();
  const int64_t *segments = segments_.begin(), *centre = centre_.begin(), n_pairs = segments[n_rows * n_elements];
  real *vectors = vectors_.room(3 * n_pairs);
#pragma omp parallel for schedule(static) num_threads(useful(threads, n_pairs))
  for (int64_t row = 0; row < n_rows; ++row) {
    const int64_t from = pairs.segments[centre[row] * n_elements], to = pairs.segments[(centre[row] + 1) * n_elements];
    real *out = vectors + 3 * segments[row * n_elements];
    if (pairs.vectors) {
      for (int64_t k = 3 * from; k < 3 * to; ++k) *out++ = real(pairs.vectors[k]);
      continue;
    }
    const double x = pairs.places[3 * centre[row]], y = pairs.places[3 * centre[row] + 1],
                 z = pairs.places[3 * centre[row] + 2];
    for (int64_t pair = from; pair < to; ++pair, out += 3) {
      const double *other = pairs.places + 3 * int64_t(pairs.neighbour[pair]);
      out[0] = real(other[0] - x), out[1] = real(other[1] - y), out[2] = real(other[2] - z);
    }
  }
}

// c = a times the matrix of each row's element.
template <class real>
void EngineIn<real>::multiply(const std::vector<Buffer<real>> &matrices, int64_t depth, int64_t columns,
                              const real *a, real *c, int threads) {
  const int64_t *first_row = first_row_.begin();
  Product<real> *products = products_.room(model.n_elements());
  for (int e = 0; e < model.n_elements(); ++e)
    products[e] = {a + first_row[e] * depth, first_row[e + 1] - first_row[e], matrices[size_t(e)].begin(),
                   c + first_row[e] * columns};
  model.kernels.matrix_product(depth, columns, model.n_elements(), products, threads);
}

// Energies and slopes of the projected rows.
template <class real> void EngineIn<real>::contract(int threads) {
  const int64_t *first_row = first_row_.begin();
  for (int e = 0; e < model.n_elements(); ++e)
    model.kernels.energy_and_slope(model.maps[size_t(e)], first_row[e + 1] - first_row[e],
                                   projected_.begin() + first_row[e] * model.rank, model.weights[size_t(e)],
                                   energy_.begin() + first_row[e], slope_.begin() + first_row[e] * model.rank, threads);
}

// What the gradients by its pair vectors sum up to for each row, in double.
template <class real> void EngineIn<real>::sum_gradients(int64_t n_rows, bool virial, int threads) {
  const int n_elements = model.n_elements();
  const int64_t *segments = segments_.begin();
  const real *gradient = gradient_.begin(), *vectors = vectors_.begin();
  double *own_force = own_force_.room(3 * n_rows), *own_virial = virial ? own_virial_.room(9 * n_rows) : nullptr;
#pragma omp parallel for schedule(static) num_threads(useful(threads, segments[n_rows * n_elements]))
  for (int64_t row = 0; row < n_rows; ++row) {
    double force[3] = {}, outer[9] = {};
    for (int64_t pair = segments[row * n_elements]; pair < segments[(row + 1) * n_elements]; ++pair) {
      const real *g = gradient + 3 * pair, *v = vectors + 3 * pair;
      for (int axis = 0; axis < 3; ++axis) force[axis] += double(g[axis]);
      if (!virial) continue;
      for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b) outer[3 * a + b] += double(v[a]) * double(g[b]);
    }
    std::memcpy(own_force + 3 * row, force, sizeof(force));
    if (virial) std::memcpy(own_virial + 9 * row, outer, sizeof(outer));
  }
}

// One thread, so that sums are always in the same order; it takes a hundredth of the time of the rest.
template <class real>
void EngineIn<real>::scatter(const PairList &pairs, int64_t n_rows, const Wanted &wanted) const {
  const int n_elements = model.n_elements();
  const int64_t *centre = centre_.begin();
  for (int64_t row = 0; wanted.virial && row < n_rows; ++row) {
    double *to = wanted.virial + 9 * (wanted.group ? int64_t(wanted.group[centre[row]]) : 0);
    for (int k = 0; k < 9; ++k) to[k] += own_virial_.begin()[9 * row + k];
  }
  if (!wanted.forces) return;
  const real *g = gradient_.begin();
  for (int64_t row = 0; row < n_rows; ++row) {
    const int64_t i = centre[row];
    for (int axis = 0; axis < 3; ++axis) wanted.forces[3 * i + axis] += own_force_.begin()[3 * row + axis];
    for (int64_t pair = pairs.segments[i * n_elements]; pair < pairs.segments[(i + 1) * n_elements]; ++pair, g += 3) {
      double *to = wanted.forces + 3 * int64_t(pairs.neighbour[pair]);
      to[0] -= double(g[0]), to[1] -= double(g[1]), to[2] -= double(g[2]);
    }
  }
}

template class EngineIn<float>;
template class EngineIn<double>;

} // namespace qml
