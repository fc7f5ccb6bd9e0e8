// Power series made short: the best polynomial of few terms in place of a Taylor series of many.
#pragma once

#include "isa/simd.hpp"

namespace qml {
namespace QML_ISA {

// Coefficients of the Chebyshev polynomials T_a(2 x), of which each is as small as can be on -1/2 <= x <= 1/2.
struct Chebyshev {
  static constexpr int most = 48;
  double power[most][most];

  // Tabulates the coefficients of the polynomials below T_count.
  explicit Chebyshev(int count) {
    for (int a = 0; a < count; ++a) {
      for (int d = 0; d < count; ++d) {
        const double lower = d && a ? power[a - 1][d - 1] : 0;
        power[a][d] = a == 0 ? double(d == 0) : a == 1 ? 2 * lower : 4 * lower - power[a - 2][d];
      }
    }
  }

  // Leaves the first `terms` of `count` coefficients: from the last one on, each power is replaced by lower ones that
  // equal it but for a multiple of its Chebyshev polynomial. Of numbers, or of vectors of numbers.
  template <class V> void economise(V *coefficients, int count, int terms) const {
    for (int k = count - 1; k >= terms; --k) {
      const V share = coefficients[k] * (1 / power[k][k]);
      for (int d = k - 2; d >= 0; d -= 2) coefficients[d] -= power[k][d] * share;
    }
  }
};

} // namespace QML_ISA
} // namespace qml
