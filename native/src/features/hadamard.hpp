// Products with [H D_n ... H D_1] for as many vectors as there are lanes, side by side.
//
// A lane holds one vector, or a vector is shared by a few neighbouring lanes: element k * share + j in lane j of its
// share of register k. That serves fewer vectors at once, at the price of shuffles for the innermost butterflies.
//
// A transform of outer * inner registers is a butterfly of `outer` registers at stride `inner` and one of `inner`
// neighbouring registers, in any order. A butterfly that begins inside goes upwards, from neighbours to those far apart,
// and one that begins outside goes downwards: so each sum is rounded in the same order however many lanes share a vector,
// and an atom has the same features alone and in a batch. Consecutive transforms take turns, so that the butterfly that ends one and the
// butterfly that begins the next share a trip through the registers, the sign diagonal between them. The order is
// chosen so that the last transform ends with the inner one: there the feature is made and, in the fused kernel, the
// way back begins.
#pragma once

#include "qml_lightning.h"
#include "isa/simd.hpp"

namespace qml {
namespace QML_ISA {

enum class Order { up, down };

// H v of entries +-1, in registers.
template <int size, Order order, class V> QML_INLINE void butterfly(V *v) {
  if constexpr (size > 1) {
    constexpr int half = size / 2;
    if constexpr (order == Order::up) {
      butterfly<half, order>(v);
      butterfly<half, order>(v + half);
    }
    unroll<half>([&](auto i) QML_INLINE_LAMBDA {
      constexpr int k = decltype(i)::value;
      const V a = v[k], b = v[k + half];
      v[k] = a + b;
      v[k + half] = a - b;
    });
    if constexpr (order == Order::down) {
      butterfly<half, order>(v);
      butterfly<half, order>(v + half);
    }
  }
}

// H D v; the signs cost half an operation each, as they ride on the fused multiply-adds of the first layer.
template <int size, int share, Order order, class real, class V>
QML_INLINE void butterfly_signed(V *v, const real *signs, int stride) {
  if constexpr (size == 1) {
    v[0] *= spread<real, share>(signs);
  } else if constexpr (order == Order::up && size > 2) {
    constexpr int half = size / 2;
    butterfly_signed<half, share, order>(v, signs, stride);
    butterfly_signed<half, share, order>(v + half, signs + half * stride * share, stride);
    unroll<half>([&](auto i) QML_INLINE_LAMBDA {
      constexpr int k = decltype(i)::value;
      const V a = v[k], b = v[k + half];
      v[k] = a + b;
      v[k + half] = a - b;
    });
  } else {
    constexpr int half = size / 2;
    unroll<half>([&](auto i) QML_INLINE_LAMBDA {
      constexpr int k = decltype(i)::value;
      const V sign = spread<real, share>(signs + k * stride * share);
      const V a = v[k], b = v[k + half] * spread<real, share>(signs + (k + half) * stride * share);
      v[k] = fma(a, sign, b);
      v[k + half] = fma(a, sign, -b);
    });
    butterfly<half, order>(v);
    butterfly<half, order>(v + half);
  }
}

template <class V, int distance, int... lane> QML_INLINE V swap_lanes(V v, Indices<lane...>) {
  return __builtin_shufflevector(v, v, (lane ^ distance)...);
}
template <class V, int distance, int... lane> QML_INLINE V lane_signs(Indices<lane...>) {
  return V{((lane & distance) ? -1 : 1)...};
}
// The butterflies between the lanes that share a vector.
template <class real, int share, Order order> QML_INLINE void butterfly_lanes(Vector<real> &v) {
  if constexpr (share > 1) {
    typedef Vector<real> V;
    typedef Counted<lanes_of<real>> Lanes;
    constexpr int distance = share / 2;
    if constexpr (order == Order::up) butterfly_lanes<real, distance, order>(v);
    v = fma(v, lane_signs<V, distance>(Lanes{}), swap_lanes<V, distance>(v, Lanes{}));
    if constexpr (order == Order::down) butterfly_lanes<real, distance, order>(v);
  }
}

constexpr int square_root_of_power(int size) { return size < 4 ? 1 : 2 * square_root_of_power(size / 4); }

template <class real_, int size, int share_ = 1> class Hadamard {
public:
  typedef real_ real;
  typedef Vector<real> V;
  static constexpr int share = share_;
  // This map with every vector shared by more lanes.
  template <int lanes> using Shared = Hadamard<real, size, lanes>;
  // This map in another precision, from the same in that one.
  template <class other> static Hadamard<other, size, share> in(const qml_feature_map &map) {
    return Hadamard<other, size, share>(map);
  }
  static constexpr bool can_be_shared = size >= 64 && size <= 256;

  explicit Hadamard(const qml_feature_map &map)
      : n_transforms(map.n_transforms), count(map.n_frequencies), signs(static_cast<const real *>(map.signs)) {}

  int64_t rank() const { return size; }
  int64_t n_frequencies() const { return count; }
  // The frequencies come in blocks that are computed together.
  int64_t block_size() const { return size; }
  int64_t n_blocks() const { return count / size; }

  // y = H D_n ... H D_1 x, all registers of the block.
  void forward(int64_t block, const V *x, V *y) const;

  // exchange(Index<n>, register, y, gradient) takes n registers of y = H D_n ... H D_1 x at a time and writes a gradient by
  // y, whose product with the transposed map, D_1 H ... D_n H, is added to slope. The way back may be in a wider type, that
  // of the map `back`: then a vector of y is several of the gradient, the lanes in order, each part with its own `size`
  // vectors of scratch and slope. In the same type `back_scratch` may be `scratch`.
  template <class Back, class Exchange>
  QML_INLINE void there_and_back(const Back &back, int64_t block, const V *x, V *scratch,
                                 Vector<typename Back::real> *back_scratch, Vector<typename Back::real> *slope,
                                 Exchange exchange) const {
    constexpr int parts = parts_of<typename Back::real, real>;
    descend(block, x, scratch);
    for (int i = 0; i < outer; ++i) {
      V v[inner];
      Vector<typename Back::real> gradient[parts][inner];
      Inside::load(v, scratch, i);
      Inside::transform(v);
      if constexpr (inner <= at_once) {
        exchange(Index<inner>{}, i * inner, v, gradient);
      } else { // in a loop: unrolled, each of the largest maps would take the compiler half a minute
        for (int k = 0; k < inner; k += at_once) {
          Vector<typename Back::real> some[parts][at_once];
          exchange(Index<at_once>{}, i * inner + k, v + k, some);
          for (int part = 0; part < parts; ++part)
            for (int j = 0; j < at_once; ++j) gradient[part][k + j] = some[part][j];
        }
      }
      for (int part = 0; part < parts; ++part) back.begin_ascent(gradient[part], back_scratch + part * registers, i);
    }
    for (int part = 0; part < parts; ++part) back.ascend(block, back_scratch + part * registers, slope + part * registers);
  }

  // slope += D_1 H ... D_n H gradient, all registers of the block; the gradient is used up.
  void back(int64_t block, V *gradient, V *slope) const;

  QML_INLINE void begin_ascent(V *v, V *scratch, int group) const {
    Inside::transform(v);
    Inside::store(v, scratch, group);
  }
  void ascend(int64_t block, V *scratch, V *slope) const;

private:
  static constexpr int registers = size / share;
  static constexpr int inner = square_root_of_power(registers), outer = registers / inner;
  static constexpr int at_once = 8; // registers whose features are made side by side
  int n_transforms;
  int64_t count;
  const real *signs;

  // One butterfly over all of the block: groups of `width` registers, `stride` apart.
  template <int width, int stride, bool inside> struct Pass {
    static constexpr int groups = registers / width;
    static constexpr int start(int group) { return inside ? group * width : group; }

    static QML_INLINE void load(V *v, const V *from, int group) {
      unroll<width>([&](auto i) QML_INLINE_LAMBDA {
        v[decltype(i)::value] = from[start(group) + decltype(i)::value * stride];
      });
    }
    static QML_INLINE void store(const V *v, V *to, int group) {
      unroll<width>([&](auto i) QML_INLINE_LAMBDA {
        to[start(group) + decltype(i)::value * stride] = v[decltype(i)::value];
      });
    }
    // The butterfly that ends a transform, and the one that begins the next.
    static constexpr Order ending = inside ? Order::down : Order::up, beginning = inside ? Order::up : Order::down;
    static QML_INLINE void transform(V *v) {
      butterfly<width, ending>(v);
      share_lanes<ending>(v);
    }
    static QML_INLINE void transform_signed(V *v, const real *signs, int group) {
      const real *own = signs + start(group) * share;
      if constexpr (inside && share > 1) { // upwards: lanes come first
        unroll<width>([&](auto i) QML_INLINE_LAMBDA {
          v[decltype(i)::value] *= spread<real, share>(own + decltype(i)::value * stride * share);
        });
        share_lanes<beginning>(v);
        butterfly<width, beginning>(v);
      } else {
        butterfly_signed<width, share, beginning>(v, own, stride);
      }
    }
    // Between lanes only inside, where each transform comes by once.
    template <Order order> static QML_INLINE void share_lanes(V *v) {
      if constexpr (inside)
        unroll<width>([&](auto i) QML_INLINE_LAMBDA { butterfly_lanes<real, share, order>(v[decltype(i)::value]); });
    }
    static void begin(const real *signs, const V *x, V *y) {
      for (int group = 0; group < groups; ++group) {
        V v[width];
        load(v, x, group);
        transform_signed(v, signs, group);
        store(v, y, group);
      }
    }
    static void turn(const real *signs, V *y) {
      for (int group = 0; group < groups; ++group) {
        V v[width];
        load(v, y, group);
        transform(v);
        transform_signed(v, signs, group);
        store(v, y, group);
      }
    }
    static void accumulate(const real *signs, const V *y, V *slope) {
      for (int group = 0; group < groups; ++group) {
        V v[width];
        load(v, y, group);
        transform(v);
        unroll<width>([&](auto i) QML_INLINE_LAMBDA {
          const int k = start(group) + decltype(i)::value * stride;
          slope[k] = fma(v[decltype(i)::value], spread<real, share>(signs + k * share), slope[k]);
        });
      }
    }
  };
  typedef Pass<outer, inner, false> Outside;
  typedef Pass<inner, 1, true> Inside;

  const real *sign_row(int64_t block, int t) const { return signs + (block * n_transforms + t) * size; }
  bool begins_outside(int t) const { return (n_transforms - t) % 2 != 0; }

  void turn(int64_t block, int t, V *y) const {
    if (begins_outside(t)) Outside::turn(sign_row(block, t), y);
    else Inside::turn(sign_row(block, t), y);
  }
  void descend(int64_t block, const V *x, V *y) const;
};

// Outside of the class, so that they are not inline: only linear_map.cpp compiles them.
template <class real, int size, int share>
void Hadamard<real, size, share>::forward(int64_t block, const V *x, V *y) const {
  descend(block, x, y);
  for (int i = 0; i < outer; ++i) {
    V v[inner];
    Inside::load(v, y, i);
    Inside::transform(v);
    Inside::store(v, y, i);
  }
}
template <class real, int size, int share>
void Hadamard<real, size, share>::back(int64_t block, V *gradient, V *slope) const {
  for (int i = 0; i < outer; ++i) {
    V v[inner];
    Inside::load(v, gradient, i);
    begin_ascent(v, gradient, i);
  }
  ascend(block, gradient, slope);
}
template <class real, int size, int share>
void Hadamard<real, size, share>::descend(int64_t block, const V *x, V *y) const {
  if (begins_outside(0)) Outside::begin(sign_row(block, 0), x, y);
  else Inside::begin(sign_row(block, 0), x, y);
  for (int t = 1; t < n_transforms; ++t) turn(block, t, y);
}
template <class real, int size, int share>
void Hadamard<real, size, share>::ascend(int64_t block, V *scratch, V *slope) const {
  for (int t = n_transforms - 1; t > 0; --t) turn(block, t, scratch);
  if (begins_outside(0)) Outside::accumulate(sign_row(block, 0), scratch, slope);
  else Inside::accumulate(sign_row(block, 0), scratch, slope);
}

#define QML_HADAMARD_OF_RANKS(extern_template, real)                                                                    \
  extern_template class Hadamard<real, 2>;                                                                             \
  extern_template class Hadamard<real, 4>;                                                                             \
  extern_template class Hadamard<real, 8>;                                                                             \
  extern_template class Hadamard<real, 16>;                                                                            \
  extern_template class Hadamard<real, 32>;                                                                            \
  extern_template class Hadamard<real, 64>;                                                                            \
  extern_template class Hadamard<real, 128>;                                                                           \
  extern_template class Hadamard<real, 256>;                                                                           \
  extern_template class Hadamard<real, 512>;                                                                           \
  extern_template class Hadamard<real, 1024>;
QML_HADAMARD_OF_RANKS(extern template, float)
QML_HADAMARD_OF_RANKS(extern template, double)

} // namespace QML_ISA
} // namespace qml
