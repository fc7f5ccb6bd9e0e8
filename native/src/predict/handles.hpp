// Handles of predictors: made, found and destroyed.
#pragma once

#include "predict/predictor.hpp"

namespace qml {

// A handle that was destroyed, or never made, is refused instead of followed, and one that is in use lives until its
// call returns.
std::shared_ptr<qml_predictor> require_alive(const char *function, const qml_predictor *handle);

// Half of the sum of a (3, 3) matrix and its transpose, in its place.
void make_symmetric(double *matrix);

} // namespace qml
