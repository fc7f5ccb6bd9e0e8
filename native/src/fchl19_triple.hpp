// One centre i with two of its neighbours j and k: geometry, weight and angular functions, with derivatives.
//
// Lanes run over k; j is the same in all lanes. Everything is a function of the three sides a = r_ij, b = r_ik,
// x = r_jk, except sin(theta_i), whose derivative by the sides is infinite for collinear atoms and bounded by position.
#pragma once

#include "fchl19_neighbours.hpp"

namespace qml {
namespace QML_ISA {
namespace fchl19 {

template <class real> struct Corner {
  Vector<real> x, y, z, r, inverse_r, weight, weight_slope;

  // The neighbours of a whole vector of slots.
  static QML_INLINE Corner loaded(const Neighbours<real> &n, int64_t slot) {
    return {load(n.x + slot),         load(n.y + slot),      load(n.z + slot),           load(n.r + slot),
            load(n.inverse_r + slot), load(n.weight + slot), load(n.weight_slope + slot)};
  }
  // One neighbour in all lanes; it carries the constant factor of the three-body part.
  static QML_INLINE Corner repeated(const Neighbours<real> &n, int64_t slot) {
    const real factor = real(n.model.p.weight3);
    return {broadcast(n.x[slot]),
            broadcast(n.y[slot]),
            broadcast(n.z[slot]),
            broadcast(n.r[slot]),
            broadcast(n.inverse_r[slot]),
            broadcast(factor * n.weight[slot]),
            broadcast(factor * n.weight_slope[slot])};
  }
};

template <class real> struct Cross {
  Vector<real> x, y, z;
};
template <class real> QML_INLINE Cross<real> cross(const Cross<real> &u, const Corner<real> &v) {
  return {u.y * v.z - u.z * v.y, u.z * v.x - u.x * v.z, u.x * v.y - u.y * v.x};
}

template <class real> struct Triple {
  const Corner<real> &j, &k;
  Vector<real> away_x, away_y, away_z;       // from j to k
  Vector<real> distance, inverse_distance;   // r_jk
  Vector<real> cos_i, cos_j, cos_k;
  Vector<real> axilrod_teller;               // 1 + 3 cos cos cos
  // r_jk^-N3 exp(eta3 / 4 (r_ij - r_ik)^2), or 0 where there is no triple. The second factor makes a product of two
  // Gaussians of one neighbour each the Gaussian of their mean distance:
  // ((a + b)/2 - R)^2 = (a - R)^2 / 2 + (b - R)^2 / 2 - (a - b)^2 / 4
  Vector<real> strength;

  QML_INLINE Triple(const qml_fchl19 &p, const Corner<real> &j, const Corner<real> &k, IntegerVector<real> present)
      : j(j), k(k) {
    away_x = k.x - j.x, away_y = k.y - j.y, away_z = k.z - j.z;
    const Vector<real> measured = away_x * away_x + away_y * away_y + away_z * away_z;
    const Vector<real> square = present ? measured : broadcast<real>(1);
    inverse_distance = inverse_root<real>(square);
    distance = square * inverse_distance;
    cos_i = (j.x * k.x + j.y * k.y + j.z * k.z) * (j.inverse_r * k.inverse_r);
    cos_j = -(j.x * away_x + j.y * away_y + j.z * away_z) * (j.inverse_r * inverse_distance);
    cos_k = (k.x * away_x + k.y * away_y + k.z * away_z) * (k.inverse_r * inverse_distance);
    axilrod_teller = fma(real(3) * cos_i, cos_j * cos_k, broadcast<real>(1));
    const Vector<real> difference = j.r - k.r;
    const Vector<real> power = real(-0.5 * p.decay3) * binary_logarithm<real>(square);
    const Vector<real> all = power_of_two<real>(fma(real(0.25 * log2_e * p.eta3) * difference, difference, power));
    strength = present ? all : Vector<real>{};
  }

  QML_INLINE Vector<real> weight() const { return strength * axilrod_teller * (j.weight * k.weight); }
};

// Derivatives of weight * f(cos theta_i) by the sides a, b, x, for any f given as its value and slope.
template <class real> struct TripleSlopes {
  Vector<real> by_a, by_b, by_x;                  // of the weight
  Vector<real> cosine_by_a, cosine_by_b, cosine_by_x; // of cos theta_i, times the weight

  QML_INLINE TripleSlopes(const qml_fchl19 &p, const Triple<real> &t, Vector<real> weight) {
    const Vector<real> a = t.j.r, b = t.k.r, x = t.distance;
    const Vector<real> inverse_x = t.inverse_distance, inverse_ab = t.j.inverse_r * t.k.inverse_r;
    const Vector<real> x_ab = x * inverse_ab, b_ax = b * t.j.inverse_r * inverse_x, a_bx = a * t.k.inverse_r * inverse_x;
    const Vector<real> ij = t.cos_i * t.cos_j, ik = t.cos_i * t.cos_k, jk = t.cos_j * t.cos_k;
    const Vector<real> product_by_a = jk * t.cos_j * x_ab + ik * t.cos_i * b_ax - ij * a_bx;
    const Vector<real> product_by_b = jk * t.cos_k * x_ab + ij * t.cos_i * a_bx - ik * b_ax;
    const Vector<real> product_by_x = ik * t.cos_k * b_ax + ij * t.cos_j * a_bx - jk * x_ab;
    const Vector<real> both = t.j.weight * t.k.weight;
    by_a = t.strength * t.k.weight * fma(t.j.weight * real(3), product_by_a, t.axilrod_teller * t.j.weight_slope);
    by_b = t.strength * t.j.weight * fma(t.k.weight * real(3), product_by_b, t.axilrod_teller * t.k.weight_slope);
    by_x = t.strength * both * fma(broadcast<real>(3), product_by_x, real(-p.decay3) * inverse_x * t.axilrod_teller);
    cosine_by_a = weight * t.cos_j * x_ab;
    cosine_by_b = weight * t.cos_k * x_ab;
    cosine_by_x = -weight * x_ab;
  }
};

// cos theta and sin theta.
template <class real> struct AngularPair {
  static constexpr bool has_sine = true;
  static constexpr int64_t count(const qml_fchl19 &) { return 2; }

  Cross<real> normal;  // unit vector along v_j x v_k, 0 for collinear atoms: there the derivative of the sine is taken as 0
  Vector<real> cosine, sine;

  QML_INLINE AngularPair(const qml_fchl19 &, const Triple<real> &t) : cosine(t.cos_i) {
    const Cross<real> product = cross<real>({t.j.x, t.j.y, t.j.z}, t.k);
    const Vector<real> square = product.x * product.x + product.y * product.y + product.z * product.z;
    // a sine of a few roundings has no direction
    constexpr real roundings = sizeof(real) == 4 ? real(4e-7) : real(8e-16);
    const Vector<real> ab = t.j.r * t.k.r, least = roundings * ab;
    const Vector<real> inverse = square > least * least ? inverse_root<real>(square) : Vector<real>{};
    normal = {product.x * inverse, product.y * inverse, product.z * inverse};
    sine = square * inverse * (t.j.inverse_r * t.k.inverse_r);
  }

  // f(n, function, derivative by cos theta); the derivative of the sine is that of `sine_slope`.
  template <class F> QML_INLINE void each(F &&f) const {
    f(Index<0>{}, cosine, broadcast<real>(1));
    f(Index<1>{}, sine, Vector<real>{});
  }

  // Derivative of sin theta_i by the position of j, or with the opposite sign by that of k.
  QML_INLINE Cross<real> sine_slope(const Corner<real> &corner) const {
    const Cross<real> turned = cross<real>(normal, corner);
    const Vector<real> scale = -cosine * corner.inverse_r * corner.inverse_r;
    return {scale * turned.x, scale * turned.y, scale * turned.z};
  }
};

// cos(n theta), n < n_angular, as Chebyshev polynomials of cos theta.
template <class real> struct AngularSeries {
  static constexpr bool has_sine = false;
  static int64_t count(const qml_fchl19 &p) { return p.n_angular; }

  Vector<real> cosine;
  int64_t n_angular;

  struct Order {
    int64_t value;
  };

  QML_INLINE AngularSeries(const qml_fchl19 &p, const Triple<real> &t) : cosine(t.cos_i), n_angular(p.n_angular) {}

  template <class F> QML_INLINE void each(F &&f) const {
    Vector<real> value = broadcast<real>(1), slope = {}, next = cosine, next_slope = broadcast<real>(1);
    for (int64_t n = 0; n < n_angular; ++n) {
      f(Order{n}, value, slope);
      const Vector<real> after = real(2) * cosine * next - value;
      const Vector<real> after_slope = real(2) * fma(cosine, next_slope, next) - slope;
      value = next, slope = next_slope;
      next = after, next_slope = after_slope;
    }
  }
};

} // namespace fchl19
} // namespace QML_ISA
} // namespace qml
