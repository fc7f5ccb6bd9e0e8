// The table of kernels of one instruction set.
#include "isa/kernels.hpp"

#define QML_TEXT_(name) #name
#define QML_TEXT(name) QML_TEXT_(name)

namespace qml {
namespace QML_ISA {
namespace {

Kernels filled() {
  Kernels table = {};
  table.isa = QML_TEXT(QML_ISA);
  add_energy_and_slope(table);
  add_feature_moment(table);
  add_features(table);
  add_members(table);
  add_force_rows(table);
  add_matrix_product(table);
  add_tangents(table);
#define QML_REPRESENTATION(number, room) add_##room(table);
#include "abi/representations.def"
#undef QML_REPRESENTATION
  return table;
}

} // namespace

const Kernels &kernels() {
  static const Kernels table = filled();
  return table;
}

} // namespace QML_ISA
} // namespace qml
