// The table of kinds of representation.
#include "abi/representation.hpp"

#include "abi/checks.hpp"

namespace qml {
namespace {

const RepresentationKind *const kinds[] = {
#define QML_REPRESENTATION(number, room) &room::kind,
#include "abi/representations.def"
#undef QML_REPRESENTATION
};

} // namespace

CheckedRepresentation require_representation(const char *function, const qml_representation *given, int bits) {
  require(function, "representation", given, 1);
  if (given->kind < 0 || given->kind >= n_representations)
    fail(QML_UNSUPPORTED, "%s: no representation is of kind %d; kinds go from 0 to %d.", function, given->kind,
         n_representations - 1);
  if (given->reserved != 0) fail(QML_BAD_ARGUMENT, "%s: reserved must be 0, got %d.", function, given->reserved);
  require(function, "parameters", given->parameters, 1);
  const RepresentationKind &kind = *kinds[given->kind];
  return {kind, kind.check(function, given->parameters, bits)};
}

} // namespace qml

extern "C" int64_t qml_representation_size(const qml_representation *representation) {
  int64_t size = -1;
  qml::guarded([&] { size = qml::require_representation("qml_representation_size", representation, 64).shape.size; });
  return size;
}
