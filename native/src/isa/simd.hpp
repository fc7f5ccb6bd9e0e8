// A thin layer over the vector extensions of GCC and Clang: one spelling for AVX-512, AVX2, SSE2 and NEON.
//
// Everything lives in the namespace of one instruction set, so that no function compiled for one set can be picked by
// the linker for another. For the same reason no function of the standard library is called from here.
#pragma once

#include <stdint.h>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#if !defined(QML_ISA) || !defined(QML_VECTOR_BYTES)
#error "compile with -DQML_ISA=<instruction set> -DQML_VECTOR_BYTES=<width>"
#endif

#define QML_INLINE inline __attribute__((always_inline))
#define QML_INLINE_LAMBDA __attribute__((always_inline))

namespace qml {
namespace QML_ISA {

template <class real> constexpr int lanes_of = QML_VECTOR_BYTES / int(sizeof(real));

template <class real, int lanes> struct VectorType {
  typedef real type __attribute__((vector_size(lanes * sizeof(real))));
  // may_alias and the weak alignment make this a type to load from and store to any array of reals
  typedef real unaligned __attribute__((vector_size(lanes * sizeof(real)), aligned(sizeof(real)), may_alias));
};

template <class real, int lanes = lanes_of<real>> using Vector = typename VectorType<real, lanes>::type;

template <class real> struct IntegerType;
template <> struct IntegerType<float> { typedef int32_t type; };
template <> struct IntegerType<double> { typedef int64_t type; };
template <class real> using Integer = typename IntegerType<real>::type;

template <class real, int lanes = lanes_of<real>> QML_INLINE Vector<real, lanes> load(const real *from) {
  return *reinterpret_cast<const typename VectorType<real, lanes>::unaligned *>(from);
}

// v, loaded once and kept: left alone, GCC loads again what is multiplied twice.
template <class V> QML_INLINE V kept(V v) {
#if defined(__x86_64__)
  asm("" : "+v"(v));
#endif
  return v;
}

template <class real, int lanes> QML_INLINE void store_lanes(real *to, Vector<real, lanes> v) {
  *reinterpret_cast<typename VectorType<real, lanes>::unaligned *>(to) = v;
}
QML_INLINE void store(float *to, Vector<float> v) { store_lanes<float, lanes_of<float>>(to, v); }
QML_INLINE void store(double *to, Vector<double> v) { store_lanes<double, lanes_of<double>>(to, v); }

template <class real, int lanes = lanes_of<real>> QML_INLINE Vector<real, lanes> broadcast(real value) {
  return value - Vector<real, lanes>{}; // minus, as value + 0 is not value when that is -0
}

// One instruction where the set has it: the files are compiled with -ffp-contract=fast.
template <class V, class W, class X> QML_INLINE V fma(V a, W b, X c) { return a * b + c; }

// 1.5 * 2^23 or 2^52: adding it leaves the integer part in the low bits of the mantissa.
template <class real> constexpr real round_magic = sizeof(real) == 4 ? real(12582912.0) : real(6755399441055744.0);

// Nearest integer, for |v| below 2^22 (float) or 2^51 (double).
template <class real> QML_INLINE Vector<real> nearest(Vector<real> v) {
  const Vector<real> shifted = v + round_magic<real>;
  return shifted - round_magic<real>;
}

// v minus the nearest integer, in [-1/2, 1/2].
template <class real> QML_INLINE Vector<real> fraction(Vector<real> v) {
#if defined(__AVX512DQ__)
  if constexpr (sizeof(real) == 4) return Vector<real>(_mm512_reduce_ps(__m512(v), 0));
  else return Vector<real>(_mm512_reduce_pd(__m512d(v), 0));
#else
  return v - nearest<real>(v);
#endif
}

// A number known to the compiler, to unroll loops whose vectors must stay in registers.
template <int value_> struct Index {
  static constexpr int value = value_;
};

template <int... values> struct Indices {};
template <class Left, int offset, class Right> struct JoinedIndices;
template <int... left, int offset, int... right>
struct JoinedIndices<Indices<left...>, offset, Indices<right...>> {
  typedef Indices<left..., (offset + right)...> type;
};
template <int count> struct CountedIndices {
  typedef typename JoinedIndices<typename CountedIndices<count / 2>::type, count / 2,
                                 typename CountedIndices<count - count / 2>::type>::type type;
};
template <> struct CountedIndices<0> { typedef Indices<> type; };
template <> struct CountedIndices<1> { typedef Indices<0> type; };
template <int count> using Counted = typename CountedIndices<count>::type;

template <class F, int... i> QML_INLINE void unroll_over(F &&f, Indices<i...>) { (f(Index<i>{}), ...); }

// f(Index<0>), f(Index<1>), ..., f(Index<count - 1>)
template <int count, class F> QML_INLINE void unroll(F &&f) { unroll_over(static_cast<F &&>(f), Counted<count>{}); }

// to[0 .. lanes) += factor * v, in double.
QML_INLINE void add_to(double *to, Vector<double> v, double factor) { store(to, fma(v, factor, load<double>(to))); }
template <int first, int... lane>
QML_INLINE void add_part_to(double *to, Vector<float> v, double factor, Indices<lane...>) {
  add_to(to + first, __builtin_convertvector(__builtin_shufflevector(v, v, (first + lane)...), Vector<double>), factor);
}
QML_INLINE void add_to(double *to, Vector<float> v, double factor) {
  constexpr int lanes = lanes_of<double>;
  add_part_to<0>(to, v, factor, Counted<lanes>{});
  add_part_to<lanes>(to, v, factor, Counted<lanes>{});
}

// A vector of `wide` from numbers of the same or a narrower type.
template <class wide, class real> QML_INLINE Vector<wide> load_as(const real *from) {
  if constexpr (sizeof(wide) == sizeof(real)) return load<wide>(from);
  else return __builtin_convertvector((load<real, lanes_of<wide>>(from)), Vector<wide>);
}

// from[0 .. share) over and over until the vector is full. Broadcasting loads cost nothing, but compilers do not see
// them in a shuffle.
template <class real, int share> QML_INLINE Vector<real> spread(const real *from) {
  constexpr int bytes = share * int(sizeof(real));
  if constexpr (share == 1) return broadcast<real>(*from);
  else if constexpr (bytes == QML_VECTOR_BYTES) return load<real>(from);
  else if constexpr (bytes == 8) {
    int64_t both;
    __builtin_memcpy(&both, from, 8);
    return Vector<real>(Vector<int64_t>{} + both);
  }
#if defined(__AVX512DQ__)
  else if constexpr (bytes == 16) return Vector<real>(_mm512_broadcast_f32x4(__m128(load<real, share>(from))));
  else return Vector<real>(_mm512_broadcast_f32x8(__m256(load<real, share>(from))));
#elif defined(__AVX__)
  else return Vector<real>(_mm256_set_m128(__m128(load<real, share>(from)), __m128(load<real, share>(from))));
#endif
}

// Vectors of the wider type that hold the lanes of one of the narrower.
template <class wide, class real> constexpr int parts_of = lanes_of<real> / lanes_of<wide>;

// Vectors in memory, to be read in the wider type, in parts: a load that converts costs no more than a load, where taking
// a register apart costs a shuffle each. Where both types are the same they stay in registers.
template <class wide, class real, int count> struct Parted {
  static constexpr bool same = sizeof(wide) == sizeof(real);
  Vector<real> values[count];

  // Between writing and reading, or compilers take the registers apart.
  QML_INLINE void settle() {
    if constexpr (!same) asm volatile("" : "+m"(values));
  }
  template <int part> QML_INLINE Vector<wide> read(int i) const {
    if constexpr (same) return values[i];
    else return load_as<wide>(reinterpret_cast<const real *>(values + i) + part * lanes_of<wide>);
  }
};

// Sum of the lanes, in double and in a fixed order.
template <class real> QML_INLINE double sum_lanes(Vector<real> v) {
  double sum = 0;
  for (int lane = 0; lane < lanes_of<real>; ++lane) sum += double(v[lane]);
  return sum;
}

} // namespace QML_ISA
} // namespace qml
