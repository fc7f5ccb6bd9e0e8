// The table of kernels of one instruction set.
#include "kernels.hpp"

#define QML_TEXT_(name) #name
#define QML_TEXT(name) QML_TEXT_(name)

namespace qml {
namespace QML_ISA {

template <class real, class wide>
constexpr ProductTable<real, wide> products = {force_rows<real, wide>, energy_and_slope<real, wide>,
                                               feature_moment<real, wide>, tangent_products<real, wide>,
                                               tangent_sums<real, wide>};
template <class real>
constexpr KernelTable<real> table = {products<real, real>,  fchl19_values<real>, fchl19_pullback<real>,
                                     fchl19_jacobian<real>, features<real>,      energy_rows<real>,
                                     packed_size<real>,     pack<real>,          matrix_product<real>};

const Kernels kernels = {QML_TEXT(QML_ISA), table<float>, table<double>, products<float, double>};

} // namespace QML_ISA
} // namespace qml
