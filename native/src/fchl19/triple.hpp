// One centre i with two of its neighbours j and k: geometry, weight and angular functions, with derivatives.
//
// Lanes run over k; j is the same in all lanes. Everything is a function of the three sides a = r_ij, b = r_ik,
// x = r_jk, except sin(theta_i), whose derivative by the sides is infinite for collinear atoms and bounded by position.
#pragma once

#include "fchl19/neighbours.hpp"

namespace qml {
namespace QML_ISA {
namespace fchl19 {

template <class real> struct Corner {
  Vector<real> x, y, z, r, square, inverse_r, weight, weight_slope;

  // The neighbours of a whole vector of slots; they carry the constant factor of the three-body part.
  static QML_INLINE Corner loaded(const Neighbours<real> &n, int64_t slot) {
    const Vector<real> weight = load(n.weight + slot) * real(n.setup.p.weight3);
    return {load(n.x + slot),      load(n.y + slot),         load(n.z + slot), load(n.r + slot),
            load(n.square + slot), load(n.inverse_r + slot), weight,           load(n.weight_slope + slot)};
  }
  // One neighbour in all lanes.
  static QML_INLINE Corner repeated(const Neighbours<real> &n, int64_t slot) {
    return {broadcast(n.x[slot]),      broadcast(n.y[slot]),           broadcast(n.z[slot]),
            broadcast(n.r[slot]),      broadcast(n.square[slot]),      broadcast(n.inverse_r[slot]),
            broadcast(n.weight[slot]), broadcast(n.weight_slope[slot])};
  }
};

template <class real> struct Cross {
  Vector<real> x, y, z;
};
template <class real> QML_INLINE Cross<real> cross(const Cross<real> &u, const Corner<real> &v) {
  return {u.y * v.z - u.z * v.y, u.z * v.x - u.x * v.z, u.x * v.y - u.y * v.x};
}

template <bool value_> struct Separated {};

// Geometry and weight of a triple. The weight multiplies a radial and an angular function:
// fc(a) fc(b) (a b x)^-N3 (1 + 3 cos cos cos).
//
// With the scalar product d = v_j v_k the three cosines are d / ab, u / ax and v / bx, where u = a^2 - d and v = b^2 - d;
// so all follow from d, u, v and 1 / x^2, without a root.
template <class real> struct Triple {
  const Corner<real> &j, &k;
  Vector<real> away_x, away_y, away_z;       // from j to k
  Vector<real> inverse_square;               // 1 / x^2
  Vector<real> d, u, v, u_x, v_x;            // the last two divided by x^2
  Vector<real> inverse_ab, cosine;           // cos theta_i
  Vector<real> scale, triad;                 // 3 / (ab)^2, and that times d
  Vector<real> product, axilrod_teller;      // u v / x^2, and 1 + 3 cos cos cos
  Vector<real> strength;                     // x^-N3, or 0 where there is no triple

  // separated: the strength has a factor exp(eta3 / 4 (a - b)^2) more, which makes a product of two Gaussians of one
  // neighbour each the Gaussian of their mean distance:
  // ((a + b)/2 - R)^2 = (a - R)^2 / 2 + (b - R)^2 / 2 - (a - b)^2 / 4
  template <bool separated>
  QML_INLINE Triple(const Setup<real> &setup, const Corner<real> &j, const Corner<real> &k, IntegerVector<real> present,
                    Separated<separated>)
      : j(j), k(k) {
    away_x = k.x - j.x, away_y = k.y - j.y, away_z = k.z - j.z;
    const Vector<real> measured = away_x * away_x + away_y * away_y + away_z * away_z;
    const Vector<real> square = present ? measured : broadcast<real>(1);
    inverse_square = reciprocal<real>(square);
    d = j.x * k.x + j.y * k.y + j.z * k.z;
    u = j.square - d, v = k.square - d;
    inverse_ab = j.inverse_r * k.inverse_r;
    cosine = d * inverse_ab;
    const Vector<real> three = real(3) * inverse_ab;
    scale = three * inverse_ab, triad = three * cosine;
    u_x = u * inverse_square, v_x = v * inverse_square;
    product = u * v_x;
    axilrod_teller = fma(triad, product, broadcast<real>(1));
    Vector<real> all = setup.decay3(square);
    if constexpr (separated) {
      const Vector<real> difference = j.r - k.r;
      // in float never beyond the range: see `choose`
      constexpr bool any = sizeof(real) == 8;
      all *= power_of_two<real, any>(real(0.25 * log2_e * setup.p.eta3) * difference * difference);
    }
    strength = present ? all : Vector<real>{};
  }

  QML_INLINE Vector<real> both() const { return strength * (j.weight * k.weight); }
  QML_INLINE Vector<real> weight() const { return both() * axilrod_teller; }
};

// Derivatives of (1 + 3 cos cos cos) x^-N3, divided by the latter: by the sides a and b, divided by them, and minus that
// by the third side divided by it, which multiplies v_k - v_j in the gradient by v_j.
template <class real> struct TripleSlopes {
  Vector<real> by_a, by_b, along;

  QML_INLINE TripleSlopes(const qml_fchl19 &p, const Triple<real> &t) {
    // 1 + 3 cos cos cos = 1 + triad * product. With u + v = x^2 its derivatives have no large terms that cancel.
    const Vector<real> level = t.scale * t.product, twice = t.product + t.product, apart = t.v_x - t.u_x;
    by_a = fma(t.triad, apart - twice * (t.j.inverse_r * t.j.inverse_r), level);
    by_b = fma(t.triad, -apart - twice * (t.k.inverse_r * t.k.inverse_r), level);
    along = fma(t.triad, fma(twice, t.inverse_square, broadcast<real>(-1)), level);
    along = fma(t.inverse_square * real(p.decay3), t.axilrod_teller, along);
  }
};

// cos theta and sin theta.
template <class real> struct AngularPair {
  static constexpr bool has_sine = true;
  static constexpr int known = 2; // how many functions
  static constexpr int64_t count(const qml_fchl19 &) { return 2; }

  Cross<real> normal;  // unit vector along v_j x v_k, 0 for collinear atoms: there the derivative of the sine is taken as 0
  Vector<real> cosine, sine;
  Vector<real> value, slope; // the function whose turn it is and its derivative by cos theta, but see `sine_slope`

  QML_INLINE AngularPair(const qml_fchl19 &, const Triple<real> &t) : cosine(t.cosine), value(t.cosine), slope(broadcast<real>(1)) {
    const Cross<real> product = cross<real>({t.j.x, t.j.y, t.j.z}, t.k);
    const Vector<real> square = product.x * product.x + product.y * product.y + product.z * product.z;
    // a sine of a few roundings has no direction
    constexpr real roundings = sizeof(real) == 4 ? real(4e-7) : real(8e-16);
    const Vector<real> ab = t.j.r * t.k.r, least = roundings * ab;
    const Vector<real> inverse = square > least * least ? inverse_root<real>(square) : Vector<real>{};
    normal = {product.x * inverse, product.y * inverse, product.z * inverse};
    sine = square * inverse * (t.j.inverse_r * t.k.inverse_r);
  }

  QML_INLINE void next() { value = sine, slope = Vector<real>{}; }

  template <class F> QML_INLINE Combined<real> combine(int64_t, F f) const {
    const Vector<real> along = f(0), across = f(1);
    return {fma(across, sine, along * cosine), along, across};
  }

  // Derivative of sin theta_i by the position of j, or with the opposite sign by that of k.
  QML_INLINE Cross<real> sine_slope(const Corner<real> &corner) const {
    const Cross<real> turned = cross<real>(normal, corner);
    const Vector<real> scale = -cosine * corner.inverse_r * corner.inverse_r;
    return {scale * turned.x, scale * turned.y, scale * turned.z};
  }
};

// cos(n theta), n < n_angular, as Chebyshev polynomials of cos theta. known: n_angular, or 0 for any.
template <class real, int known_> struct AngularSeries {
  static constexpr bool has_sine = false;
  static constexpr int known = known_;
  static int64_t count(const qml_fchl19 &p) { return known ? known : p.n_angular; }

  Vector<real> cosine;
  Vector<real> value, slope; // the function whose turn it is and its derivative by cos theta

  QML_INLINE AngularSeries(const qml_fchl19 &, const Triple<real> &t)
      : cosine(t.cosine), value(broadcast<real>(1)), slope{}, after(t.cosine), slope_after(broadcast<real>(1)) {}

  QML_INLINE void next() {
    const Vector<real> third = real(2) * cosine * after - value;
    const Vector<real> slope_third = real(2) * fma(cosine, slope_after, after) - slope;
    value = after, slope = slope_after;
    after = third, slope_after = slope_third;
  }

  template <class F> QML_INLINE Combined<real> combine(int64_t n_angular, F f) const {
    const Vector<real> twice = cosine + cosine;
    if constexpr (known == 4) {
      const Vector<real> square = cosine * twice, first = f(1), second = f(2), third = f(3);
      const Vector<real> value = fma(first, cosine, f(0));
      return {fma(third, cosine * (square + square - real(3)), fma(second, square - real(1), value)),
              fma(third, real(6) * square - real(3), fma(second, twice + twice, first)), Vector<real>{}};
    }
    // Clenshaw's recursions, of cos(n theta) and of its derivative n sin(n theta) / sin(theta)
    Vector<real> sum = {}, before = {}, slope = {}, slope_before = {};
    for (int64_t n = n_angular - 1; n > 0; --n) {
      const Vector<real> factor = f(n), next = fma(twice, sum, factor - before);
      const Vector<real> slope_next = fma(twice, slope, real(n) * factor - slope_before);
      before = sum, slope_before = slope;
      sum = next, slope = slope_next;
    }
    return {fma(cosine, sum, f(0) - before), slope, Vector<real>{}};
  }

private:
  Vector<real> after, slope_after;
};

} // namespace fchl19
} // namespace QML_ISA
} // namespace qml
