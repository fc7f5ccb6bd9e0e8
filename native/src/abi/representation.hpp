// A representation as a value: what the library asks of every kind, and the table of kinds.
//
// A kind has a room of its own, with an object `kind` of the type below and with kernels (isa/kernels.hpp), and a row in
// representations.def. Nothing else in the library names it.
#pragma once

#include "isa/kernels.hpp"

#include <memory>

namespace qml {

struct RepresentationShape {
  int n_elements;
  int64_t size; // length of the vector
  double cutoff;
};

struct RepresentationKind {
  // Fails in words where parameters are wrong. Arrays among them have numbers of `bits` bits, 32 or 64.
  RepresentationShape (*check)(const char *function, const void *parameters, int bits);
  // A copy that a predictor keeps, its arrays rounded from double to numbers of `bits` bits.
  std::shared_ptr<const void> (*copy)(const void *parameters, int bits);
  // Time that environments take, in units of about half a nanosecond.
  double (*work)(const void *parameters, double n_centres, double n_pairs);
};

#define QML_REPRESENTATION(number, room)                                                                               \
  namespace room {                                                                                                     \
  extern const RepresentationKind kind;                                                                                \
  }
#include "abi/representations.def"
#undef QML_REPRESENTATION

// The kind and the shape of a representation that passed all checks.
struct CheckedRepresentation {
  const RepresentationKind &kind;
  RepresentationShape shape;
};
CheckedRepresentation require_representation(const char *function, const qml_representation *given, int bits);

} // namespace qml
