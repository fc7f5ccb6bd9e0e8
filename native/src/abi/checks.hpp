// Checks of the arguments of the C interface: each of them returns, or fails with a sentence.
#pragma once

#include "abi/errors.hpp"

#include <initializer_list>

namespace qml {

// Two nuclei closer than this are one atom written twice, not chemistry.
constexpr double shortest_distance = 0.1; // A
// Beyond this a coordinate is a mistake, and fractions of it mean nothing.
constexpr double farthest = 1e9; // A
// Largest atomic number, hence as many elements as there are.
constexpr int heaviest = 118;

// A pointer to `size` values.
void require(const char *function, const char *name, const void *pointer, int64_t size);
void require_size(const char *function, const char *name, int64_t size, int64_t least = 0);
// Number of elements of a representation.
void require_n_elements(const char *function, int32_t n_elements);
void require_threads(const char *function, int32_t threads);
// Number of values in an array of these dimensions. Fails where no memory holds them: so no product of sizes that
// follows can overflow.
int64_t require_count(const char *function, const char *name, std::initializer_list<int64_t> dimensions);
// A pointer to `count` values, none of them infinite or undefined.
template <class real> void require_finite(const char *function, const char *name, const real *values, int64_t count);
// Numbers that ascend from 0; returns the last of them.
int64_t require_ascending(const char *function, const char *name, const int64_t *values, int64_t count);
// Owners that ascend within 0 ... n_owners - 1.
void require_owners(const char *function, const int64_t *owner, int64_t count, int64_t n_owners);
// Numbers of elements, 0 ... n_elements - 1.
void require_elements(const char *function, const char *name, const int64_t *element, int64_t count, int n_elements);
// The map and its arrays of `real`.
template <class real> void require_map(const char *function, const qml_feature_map *map);

inline int64_t n_features(const qml_feature_map &map) { return map.n_frequencies * (1 + map.paired); }

} // namespace qml
