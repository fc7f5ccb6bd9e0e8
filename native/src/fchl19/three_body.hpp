// The three-body part: rows of triples with one neighbour in common, and their sums with the radial Gaussians.
#pragma once

#include "fchl19/radial.hpp"
#include "fchl19/triple.hpp"

namespace qml {
namespace QML_ISA {
namespace fchl19 {

template <class real> QML_INLINE IntegerVector<real> slots_from(int64_t first) {
  IntegerVector<real> slots;
  for (int lane = 0; lane < lanes_of<real>; ++lane) slots[lane] = Integer<real>(lane);
  return slots + Integer<real>(first);
}

// f(tile, Index<vectors>) over the grid, two vectors at a time while there are two.
template <class real, class F> QML_INLINE void over_grid(const Setup<real> &setup, F &&f) {
  int64_t l = 0;
  for (; l + 2 * lanes_of<real> <= setup.padded3; l += 2 * lanes_of<real>) f(l, Index<2>{});
  if (l < setup.padded3) f(l, Index<1>{});
}

// Sums that do not wait for each other: as many as hide the latency of a multiply-add.
constexpr int independent_sums = 8;
constexpr int strands_for(int sums) { return sums < independent_sums ? independent_sums / sums : 1; }

// finish(l, sums) with sums[c] = sum over slots of gaussians[slot][l...] rows[c][slot]: what a stretch of neighbours of
// one element adds to the grid, for `channels` rows of numbers per neighbour.
template <int channels, class real, class F>
QML_INLINE void onto_grid(const Setup<real> &setup, const real *gaussians, const real *rows, int64_t from, int64_t to,
                          F &&finish) {
  over_grid<real>(setup, [&](int64_t l, auto count) QML_INLINE_LAMBDA {
    constexpr int vectors = decltype(count)::value, lanes = lanes_of<real>, strands = strands_for(channels * vectors);
    Vector<real> sums[strands][channels][vectors] = {};
    const auto add = [&](int64_t slot, int strand) QML_INLINE_LAMBDA {
      const real *gaussian = gaussians + slot * setup.padded3 + l;
      for (int v = 0; v < vectors; ++v) {
        const Vector<real> g = load(gaussian + v * lanes);
        for (int c = 0; c < channels; ++c) sums[strand][c][v] += g * rows[c * setup.capacity + slot];
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

// Rows that meet the grid at once, and vectors of it: as many as leave their sums in registers.
constexpr int rows_on_grid = QML_VECTOR_BYTES == 64 ? 4 : 2;
constexpr int vectors_on_grid = 5;

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
  int64_t at = 0;
  for (; at + vectors_on_grid * lanes <= width; at += vectors_on_grid * lanes) tile(at, Index<vectors_on_grid>{});
  switch ((width - at) / lanes) {
  case 4: return tile(at, Index<4>{});
  case 3: return tile(at, Index<3>{});
  case 2: return tile(at, Index<2>{});
  case 1: return tile(at, Index<1>{});
  }
}

// Neighbours whose triples with one vector of slots are computed one after the other: what the slots have in common is
// loaded once, and loops are long enough for the processor to run ahead.
template <class real> constexpr int64_t most_rows = lanes_of<real> < 8 ? lanes_of<real> : 8;

// f(j, count) over the neighbours of one element, so many at a time, all in one vector of slots.
template <class real, class F> QML_INLINE void over_panels(const Neighbours<real> &n, int64_t element, F &&f) {
  const int64_t stop = n.start[element + 1];
  for (int64_t j = n.start[element], next; j < stop; j = next) {
    next = (j / most_rows<real> + 1) * most_rows<real>;
    f(j, (next < stop ? next : stop) - j);
  }
}

// f(slot) over the vectors of slots after neighbour j.
template <class real, class F> QML_INLINE void over_slots(const Neighbours<real> &n, int64_t j, F &&f) {
  constexpr int64_t lanes = lanes_of<real>;
  for (int64_t slot = (j + 1) / lanes * lanes; slot < n.setup.capacity; slot += lanes) f(slot);
}

// f(i, Index<most>) for so many of the rows from i on, and those left over by halves: chains of operations that do not
// wait for each other.
template <int most, class F> QML_INLINE void over_rows(int64_t rows, F &&f, int64_t i = 0) {
  for (; i + most <= rows; i += most) f(i, Index<most>{});
  if constexpr (most > 1) over_rows<most / 2>(rows, f, i);
}

// Angular functions of the triples of the neighbours j <= i < j + count with all after j, times the weight, `share` of
// them side by side: rows (count, n_angular / share, capacity, share). 0 for those that are not after i.
template <class Angular, int share, class real>
void triple_rows(const Neighbours<real> &n, int64_t j, int64_t count, real *rows) {
  const int64_t capacity = n.setup.capacity, n_angular = Angular::count(n.setup.p);
  over_slots(n, j, [&](int64_t slot) QML_INLINE_LAMBDA {
    const Corner<real> other = Corner<real>::loaded(n, slot);
    over_rows<2>(count, [&](int64_t first, auto number) QML_INLINE_LAMBDA {
      unroll<decltype(number)::value>([&](auto index) QML_INLINE_LAMBDA {
        const int64_t i = first + decltype(index)::value;
        const Corner<real> one = Corner<real>::repeated(n, j + i);
        const Triple<real> t(n.setup, one, other, slots_from<real>(slot) > Integer<real>(j + i), Separated<true>{});
        const Vector<real> weight = t.weight();
        Angular angular(n.setup.p, t);
        for (int64_t order = 0; order < n_angular; order += share) {
          Vector<real> weighted[share];
          unroll<share>([&](auto part) QML_INLINE_LAMBDA {
            weighted[decltype(part)::value] = weight * angular.value;
            angular.next();
          });
          store_side_by_side<share, real>(rows + (i * n_angular + order) * capacity + slot * share, weighted);
        }
      });
    });
  });
}

// Derivatives by the position of neighbour j of its triples with all others, without those of the Gaussians, along
// x, y, z, and fourth the weighted function itself: rows (n_angular, 4, capacity).
template <class Angular, class real> void triple_slopes_row(const Neighbours<real> &n, int64_t j, real *rows) {
  const qml_fchl19 &p = n.setup.p;
  const Corner<real> one = Corner<real>::repeated(n, j);
  const int64_t capacity = n.setup.capacity;
  for (int64_t slot = n.first_vector(); slot < capacity; slot += lanes_of<real>) {
    const Corner<real> other = Corner<real>::loaded(n, slot);
    const IntegerVector<real> slots = slots_from<real>(slot);
    const IntegerVector<real> present = (slots != Integer<real>(j)) & (slots >= Integer<real>(n.first));
    const Triple<real> t(n.setup, one, other, present, Separated<true>{});
    const TripleSlopes<real> slopes(p, t);
    const Vector<real> both = t.both(), weight = both * t.axilrod_teller, by_cosine = weight * t.inverse_ab;
    const Vector<real> cosine_by_a = by_cosine * t.u * (one.inverse_r * one.inverse_r);
    // the Gaussian's derivative eta3 (R - (a + b)/2) is split at a, which is the same for the whole row
    const Vector<real> shift = real(0.5 * p.eta3) * (one.r - other.r) * one.inverse_r;
    const Vector<real> weight_by_a = fma(both, slopes.by_a, weight * (one.weight_slope + shift));
    Angular angular(p, t);
    for (int64_t order = 0; order < p.n_angular; ++order, angular.next()) {
      const Vector<real> value = angular.value, slope = angular.slope;
      const Vector<real> by_a = fma(value, weight_by_a, slope * cosine_by_a);
      const Vector<real> along = fma(value, both * slopes.along, slope * by_cosine);
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

// Gradients by the positions of all neighbours, as a multiple of the vector to each and a part along x, y, z.
template <class real> struct Gradient {
  real *radial, *x, *y, *z; // (cotangents, capacity)

  Gradient(const Setup<real> &setup, int64_t cotangents, ScratchArena &arena) {
    real **const arrays[] = {&radial, &x, &y, &z};
    for (real **array : arrays) *array = arena.take<real>(cotangents * setup.capacity);
  }
};

// The sums of radial and angular functions of the triples of some neighbours with one vector of slots, each lane with the
// radial functions of its element. In a loop of its own, as it leaves no register for anything else.
template <class real> struct Contraction {
  // The elements of one vector of slots, ascending: of each its table (of the first cotangent) and its first slot.
  struct Elements {
    static constexpr int most = lanes_of<real> < 3 ? 3 : lanes_of<real>;
    int64_t count;
    const real *table[most];
    int64_t start[most];
  };
  const Neighbours<real> &n;
  const RadialFunctions<real> &radial;
  Elements *elements;     // (capacity / lanes)
  Contracted<real> *sums; // (cotangents, most_rows)

  Contraction(const Neighbours<real> &n, const RadialFunctions<real> &radial, int64_t cotangents, ScratchArena &arena)
      : n(n), radial(radial), elements(arena.take<Elements>(n.setup.capacity / lanes_of<real>)),
        sums(arena.take<Contracted<real>>(cotangents * most_rows<real>)) {}

  // For neighbours j of one element: elements before it are not met by any of them.
  void of_element(int64_t element) const {
    constexpr int64_t lanes = lanes_of<real>;
    for (int64_t v = n.start[element] / lanes; v < n.setup.capacity / lanes; ++v) elements[v].count = 0;
    for (int64_t other = element; other < n.setup.p.n_elements; ++other) {
      const int64_t start = n.start[other], stop = n.start[other + 1];
      const real *table = radial.tables + n.setup.block_index(element, other) * radial.of_block;
      for (int64_t v = start / lanes; start < stop && v <= (stop - 1) / lanes; ++v) {
        const int64_t i = elements[v].count++;
        elements[v].table[i] = table, elements[v].start[i] = start;
      }
    }
  }

  // Fills `sums` for the neighbours j <= i < j + rows and the first `count` cotangents.
  template <class Angular, int count> QML_INLINE void fill(int64_t j, int64_t rows, int64_t slot) const {
    const Elements &here = elements[slot / lanes_of<real>];
    if (here.count == 1) return fill<Angular, count, 1>(j, rows, slot, here, 0);
    if (here.count == 2) return fill<Angular, count, 2>(j, rows, slot, here, 0);
    fill<Angular, count, 3>(j, rows, slot, here, 0);
    for (int64_t e = 3; e < here.count; ++e) {
      fill<Angular, count, 1>(j, rows, slot, here, e, slots_from<real>(slot) >= Integer<real>(here.start[e]));
    }
  }

private:
  // `n_here` elements from the first-th on. Lanes that are not in `chosen`, if it is given, keep what is there.
  template <class Angular, int count, int n_here, class... Lanes>
  QML_INLINE void fill(int64_t j, int64_t rows, int64_t slot, const Elements &here, int64_t first,
                       Lanes... chosen) const {
    typename RadialFunctions<real>::template Tables<n_here> tables;
    unroll<n_here>([&](auto index) QML_INLINE_LAMBDA {
      constexpr int e = decltype(index)::value;
      tables.table[e] = here.table[first + e];
      tables.later[e] = slots_from<real>(slot) >= Integer<real>(here.start[first + e]);
    });
    const Corner<real> other = Corner<real>::loaded(n, slot);
    const auto argument = [&](int64_t i) QML_INLINE_LAMBDA {
      const Corner<real> one = Corner<real>::repeated(n, j + i);
      const Triple<real> t(n.setup, one, other, slots_from<real>(slot) > Integer<real>(j + i), Separated<false>{});
      return radial.argument(one.r + other.r, Angular(n.setup.p, t));
    };
    over_rows<2>(rows, [&](int64_t i, auto number) QML_INLINE_LAMBDA {
      fill_rows<count>(argument, i, tables, Counted<decltype(number)::value>{}, chosen...);
    });
  }
  template <int count, class F, class Tables, int... k, class... Lanes>
  QML_INLINE void fill_rows(F argument, int64_t i, Tables tables, Indices<k...>, Lanes... chosen) const {
    const decltype(argument(i)) arguments[] = {argument(i + k)...};
    for (int which = 0; which < count; ++which) {
      Contracted<real> found[sizeof...(k)];
      radial.contract(tables, arguments, found);
      Contracted<real> *to = sums + which * most_rows<real> + i;
      for (int r = 0; r < int(sizeof...(k)); ++r) {
        if constexpr (sizeof...(chosen) == 0) to[r] = found[r];
        else to[r].choose((chosen, ...), found[r]);
      }
      for (const real *&table : tables.table) table += radial.of_cotangent;
    }
  }
};

// Adds the gradients of sum(cotangent * values) over the triples of the neighbours j <= i < j + rows with all later ones,
// for so many cotangents: geometry and weight of a triple are the same for all of them.
template <class Angular, int count, class real>
void triple_pullback(const Contraction<real> &contraction, int64_t j, int64_t rows, const Gradient<real> &gradient) {
  const Neighbours<real> &n = contraction.n;
  const qml_fchl19 &p = n.setup.p;
  const int64_t capacity = n.setup.capacity;
  const real half_width = real(0.5) * contraction.radial.basis.per_width;
  struct Parts {
    Vector<real> radial, x, y, z;
  } own[count][most_rows<real>] = {};
  over_slots(n, j, [&](int64_t slot) QML_INLINE_LAMBDA {
    contraction.template fill<Angular, count>(j, rows, slot);
    const Corner<real> other = Corner<real>::loaded(n, slot);
    Parts of_k[count];
    unroll<count>([&](auto which) QML_INLINE_LAMBDA {
      constexpr int c = decltype(which)::value;
      const int64_t at = c * capacity + slot;
      of_k[c] = {load(gradient.radial + at), load(gradient.x + at), load(gradient.y + at), load(gradient.z + at)};
    });
    over_rows<2>(rows, [&](int64_t first, auto number) QML_INLINE_LAMBDA {
      unroll<decltype(number)::value>([&](auto index) QML_INLINE_LAMBDA {
        const int64_t i = first + decltype(index)::value;
        const Corner<real> one = Corner<real>::repeated(n, j + i);
        const Triple<real> t(n.setup, one, other, slots_from<real>(slot) > Integer<real>(j + i), Separated<false>{});
        const TripleSlopes<real> slopes(p, t);
        const Vector<real> both = t.both(), weight = both * t.axilrod_teller;
        unroll<count>([&](auto which) QML_INLINE_LAMBDA {
          constexpr int c = decltype(which)::value;
          const Contracted<real> &f = contraction.sums[c * most_rows<real> + i];
          Parts &of_j = own[c][i];
          const Vector<real> value = both * f.value, weighted = weight * f.value;
          const Vector<real> by_cosine = weight * f.by_cosine * t.inverse_ab, by_mean = weight * f.by_mean;
          // by the distance to one of the two, divided by it
          const auto by_side = [&](Vector<real> by_angles, const Corner<real> &of, Vector<real> lever) QML_INLINE_LAMBDA {
            const Vector<real> rest =
                fma(by_cosine * lever, of.inverse_r * of.inverse_r, by_mean * (half_width * of.inverse_r));
            return fma(value, by_angles, fma(weighted, of.weight_slope, rest));
          };
          of_j.radial += by_side(slopes.by_a, one, t.u), of_k[c].radial += by_side(slopes.by_b, other, t.v);
          const Vector<real> along = fma(value, slopes.along, by_cosine);
          of_j.x += along * t.away_x, of_j.y += along * t.away_y, of_j.z += along * t.away_z;
          of_k[c].x -= along * t.away_x, of_k[c].y -= along * t.away_y, of_k[c].z -= along * t.away_z;
          if constexpr (Angular::has_sine) {
            const Angular angular(p, t);
            const Vector<real> by_sine = f.by_sine * weight;
            const Cross<real> sine_j = angular.sine_slope(one), sine_k = angular.sine_slope(other);
            of_j.x += by_sine * sine_j.x, of_j.y += by_sine * sine_j.y, of_j.z += by_sine * sine_j.z;
            of_k[c].x -= by_sine * sine_k.x, of_k[c].y -= by_sine * sine_k.y, of_k[c].z -= by_sine * sine_k.z;
          }
        });
      });
    });
    unroll<count>([&](auto which) QML_INLINE_LAMBDA {
      constexpr int c = decltype(which)::value;
      const int64_t at = c * capacity + slot;
      store(gradient.radial + at, of_k[c].radial);
      store(gradient.x + at, of_k[c].x), store(gradient.y + at, of_k[c].y), store(gradient.z + at, of_k[c].z);
    });
  });
  for (int c = 0; c < count; ++c) {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t at = c * capacity + j + i;
      real sums[4];
      sum_four<real>({own[c][i].radial, own[c][i].x, own[c][i].y, own[c][i].z}, sums);
      gradient.radial[at] += sums[0];
      gradient.x[at] += sums[1], gradient.y[at] += sums[2], gradient.z[at] += sums[3];
    }
  }
}

} // namespace fchl19
} // namespace QML_ISA
} // namespace qml
