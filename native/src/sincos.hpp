// Sine and cosine of many angles at once, counted in turns.
//
// An angle u = 2 pi t is reduced by t - nearest(t), which is exact: the factor 1 / 2 pi is folded into the scale of the
// linear map that made u, so the error is that of rounding u itself. What is left, |t| <= 1/2, goes through the half
// angle: s = sin(pi t), c = cos(pi t) need one polynomial each on all of [-1/2, 1/2], with neither quadrants nor signs
// to restore, and sin u = 2 s c, cos u = 1 - 2 s^2. Absolute error of the pair for a given t: below 6e-7 (root mean
// square 9e-8) in float, 2e-15 in double.
#pragma once

#include "simd.hpp"

namespace qml {
namespace QML_ISA {

template <class real> struct HalfAngle {
  Vector<real> sine, cosine; // of pi t
};

// Least-squares fits on Chebyshev nodes, each coefficient rounded before the next ones were fitted.
template <class real> struct HalfAngleSeries;
template <> struct HalfAngleSeries<float> {
  static constexpr float sine[] = {3.141592502593994f, -5.167704105377197f, 2.549999475479126f, -0.5978981852531433f,
                                   0.0769844800233841f};
  static constexpr float cosine[] = {0.9999999403953552f, -4.9347920417785645f, 4.058399200439453f,
                                     -1.331809163093567f, 0.2195666879415512f};
};
template <> struct HalfAngleSeries<double> {
  static constexpr double sine[] = {3.14159265358979,     -5.167712780049366,    2.5501640398439163,
                                    -0.5992645284851301,  0.08214587550247472,   -0.007370347016219424,
                                    0.0004659409380352416, -2.1084545985559407e-05};
  static constexpr double cosine[] = {1.0,
                                      -4.934802200544677,
                                      4.058712126416515,
                                      -1.3352627688438132,
                                      0.2353306301336207,
                                      -0.02580688876382672,
                                      0.0019295563752643647,
                                      -0.00010456676624595705,
                                      4.149748447922132e-06};
};

// series[0] + series[1] z + ...
template <class real, int terms>
QML_INLINE Vector<real> polynomial(const real (&series)[terms], Vector<real> z) {
  Vector<real> sum = broadcast<real>(series[terms - 1]);
  unroll<terms - 1>([&](auto i) QML_INLINE_LAMBDA { sum = fma(sum, z, series[terms - 2 - decltype(i)::value]); });
  return sum;
}

// Half angle of t turns, for any t that `nearest` takes.
template <class real> QML_INLINE HalfAngle<real> half_angle(Vector<real> t) {
  typedef HalfAngleSeries<real> Series;
  const Vector<real> r = fraction<real>(t), z = r * r;
  return {r * polynomial<real>(Series::sine, z), polynomial<real>(Series::cosine, z)};
}

template <class real> QML_INLINE Vector<real> cosine_of(HalfAngle<real> half) {
  return fma(half.sine * real(-2), half.sine, real(1));
}
template <class real> QML_INLINE Vector<real> sine_of(HalfAngle<real> half) {
  return (half.sine + half.sine) * half.cosine;
}

} // namespace QML_ISA
} // namespace qml
