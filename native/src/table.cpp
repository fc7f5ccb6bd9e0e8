// The table of kernels of one instruction set.
#include "kernels.hpp"

#define QML_TEXT_(name) #name
#define QML_TEXT(name) QML_TEXT_(name)

namespace qml {
namespace QML_ISA {

const Kernels kernels = {
    QML_TEXT(QML_ISA),
    {fchl19_values<float>, fchl19_pullback<float>, fchl19_jacobian<float>, features<float>, energy_rows<float>,
     force_rows<float>, energy_and_slope<float>, feature_moment<float>, tangent_products<float>, tangent_sums<float>,
     packed_size<float>, pack<float>, matrix_product<float>},
    {fchl19_values<double>, fchl19_pullback<double>, fchl19_jacobian<double>, features<double>, energy_rows<double>,
     force_rows<double>, energy_and_slope<double>, feature_moment<double>, tangent_products<double>,
     tangent_sums<double>, packed_size<double>, pack<double>, matrix_product<double>},
};

} // namespace QML_ISA
} // namespace qml
