// x^-exponent for one exponent and many x.
#pragma once

#include "isa/chebyshev.hpp"
#include "isa/lookup.hpp"

#include <math.h>

namespace qml {
namespace QML_ISA {

// x^-e. If a table of 32 numbers costs one instruction, it is looked up for 32 intervals, two in each octave of x: with
// the middle m of an interval x^-e = m^-e (x / m)^-e, where one polynomial serves all intervals and is exact enough for
// small exponents. Otherwise, and in double, it goes through the logarithm.
template <class real> struct InversePower {
  static constexpr bool looks_up = table_size<real> == 32;
  static constexpr int terms = 8;
  static constexpr double largest_exponent = looks_up ? 1.5 : 1e9;
  real exponent, smallest;
  real middle_inverse[table_size<real>], middle_power[table_size<real>], polynomial[terms];

  // For 0 < x <= largest.
  void tabulate(double e, double largest) {
    exponent = real(e), smallest = 0;
    if (!looks_up) return;
    int top;
    frexp(largest > 1 ? largest : 1.0, &top);
    smallest = real(ldexp(1.0, top - table_size<real> / 2));
    for (int part = 0; part < table_size<real>; ++part) {
      const double middle = ldexp(part % 2 ? 1.75 : 1.25, top - table_size<real> / 2 + part / 2);
      const float at = float(middle);
      uint32_t bits;
      __builtin_memcpy(&bits, &at, sizeof(bits));
      const int place = int(bits >> 22) % table_size<real>;
      middle_inverse[place] = real(1 / middle), middle_power[place] = real(raised(middle, e));
    }
    // Taylor series of (1 + width x)^-e
    double c[2 * terms] = {1}, scale = 1;
    for (int k = 0; k + 1 < 2 * terms; ++k) c[k + 1] = -c[k] * width * (e + k) / (k + 1);
    Chebyshev(2 * terms).economise(c, 2 * terms, terms);
    for (int d = 0; d < terms; ++d, scale /= width) polynomial[d] = real(c[d] * scale);
  }

  QML_INLINE Vector<real> operator()(Vector<real> x) const {
    if constexpr (looks_up) {
      const Vector<real> inside = x > smallest ? x : broadcast<real>(smallest);
      const IntegerVector<real> part = (IntegerVector<real>)((UnsignedVector<real>)inside >> 22);
      const Vector<real> off = fma(inside, lookup<real>(middle_inverse, part), broadcast<real>(-1));
      Vector<real> power = broadcast<real>(polynomial[terms - 1]);
      unroll<terms - 1>(
          [&](auto d) QML_INLINE_LAMBDA { power = fma(power, off, polynomial[terms - 2 - decltype(d)::value]); });
      return power * lookup<real>(middle_power, part);
    } else {
      return power_of_two<real>(-exponent * binary_logarithm<real>(x));
    }
  }

private:
  static constexpr double width = 0.4; // of the wider of the two parts, relative to its middle

  // base^-exponent, without the library's pow, which is newer than the systems that the wheel serves
  static double raised(double base, double exponent) {
    return power_of_two<double>(-exponent * binary_logarithm<double>(broadcast<double>(base)))[0];
  }
};

} // namespace QML_ISA
} // namespace qml
