// Representations as model files have them: their parameters in the header, their tensors under "representation.".
//
// A kind that a file can have is a function below and a row in the table of representations.cpp.
#pragma once

#include "file/tensors.hpp"

#include <memory>

namespace qml {

struct StoredRepresentation {
  int32_t kind;                           // its number in the C interface
  std::shared_ptr<const void> parameters; // of that kind; they own what they point to
};

// values: `recipe.representation` of the header.
StoredRepresentation read_representation(const TensorFile &file, const Json &values, int32_t n_elements);

// Fields of an object; they fail where one is missing or of another type.
double real_field(const TensorFile &file, const Json &values, const char *name);
// Within 0 ... 2^31 - 1, as sizes are.
int32_t whole_field(const TensorFile &file, const Json &values, const char *name);
int32_t whole_field(const TensorFile &file, const Json &values, const char *name, int32_t where_missing);
const std::string &text_field(const TensorFile &file, const Json &values, const char *name);
// False where it is missing.
bool flag_field(const TensorFile &file, const Json &values, const char *name);
const Json &object_field(const TensorFile &file, const Json &values, const char *name);

} // namespace qml
