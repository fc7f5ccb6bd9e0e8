// The three-body part: rows of triples with one neighbour in common, and their sums with the radial Gaussians.
#pragma once

#include "fchl19_radial.hpp"
#include "fchl19_triple.hpp"

namespace qml {
namespace QML_ISA {
namespace fchl19 {

template <class real> QML_INLINE IntegerVector<real> slots_from(int64_t first) {
  IntegerVector<real> slots;
  for (int lane = 0; lane < lanes_of<real>; ++lane) slots[lane] = Integer<real>(lane);
  return slots + Integer<real>(first);
}

// f(tile, Index<vectors>) over the grid, two vectors at a time while there are two.
template <class real, class F> QML_INLINE void over_grid(const Model<real> &model, F &&f) {
  int64_t l = 0;
  for (; l + 2 * lanes_of<real> <= model.padded3; l += 2 * lanes_of<real>) f(l, Index<2>{});
  if (l < model.padded3) f(l, Index<1>{});
}

// Sums that do not wait for each other: as many as hide the latency of a multiply-add.
constexpr int independent_sums = 8;
constexpr int strands_for(int sums) { return sums < independent_sums ? independent_sums / sums : 1; }

// finish(l, sums) with sums[c] = sum over slots of gaussians[slot][l...] rows[c][slot]: what a stretch of neighbours of
// one element adds to the grid, for `channels` rows of numbers per neighbour.
template <int channels, class real, class F>
QML_INLINE void onto_grid(const Model<real> &model, const real *gaussians, const real *rows, int64_t from, int64_t to,
                          F &&finish) {
  over_grid<real>(model, [&](int64_t l, auto count) QML_INLINE_LAMBDA {
    constexpr int vectors = decltype(count)::value, lanes = lanes_of<real>, strands = strands_for(channels * vectors);
    Vector<real> sums[strands][channels][vectors] = {};
    const auto add = [&](int64_t slot, int strand) QML_INLINE_LAMBDA {
      const real *gaussian = gaussians + slot * model.padded3 + l;
      for (int v = 0; v < vectors; ++v) {
        const Vector<real> g = load(gaussian + v * lanes);
        for (int c = 0; c < channels; ++c) sums[strand][c][v] += g * rows[c * model.capacity + slot];
      }
    };
    int64_t slot = from;
    for (; slot + strands <= to; slot += strands) {
      for (int strand = 0; strand < strands; ++strand) add(slot + strand, strand);
    }
    for (; slot < to; ++slot) add(slot, 0);
    for (int v = 0; v < vectors; ++v) {
      Vector<real> total[channels];
      for (int c = 0; c < channels; ++c) {
        total[c] = sums[0][c][v];
        for (int strand = 1; strand < strands; ++strand) total[c] += sums[strand][c][v];
      }
      finish(l + v * lanes, total);
    }
  });
}

// Angular functions of the triples of neighbour j with all later ones, times the weight: rows (n_angular, capacity).
template <class Angular, class real> QML_INLINE void triple_row(const Neighbours<real> &n, int64_t j, real *rows) {
  const Corner<real> one = Corner<real>::repeated(n, j);
  const int64_t capacity = n.model.capacity;
  for (int64_t slot = (j + 1) / lanes_of<real> * lanes_of<real>; slot < capacity; slot += lanes_of<real>) {
    const Corner<real> other = Corner<real>::loaded(n, slot);
    const Triple<real> t(n.model, one, other, slots_from<real>(slot) > Integer<real>(j), Separated<true>{});
    const Vector<real> weight = t.weight();
    Angular angular(n.model.p, t);
    for (int64_t order = 0; order < n.model.p.n_angular; ++order, angular.next()) {
      store(rows + order * capacity + slot, weight * angular.value);
    }
  }
}

// Derivatives by the position of neighbour j of its triples with all others, without those of the Gaussians, along
// x, y, z, and fourth the weighted function itself: rows (n_angular, 4, capacity).
template <class Angular, class real> void triple_slopes_row(const Neighbours<real> &n, int64_t j, real *rows) {
  const qml_fchl19 &p = n.model.p;
  const Corner<real> one = Corner<real>::repeated(n, j);
  const int64_t capacity = n.model.capacity;
  for (int64_t slot = n.first_vector(); slot < capacity; slot += lanes_of<real>) {
    const Corner<real> other = Corner<real>::loaded(n, slot);
    const IntegerVector<real> slots = slots_from<real>(slot);
    const IntegerVector<real> present = (slots != Integer<real>(j)) & (slots >= Integer<real>(n.first));
    const Triple<real> t(n.model, one, other, present, Separated<true>{});
    const Vector<real> weight = t.weight();
    const TripleSlopes<real> slopes(p, t, weight);
    // the Gaussian's derivative eta3 (R - (a + b)/2) is split at a, which is the same for the whole row
    const Vector<real> shift = real(0.5 * p.eta3) * (one.r - other.r) * weight;
    Angular angular(p, t);
    for (int64_t order = 0; order < p.n_angular; ++order, angular.next()) {
      const Vector<real> value = angular.value, slope = angular.slope;
      const Vector<real> by_a = fma(value, slopes.by_a + shift, slope * slopes.cosine_by_a) * one.inverse_r;
      const Vector<real> along = fma(value, slopes.along, slope * slopes.cosine_along);
      Cross<real> by = {by_a * one.x + along * t.away_x, by_a * one.y + along * t.away_y,
                        by_a * one.z + along * t.away_z};
      if constexpr (Angular::has_sine) {
        if (order == 1) {
          const Cross<real> sine = angular.sine_slope(one);
          by.x += weight * sine.x, by.y += weight * sine.y, by.z += weight * sine.z;
        }
      }
      real *to = rows + order * 4 * capacity + slot;
      store(to, by.x), store(to + capacity, by.y), store(to + 2 * capacity, by.z);
      store(to + 3 * capacity, weight * value);
    }
  }
}

// Gradient by the positions of all neighbours, as a part along the distance and one along x, y, z.
template <class real> struct Gradient {
  real *radial, *x, *y, *z; // (capacity)

  Gradient(const Model<real> &model, Arena &arena) {
    real **const arrays[] = {&radial, &x, &y, &z};
    for (real **array : arrays) *array = arena.take<real>(model.capacity);
  }
};

// The radial functions of the triples of neighbour j with all later ones, each lane with those of its element:
// out (n_angular, 2, capacity), values and slopes on the scale of an interval. In a loop of its own, as it leaves no
// register for anything else.
template <class real> struct RadialRow {
  const Neighbours<real> &n;
  const RadialFunctions<real> &radial;
  const int64_t *first_element, *last_element; // (capacity / lanes) of the neighbours in each vector of slots
  real *out;

  void fill(int64_t element, int64_t j) const {
    constexpr int lanes = lanes_of<real>;
    const real half = real(0.5) * radial.basis.per_width;
    for (int64_t slot = (j + 1) / lanes * lanes; slot < n.model.capacity; slot += lanes) {
      const int64_t first = first_element[slot / lanes], last = last_element[slot / lanes], second = after(first);
      // distance in intervals, from the middle of the first one
      const Vector<real> mean = fma(load(n.r + slot) + n.r[j], half, broadcast<real>(-0.5));
      if (first == last) of_elements<1>(element, slot, {first}, mean);
      else if (second == last) of_elements<2>(element, slot, {first, second}, mean);
      else {
        of_elements<3>(element, slot, {first, second, after(second)}, mean);
        for (int64_t next = after(second); next < last;) {
          next = after(next);
          of_elements<1>(element, slot, {next}, mean, slots_from<real>(slot) >= Integer<real>(n.start[next]));
        }
      }
    }
  }

private:
  // The next element that has neighbours.
  int64_t after(int64_t element) const {
    do ++element;
    while (element + 1 < n.model.p.n_elements && n.start[element] == n.start[element + 1]);
    return element;
  }

  // others: ascending. Lanes that are not in `chosen`, if it is given, keep what is there.
  template <int count, class... Lanes>
  QML_INLINE void of_elements(int64_t element, int64_t slot, const int64_t (&others)[count], Vector<real> mean,
                              Lanes... chosen) const {
    const Vector<real> shifted = mean + round_magic<real>;
    typename RadialFunctions<real>::template Places<count> at;
    at.interval = (IntegerVector<real>)shifted;
    at.place = mean - (shifted - round_magic<real>);
    unroll<count>([&](auto index) QML_INLINE_LAMBDA {
      constexpr int i = decltype(index)::value;
      at.tables[i] = radial.of_block(n.model.block_index(element, others[i]));
      at.later[i] = slots_from<real>(slot) >= Integer<real>(n.start[others[i]]);
    });
    const int64_t n_angular = n.model.p.n_angular, capacity = n.model.capacity;
    int64_t order = 0;
    const auto add = [&](auto number) QML_INLINE_LAMBDA {
      constexpr int orders = decltype(number)::value;
      const auto f = radial.template evaluate<orders>(at, order);
      unroll<orders>([&](auto index) QML_INLINE_LAMBDA {
        constexpr int o = decltype(index)::value;
        real *value = out + 2 * (order + o) * capacity + slot, *slope = value + capacity;
        if constexpr (sizeof...(chosen) == 0) {
          store(value, f.value[o]), store(slope, f.slope[o]);
        } else {
          store(value, (chosen, ...) ? f.value[o] : load(value)), store(slope, (chosen, ...) ? f.slope[o] : load(slope));
        }
      });
      order += orders;
    };
    while (order + 4 <= n_angular) add(Index<4>{});
    while (order + 2 <= n_angular) add(Index<2>{});
    while (order < n_angular) add(Index<1>{});
  }
};

// Adds the gradient of sum(cotangent * values) over the triples of neighbour j with all later ones. functions: of
// RadialRow.
template <class Angular, class real>
void triple_pullback(const Neighbours<real> &n, int64_t j, real per_width, const real *functions,
                     const Gradient<real> &gradient) {
  const qml_fchl19 &p = n.model.p;
  const int64_t capacity = n.model.capacity, n_angular = Angular::count(p);
  const Corner<real> one = Corner<real>::repeated(n, j);
  Vector<real> radial = {}, x = {}, y = {}, z = {};
  for (int64_t slot = (j + 1) / lanes_of<real> * lanes_of<real>; slot < capacity; slot += lanes_of<real>) {
    const Corner<real> other = Corner<real>::loaded(n, slot);
    const Triple<real> t(n.model, one, other, slots_from<real>(slot) > Integer<real>(j), Separated<false>{});
    const Vector<real> weight = t.weight();
    Angular angular(p, t);
    Vector<real> total = {}, by_cosine = {}, by_mean = {}, last = {};
    const real *function = functions + slot;
    for (int64_t order = 0; order < n_angular; ++order, function += 2 * capacity, angular.next()) {
      last = load(function);
      total = fma(last, angular.value, total), by_cosine = fma(last, angular.slope, by_cosine);
      by_mean = fma(load(function + capacity), angular.value, by_mean);
    }
    by_mean *= real(0.5) * per_width * weight;
    const TripleSlopes<real> slopes(p, t, weight);
    const Vector<real> by_a = fma(total, slopes.by_a, fma(by_cosine, slopes.cosine_by_a, by_mean));
    const Vector<real> by_b = fma(total, slopes.by_b, fma(by_cosine, slopes.cosine_by_b, by_mean));
    const Vector<real> along = fma(total, slopes.along, by_cosine * slopes.cosine_along);
    Cross<real> of_k = {-along * t.away_x, -along * t.away_y, -along * t.away_z};
    x -= of_k.x, y -= of_k.y, z -= of_k.z;
    if constexpr (Angular::has_sine) {
      const Vector<real> by_sine = last * weight;
      const Cross<real> sine_j = angular.sine_slope(one), sine_k = angular.sine_slope(other);
      x += by_sine * sine_j.x, y += by_sine * sine_j.y, z += by_sine * sine_j.z;
      of_k.x -= by_sine * sine_k.x, of_k.y -= by_sine * sine_k.y, of_k.z -= by_sine * sine_k.z;
    }
    radial += by_a;
    store(gradient.radial + slot, load(gradient.radial + slot) + by_b);
    store(gradient.x + slot, load(gradient.x + slot) + of_k.x);
    store(gradient.y + slot, load(gradient.y + slot) + of_k.y);
    store(gradient.z + slot, load(gradient.z + slot) + of_k.z);
  }
  gradient.radial[j] += sum<real>(radial);
  gradient.x[j] += sum<real>(x), gradient.y[j] += sum<real>(y), gradient.z[j] += sum<real>(z);
}

} // namespace fchl19
} // namespace QML_ISA
} // namespace qml
