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
  // Grid points begin[i] <= l < end[j] are those whose Gaussians can be felt in the intervals i to j.
  static constexpr double felt = sizeof(real) == 4 ? 1e-9 : 1e-18;
  int64_t begin[intervals], end[intervals];

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
    for (int i = 0; i < intervals; ++i) begin[i] = n_radial3, end[i] = 0;
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
          for (int lane = 0; lane < lanes; ++lane) {
            const int i = first + lane;
            if (fabs(c[d][lane]) > felt) begin[i] = l < begin[i] ? l : begin[i], end[i] = l + 1;
          }
        }
      }
    }
    for (int i = 1; i < intervals; ++i) {
      const int j = intervals - 1 - i;
      end[i] = end[i] > end[i - 1] ? end[i] : end[i - 1], begin[j] = begin[j] < begin[j + 1] ? begin[j] : begin[j + 1];
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

// The functions f_n of one centre for all blocks that occur, of a few cotangents.
template <class real> struct RadialFunctions {
  const RadialBasis<real> &basis;
  int64_t n_angular, of_block, of_cotangent; // numbers in the tables of one block, and of one cotangent
  real *tables;                              // (cotangents, blocks, terms, n_angular, intervals)
  int64_t cleared = 0;                       // cotangents whose tables are finite
  int64_t shift = 0;                         // the interval with which all tables of the present centre begin

  RadialFunctions(const RadialBasis<real> &basis, const Setup<real> &setup, int64_t cotangents, ScratchArena &arena)
      : basis(basis), n_angular(setup.p.n_angular), of_block(n_angular * basis.terms * table_size<real>),
        of_cotangent(setup.n_blocks * of_block), tables(arena.take<real>(cotangents * of_cotangent)) {}

  // Makes all entries finite, of so many cotangents more: those that no triple needs are never written.
  void clear(int64_t cotangents) {
    for (; cleared < cotangents; ++cleared)
      __builtin_memset(tables + cleared * of_cotangent, 0, size_t(of_cotangent) * sizeof(real));
  }

  // For a centre whose triples have mean distances from `nearest` to `farthest`: those of a small molecule fit into half of
  // the intervals.
  void begin_at(real nearest, real farthest) {
    const int64_t first = int64_t(nearest * basis.per_width) - 1; // one more on both sides, for rounding
    shift = basis.intervals - vectors_from(first > 0 ? first : 0, farthest) * lanes_of<real>;
    shift = first < shift ? (first > 0 ? first : 0) : shift;
  }

  // cotangent number `which`, (n_radial3, n_angular) of a block, for mean distances up to `farthest`
  template <class io> void tabulate(int64_t which, int64_t block, real farthest, const io *cotangent) const {
    real *const to = tables + which * of_cotangent + block * of_block;
    const int64_t vectors = vectors_from(shift, farthest);
    int64_t order = 0;
    for (; order + 4 <= n_angular; order += 4) tabulate_orders<4>(vectors, order, cotangent, to);
    for (; order < n_angular; ++order) tabulate_orders<1>(vectors, order, cotangent, to);
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
    return {(IntegerVector<real>)(at + round_magic<real>) - Integer<real>(shift), fraction<real>(at), angular};
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
  // Vectors of intervals from one of them to that of the mean distance.
  int64_t vectors_from(int64_t first, real farthest) const {
    const int64_t last = int64_t(farthest * basis.per_width) + 1;
    const int64_t found = ((last < basis.intervals ? last : basis.intervals - 1) - first) / lanes_of<real> + 1;
    return found > 0 ? found : 1;
  }

  // As many terms at once as leave their sums in registers.
  static constexpr int at_once = QML_VECTOR_BYTES == 64 ? 4 : 2;

  template <int orders, class io> void tabulate_orders(int64_t vectors, int64_t first, const io *cotangent, real *table) const {
    real *const to = table + first * table_size<real>;
    for (int64_t v = 0; v < vectors; ++v) {
      int64_t term = 0;
      for (; term + at_once <= basis.terms; term += at_once) sum<orders, at_once>(cotangent + first, v, term, to);
      for (; term < basis.terms; ++term) sum<orders, 1>(cotangent + first, v, term, to);
    }
  }

  template <int orders, int terms, class io>
  QML_INLINE void sum(const io *cotangent, int64_t v, int64_t term, real *to) const {
    const int64_t size = basis.terms * table_size<real>, first = shift + v * lanes_of<real>;
    const int64_t stop = basis.end[first + lanes_of<real> - 1];
    const real *gaussians = basis.values + term * table_size<real> + first;
    Vector<real> sums[orders * terms];
    unroll<orders * terms>([&](auto i) QML_INLINE_LAMBDA { sums[decltype(i)::value] = Vector<real>{}; });
    for (int64_t l = basis.begin[first]; l < stop; ++l) {
      unroll<orders * terms>([&](auto i) QML_INLINE_LAMBDA {
        constexpr int o = decltype(i)::value / terms, d = decltype(i)::value % terms;
        const Vector<real> gaussian = load(gaussians + l * size + d * table_size<real>);
        sums[o * terms + d] = fma(gaussian, real(cotangent[l * n_angular + o]), sums[o * terms + d]);
      });
    }
    unroll<orders * terms>([&](auto i) QML_INLINE_LAMBDA {
      constexpr int o = decltype(i)::value / terms, d = decltype(i)::value % terms;
      store(to + ((term + d) * n_angular + o) * table_size<real> + v * lanes_of<real>, sums[o * terms + d]);
    });
  }
};

} // namespace fchl19
} // namespace QML_ISA
} // namespace qml
