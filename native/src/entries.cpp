// The C interface: arguments are checked here and trusted inside.
#include "checks.hpp"

#include <cmath>
#include <cstring>

namespace qml {

void require(const char *function, const char *name, const void *pointer, int64_t size) {
  if (size > 0 && !pointer) fail(QML_BAD_ARGUMENT, "%s: %s is null.", function, name);
}

void require_size(const char *function, const char *name, int64_t size, int64_t least) {
  if (size < least)
    fail(QML_BAD_ARGUMENT, "%s: %s must be at least %lld, got %lld.", function, name, (long long)least,
         (long long)size);
}

namespace {

// An exponent of all ones is an infinity or not a number; integers, so that the loop becomes vector instructions.
template <class real, class bits, bits exponent>
bool all_finite(const real *values, int64_t count) {
  bits found = 0;
  for (int64_t i = 0; i < count; ++i) {
    bits value;
    std::memcpy(&value, values + i, sizeof(value));
    found |= bits((value & exponent) == exponent);
  }
  return !found;
}

} // namespace

void require_finite(const char *function, const char *name, const float *values, int64_t count) {
  if (!all_finite<float, uint32_t, 0x7f800000u>(values, count))
    fail(QML_NOT_FINITE, "%s: %s has an infinite or undefined entry.", function, name);
}
void require_finite(const char *function, const char *name, const double *values, int64_t count) {
  if (!all_finite<double, uint64_t, 0x7ff0000000000000u>(values, count))
    fail(QML_NOT_FINITE, "%s: %s has an infinite or undefined entry.", function, name);
}

// ---- feature maps -----------------------------------------------------------------------------------------------

void require_map(const char *function, const qml_feature_map *map) {
  require(function, "map", map, 1);
  require_size(function, "rank", map->rank, 1);
  require_size(function, "n_frequencies", map->n_frequencies, 1);
  require_size(function, "n_transforms", map->n_transforms);
  if (map->paired != 0 && map->paired != 1)
    fail(QML_BAD_ARGUMENT, "%s: paired must be 0 or 1, got %d.", function, map->paired);
  if (!std::isfinite(map->amplitude)) fail(QML_NOT_FINITE, "%s: the amplitude is not finite.", function);
  if (map->n_transforms == 0) {
    require(function, "matrix", map->matrix, 1);
    return;
  }
  const int64_t rank = map->rank;
  if (rank < 2 || (rank & (rank - 1)) != 0)
    fail(QML_BAD_ARGUMENT, "%s: a Hadamard map needs a power of two as rank, got %lld.", function, (long long)rank);
  if (rank > 1024)
    fail(QML_UNSUPPORTED, "%s: Hadamard maps go up to rank 1024, got %lld.", function, (long long)rank);
  if (map->n_frequencies % rank != 0)
    fail(QML_BAD_ARGUMENT, "%s: n_frequencies must be a multiple of the rank %lld, got %lld.", function,
         (long long)rank, (long long)map->n_frequencies);
  require(function, "signs", map->signs, 1);
}

namespace {

template <class real> const KernelTable<real> &table();
template <> const KernelTable<float> &table<float>() { return kernels_in_use().f32; }
template <> const KernelTable<double> &table<double>() { return kernels_in_use().f64; }

template <class real>
void require_x(const char *function, const qml_feature_map *map, int64_t n_atoms, const real *x, int32_t threads) {
  require_map(function, map);
  require_size(function, "n_atoms", n_atoms);
  require_size(function, "threads", threads, 1);
  require(function, "x", x, n_atoms);
  require_finite(function, "x", x, n_atoms * map->rank);
}

int64_t n_features(const qml_feature_map *map) { return map->n_frequencies * (1 + map->paired); }

template <class real>
void features(const qml_feature_map *map, int64_t n_atoms, const real *x, real *out, int32_t threads) {
  const char *name = "qml_features";
  require_x(name, map, n_atoms, x, threads);
  require(name, "out", out, n_atoms);
  table<real>().features(*map, n_atoms, x, out, threads);
}

template <class real>
void force_rows(const qml_feature_map *map, int64_t n_atoms, const real *x, int64_t n_tangents, const real *tangents,
                const int64_t *owner, const int64_t *row, int64_t n_rows, int64_t first, int64_t last, real *out,
                int64_t stride, int32_t threads) {
  const char *name = "qml_force_rows";
  require_x(name, map, n_atoms, x, threads);
  require_size(name, "n_tangents", n_tangents);
  require_size(name, "n_rows", n_rows);
  require(name, "tangents", tangents, n_tangents);
  require(name, "owner", owner, n_tangents);
  require(name, "row", row, n_tangents);
  require(name, "out", out, n_tangents);
  if (first < 0 || last < first || last > map->n_frequencies)
    fail(QML_BAD_ARGUMENT, "%s: wanted 0 <= first <= last <= %lld, got %lld and %lld.", name,
         (long long)map->n_frequencies, (long long)first, (long long)last);
  require_size(name, "stride", stride, (last - first) * (1 + map->paired));
  for (int64_t t = 0; t < n_tangents; ++t) {
    if (owner[t] < (t ? owner[t - 1] : 0) || owner[t] >= n_atoms)
      fail(QML_BAD_ARGUMENT, "%s: owner must ascend within 0 ... %lld, but owner[%lld] is %lld.", name,
           (long long)n_atoms - 1, (long long)t, (long long)owner[t]);
    if (row[t] < 0 || row[t] >= n_rows)
      fail(QML_BAD_ARGUMENT, "%s: row must lie within 0 ... %lld, but row[%lld] is %lld.", name, (long long)n_rows - 1,
           (long long)t, (long long)row[t]);
  }
  require_finite(name, "tangents", tangents, n_tangents * map->rank);
  table<real>().force_rows(*map, n_atoms, x, n_tangents, tangents, owner, row, n_rows, first, last, out, stride,
                           threads);
}

template <class real>
void energy_and_slope(const qml_feature_map *map, int64_t n_atoms, const real *x, const real *weights, double *energy,
                      real *slope, int32_t threads) {
  const char *name = "qml_energy_and_slope";
  require_x(name, map, n_atoms, x, threads);
  require(name, "weights", weights, 1);
  require(name, "energy", energy, n_atoms);
  require(name, "slope", slope, n_atoms);
  require_finite(name, "weights", weights, n_features(map));
  table<real>().energy_and_slope(*map, n_atoms, x, weights, energy, slope, threads);
}

template <class real>
void feature_moment(const qml_feature_map *map, int64_t n_atoms, const real *x, const real *coefficients,
                    const real *tangents, double *moment, int32_t threads) {
  const char *name = "qml_feature_moment";
  require_x(name, map, n_atoms, x, threads);
  require(name, "moment", moment, 1);
  if (coefficients) require_finite(name, "coefficients", coefficients, n_atoms);
  if (tangents) require_finite(name, "tangents", tangents, n_atoms * map->rank);
  if (!coefficients && !tangents) return;
  table<real>().feature_moment(*map, n_atoms, x, coefficients, tangents, moment, threads);
}

// Tangents of `rank` numbers, each with an owner below n_owners, ascending.
template <class real>
void require_tangents(const char *function, int64_t rank, int64_t n_tangents, const real *tangents,
                      const int64_t *owner, int64_t n_owners, int32_t threads) {
  require_size(function, "rank", rank, 1);
  require_size(function, "n_tangents", n_tangents);
  require_size(function, "n_owners", n_owners);
  require_size(function, "threads", threads, 1);
  require(function, "owner", owner, n_tangents);
  require_finite(function, "tangents", tangents, n_tangents * rank);
  for (int64_t t = 0; t < n_tangents; ++t)
    if (owner[t] < 0 || owner[t] >= n_owners || (t > 0 && owner[t] < owner[t - 1]))
      fail(QML_BAD_ARGUMENT, "%s: owner must ascend within 0 to %lld, got %lld at %lld.", function,
           (long long)n_owners - 1, (long long)owner[t], (long long)t);
}

template <class real>
void tangent_products(int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner, int64_t n_owners,
                      const real *x, double *out, int32_t threads) {
  const char *name = "qml_tangent_products";
  require_tangents(name, rank, n_tangents, tangents, owner, n_owners, threads);
  require_finite(name, "x", x, n_owners * rank);
  require(name, "out", out, n_tangents);
  table<real>().tangent_products(rank, n_tangents, tangents, owner, x, out, threads);
}

template <class real>
void tangent_sums(int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner,
                  const double *coefficients, int64_t n_owners, real *out, int32_t threads) {
  const char *name = "qml_tangent_sums";
  require_tangents(name, rank, n_tangents, tangents, owner, n_owners, threads);
  require_finite(name, "coefficients", coefficients, n_tangents);
  require(name, "out", out, n_owners * rank);
  table<real>().tangent_sums(rank, n_tangents, tangents, owner, coefficients, n_owners, out, threads);
}

} // namespace

// ---- FCHL19 -----------------------------------------------------------------------------------------------------

void require_parameters(const char *function, const qml_fchl19 *p) {
  require(function, "p", p, 1);
  require_size(function, "n_elements", p->n_elements, 1);
  require_size(function, "n_radial2", p->n_radial2);
  require_size(function, "n_radial3", p->n_radial3);
  require_size(function, "n_angular", p->n_angular, 1);
  if (p->angular != QML_ANGULAR_PAIR && p->angular != QML_ANGULAR_SERIES)
    fail(QML_UNSUPPORTED, "%s: no angular functions number %d; there are 0 (pair) and 1 (series).", function,
         p->angular);
  if (p->angular == QML_ANGULAR_PAIR && p->n_angular != 2)
    fail(QML_BAD_ARGUMENT, "%s: the angular pair has n_angular 2, got %d.", function, p->n_angular);
  if (p->reserved != 0) fail(QML_BAD_ARGUMENT, "%s: reserved must be 0, got %d.", function, p->reserved);
  if (!(p->cutoff > 0) || !(p->eta2 > 0) || !(p->eta3 > 0) || !std::isfinite(p->cutoff + p->eta2 + p->eta3) ||
      !std::isfinite(p->decay2 + p->decay3 + p->weight3))
    fail(QML_BAD_ARGUMENT, "%s: cutoff, eta2 and eta3 must be positive and all parameters finite.", function);
  // the Gaussians are split into factors of each distance (fchl19_three_body.hpp), which would leave the range of double
  if (p->eta3 * p->cutoff * p->cutoff > 2800)
    fail(QML_UNSUPPORTED, "%s: eta3 * cutoff^2 must not be above 2800, got %g.", function,
         p->eta3 * p->cutoff * p->cutoff);
}

namespace {

// Number of pairs, once the segments are known to ascend from 0.
template <class real>
int64_t require_pairs(const char *function, const qml_fchl19 *p, int64_t n_atoms, const int64_t *segments,
                      const real *vectors, int32_t threads) {
  require_parameters(function, p);
  require_size(function, "n_atoms", n_atoms);
  require_size(function, "threads", threads, 1);
  if (n_atoms == 0) return 0;
  require(function, "segments", segments, 1);
  const int64_t n_segments = n_atoms * p->n_elements;
  if (segments[0] != 0)
    fail(QML_BAD_ARGUMENT, "%s: segments must begin with 0, got %lld.", function, (long long)segments[0]);
  for (int64_t s = 0; s < n_segments; ++s)
    if (segments[s + 1] < segments[s])
      fail(QML_BAD_ARGUMENT, "%s: segments must ascend, but segments[%lld] is %lld after %lld.", function,
           (long long)s + 1, (long long)segments[s + 1], (long long)segments[s]);
  const int64_t n_pairs = segments[n_segments];
  require(function, "vectors", vectors, n_pairs);
  require_finite(function, "vectors", vectors, 3 * n_pairs);
  return n_pairs;
}

template <class real>
void fchl19_values(const qml_fchl19 *p, int64_t n_atoms, const int64_t *segments, const real *vectors, real *out,
                   int32_t threads) {
  const char *name = "qml_fchl19_values";
  require_pairs(name, p, n_atoms, segments, vectors, threads);
  require(name, "out", out, n_atoms);
  if (n_atoms > 0) table<real>().fchl19_values(*p, n_atoms, segments, vectors, out, threads);
}

template <class real>
void fchl19_pullback(const qml_fchl19 *p, int64_t n_atoms, const int64_t *segments, const real *vectors,
                     const real *cotangent, real *out, int32_t threads) {
  const char *name = "qml_fchl19_pullback";
  const int64_t n_pairs = require_pairs(name, p, n_atoms, segments, vectors, threads);
  require(name, "cotangent", cotangent, n_atoms);
  require(name, "out", out, n_pairs);
  require_finite(name, "cotangent", cotangent, n_atoms * qml_fchl19_size(p));
  if (n_pairs > 0) table<real>().fchl19_pullback(*p, n_atoms, segments, vectors, cotangent, out, threads);
}

template <class real>
void fchl19_jacobian(const qml_fchl19 *p, int64_t n_atoms, const int64_t *segments, const real *vectors,
                     const int64_t *centre_element, int64_t rank, const real *projections, real *out,
                     int32_t threads) {
  const char *name = "qml_fchl19_jacobian";
  const int64_t n_pairs = require_pairs(name, p, n_atoms, segments, vectors, threads);
  require_size(name, "rank", rank, 1);
  require(name, "centre_element", centre_element, n_atoms);
  require(name, "projections", projections, n_atoms);
  require(name, "out", out, n_pairs);
  for (int64_t i = 0; i < n_atoms; ++i)
    if (centre_element[i] < 0 || centre_element[i] >= p->n_elements)
      fail(QML_BAD_ARGUMENT, "%s: centre_element must lie within 0 ... %d, but that of atom %lld is %lld.", name,
           p->n_elements - 1, (long long)i, (long long)centre_element[i]);
  if (n_pairs > 0)
    table<real>().fchl19_jacobian(*p, n_atoms, segments, vectors, centre_element, rank, projections, out, threads);
}

} // namespace
} // namespace qml

extern "C" {

int64_t qml_fchl19_size(const qml_fchl19 *p) {
  if (!p) return 0;
  const int64_t elements = p->n_elements;
  return elements * p->n_radial2 + elements * (elements + 1) / 2 * p->n_radial3 * p->n_angular;
}

#define QML_ENTRIES(real, suffix)                                                                                      \
  int32_t qml_fchl19_values_##suffix(const qml_fchl19 *p, int64_t n_atoms, const int64_t *segments,                    \
                                     const real *vectors, real *out, int32_t threads) {                                \
    return qml::guarded([&] { qml::fchl19_values<real>(p, n_atoms, segments, vectors, out, threads); });               \
  }                                                                                                                    \
  int32_t qml_fchl19_pullback_##suffix(const qml_fchl19 *p, int64_t n_atoms, const int64_t *segments,                  \
                                       const real *vectors, const real *cotangent, real *out, int32_t threads) {       \
    return qml::guarded([&] { qml::fchl19_pullback<real>(p, n_atoms, segments, vectors, cotangent, out, threads); });  \
  }                                                                                                                    \
  int32_t qml_fchl19_jacobian_##suffix(const qml_fchl19 *p, int64_t n_atoms, const int64_t *segments,                  \
                                       const real *vectors, const int64_t *centre_element, int64_t rank,               \
                                       const real *projections, real *out, int32_t threads) {                          \
    return qml::guarded([&] {                                                                                          \
      qml::fchl19_jacobian<real>(p, n_atoms, segments, vectors, centre_element, rank, projections, out, threads);      \
    });                                                                                                                \
  }                                                                                                                    \
  int32_t qml_features_##suffix(const qml_feature_map *map, int64_t n_atoms, const real *x, real *out,                 \
                                int32_t threads) {                                                                     \
    return qml::guarded([&] { qml::features<real>(map, n_atoms, x, out, threads); });                                  \
  }                                                                                                                    \
  int32_t qml_force_rows_##suffix(const qml_feature_map *map, int64_t n_atoms, const real *x, int64_t n_tangents,      \
                                  const real *tangents, const int64_t *owner, const int64_t *row, int64_t n_rows,      \
                                  int64_t first, int64_t last, real *out, int64_t stride, int32_t threads) {           \
    return qml::guarded([&] {                                                                                          \
      qml::force_rows<real>(map, n_atoms, x, n_tangents, tangents, owner, row, n_rows, first, last, out, stride,       \
                            threads);                                                                                  \
    });                                                                                                                \
  }                                                                                                                    \
  int32_t qml_energy_and_slope_##suffix(const qml_feature_map *map, int64_t n_atoms, const real *x,                    \
                                        const real *weights, double *energy, real *slope, int32_t threads) {           \
    return qml::guarded([&] { qml::energy_and_slope<real>(map, n_atoms, x, weights, energy, slope, threads); });       \
  }                                                                                                                    \
  int32_t qml_feature_moment_##suffix(const qml_feature_map *map, int64_t n_atoms, const real *x,                      \
                                      const real *coefficients, const real *tangents, double *moment,                  \
                                      int32_t threads) {                                                               \
    return qml::guarded(                                                                                               \
        [&] { qml::feature_moment<real>(map, n_atoms, x, coefficients, tangents, moment, threads); });                 \
  }                                                                                                                    \
  int32_t qml_tangent_products_##suffix(int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner,  \
                                        int64_t n_owners, const real *x, double *out, int32_t threads) {               \
    return qml::guarded(                                                                                               \
        [&] { qml::tangent_products<real>(rank, n_tangents, tangents, owner, n_owners, x, out, threads); });           \
  }                                                                                                                    \
  int32_t qml_tangent_sums_##suffix(int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner,      \
                                    const double *coefficients, int64_t n_owners, real *out, int32_t threads) {        \
    return qml::guarded(                                                                                               \
        [&] { qml::tangent_sums<real>(rank, n_tangents, tangents, owner, coefficients, n_owners, out, threads); });    \
  }

QML_ENTRIES(float, f32)
QML_ENTRIES(double, f64)
}
