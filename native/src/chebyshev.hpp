// Polynomials through the Chebyshev nodes of an interval.
#pragma once

#include "simd.hpp"

#include <math.h>

namespace qml {
namespace QML_ISA {

struct Chebyshev {
  static constexpr int most_terms = 40;
  int terms;
  double node[most_terms]; // in [-1/2, 1/2]

  explicit Chebyshev(int terms) : terms(terms) {
    for (int a = 0; a < terms; ++a) {
      for (int q = 0; q < terms; ++q) cosine[a][q] = cos(a * 3.14159265358979323846 * (q + 0.5) / terms);
      for (int d = 0; d < terms; ++d) {
        const double lower = d && a ? power[a - 1][d - 1] : 0;
        power[a][d] = a == 0 ? double(d == 0) : a == 1 ? 2 * lower : 4 * lower - power[a - 2][d];
      }
    }
    for (int q = 0; q < terms; ++q) node[q] = 0.5 * cos(3.14159265358979323846 * (q + 0.5) / terms);
  }

  // Coefficients of the powers of x in [-1/2, 1/2], of numbers or vectors of numbers at the nodes. By way of the
  // Chebyshev coefficients, which fall off, to powers, whose matrix is large.
  template <class V> void fit(const V *at_node, V *coefficients) const {
    V series[most_terms];
    for (int a = 0; a < terms; ++a) {
      series[a] = V{};
      for (int q = 0; q < terms; ++q) series[a] += cosine[a][q] * at_node[q];
      series[a] *= (a ? 2.0 : 1.0) / terms;
    }
    for (int d = 0; d < terms; ++d) {
      coefficients[d] = V{};
      for (int a = terms - 1; a >= d; --a) coefficients[d] += power[a][d] * series[a];
    }
  }

private:
  double cosine[most_terms][most_terms]; // T_a at the nodes
  double power[most_terms][most_terms];  // coefficients of T_a(2 x)
};

} // namespace QML_ISA
} // namespace qml
