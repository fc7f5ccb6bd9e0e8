// Sine and cosine of many angles at once, counted in turns.
//
// An angle u = y s goes by t = y (s / 2 pi), with s / 2 pi in two parts: the rounding of t is found by a multiply-add and
// added back, so t modulo a half turn is as good as the number y allows, for |u| up to 1e4 and beyond. What is left,
// |t| <= 1/4, needs one polynomial each on the whole interval, and a sign where an odd number of half turns was taken off.
// Error of the pair: below 2 units in the last place of 1, in float and in double (tests/kernels/test_native_features.py).
#pragma once

#include "isa/elementary.hpp"

namespace qml {
namespace QML_ISA {

// An angle of t turns, |t| <= 1/4 but for a little, and half turns more whose number is even or odd.
template <class real> struct Turns {
  Vector<real> t, square;
  UnsignedVector<real> sign; // the highest bit: set if sine and cosine have the opposite sign
};

// Least-squares fits on Chebyshev nodes in t^2 <= 1/16, each coefficient rounded before the next ones were fitted.
template <class real> struct CircularSeries;
template <> struct CircularSeries<float> {
  static constexpr float sine[] = {6.2831854820251465f, -41.34172058105469f, 81.6046371459961f, -76.62500762939453f,
                                   40.059207916259766f};
  static constexpr float cosine[] = {1.0f,
                                     -19.739208221435547f,
                                     64.93930053710938f,
                                     -85.45152282714844f,
                                     60.107357025146484f,
                                     -24.752763748168945f};
};
template <> struct CircularSeries<double> {
  static constexpr double sine[] = {6.283185307179586,  -41.34170224039958, 81.6052492760347,
                                    -76.70585974901546, 42.05869372681304,  -15.09463578197732,
                                    3.819828210620915,  -0.7168337369355834, 0.09755157402866108};
  static constexpr double cosine[] = {1.0,
                                      -19.73920880217871,
                                      64.93939402266425,
                                      -85.45681720600389,
                                      60.24464131418398,
                                      -26.426254092894265,
                                      7.903462879915333,
                                      -1.7132214807793298,
                                      0.2719558853918415};
};

constexpr double turns_per_radian = 0.15915494309189535, turns_per_radian_rest = -9.839338337591243e-18; // 1 / 2 pi

// s / 2 pi in two parts, of many s.
template <class real> void turns_per_unit(const real *s, int64_t count, real *__restrict high, real *__restrict low) {
  for (int64_t i = 0; i < count; ++i) {
    const double product = double(s[i]) * turns_per_radian;
    high[i] = real(product);
    if constexpr (sizeof(real) == 4) low[i] = real(product - double(high[i]));
    else low[i] = __builtin_fma(s[i], turns_per_radian, -product) + s[i] * turns_per_radian_rest;
  }
}

// Takes the nearest number of half turns off.
template <class real> QML_INLINE Turns<real> without_half_turns(Vector<real> t, Vector<real> more) {
  const Vector<real> shifted = fma(t, real(2), broadcast<real>(round_magic<real>));
  const Vector<real> halves = shifted - round_magic<real>;
  const Vector<real> rest = fma(halves, real(-0.5), t) + more;
  return {rest, rest * rest, (UnsignedVector<real>)shifted << (8 * int(sizeof(real)) - 1)};
}

// The angle of y (high + low) turns, for any number of turns that `nearest` takes.
template <class real> QML_INLINE Turns<real> turns(Vector<real> y, Vector<real> high, Vector<real> low) {
  const Vector<real> t = y * high;
  return without_half_turns<real>(t, fma(y, low, product_rest<real>(y, high, t)));
}

// `angle` plus a phase of up to one turn.
template <class real> QML_INLINE Turns<real> turned_by(const Turns<real> &angle, Vector<real> phase) {
  Turns<real> out = without_half_turns<real>(angle.t + phase, Vector<real>{});
  out.sign ^= angle.sign;
  return out;
}

template <class real, int terms> QML_INLINE Vector<real> series_of(const real (&series)[terms], Vector<real> z) {
  Vector<real> sum = broadcast<real>(series[terms - 1]);
  unroll<terms - 1>([&](auto i) QML_INLINE_LAMBDA { sum = fma(sum, z, series[terms - 2 - decltype(i)::value]); });
  return sum;
}

template <class real> QML_INLINE Vector<real> cosine_of(const Turns<real> &angle) {
  const Vector<real> cosine = series_of<real>(CircularSeries<real>::cosine, angle.square);
  return (Vector<real>)((UnsignedVector<real>)cosine ^ angle.sign);
}
template <class real> QML_INLINE Vector<real> sine_of(const Turns<real> &angle) {
  const Vector<real> sine = angle.t * series_of<real>(CircularSeries<real>::sine, angle.square);
  return (Vector<real>)((UnsignedVector<real>)sine ^ angle.sign);
}

} // namespace QML_ISA
} // namespace qml
