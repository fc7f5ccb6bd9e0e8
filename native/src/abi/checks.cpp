// The requirements of the C interface, one function each.
#include "abi/checks.hpp"

#include <cmath>
#include <cstring>

namespace qml {
namespace {

// No computer has memory for more numbers than this, and products of it with small factors stay below 2^63.
constexpr int64_t most_values = int64_t(1) << 48;
// More is a mistake, and the OpenMP runtime would end the process where it cannot start a thread.
constexpr int32_t most_threads = 4096;

// An exponent of all ones is an infinity or not a number; integers, so that the loop becomes vector instructions.
template <class real, class bits, bits exponent> bool all_finite(const real *values, int64_t count) {
  bits found = 0;
  for (int64_t i = 0; i < count; ++i) {
    bits value;
    std::memcpy(&value, values + i, sizeof(value));
    found |= bits((value & exponent) == exponent);
  }
  return !found;
}
bool finite(const float *values, int64_t count) {
  return all_finite<float, uint32_t, 0x7f800000u>(values, count);
}
bool finite(const double *values, int64_t count) {
  return all_finite<double, uint64_t, 0x7ff0000000000000u>(values, count);
}

} // namespace

void require(const char *function, const char *name, const void *pointer, int64_t size) {
  if (size > 0 && !pointer) fail(QML_BAD_ARGUMENT, "%s: %s is null.", function, name);
}

void require_size(const char *function, const char *name, int64_t size, int64_t least) {
  if (size < least)
    fail(QML_BAD_ARGUMENT, "%s: %s must be at least %lld, got %lld.", function, name, (long long)least,
         (long long)size);
}

void require_n_elements(const char *function, int32_t n_elements) {
  if (n_elements < 1 || n_elements > heaviest)
    fail(QML_BAD_ARGUMENT, "%s: n_elements must lie within 1 ... %d, got %d.", function, heaviest, n_elements);
}

void require_threads(const char *function, int32_t threads) {
  if (threads < 1 || threads > most_threads)
    fail(QML_BAD_ARGUMENT, "%s: threads must lie within 1 ... %d, got %d.", function, most_threads, threads);
}

int64_t require_count(const char *function, const char *name, std::initializer_list<int64_t> dimensions) {
  int64_t count = 1;
  for (const int64_t size : dimensions)
    if (size == 0) return 0;
  for (const int64_t size : dimensions) {
    if (size < 0 || size > most_values / count)
      fail(QML_BAD_ARGUMENT, "%s: %s would have more numbers than any memory holds; check the sizes.", function, name);
    count *= size;
  }
  return count;
}

template <class real> void require_finite(const char *function, const char *name, const real *values, int64_t count) {
  require(function, name, values, count);
  if (!finite(values, count))
    fail(QML_NOT_FINITE, "%s: %s has an infinite or undefined entry.", function, name);
}
template void require_finite<float>(const char *, const char *, const float *, int64_t);
template void require_finite<double>(const char *, const char *, const double *, int64_t);

int64_t require_ascending(const char *function, const char *name, const int64_t *values, int64_t count) {
  require(function, name, values, count);
  if (count == 0) return 0;
  if (values[0] != 0)
    fail(QML_BAD_ARGUMENT, "%s: %s must begin with 0, got %lld.", function, name, (long long)values[0]);
  for (int64_t i = 1; i < count; ++i)
    if (values[i] < values[i - 1])
      fail(QML_BAD_ARGUMENT, "%s: %s must ascend, but %s[%lld] is %lld after %lld.", function, name, name, (long long)i,
           (long long)values[i], (long long)values[i - 1]);
  return values[count - 1];
}

void require_owners(const char *function, const int64_t *owner, int64_t count, int64_t n_owners) {
  require(function, "owner", owner, count);
  for (int64_t t = 0; t < count; ++t)
    if (owner[t] < (t ? owner[t - 1] : 0) || owner[t] >= n_owners)
      fail(QML_BAD_ARGUMENT, "%s: owner must ascend within 0 ... %lld, but owner[%lld] is %lld.", function,
           (long long)n_owners - 1, (long long)t, (long long)owner[t]);
}

void require_elements(const char *function, const char *name, const int64_t *element, int64_t count, int n_elements) {
  require(function, name, element, count);
  for (int64_t i = 0; i < count; ++i)
    if (element[i] < 0 || element[i] >= n_elements)
      fail(QML_BAD_ARGUMENT, "%s: %s must lie within 0 ... %d, but that of atom %lld is %lld.", function, name,
           n_elements - 1, (long long)i, (long long)element[i]);
}

template <class real> void require_map(const char *function, const qml_feature_map *map) {
  require(function, "map", map, 1);
  const int64_t rank = map->rank, n = map->n_frequencies;
  require_size(function, "rank", rank, 1);
  require_size(function, "n_frequencies", n, 1);
  require_size(function, "n_transforms", map->n_transforms);
  if (map->paired != 0 && map->paired != 1)
    fail(QML_BAD_ARGUMENT, "%s: paired must be 0 or 1, got %d.", function, map->paired);
  if (!std::isfinite(real(map->amplitude))) fail(QML_NOT_FINITE, "%s: the amplitude is not finite.", function);
  require_count(function, "the features", {n, 2});
  if (map->n_transforms == 0) {
    require_finite(function, "matrix", static_cast<const real *>(map->matrix), require_count(function, "matrix", {n, rank}));
  } else {
    if (rank < 2 || (rank & (rank - 1)) != 0)
      fail(QML_BAD_ARGUMENT, "%s: a Hadamard map needs a power of two as rank, got %lld.", function, (long long)rank);
    if (rank > 1024)
      fail(QML_UNSUPPORTED, "%s: Hadamard maps go up to rank 1024, got %lld.", function, (long long)rank);
    if (n % rank != 0)
      fail(QML_BAD_ARGUMENT, "%s: n_frequencies must be a multiple of the rank %lld, got %lld.", function,
           (long long)rank, (long long)n);
    require_finite(function, "signs", static_cast<const real *>(map->signs),
                   require_count(function, "signs", {n, map->n_transforms}));
    if (map->row_scale) require_finite(function, "row_scale", static_cast<const real *>(map->row_scale), n);
  }
  if (map->phases) require_finite(function, "phases", static_cast<const real *>(map->phases), n);
}
template void require_map<float>(const char *, const qml_feature_map *);
template void require_map<double>(const char *, const qml_feature_map *);

} // namespace qml
