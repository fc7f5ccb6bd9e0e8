// Products with an explicit matrix for as many vectors as there are lanes, side by side: the same interface as Hadamard.
#pragma once

#include "qml_lightning.h"
#include "isa/simd.hpp"

namespace qml {
namespace QML_ISA {

template <class real_> class Dense {
public:
  typedef real_ real;
  typedef Vector<real> V;
  static constexpr int share = 1;
  static constexpr bool can_be_shared = false;
  template <class other> static Dense<other> in(const qml_feature_map &map) { return Dense<other>(map); }

  explicit Dense(const qml_feature_map &map)
      : rank_(map.rank), count(map.n_frequencies), matrix(static_cast<const real *>(map.matrix)) {}

  int64_t rank() const { return rank_; }
  int64_t n_frequencies() const { return count; }
  int64_t block_size() const { return 64; }
  int64_t n_blocks() const { return (count + 63) / 64; }

  // y = matrix x, the rows of one block.
  void forward(int64_t block, const V *x, V *y) const {
    each_tile(block, x, [&](auto n, int at, const V *v) QML_INLINE_LAMBDA {
      for (int i = 0; i < decltype(n)::value; ++i) y[at + i] = v[i];
    });
  }

  // exchange(Index<n>, row, y, gradient): as in Hadamard.
  template <class Back, class Exchange>
  void there_and_back(const Back &back, int64_t block, const V *x, V *, Vector<typename Back::real> *back_scratch,
                      Vector<typename Back::real> *slope, Exchange exchange) const {
    constexpr int parts = parts_of<typename Back::real, real>;
    each_tile(block, x, [&](auto n, int at, V *v) QML_INLINE_LAMBDA {
      constexpr int count = decltype(n)::value;
      Vector<typename Back::real> gradient[parts][count];
      exchange(n, at, v, gradient);
      for (int part = 0; part < parts; ++part)
        for (int i = 0; i < count; ++i) back_scratch[part * block_size() + at + i] = gradient[part][i];
    });
    for (int part = 0; part < parts; ++part) back.ascend(block, back_scratch + part * block_size(), slope + part * rank_);
  }

  // consume(Index<n>, row, y): the rows of one block, n at a time.
  template <class Consume> QML_INLINE void each_tile(int64_t block, const V *x, Consume consume) const {
    const int64_t first = block * block_size(), last = end(first);
    int64_t f = first;
    for (; f + tile <= last; f += tile) {
      V y[tile];
      multiply<tile>(matrix + f * rank_, x, y);
      consume(Index<tile>{}, int(f - first), y);
    }
    for (; f < last; ++f) {
      V y[1];
      multiply<1>(matrix + f * rank_, x, y);
      consume(Index<1>{}, int(f - first), y);
    }
  }

  // slope += transposed matrix times gradient, the rows of one block.
  void back(int64_t block, V *gradient, V *slope) const { ascend(block, gradient, slope); }

  void ascend(int64_t block, const V *gradient, V *slope) const {
    const int64_t first = block * block_size(), last = end(first);
    int64_t k = 0;
    for (; k + tile <= rank_; k += tile) multiply_transposed<tile>(first, last, k, gradient, slope);
    for (; k < rank_; ++k) multiply_transposed<1>(first, last, k, gradient, slope);
  }

private:
  static constexpr int tile = 8; // rows held in registers: enough to hide the latency of a multiply-add
  int64_t rank_, count;
  const real *matrix;

  int64_t end(int64_t first) const { return first + block_size() < count ? first + block_size() : count; }

  template <int rows> QML_INLINE void multiply(const real *row, const V *x, V *y) const {
    V sum[rows];
    unroll<rows>([&](auto i) QML_INLINE_LAMBDA { sum[decltype(i)::value] = V{}; });
    for (int64_t k = 0; k < rank_; ++k) {
      const V value = x[k];
      unroll<rows>([&](auto i) QML_INLINE_LAMBDA {
        constexpr int r = decltype(i)::value;
        sum[r] = fma(value, row[r * rank_ + k], sum[r]);
      });
    }
    unroll<rows>([&](auto i) QML_INLINE_LAMBDA { y[decltype(i)::value] = sum[decltype(i)::value]; });
  }

  template <int columns>
  QML_INLINE void multiply_transposed(int64_t first, int64_t last, int64_t k, const V *gradient, V *slope) const {
    V sum[columns];
    unroll<columns>([&](auto i) QML_INLINE_LAMBDA { sum[decltype(i)::value] = slope[k + decltype(i)::value]; });
    for (int64_t f = first; f < last; ++f) {
      const V value = gradient[f - first];
      const real *row = matrix + f * rank_ + k;
      unroll<columns>([&](auto i) QML_INLINE_LAMBDA {
        constexpr int c = decltype(i)::value;
        sum[c] = fma(value, row[c], sum[c]);
      });
    }
    unroll<columns>([&](auto i) QML_INLINE_LAMBDA { slope[k + decltype(i)::value] = sum[decltype(i)::value]; });
  }
};

} // namespace QML_ISA
} // namespace qml
