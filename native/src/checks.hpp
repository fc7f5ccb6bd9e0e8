// What the C interface requires of its arguments: each of these returns, or fails in words.
#pragma once

#include "errors.hpp"

namespace qml {

// A pointer to `size` values.
void require(const char *function, const char *name, const void *pointer, int64_t size);
void require_size(const char *function, const char *name, int64_t size, int64_t least = 0);
void require_finite(const char *function, const char *name, const float *values, int64_t count);
void require_finite(const char *function, const char *name, const double *values, int64_t count);
void require_map(const char *function, const qml_feature_map *map);
void require_parameters(const char *function, const qml_fchl19 *p);

} // namespace qml
