// Rows in memory to and from lanes of registers: transposes of squares.
#pragma once

#include "simd.hpp"

namespace qml {
namespace QML_ISA {

template <class V, int half, int... lane> QML_INLINE V low_of(V a, V b, Indices<lane...>) {
  constexpr int lanes = sizeof...(lane);
  return __builtin_shufflevector(a, b, ((lane & half) == 0 ? lane : lanes + lane - half)...);
}
template <class V, int half, int... lane> QML_INLINE V high_of(V a, V b, Indices<lane...>) {
  constexpr int lanes = sizeof...(lane);
  return __builtin_shufflevector(a, b, ((lane & half) == 0 ? lane + half : lanes + lane)...);
}

// v[i][j] <-> v[j][i] for the lanes j of as many vectors: in halves, quarters, ...
template <class real, int half = lanes_of<real> / 2> QML_INLINE void transpose(Vector<real> *v) {
  typedef Vector<real> V;
  constexpr int lanes = lanes_of<real>;
  unroll<lanes>([&](auto index) QML_INLINE_LAMBDA {
    constexpr int i = decltype(index)::value;
    if constexpr ((i & half) == 0) {
      const V a = v[i], b = v[i + half];
      v[i] = low_of<V, half>(a, b, Counted<lanes>{});
      v[i + half] = high_of<V, half>(a, b, Counted<lanes>{});
    }
  });
  if constexpr (half > 1) transpose<real, half / 2>(v);
}

// out[k][i] = row[i][k] for k < rank.
template <class real>
__attribute__((noinline)) void gather_lanes(const real *const *row, int64_t rank, Vector<real> *out) {
  constexpr int lanes = lanes_of<real>;
  int64_t k = 0;
  for (; k + lanes <= rank; k += lanes) {
    Vector<real> v[lanes];
    unroll<lanes>([&](auto i) QML_INLINE_LAMBDA { v[decltype(i)::value] = load<real>(row[decltype(i)::value] + k); });
    transpose<real>(v);
    unroll<lanes>([&](auto i) QML_INLINE_LAMBDA { out[k + decltype(i)::value] = v[decltype(i)::value]; });
  }
  for (; k < rank; ++k)
    for (int i = 0; i < lanes; ++i) out[k][i] = row[i][k];
}

// x (count, rank) -> lanes[k][i] = x[i][k]; lanes past `count` repeat the last row, and are to be ignored.
template <class real> void gather_rows(const real *x, int64_t count, int64_t rank, Vector<real> *out) {
  const real *row[lanes_of<real>];
  for (int i = 0; i < lanes_of<real>; ++i) row[i] = x + (i < count ? i : count - 1) * rank;
  gather_lanes(row, rank, out);
}

// in[k + i][j] <-> in[k + j][i] in each whole square of the first `size` vectors; how many those are.
template <class real> QML_INLINE int64_t transpose_squares(Vector<real> *in, int64_t size) {
  constexpr int lanes = lanes_of<real>;
  const int64_t whole = size / lanes * lanes;
  for (int64_t k = 0; k < whole; k += lanes) {
    Vector<real> v[lanes];
    unroll<lanes>([&](auto i) QML_INLINE_LAMBDA { v[decltype(i)::value] = in[k + decltype(i)::value]; });
    transpose<real>(v);
    unroll<lanes>([&](auto i) QML_INLINE_LAMBDA { in[k + decltype(i)::value] = v[decltype(i)::value]; });
  }
  return whole;
}

// The other way, row by row: vectors(i, k, v) gets the values k, k + 1, ... of lane i, and singles(i, k, value) one of
// those left over where `size` is no multiple of the width. Squares are transposed in place, so that each row can be
// written in one go: rows that lie a power of two apart fight for the same places in the cache.
template <class real, class Vectors, class Singles>
QML_INLINE void scatter_rows(Vector<real> *in, int64_t size, int count, Vectors vectors, Singles singles) {
  constexpr int lanes = lanes_of<real>;
  const int64_t whole = transpose_squares<real>(in, size);
  for (int i = 0; i < count; ++i) {
    for (int64_t k = 0; k < whole; k += lanes) vectors(i, k, in[k + i]);
    for (int64_t k = whole; k < size; ++k) singles(i, k, in[k][i]);
  }
}

// rows[i * stride + k] = in[k][i] for i < count, k < size; uses up `in`.
template <class real>
__attribute__((noinline)) void store_rows(Vector<real> *in, int64_t size, int count, real *rows, int64_t stride) {
  scatter_rows<real>(
      in, size, count, [&](int i, int64_t k, Vector<real> v) { store(rows + i * stride + k, v); },
      [&](int i, int64_t k, real value) { rows[i * stride + k] = value; });
}

// rows[i][k] += in[k][i] for i < count, k < size, in double; uses up `in`.
template <class real>
__attribute__((noinline)) void add_rows(Vector<real> *in, int64_t size, int count, double *const *rows) {
  scatter_rows<real>(
      in, size, count, [&](int i, int64_t k, Vector<real> v) QML_INLINE_LAMBDA { add_to(rows[i] + k, v); },
      [&](int i, int64_t k, real value) { rows[i][k] += double(value); });
}

// As gather_rows and store_rows for rows shared by `share` lanes each, all lanes in use: element k * share + j in lane j
// of its share.
template <class real>
void gather_shared(const real *x, int64_t count, int64_t rank, int share, Vector<real> *out) {
  if (share == 1) return gather_rows(x, count, rank, out);
  real *lane = reinterpret_cast<real *>(out);
  for (int64_t k = 0; k < rank; k += share)
    for (int i = 0; i < lanes_of<real> / share; ++i)
      for (int j = 0; j < share; ++j) *lane++ = x[i * rank + k + j];
}
template <class real> void store_shared(Vector<real> *in, int64_t rank, int count, int share, real *rows) {
  if (share == 1) return store_rows<real>(in, rank, count, rows, rank);
  const real *lane = reinterpret_cast<const real *>(in);
  for (int64_t k = 0; k < rank; k += share)
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < share; ++j) rows[i * rank + k + j] = *lane++;
}

} // namespace QML_ISA
} // namespace qml
