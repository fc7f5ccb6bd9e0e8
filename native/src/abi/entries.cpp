// The C interface: arguments are checked here and trusted inside.
#include "abi/checks.hpp"
#include "abi/representation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace qml {
namespace {

template <class real> const KernelTable<real> &table();
template <> const KernelTable<float> &table<float>() { return kernels_in_use().f32; }
template <> const KernelTable<double> &table<double>() { return kernels_in_use().f64; }

template <class real, class wide> const ProductTable<real, wide> &products() {
  if constexpr (sizeof(real) == sizeof(wide)) return table<real>().products;
  else return kernels_in_use().mixed;
}

// ---- features -----------------------------------------------------------------------------------------------------

template <class real>
void require_x(const char *function, const qml_feature_map *map, int64_t n_atoms, const real *x, int32_t threads) {
  require_map<real>(function, map);
  require_size(function, "n_atoms", n_atoms);
  require_threads(function, threads);
  require_count(function, "the features", {n_atoms, n_features(*map)});
  require_finite(function, "x", x, require_count(function, "x", {n_atoms, map->rank}));
}

template <class real>
void features(const qml_feature_map *map, int64_t n_atoms, const real *x, real *out, int32_t threads) {
  const char *name = "qml_features";
  require_x(name, map, n_atoms, x, threads);
  require(name, "out", out, n_atoms);
  table<real>().features(*map, n_atoms, x, out, threads);
}

// Fails unless `count` vectors, each with the number of its row, can be added to rows of features.
void require_rows(const char *function, const qml_feature_map *map, const int64_t *row, int64_t count, int64_t n_rows,
                  const double *out, int64_t stride) {
  require_size(function, "n_rows", n_rows);
  require(function, "row", row, count);
  require(function, "out", out, count);
  require_size(function, "stride", stride, n_features(*map));
  require_count(function, "out", {n_rows, stride});
  for (int64_t i = 0; i < count; ++i)
    if (row[i] < 0 || row[i] >= n_rows)
      fail(QML_BAD_ARGUMENT, "%s: row must lie within 0 ... %lld, but row[%lld] is %lld.", function,
           (long long)n_rows - 1, (long long)i, (long long)row[i]);
}

template <class real>
void energy_rows(const qml_feature_map *map, int64_t n_atoms, const real *x, const int64_t *row, int64_t n_rows,
                 double *out, int64_t stride, int32_t threads) {
  const char *name = "qml_energy_rows";
  require_x(name, map, n_atoms, x, threads);
  require_rows(name, map, row, n_atoms, n_rows, out, stride);
  table<real>().energy_rows(*map, n_atoms, x, row, out, stride, threads);
}

template <class real, class wide>
void force_rows(const qml_feature_map *map, int64_t n_atoms, const real *x, int64_t n_tangents, const wide *tangents,
                const int64_t *owner, const int64_t *row, int64_t n_rows, double *out, int64_t stride,
                int32_t threads) {
  const char *name = "qml_force_rows";
  require_x(name, map, n_atoms, x, threads);
  require_size(name, "n_tangents", n_tangents);
  const int64_t n_values = require_count(name, "tangents", {n_tangents, map->rank});
  require_count(name, "the derivatives", {n_tangents, map->n_frequencies});
  require(name, "tangents", tangents, n_tangents);
  require_owners(name, owner, n_tangents, n_atoms);
  require_rows(name, map, row, n_tangents, n_rows, out, stride);
  require_finite(name, "tangents", tangents, n_values);
  std::vector<int64_t> order(static_cast<size_t>(n_tangents));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const int64_t group = owner[a] / owners_in_group, other = owner[b] / owners_in_group;
    return group != other ? group < other : row[a] < row[b];
  });
  products<real, wide>().force_rows(*map, n_atoms, x, n_tangents, tangents, owner, row, order.data(), out, stride,
                                    threads);
}

template <class real, class wide>
void energy_and_slope(const qml_feature_map *map, int64_t n_atoms, const real *x, const wide *weights, double *energy,
                      wide *slope, int32_t threads) {
  const char *name = "qml_energy_and_slope";
  require_x(name, map, n_atoms, x, threads);
  require(name, "energy", energy, n_atoms);
  require(name, "slope", slope, n_atoms);
  require_finite(name, "weights", weights, n_features(*map));
  products<real, wide>().energy_and_slope(*map, n_atoms, x, weights, energy, slope, threads);
}

template <class real, class wide>
void feature_moment(const qml_feature_map *map, int64_t n_atoms, const real *x, const wide *coefficients,
                    const wide *tangents, double *moment, int32_t threads) {
  const char *name = "qml_feature_moment";
  require_x(name, map, n_atoms, x, threads);
  require(name, "moment", moment, 1);
  if (coefficients) require_finite(name, "coefficients", coefficients, n_atoms);
  if (tangents) require_finite(name, "tangents", tangents, n_atoms * map->rank);
  if (!coefficients && !tangents) return;
  products<real, wide>().feature_moment(*map, n_atoms, x, coefficients, tangents, moment, threads);
}

// ---- tangents -----------------------------------------------------------------------------------------------------

// Tangents of `rank` numbers, each with an owner below n_owners, ascending. Returns how many numbers the owners have.
template <class real>
int64_t require_tangents(const char *function, int64_t rank, int64_t n_tangents, const real *tangents,
                         const int64_t *owner, int64_t n_owners, int32_t threads) {
  require_size(function, "rank", rank, 1);
  require_size(function, "n_tangents", n_tangents);
  require_size(function, "n_owners", n_owners);
  require_threads(function, threads);
  require_count(function, "tangents", {n_tangents, rank});
  const int64_t n_owned = require_count(function, "the owners", {n_owners, rank});
  require(function, "tangents", tangents, n_tangents);
  require_owners(function, owner, n_tangents, n_owners);
  return n_owned;
}

// Computes into working memory and copies to `out` if all numbers are finite. Looking through the tangents beforehand
// would take longer than using them.
template <class wide, class F> void write_finite(const char *function, wide *out, int64_t count, F compute) {
  require(function, "out", out, count);
  wide *made = static_cast<wide *>(workspace(size_t(count) * sizeof(wide)));
  compute(made);
  require_finite(function, "tangents", made, count);
  std::copy(made, made + count, out);
}

template <class real, class wide>
void tangent_products(int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner, int64_t n_owners,
                      const wide *x, double *out, int32_t threads) {
  const char *name = "qml_tangent_products";
  const int64_t n_owned = require_tangents(name, rank, n_tangents, tangents, owner, n_owners, threads);
  require_finite(name, "x", x, n_owned);
  write_finite(name, out, n_tangents, [&](double *made) {
    products<real, wide>().tangent_products(rank, n_tangents, tangents, owner, x, made, threads);
  });
}

template <class real, class wide>
void tangent_sums(int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner,
                  const double *coefficients, int64_t n_owners, wide *out, int32_t threads) {
  const char *name = "qml_tangent_sums";
  const int64_t n_owned = require_tangents(name, rank, n_tangents, tangents, owner, n_owners, threads);
  require_finite(name, "coefficients", coefficients, n_tangents);
  write_finite(name, out, n_owned, [&](wide *made) {
    products<real, wide>().tangent_sums(rank, n_tangents, tangents, owner, coefficients, n_owners, made, threads);
  });
}

// ---- environments -------------------------------------------------------------------------------------------------

// The representation's shape, and how many pairs and numbers in environments there are.
struct Environments {
  RepresentationShape shape;
  int64_t n_pairs, n_values;
};

// Fails unless the representation is right, the segments ascend and no two atoms stand on one spot.
template <class real>
Environments require_environments(const char *function, const qml_representation *representation, int64_t n_atoms,
                                  const int64_t *segments, const real *vectors, int32_t threads) {
  const RepresentationShape shape = require_representation(function, representation, 8 * int(sizeof(real))).shape;
  require_size(function, "n_atoms", n_atoms);
  require_threads(function, threads);
  if (n_atoms == 0) return {shape, 0, 0};
  const int64_t n_values = require_count(function, "the environments", {n_atoms, shape.size});
  const int64_t n_segments = require_count(function, "segments", {n_atoms, shape.n_elements});
  const int64_t n_pairs = require_ascending(function, "segments", segments, n_segments + 1);
  require_finite(function, "vectors", vectors, require_count(function, "vectors", {n_pairs, 3}));
  for (int64_t pair = 0; pair < n_pairs; ++pair) {
    const double x = vectors[3 * pair], y = vectors[3 * pair + 1], z = vectors[3 * pair + 2];
    if (x * x + y * y + z * z < shortest_distance * shortest_distance)
      fail(QML_BAD_ARGUMENT, "%s: vector %lld has a length of %.3g, less than %.3g. Two atoms cannot stand on one spot.",
           function, (long long)pair, std::sqrt(x * x + y * y + z * z), shortest_distance);
  }
  return {shape, n_pairs, n_values};
}

template <class real>
void environments(const qml_representation *representation, int64_t n_atoms, const int64_t *segments,
                  const real *vectors, real *out, int32_t threads) {
  const char *name = "qml_environments";
  const Environments n = require_environments(name, representation, n_atoms, segments, vectors, threads);
  require(name, "out", out, n_atoms);
  if (n_atoms > 0)
    table<real>().environments[representation->kind].values(representation->parameters, n_atoms, segments,
                                                            n.shape.n_elements, vectors, out, threads);
}

template <class real>
void environments_pullback(const qml_representation *representation, int64_t n_atoms, const int64_t *segments,
                           const real *vectors, const real *cotangent, real *out, int32_t threads) {
  const char *name = "qml_environments_pullback";
  const Environments n = require_environments(name, representation, n_atoms, segments, vectors, threads);
  require(name, "out", out, n.n_pairs);
  require_finite(name, "cotangent", cotangent, n.n_values);
  if (n.n_pairs > 0)
    table<real>().environments[representation->kind].pullback(representation->parameters, n_atoms, segments,
                                                              n.shape.n_elements, vectors, 1, cotangent, &out, threads);
}

template <class real>
void environments_jacobian(const qml_representation *representation, int64_t n_atoms, const int64_t *segments,
                           const real *vectors, const int64_t *centre_element, int64_t rank, const real *projections,
                           real *out, int32_t threads) {
  const char *name = "qml_environments_jacobian";
  const Environments n = require_environments(name, representation, n_atoms, segments, vectors, threads);
  require_size(name, "rank", rank, 1);
  const int64_t n_entries = require_count(name, "projections", {n.shape.n_elements, n.shape.size, rank});
  require_count(name, "out", {n.n_pairs, 3, rank});
  require(name, "out", out, n.n_pairs);
  require_elements(name, "centre_element", centre_element, n_atoms, n.shape.n_elements);
  if (n.n_pairs == 0) return;
  require_finite(name, "projections", projections, n_entries);
  table<real>().environments[representation->kind].jacobian(representation->parameters, n_atoms, segments, vectors,
                                                            centre_element, rank, projections, out, threads);
}

} // namespace
} // namespace qml

extern "C" {

#define QML_DEFINE(name, suffix, parameters, names)                                                                    \
  int32_t qml_##name##_##suffix parameters {                                                                           \
    return qml::guarded([&] { qml::name names; });                                                                     \
  }
QML_ALL_KERNELS(QML_DEFINE)
}
