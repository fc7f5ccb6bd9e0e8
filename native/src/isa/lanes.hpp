// Rows in memory to and from lanes of registers: transposes.
#pragma once

#include "isa/simd.hpp"

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

// The numbers of a and b in turn, `unit` of each at a time: of the lower halves, or of the upper ones.
template <int unit, bool upper, class V, int... lane> QML_INLINE V zipped(V a, V b, Indices<lane...>) {
  constexpr int lanes = sizeof...(lane), first = upper ? lanes / 2 : 0;
  return __builtin_shufflevector(a, b, (lane / unit % 2 * lanes + first + lane / (2 * unit) * unit + lane % unit)...);
}

// to[i * count + c] = v[c][i]: what the vectors have in one lane side by side, for one, two or four of them.
template <int count, class real> QML_INLINE void store_side_by_side(real *to, const Vector<real> (&v)[count]) {
  static_assert((count == 1 || count == 2 || count == 4) && count <= lanes_of<real>, "no such shuffle");
  constexpr int lanes = lanes_of<real>;
  constexpr Counted<lanes> all;
  if constexpr (count == 1) {
    store(to, v[0]);
  } else if constexpr (count == 2) {
    store(to, zipped<1, false>(v[0], v[1], all));
    store(to + lanes, zipped<1, true>(v[0], v[1], all));
  } else {
    const Vector<real> low = zipped<1, false>(v[0], v[1], all), low_next = zipped<1, false>(v[2], v[3], all);
    const Vector<real> high = zipped<1, true>(v[0], v[1], all), high_next = zipped<1, true>(v[2], v[3], all);
    store(to, zipped<2, false>(low, low_next, all));
    store(to + lanes, zipped<2, true>(low, low_next, all));
    store(to + 2 * lanes, zipped<2, false>(high, high_next, all));
    store(to + 3 * lanes, zipped<2, true>(high, high_next, all));
  }
}

// Sum of the lanes, in halves.
template <class real, int lanes = lanes_of<real>> QML_INLINE real sum(Vector<real, lanes> v) {
  if constexpr (lanes == 1) {
    return v[0];
  } else {
    Vector<real, lanes / 2> half[2];
    __builtin_memcpy(half, &v, sizeof(v));
    return sum<real, lanes / 2>(half[0] + half[1]);
  }
}

// Sums of the lanes of four vectors: side by side they take little more than one of them.
template <class real> QML_INLINE void sum_four(const Vector<real> (&v)[4], real (&out)[4]) {
  constexpr int lanes = lanes_of<real>;
  if constexpr (lanes < 4) {
    for (int i = 0; i < 4; ++i) out[i] = sum<real>(v[i]);
  } else {
    constexpr Counted<lanes> all;
    const Vector<real> low = zipped<1, false>(v[0], v[1], all) + zipped<1, true>(v[0], v[1], all);
    const Vector<real> high = zipped<1, false>(v[2], v[3], all) + zipped<1, true>(v[2], v[3], all);
    const Vector<real> four = zipped<2, false>(low, high, all) + zipped<2, true>(low, high, all);
    Vector<real, 4> parts[lanes / 4];
    __builtin_memcpy(parts, &four, sizeof(four));
    for (int part = lanes / 8; part > 0; part /= 2) {
      for (int i = 0; i < part; ++i) parts[i] += parts[i + part];
    }
    __builtin_memcpy(out, parts, sizeof(out));
  }
}

// The lanes of one of `share` equal parts of v, each of them `share` times.
template <int share, int part, class V, int... lane> QML_INLINE V repeated(V v, Indices<lane...>) {
  constexpr int lanes = sizeof...(lane);
  return __builtin_shufflevector(v, v, (part * lanes / share + lane / share)...);
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

// x (count, rank) -> lanes[k][i] = x[i][k]; lanes past `count` repeat the last row, and are to be ignored. Rows begin
// `apart` from each other.
template <class real>
void gather_rows(const real *x, int64_t count, int64_t rank, Vector<real> *out, int64_t apart) {
  const real *row[lanes_of<real>];
  for (int i = 0; i < lanes_of<real>; ++i) row[i] = x + (i < count ? i : count - 1) * apart;
  gather_lanes(row, rank, out);
}
template <class real> void gather_rows(const real *x, int64_t count, int64_t rank, Vector<real> *out) {
  gather_rows(x, count, rank, out, rank);
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

// rows[i][k] += factor * in[k][i] for i < count, k < size, in double; uses up `in`.
template <class real>
__attribute__((noinline)) void add_rows(Vector<real> *in, int64_t size, int count, double factor, double *const *rows) {
  scatter_rows<real>(
      in, size, count, [&](int i, int64_t k, Vector<real> v) QML_INLINE_LAMBDA { add_to(rows[i] + k, v, factor); },
      [&](int i, int64_t k, real value) { rows[i][k] += factor * double(value); });
}

// gather_rows and store_rows for rows shared by `share` lanes each, all lanes in use: element k * share + j in lane j
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
