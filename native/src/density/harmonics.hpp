// Real spherical harmonics of unit vectors, many vectors side by side in lanes.
//
// They are normalised so that the squares of one degree add up to 1 (Racah), and ordered by degree l, then m = -l ... l.
#pragma once

#include "isa/simd.hpp"

namespace qml {
namespace QML_ISA {
namespace density {

constexpr int most_degree = 3, most_harmonics = (most_degree + 1) * (most_degree + 1);

constexpr double root3 = 1.7320508075688772, root15 = 3.872983346207417;
constexpr double root3_8 = 0.6123724356957945, root5_8 = 0.7905694150420949;

// Polynomials in the components of the unit vector, to[(l_max + 1)^2].
template <class real> QML_INLINE void harmonics(int l_max, const Vector<real> (&u)[3], Vector<real> *to) {
  typedef Vector<real> V;
  const V x = u[0], y = u[1], z = u[2];
  to[0] = broadcast<real>(1);
  if (l_max < 1) return;
  to[1] = y, to[2] = z, to[3] = x;
  if (l_max < 2) return;
  const V xx = x * x, yy = y * y, zz = z * z, xy = x * y, difference = xx - yy;
  to[4] = real(root3) * xy;
  to[5] = real(root3) * y * z;
  to[6] = real(1.5) * zz - real(0.5);
  to[7] = real(root3) * x * z;
  to[8] = real(0.5 * root3) * difference;
  if (l_max < 3) return;
  const V five = real(5) * zz - real(1), odd_y = real(3) * xx - yy, odd_x = xx - real(3) * yy;
  to[9] = real(root5_8) * y * odd_y;
  to[10] = real(root15) * xy * z;
  to[11] = real(root3_8) * y * five;
  to[12] = z * (real(2.5) * zz - real(1.5));
  to[13] = real(root3_8) * x * five;
  to[14] = real(0.5 * root15) * z * difference;
  to[15] = real(root5_8) * x * odd_x;
}

// Derivatives of these polynomials by x, y and z, to[(l_max + 1)^2][3]. Their part along u has no meaning: drop it.
template <class real> QML_INLINE void harmonic_slopes(int l_max, const Vector<real> (&u)[3], Vector<real> (*to)[3]) {
  typedef Vector<real> V;
  const V x = u[0], y = u[1], z = u[2], none = {};
  const auto set = [&](int at, V by_x, V by_y, V by_z)
                       QML_INLINE_LAMBDA { to[at][0] = by_x, to[at][1] = by_y, to[at][2] = by_z; };
  set(0, none, none, none);
  if (l_max < 1) return;
  const V one = broadcast<real>(1);
  set(1, none, one, none);
  set(2, none, none, one);
  set(3, one, none, none);
  if (l_max < 2) return;
  const real s = real(root3);
  set(4, s * y, s * x, none);
  set(5, none, s * z, s * y);
  set(6, none, none, real(3) * z);
  set(7, s * z, none, s * x);
  set(8, s * x, -s * y, none);
  if (l_max < 3) return;
  const V xx = x * x, yy = y * y, zz = z * z, xy = x * y, yz = y * z, xz = x * z, difference = xx - yy;
  const real a = real(root5_8), b = real(root15), c = real(root3_8);
  const V five = real(5) * zz - real(1);
  set(9, real(6) * a * xy, real(3) * a * difference, none);
  set(10, b * yz, b * xz, b * xy);
  set(11, none, c * five, real(10) * c * yz);
  set(12, none, none, real(7.5) * zz - real(1.5));
  set(13, c * five, none, real(10) * c * xz);
  set(14, b * xz, -b * yz, real(0.5) * b * difference);
  set(15, real(3) * a * difference, real(-6) * a * xy, none);
}

} // namespace density
} // namespace QML_ISA
} // namespace qml
