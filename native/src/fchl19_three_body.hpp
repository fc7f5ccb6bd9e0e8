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

// The neighbours j <= n < j + count against a stretch of others of one element: block[i] += sum over n and slots of
// gaussians[n][i] gaussians[slot][i] rows[n - j][slot][i % share], with rows `apart` from each other.
template <int count, int share, class real>
QML_INLINE void add_to_grid(const real *gaussians, int64_t width, int64_t j, const real *rows, int64_t apart,
                            int64_t from, int64_t to, real *block) {
  constexpr int lanes = lanes_of<real>;
  const auto tile = [&](int64_t at, auto size) QML_INLINE_LAMBDA {
    constexpr int vectors = decltype(size)::value, strands = strands_for(count * vectors);
    Vector<real> sums[strands][count][vectors] = {};
    const auto add = [&](int64_t slot, int strand) QML_INLINE_LAMBDA {
      const real *gaussian = gaussians + slot * width + at;
      Vector<real> angular[count];
      for (int n = 0; n < count; ++n) angular[n] = spread<real, share>(rows + n * apart + slot * share);
      for (int v = 0; v < vectors; ++v) {
        const Vector<real> g = kept(load(gaussian + v * lanes));
        for (int n = 0; n < count; ++n) sums[strand][n][v] += g * angular[n];
      }
    };
    int64_t slot = from;
    for (; slot + strands <= to; slot += strands) {
      for (int strand = 0; strand < strands; ++strand) add(slot + strand, strand);
    }
    for (; slot < to; ++slot) add(slot, 0);
    for (int v = 0; v < vectors; ++v) {
      Vector<real> total = load(block + at + v * lanes);
      for (int n = 0; n < count; ++n) {
        for (int strand = 1; strand < strands; ++strand) sums[0][n][v] += sums[strand][n][v];
        total += load(gaussians + (j + n) * width + at + v * lanes) * sums[0][n][v];
      }
      store(block + at + v * lanes, total);
    }
  };
  // as many vectors at a time as leave the sums of two neighbours in registers
  int64_t at = 0;
  for (; at + 5 * lanes <= width; at += 5 * lanes) tile(at, Index<5>{});
  switch ((width - at) / lanes) {
  case 4: return tile(at, Index<4>{});
  case 3: return tile(at, Index<3>{});
  case 2: return tile(at, Index<2>{});
  case 1: return tile(at, Index<1>{});
  }
}

// Angular functions of the triples of neighbour j with those from `first` on, times the weight, `share` of them side by
// side: rows (n_angular / share, capacity, share). 0 for those that are not after j.
template <class Angular, int share, class real>
QML_INLINE void triple_row(const Neighbours<real> &n, int64_t j, int64_t first, real *rows) {
  const Corner<real> one = Corner<real>::repeated(n, j);
  const int64_t capacity = n.model.capacity, n_angular = Angular::count(n.model.p);
  for (int64_t slot = first / lanes_of<real> * lanes_of<real>; slot < capacity; slot += lanes_of<real>) {
    const Corner<real> other = Corner<real>::loaded(n, slot);
    const Triple<real> t(n.model, one, other, slots_from<real>(slot) > Integer<real>(j), Separated<true>{});
    const Vector<real> weight = t.weight();
    Angular angular(n.model.p, t);
    for (int64_t order = 0; order < n_angular; order += share) {
      Vector<real> weighted[share];
      unroll<share>([&](auto index) QML_INLINE_LAMBDA {
        weighted[decltype(index)::value] = weight * angular.value;
        angular.next();
      });
      store_side_by_side<share, real>(rows + order * capacity + slot * share, weighted);
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
    const Vector<real> shift = real(0.5 * p.eta3) * (one.r - other.r) * weight * one.inverse_r;
    Angular angular(p, t);
    for (int64_t order = 0; order < p.n_angular; ++order, angular.next()) {
      const Vector<real> value = angular.value, slope = angular.slope;
      const Vector<real> by_a = fma(value, slopes.by_a + shift, slope * slopes.cosine_by_a);
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

// Gradient by the positions of all neighbours, as a multiple of the vector to each and a part along x, y, z.
template <class real> struct Gradient {
  real *radial, *x, *y, *z; // (capacity)

  Gradient(const Model<real> &model, Arena &arena) {
    real **const arrays[] = {&radial, &x, &y, &z};
    for (real **array : arrays) *array = arena.take<real>(model.capacity);
  }
};

// The radial functions of the triples of one or two neighbours with all later ones, each lane with those of its element:
// out (2, n_angular, 2, capacity), values and slopes on the scale of an interval. In a loop of its own, as it leaves no
// register for anything else.
template <class real> struct RadialRow {
  // The elements of one vector of slots, ascending: of each its table and its first slot.
  struct Elements {
    static constexpr int most = lanes_of<real> < 3 ? 3 : lanes_of<real>;
    int64_t count;
    const real *table[most];
    int64_t start[most];
  };
  const Neighbours<real> &n;
  const RadialFunctions<real> &radial;
  Elements *elements; // (capacity / lanes)
  real *out;

  RadialRow(const Neighbours<real> &n, const RadialFunctions<real> &radial, Arena &arena)
      : n(n), radial(radial), elements(arena.take<Elements>(n.model.capacity / lanes_of<real>)),
        out(arena.take<real>(2 * size())) {}

  int64_t size() const { return 2 * n.model.p.n_angular * n.model.capacity; } // of one neighbour

  // For neighbours j of one element: elements before it are not met by any of them.
  void of_element(int64_t element) const {
    constexpr int64_t lanes = lanes_of<real>;
    for (int64_t v = n.start[element] / lanes; v < n.model.capacity / lanes; ++v) elements[v].count = 0;
    for (int64_t other = element; other < n.model.p.n_elements; ++other) {
      const int64_t start = n.start[other], stop = n.start[other + 1];
      const real *table = radial.of_block(n.model.block_index(element, other));
      for (int64_t v = start / lanes; start < stop && v <= (stop - 1) / lanes; ++v) {
        const int64_t i = elements[v].count++;
        elements[v].table[i] = table, elements[v].start[i] = start;
      }
    }
  }

  // Of the neighbours j <= i < j + count.
  template <int count> void fill(int64_t j) const {
    constexpr int lanes = lanes_of<real>;
    const real half = real(0.5) * radial.basis.per_width;
    for (int64_t slot = (j + 1) / lanes * lanes; slot < n.model.capacity; slot += lanes) {
      Means<count> means;
      unroll<count>([&](auto index) QML_INLINE_LAMBDA {
        constexpr int i = decltype(index)::value;
        means.of[i] = fma(load(n.r + slot) + n.r[j + i], half, broadcast<real>(-0.5));
      });
      const Elements &here = elements[slot / lanes];
      if (here.count == 1) of_elements<1>(slot, here, 0, means);
      else if (here.count == 2) of_elements<2>(slot, here, 0, means);
      else {
        of_elements<3>(slot, here, 0, means);
        for (int64_t i = 3; i < here.count; ++i) {
          of_elements<1>(slot, here, i, means, slots_from<real>(slot) >= Integer<real>(here.start[i]));
        }
      }
    }
  }

private:
  // Mean distances in intervals, from the middle of the first one.
  template <int count> struct Means {
    Vector<real> of[count];
  };

  // `n_here` elements from the first-th on. Lanes that are not in `chosen`, if it is given, keep what is there.
  template <int n_here, int count, class... Lanes>
  QML_INLINE void of_elements(int64_t slot, const Elements &here, int64_t first, const Means<count> &means,
                              Lanes... chosen) const {
    typename RadialFunctions<real>::template Places<n_here, count> at;
    unroll<count>([&](auto index) QML_INLINE_LAMBDA {
      constexpr int i = decltype(index)::value;
      const Vector<real> shifted = means.of[i] + round_magic<real>;
      at.interval[i] = (IntegerVector<real>)shifted;
      at.place[i] = means.of[i] - (shifted - round_magic<real>);
    });
    unroll<n_here>([&](auto index) QML_INLINE_LAMBDA {
      constexpr int e = decltype(index)::value;
      at.tables[e] = here.table[first + e];
      at.later[e] = slots_from<real>(slot) >= Integer<real>(here.start[first + e]);
    });
    const int64_t n_angular = n.model.p.n_angular, capacity = n.model.capacity;
    int64_t order = 0;
    const auto add = [&](auto number) QML_INLINE_LAMBDA {
      constexpr int orders = decltype(number)::value;
      const auto f = radial.template evaluate<orders>(at, order);
      unroll<count * orders>([&](auto index) QML_INLINE_LAMBDA {
        constexpr int i = decltype(index)::value, o = i % orders;
        real *value = out + i / orders * size() + 2 * (order + o) * capacity + slot, *slope = value + capacity;
        if constexpr (sizeof...(chosen) == 0) {
          store(value, f.value[i]), store(slope, f.slope[i]);
        } else {
          store(value, (chosen, ...) ? f.value[i] : load(value)), store(slope, (chosen, ...) ? f.slope[i] : load(slope));
        }
      });
      order += orders;
    };
    // as many as leave their values and slopes in registers
    constexpr int most = QML_VECTOR_BYTES == 64 || count == 1 ? 4 : 2;
    while (order + most <= n_angular) add(Index<most>{});
    while (order + 2 <= n_angular) add(Index<2>{});
    while (order < n_angular) add(Index<1>{});
  }
};

// Adds the gradient of sum(cotangent * values) over the triples of the neighbours j <= i < j + count with all later ones.
template <class Angular, int count, class real>
void triple_pullback(const RadialRow<real> &row, int64_t j, const Gradient<real> &gradient) {
  const Neighbours<real> &n = row.n;
  const qml_fchl19 &p = n.model.p;
  const int64_t capacity = n.model.capacity;
  const real half_width = real(0.5) * row.radial.basis.per_width;
  struct {
    Vector<real> radial, x, y, z;
  } own[count] = {};
  for (int64_t slot = (j + 1) / lanes_of<real> * lanes_of<real>; slot < capacity; slot += lanes_of<real>) {
    const Corner<real> other = Corner<real>::loaded(n, slot);
    Vector<real> radial = load(gradient.radial + slot);
    Cross<real> of_k = {load(gradient.x + slot), load(gradient.y + slot), load(gradient.z + slot)};
    unroll<count>([&](auto index) QML_INLINE_LAMBDA {
      constexpr int i = decltype(index)::value;
      const Corner<real> one = Corner<real>::repeated(n, j + i);
      const real *functions = row.out + i * row.size() + slot;
      const Triple<real> t(n.model, one, other, slots_from<real>(slot) > Integer<real>(j + i), Separated<false>{});
      const Vector<real> weight = t.weight();
      Angular angular(p, t);
      const Contracted<real> f = angular.contract(p, functions, capacity);
      const Vector<real> by_mean = f.by_mean * (half_width * weight);
      const TripleSlopes<real> slopes(p, t, weight);
      own[i].radial += fma(f.value, slopes.by_a, fma(f.by_cosine, slopes.cosine_by_a, by_mean * one.inverse_r));
      radial += fma(f.value, slopes.by_b, fma(f.by_cosine, slopes.cosine_by_b, by_mean * other.inverse_r));
      const Vector<real> along = fma(f.value, slopes.along, f.by_cosine * slopes.cosine_along);
      own[i].x += along * t.away_x, own[i].y += along * t.away_y, own[i].z += along * t.away_z;
      of_k.x -= along * t.away_x, of_k.y -= along * t.away_y, of_k.z -= along * t.away_z;
      if constexpr (Angular::has_sine) {
        const Vector<real> by_sine = load(functions + 2 * capacity) * weight;
        const Cross<real> sine_j = angular.sine_slope(one), sine_k = angular.sine_slope(other);
        own[i].x += by_sine * sine_j.x, own[i].y += by_sine * sine_j.y, own[i].z += by_sine * sine_j.z;
        of_k.x -= by_sine * sine_k.x, of_k.y -= by_sine * sine_k.y, of_k.z -= by_sine * sine_k.z;
      }
    });
    store(gradient.radial + slot, radial);
    store(gradient.x + slot, of_k.x), store(gradient.y + slot, of_k.y), store(gradient.z + slot, of_k.z);
  }
  for (int i = 0; i < count; ++i) {
    real sums[4];
    sum_four<real>({own[i].radial, own[i].x, own[i].y, own[i].z}, sums);
    gradient.radial[j + i] += sums[0];
    gradient.x[j + i] += sums[1], gradient.y[j + i] += sums[2], gradient.z[j + i] += sums[3];
  }
}

} // namespace fchl19
} // namespace QML_ISA
} // namespace qml
