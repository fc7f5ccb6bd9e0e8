// Sums over the radial grid of the three-body part as functions of one variable.
//
// A cotangent meets the triples of a block of two elements only through f_n(m) = sum_l c_ln exp(-eta3 (m - R_l)^2) with
// the mean distance m = (r_ij + r_ik) / 2. So f_n is tabulated once for a centre, as a polynomial on each of a
// few intervals of [0, cutoff], and a triple costs a few lookups whatever the number of grid points.
#pragma once

#include "chebyshev.hpp"
#include "fchl19_neighbours.hpp"
#include "lookup.hpp"

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

  RadialBasis(const qml_fchl19 &p, Arena &arena) : n_radial3(p.n_radial3), per_width(real(reach / p.cutoff)) {
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

// The functions f_n of one centre for all blocks that occur.
template <class real> struct RadialFunctions {
  const RadialBasis<real> &basis;
  int64_t n_angular;
  real *tables; // (blocks, terms, n_angular, intervals)

  RadialFunctions(const RadialBasis<real> &basis, const Model<real> &model, Arena &arena)
      : basis(basis), n_angular(model.p.n_angular),
        tables(arena.take<real>(model.n_blocks * n_angular * basis.terms * table_size<real>)) {}

  const real *of_block(int64_t block) const { return tables + block * n_angular * basis.terms * table_size<real>; }

  // cotangent (n_radial3, n_angular) of a block
  template <class io> void tabulate(int64_t block, const io *cotangent) {
    int64_t order = 0;
    for (; order + 4 <= n_angular; order += 4) tabulate_orders<4>(block, order, cotangent);
    for (; order < n_angular; ++order) tabulate_orders<1>(block, order, cotangent);
  }

  // Where lanes of several elements look, for `count` distances in each lane: lanes with later[i], for i = 0 all lanes,
  // in tables[i].
  template <int elements, int count> struct Places {
    const real *tables[elements]; // of blocks
    IntegerVector<real> later[elements];
    IntegerVector<real> interval[count];
    Vector<real> place[count]; // inside the interval
  };
  // Values and slopes, on the scale of an interval: (count, orders).
  template <int orders, int count> struct Evaluated {
    Vector<real> value[count * orders], slope[count * orders];
  };

  // The functions first <= n < first + orders.
  template <int orders, int elements, int count>
  QML_INLINE Evaluated<orders, count> evaluate(const Places<elements, count> &at, int64_t first) const {
    const auto coefficient = [&](int o, int i, int d) QML_INLINE_LAMBDA {
      const int64_t offset = (d * n_angular + first + o) * table_size<real>;
      Vector<real> found = lookup<real>(at.tables[0] + offset, at.interval[i]);
      unroll<elements - 1>([&](auto index) QML_INLINE_LAMBDA {
        constexpr int e = decltype(index)::value + 1;
        found = at.later[e] ? lookup<real>(at.tables[e] + offset, at.interval[i]) : found;
      });
      return found;
    };
    Evaluated<orders, count> f;
    // a coefficient for all distances after another: its table is loaded once
    const auto over_all = [&](auto body) QML_INLINE_LAMBDA {
      unroll<orders>([&](auto order) QML_INLINE_LAMBDA {
        unroll<count>([&](auto index) QML_INLINE_LAMBDA {
          constexpr int o = decltype(order)::value, i = decltype(index)::value;
          body(o, i, f.value[i * orders + o], f.slope[i * orders + o]);
        });
      });
    };
    int d = basis.terms - 2;
    over_all([&](int o, int i, Vector<real> &value, Vector<real> &slope) QML_INLINE_LAMBDA {
      slope = coefficient(o, i, d + 1);
      value = fma(slope, at.place[i], coefficient(o, i, d));
    });
    for (--d; d >= 0; --d) {
      over_all([&](int o, int i, Vector<real> &value, Vector<real> &slope) QML_INLINE_LAMBDA {
        slope = fma(slope, at.place[i], value);
        value = fma(value, at.place[i], coefficient(o, i, d));
      });
    }
    return f;
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
