// Sums over the radial grid of the three-body part as functions of one variable.
//
// A cotangent meets the triples of a block of two elements only through f_n(m) = sum_l c_ln exp(-eta3 (m - R_l)^2) with
// the mean distance m = (r_ij + r_ik) / 2. So f_n is tabulated once for a centre, as a polynomial on each of a
// few intervals of [0, cutoff], and a triple costs a few lookups whatever the number of grid points.
#pragma once

#include "isa/chebyshev.hpp"
#include "fchl19/neighbours.hpp"
#include "isa/lookup.hpp"

namespace qml {
namespace QML_ISA {
namespace fchl19 {

// The Gaussians of the grid as piecewise polynomials.
template <class real> struct RadialBasis {
  static constexpr int intervals = table_size<real>;
  static constexpr int longer = 12; // terms of the Taylor series beyond those that are kept
  static constexpr double reach = intervals - 0.01; // intervals that the cutoff spans: a distance that rounds up stays inside
  int64_t n_radial3;
  int terms;      // coefficients of each polynomial
  real per_width; // intervals per unit of distance
  real *values;   // (n_radial3, terms, intervals)

  RadialBasis(const qml_fchl19 &p, ScratchArena &arena) : n_radial3(p.n_radial3), per_width(real(reach / p.cutoff)) {
    // The first Chebyshev coefficient left out is at most 2 (sqrt(2 eta) width / 4)^k / sqrt(k!), and its derivative
    // k^2 times as large on the scale of an interval.
    const double ratio = sqrt(2 * p.eta3) * p.cutoff / reach / 4, wanted = sizeof(real) == 4 ? 3e-7 : 1e-16;
    terms = 2;
    double left_out = sqrt(2.) * ratio * ratio;
    while (left_out * terms * terms > wanted && terms < Chebyshev::most - longer) left_out *= ratio / sqrt(double(++terms));
    values = arena.take<real>(n_radial3 * terms * intervals);
  }

  void tabulate(const qml_fchl19 &p) {
    typedef Vector<double> V;
    constexpr int lanes = lanes_of<double>;
    const double width = p.cutoff / reach;
    const double steep = -2 * p.eta3 * width;
    const Chebyshev chebyshev(terms + longer);
    for (int64_t l = 0; l < n_radial3; ++l) {
      const double r = p.cutoff * double(l + 1) / double(n_radial3);
      for (int first = 0; first < intervals; first += lanes) {
        V middle, c[Chebyshev::most];
        for (int lane = 0; lane < lanes; ++lane) middle[lane] = width * (first + lane + 0.5) - r;
        // Taylor series of g = exp(-eta (middle + width x)^2), from g' = -2 eta width (middle + width x) g
        c[0] = power_of_two<double>(-log2_e * p.eta3 * middle * middle);
        for (int k = 0; k + 1 < terms + longer; ++k) {
          c[k + 1] = steep / (k + 1) * (k ? middle * c[k] + width * c[k - 1] : middle * c[k]);
        }
        chebyshev.economise(c, terms + longer, terms);
        for (int d = 0; d < terms; ++d) {
          real *to = values + (l * terms + d) * intervals + first;
          // far from its grid point a Gaussian is nothing: as a denormal number it would cost a hundred times as much
          const V kept = c[d] * c[d] > 1e-60 ? c[d] : V{};
          for (int lane = 0; lane < lanes; ++lane) to[lane] = real(kept[lane]);
        }
      }
    }
  }
};

// sum_n f_n angular_n of one triple, with its derivatives by cos theta and, where that is one of the functions, sin theta.
template <class real> struct Combined {
  Vector<real> value, by_cosine, by_sine;
};

// Sum as above where the f_n are functions of the mean distance, with the derivative by that distance.
template <class real> struct Contracted : Combined<real> {
  Vector<real> by_mean;

  // The chosen lanes become those of `other`.
  QML_INLINE void choose(IntegerVector<real> lanes, const Contracted &other) {
    this->value = lanes ? other.value : this->value, by_mean = lanes ? other.by_mean : by_mean;
    this->by_cosine = lanes ? other.by_cosine : this->by_cosine, this->by_sine = lanes ? other.by_sine : this->by_sine;
  }
};

// The functions f_n of one centre for all blocks that occur.
template <class real> struct RadialFunctions {
  const RadialBasis<real> &basis;
  int64_t n_angular;
  real *tables; // (blocks, terms, n_angular, intervals)

  RadialFunctions(const RadialBasis<real> &basis, const Setup<real> &setup, ScratchArena &arena)
      : basis(basis), n_angular(setup.p.n_angular),
        tables(arena.take<real>(setup.n_blocks * n_angular * basis.terms * table_size<real>)) {}

  const real *of_block(int64_t block) const { return tables + block * n_angular * basis.terms * table_size<real>; }

  // cotangent (n_radial3, n_angular) of a block
  template <class io> void tabulate(int64_t block, const io *cotangent) {
    int64_t order = 0;
    for (; order + 4 <= n_angular; order += 4) tabulate_orders<4>(block, order, cotangent);
    for (; order < n_angular; ++order) tabulate_orders<1>(block, order, cotangent);
  }

  // The tables of the elements that a vector has lanes of: lanes with later[i], for i = 0 all lanes, look in table[i].
  template <int elements> struct Tables {
    const real *table[elements]; // of blocks
    IntegerVector<real> later[elements];

    QML_INLINE Vector<real> operator()(int64_t offset, IntegerVector<real> interval) const {
      Vector<real> found = lookup<real>(table[0] + offset, interval);
      unroll<elements - 1>([&](auto index) QML_INLINE_LAMBDA {
        constexpr int e = decltype(index)::value + 1;
        found = later[e] ? lookup<real>(table[e] + offset, interval) : found;
      });
      return found;
    }
  };
  // Triples in lanes: the mean of two distances, given as their sum, as an interval and a place in it, and the angular functions.
  template <class Angular> struct Argument {
    IntegerVector<real> interval;
    Vector<real> place;
    Angular angular;
  };

  template <class Angular> QML_INLINE Argument<Angular> argument(Vector<real> sum, const Angular &angular) const {
    const Vector<real> at = fma(sum, real(0.5) * basis.per_width, broadcast<real>(-0.5));
    return {(IntegerVector<real>)(at + round_magic<real>), fraction<real>(at), angular};
  }

  // sum over n of f_n and the angular functions, with the slope by the mean distance on the scale of an interval, of
  // `count` vectors of triples at once. The angular functions are constant along the polynomials in which the f_n are
  // tabulated: summed first, they leave one polynomial of all orders.
  template <class Angular, int elements, int count>
  QML_INLINE void contract(const Tables<elements> &tables, const Argument<Angular> (&of)[count],
                           Contracted<real> (&out)[count]) const {
    const auto combined = [&](int i, int d) QML_INLINE_LAMBDA {
      return of[i].angular.combine(n_angular, [&](int64_t order) QML_INLINE_LAMBDA {
        return tables((d * n_angular + order) * table_size<real>, of[i].interval);
      });
    };
    unroll<count>([&](auto index) QML_INLINE_LAMBDA {
      constexpr int i = decltype(index)::value;
      out[i] = {combined(i, basis.terms - 1), Vector<real>{}};
    });
    for (int d = basis.terms - 2; d >= 0; --d) {
      unroll<count>([&](auto index) QML_INLINE_LAMBDA {
        constexpr int i = decltype(index)::value;
        const Combined<real> next = combined(i, d);
        const Vector<real> place = of[i].place;
        out[i].by_mean = fma(out[i].by_mean, place, out[i].value);
        out[i].value = fma(out[i].value, place, next.value);
        out[i].by_cosine = fma(out[i].by_cosine, place, next.by_cosine);
        if constexpr (Angular::has_sine) out[i].by_sine = fma(out[i].by_sine, place, next.by_sine);
      });
    }
  }

private:
  template <int orders, class io> void tabulate_orders(int64_t block, int64_t first, const io *cotangent) {
    constexpr int lanes = lanes_of<real>;
    const int64_t size = basis.terms * table_size<real>;
    real *const to = tables + block * n_angular * size + first * table_size<real>;
    int64_t at = 0;
    for (; at + 2 * lanes <= size; at += 2 * lanes) sum<orders, 2>(cotangent + first, at, to);
    for (; at < size; at += lanes) sum<orders, 1>(cotangent + first, at, to);
  }

  template <int orders, int vectors, class io> QML_INLINE void sum(const io *cotangent, int64_t at, real *to) const {
    constexpr int lanes = lanes_of<real>;
    const int64_t size = basis.terms * table_size<real>;
    Vector<real> sums[orders * vectors];
    unroll<orders * vectors>([&](auto i) QML_INLINE_LAMBDA { sums[decltype(i)::value] = Vector<real>{}; });
    for (int64_t l = 0; l < basis.n_radial3; ++l) {
      unroll<orders * vectors>([&](auto i) QML_INLINE_LAMBDA {
        constexpr int o = decltype(i)::value / vectors, v = decltype(i)::value % vectors;
        const Vector<real> gaussian = load(basis.values + l * size + at + v * lanes);
        sums[o * vectors + v] = fma(gaussian, real(cotangent[l * n_angular + o]), sums[o * vectors + v]);
      });
    }
    unroll<orders * vectors>([&](auto i) QML_INLINE_LAMBDA {
      constexpr int o = decltype(i)::value / vectors, v = decltype(i)::value % vectors;
      const int64_t place = at + v * lanes, term = place / table_size<real>, interval = place % table_size<real>;
      store(to + (term * n_angular + o) * table_size<real> + interval, sums[o * vectors + v]);
    });
  }
};

} // namespace fchl19
} // namespace QML_ISA
} // namespace qml
