// The three-body part: rows of triples with one neighbour in common, and their sums with the radial Gaussians.
#pragma once

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
    const Triple<real> t(n.model.p, one, other, slots_from<real>(slot) > Integer<real>(j));
    const Vector<real> weight = t.weight();
    Angular(n.model.p, t).each([&](auto order, Vector<real> value, Vector<real>) QML_INLINE_LAMBDA {
      store(rows + order.value * capacity + slot, weight * value);
    });
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
    const Triple<real> t(p, one, other, (slots != Integer<real>(j)) & (slots >= Integer<real>(n.first)));
    const Vector<real> weight = t.weight();
    const TripleSlopes<real> slopes(p, t, weight);
    const Angular angular(p, t);
    // the Gaussian's derivative eta3 (R - (a + b)/2) is split at a, which is the same for the whole row
    const Vector<real> shift = real(0.5 * p.eta3) * (one.r - other.r) * weight;
    angular.each([&](auto order, Vector<real> value, Vector<real> slope) QML_INLINE_LAMBDA {
      const Vector<real> by_a = fma(value, slopes.by_a + shift, slope * slopes.cosine_by_a) * one.inverse_r;
      const Vector<real> by_x = -fma(value, slopes.by_x, slope * slopes.cosine_by_x) * t.inverse_distance;
      Cross<real> by = {by_a * one.x + by_x * t.away_x, by_a * one.y + by_x * t.away_y, by_a * one.z + by_x * t.away_z};
      if constexpr (Angular::has_sine) {
        if constexpr (decltype(order)::value == 1) {
          const Cross<real> sine = angular.sine_slope(one);
          by.x += weight * sine.x, by.y += weight * sine.y, by.z += weight * sine.z;
        }
      }
      real *to = rows + order.value * 4 * capacity + slot;
      store(to, by.x), store(to + capacity, by.y), store(to + 2 * capacity, by.z);
      store(to + 3 * capacity, weight * value);
    });
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

// Cotangents of the blocks of one element times the Gaussians of every neighbour from its first one on, for whole
// vectors of slots: out (slots / lanes, block, lanes), of gaussians (slots / lanes, n_radial3, lanes).
template <class Angular, class real, class io>
void weigh_gaussians(const Neighbours<real> &n, int64_t element, const io *cotangent, const real *gaussians, real *out) {
  const Model<real> &model = n.model;
  constexpr int lanes = lanes_of<real>;
  const int64_t n_angular = Angular::count(model.p), n_radial3 = model.p.n_radial3;
  for (int64_t slot = n.start[element] / lanes * lanes; slot < model.capacity; slot += lanes) {
    const IntegerVector<real> slots = slots_from<real>(slot);
    const real *gaussian = gaussians + slot * n_radial3;
    real *to = out + slot * model.block;
    bool first = true;
    for (int64_t other = 0; other < model.p.n_elements; ++other) {
      const int64_t start = n.start[other], stop = n.start[other + 1];
      if (start == stop || stop <= slot || start >= slot + lanes) continue;
      // the lanes of the first element in the vector and all after it; the next element overwrites its own
      const IntegerVector<real> here = first ? slots >= Integer<real>(n.first) : slots >= Integer<real>(start);
      const io *factor = cotangent + model.block_of(element, other);
      const auto write = [&](auto over) QML_INLINE_LAMBDA {
        for (int64_t l = 0; l < n_radial3; ++l) {
          const Vector<real> g = load(gaussian + l * lanes);
          for (int64_t i = l * n_angular; i < (l + 1) * n_angular; ++i) {
            const Vector<real> weighed = g * real(factor[i]);
            const Vector<real> before = decltype(over)::value ? load(to + i * lanes) : Vector<real>{};
            store(to + i * lanes, here ? weighed : before);
          }
        }
      };
      if (first) write(Index<0>{});
      else write(Index<1>{});
      first = false;
    }
  }
}

// Sums over the grid, for neighbour j with each later one, of cotangent times Gaussian and of cotangent times Gaussian
// times R - r_j: out (n_angular, 2, capacity).
template <class Angular, class real> struct FromGrid {
  const Model<real> &model;
  const real *gaussians, *moments; // of Neighbours::gaussians_in_lanes
  const real *weighed;             // of weigh_gaussians for the element of j
  real *out;

  FromGrid(const Model<real> &model, const real *gaussians, const real *moments, const real *weighed, real *out)
      : model(model), gaussians(gaussians), moments(moments), weighed(weighed), out(out) {}

  void row(int64_t j) {
    constexpr int lanes = lanes_of<real>;
    own = j / lanes * lanes * model.p.n_radial3 + j % lanes;
    int64_t slot = (j + 1) / lanes * lanes;
    for (; slot + 2 * lanes <= model.capacity; slot += 2 * lanes) orders<2>(slot);
    if (slot < model.capacity) orders<1>(slot);
  }

private:
  int64_t own; // where the numbers of neighbour j begin

  template <int vectors> QML_INLINE void orders(int64_t slot) const {
    const int64_t n_angular = Angular::count(model.p);
    int64_t order = 0;
    for (; order + 2 <= n_angular; order += 2) tile<vectors, 2>(slot, order);
    if (order < n_angular) tile<vectors, 1>(slot, order);
  }

  template <int vectors, int orders> QML_INLINE void tile(int64_t slot, int64_t first) const {
    constexpr int lanes = lanes_of<real>, strands = strands_for(2 * vectors * orders);
    const int64_t n_angular = Angular::count(model.p), n_radial3 = model.p.n_radial3, apart = model.block * lanes;
    Vector<real> sums[strands][orders][vectors][2] = {};
    const auto add = [&](int64_t l, int strand) QML_INLINE_LAMBDA {
      for (int o = 0; o < orders; ++o) {
        for (int v = 0; v < vectors; ++v) {
          const Vector<real> w = load(weighed + slot * model.block + v * apart + (l * n_angular + first + o) * lanes);
          sums[strand][o][v][0] += w * gaussians[own + l * lanes];
          sums[strand][o][v][1] += w * moments[own + l * lanes];
        }
      }
    };
    int64_t l = 0;
    for (; l + strands <= n_radial3; l += strands) {
      for (int strand = 0; strand < strands; ++strand) add(l + strand, strand);
    }
    for (; l < n_radial3; ++l) add(l, 0);
    for (int o = 0; o < orders; ++o) {
      for (int v = 0; v < vectors; ++v) {
        for (int part = 0; part < 2; ++part) {
          Vector<real> total = sums[0][o][v][part];
          for (int strand = 1; strand < strands; ++strand) total += sums[strand][o][v][part];
          store(out + (2 * (first + o) + part) * model.capacity + slot + v * lanes, total);
        }
      }
    }
  }
};

// Adds the gradient of sum(cotangent * values) over the triples of neighbour j with all later ones. sums: of FromGrid.
template <class Angular, class real>
void triple_pullback(const Neighbours<real> &n, int64_t j, const real *sums, const Gradient<real> &gradient) {
  const qml_fchl19 &p = n.model.p;
  const int64_t capacity = n.model.capacity;
  const Corner<real> one = Corner<real>::repeated(n, j);
  Vector<real> radial = {}, x = {}, y = {}, z = {};
  for (int64_t slot = (j + 1) / lanes_of<real> * lanes_of<real>; slot < capacity; slot += lanes_of<real>) {
    const Corner<real> other = Corner<real>::loaded(n, slot);
    const Triple<real> t(p, one, other, slots_from<real>(slot) > Integer<real>(j));
    const Vector<real> weight = t.weight();
    const TripleSlopes<real> slopes(p, t, weight);
    const Angular angular(p, t);
    Vector<real> total = {}, by_cosine = {}, by_mean = {}, by_sine = {};
    angular.each([&](auto order, Vector<real> value, Vector<real> slope) QML_INLINE_LAMBDA {
      const real *from = sums + 2 * order.value * capacity + slot;
      const Vector<real> sum = load(from), moment = load(from + capacity);
      total += sum * value, by_cosine += sum * slope, by_mean += moment * value;
      by_sine = sum;
    });
    by_mean = weight * real(p.eta3) * fma(real(0.5) * (one.r - other.r), total, by_mean);
    const Vector<real> by_a = fma(total, slopes.by_a, fma(by_cosine, slopes.cosine_by_a, by_mean));
    const Vector<real> by_b = fma(total, slopes.by_b, fma(by_cosine, slopes.cosine_by_b, by_mean));
    const Vector<real> by_x = fma(total, slopes.by_x, by_cosine * slopes.cosine_by_x) * t.inverse_distance;
    Cross<real> of_j = {-by_x * t.away_x, -by_x * t.away_y, -by_x * t.away_z};
    Cross<real> of_k = {by_x * t.away_x, by_x * t.away_y, by_x * t.away_z};
    if constexpr (Angular::has_sine) {
      by_sine *= weight;
      const Cross<real> sine_j = angular.sine_slope(one), sine_k = angular.sine_slope(other);
      of_j.x += by_sine * sine_j.x, of_j.y += by_sine * sine_j.y, of_j.z += by_sine * sine_j.z;
      of_k.x -= by_sine * sine_k.x, of_k.y -= by_sine * sine_k.y, of_k.z -= by_sine * sine_k.z;
    }
    radial += by_a, x += of_j.x, y += of_j.y, z += of_j.z;
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
