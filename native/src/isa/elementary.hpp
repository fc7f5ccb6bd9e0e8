// Elementary functions of all lanes of a vector at once, to within a unit or two in the last place.
#pragma once

#include "isa/simd.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace qml {
namespace QML_ISA {

template <class real> struct UnsignedType;
template <> struct UnsignedType<float> { typedef uint32_t type; };
template <> struct UnsignedType<double> { typedef uint64_t type; };

template <class real> using IntegerVector = Vector<Integer<real>, lanes_of<real>>;
template <class real> using UnsignedVector = Vector<typename UnsignedType<real>::type, lanes_of<real>>;

template <class real> constexpr int mantissa_bits = sizeof(real) == 4 ? 23 : 52;
template <class real> constexpr int exponent_bias = sizeof(real) == 4 ? 127 : 1023;

// ln 2 in two parts; the first has few bits, so that its product with a whole number is exact.
template <class real> constexpr real ln2_high = sizeof(real) == 4 ? real(0.693359375) : real(6.93147180369123816490e-01);
template <class real> constexpr real ln2_low = sizeof(real) == 4 ? real(-2.12194440e-4) : real(1.90821492927058770002e-10);

// c[0] + c[1] x + c[2] x^2 + ..., neighbouring terms first: a short chain of dependent operations, not a long one.
template <int count, class V> QML_INLINE V polynomial_of_pairs(V x, const V *c) {
  if constexpr (count == 1) {
    return c[0];
  } else {
    constexpr int half = (count + 1) / 2;
    V pairs[half];
    unroll<half>([&](auto index) QML_INLINE_LAMBDA {
      constexpr int i = decltype(index)::value;
      if constexpr (2 * i + 1 < count) pairs[i] = fma(c[2 * i + 1], x, c[2 * i]);
      else pairs[i] = c[2 * i];
    });
    return polynomial_of_pairs<half>(V(x * x), pairs);
  }
}
template <class V, class... reals> QML_INLINE V polynomial(V x, reals... coefficients) {
  const V c[] = {(V{} + coefficients)...};
  return polynomial_of_pairs<int(sizeof...(reals))>(x, c);
}

// The range of `power_of_two`: up to here it is not infinite, and from minus this on what it multiplies later is not
// denormal, which would cost a hundred times as much.
template <class real> constexpr real power_of_two_range = real(exponent_bias<real> - 2);
template <class real> constexpr real smallest_power = sizeof(real) == 4 ? real(-90) : real(-900);

// 2^x. Below smallest_power it is 0, above power_of_two_range it stays at that of the end; with `any` false x is promised
// to be in between.
template <class real, bool any = true> QML_INLINE Vector<real> power_of_two(Vector<real> x) {
  constexpr real range = power_of_two_range<real>, lowest = smallest_power<real>;
  Vector<real> bounded = x;
  if constexpr (any) bounded = x < range ? x : broadcast<real>(range);
  const Vector<real> rest = fraction<real>(bounded), whole = bounded - rest;
  Vector<real> mantissa;
  if constexpr (sizeof(real) == 4) {
    mantissa = polynomial(rest, 1.0f, 0.69314718246f, 0.24022650719f, 0.05550327152f, 0.00961805694f, 0.00134004280f,
                          0.00015461445f);
  } else {
    mantissa = polynomial(rest, 1.0, 0.6931471805599453, 0.24022650695910158, 0.055504108664821625,
                          0.009618129107587256, 0.001333355814640647, 0.00015403530463724353, 1.5252733841556773e-05,
                          1.3215432535912375e-06, 1.0178057087733941e-07, 7.074194297288521e-09,
                          4.4558179083360645e-10);
  }
#if QML_VECTOR_BYTES == 64 && defined(__AVX512F__)
  if constexpr (sizeof(real) == 4) {
    if constexpr (!any) return (Vector<real>)_mm512_maskz_scalef_ps(__mmask16(-1), (__m512)mantissa, (__m512)whole);
    const __mmask16 normal = _mm512_cmp_ps_mask((__m512)x, (__m512)broadcast<real>(lowest), _CMP_GT_OQ);
    return (Vector<real>)_mm512_maskz_scalef_ps(normal, (__m512)mantissa, (__m512)whole);
  } else {
    if constexpr (!any) return (Vector<real>)_mm512_maskz_scalef_pd(__mmask8(-1), (__m512d)mantissa, (__m512d)whole);
    const __mmask8 normal = _mm512_cmp_pd_mask((__m512d)x, (__m512d)broadcast<real>(lowest), _CMP_GT_OQ);
    return (Vector<real>)_mm512_maskz_scalef_pd(normal, (__m512d)mantissa, (__m512d)whole);
  }
#else
  // the low bits of a number beside the rounding constant are its whole number: moved to the exponent they multiply by
  // its power of two
  const UnsignedVector<real> exponent = (UnsignedVector<real>)(whole + round_magic<real>) << mantissa_bits<real>;
  const Vector<real> scaled = (Vector<real>)((UnsignedVector<real>)mantissa + exponent);
  if constexpr (!any) return scaled;
  return x > lowest ? scaled : Vector<real>{};
#endif
}

// ln(1 + excess) of a number 1 + excess in [sqrt(1/2), sqrt(2)].
template <class real> QML_INLINE Vector<real> logarithm_near_one(Vector<real> excess) {
  const Vector<real> half_square = real(0.5) * excess * excess;
  if constexpr (sizeof(real) == 4) {
    const Vector<real> tail =
        polynomial(excess, 3.3333331174e-1f, -2.4999993993e-1f, 2.0000714765e-1f, -1.6668057665e-1f, 1.4249322787e-1f,
                   -1.2420140846e-1f, 1.1676998740e-1f, -1.1514610310e-1f, 7.0376836292e-2f);
    return excess - (half_square - tail * excess * excess * excess);
  } else {
    const Vector<real> s = excess / (real(2) + excess), z = s * s;
    const Vector<real> tail =
        z * polynomial(z, 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                       2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                       1.479819860511658591e-01);
    return excess - (half_square - s * (half_square + tail));
  }
}

// x = 2^exponent (1 + excess) with 1 + excess in [sqrt(1/2), sqrt(2)), for a positive normal number.
template <class real> struct Scientific {
  Vector<real> exponent, excess;
};
template <class real> QML_INLINE Scientific<real> scientific(Vector<real> x) {
#if QML_VECTOR_BYTES == 64 && defined(__AVX512F__)
  // whichever way x sqrt(2) rounds beside a power of two, the mantissa that is taken fits the exponent
  const Vector<real> turned = x * real(1.4142135623730951);
  if constexpr (sizeof(real) == 4) {
    const Vector<real> exponent = (Vector<real>)_mm512_maskz_getexp_ps(__mmask16(-1), (__m512)turned);
    const __m512 mantissa = _mm512_maskz_scalef_ps(__mmask16(-1), (__m512)x, (__m512)-exponent);
    return {exponent, (Vector<real>)mantissa - real(1)};
  } else {
    const Vector<real> exponent = (Vector<real>)_mm512_maskz_getexp_pd(__mmask8(-1), (__m512d)turned);
    const __m512d mantissa = _mm512_maskz_scalef_pd(__mmask8(-1), (__m512d)x, (__m512d)-exponent);
    return {exponent, (Vector<real>)mantissa - real(1)};
  }
#else
  constexpr Integer<real> root_half = sizeof(real) == 4 ? Integer<real>(0x3f3504f3) : Integer<real>(0x3fe6a09e667f3bcd);
  constexpr Integer<real> magic = sizeof(real) == 4 ? Integer<real>(0x4b400000) : Integer<real>(0x4338000000000000);
  const IntegerVector<real> bits = (IntegerVector<real>)x;
  const IntegerVector<real> whole = (bits - root_half) >> mantissa_bits<real>;
  const Vector<real> mantissa = (Vector<real>)(bits - (whole << mantissa_bits<real>));
  // a whole number added to the bits of the rounding constant is added to its value: no conversion instruction
  const Vector<real> exponent = (Vector<real>)(whole + magic) - round_magic<real>;
  return {exponent, mantissa - real(1)};
#endif
}

// ln(x) for positive normal x.
template <class real> QML_INLINE Vector<real> logarithm(Vector<real> x) {
  const Scientific<real> parts = scientific<real>(x);
  const Vector<real> near = logarithm_near_one<real>(parts.excess);
  return fma(parts.exponent, ln2_high<real>, fma(parts.exponent, ln2_low<real>, near));
}

// log2(x) for positive normal x, with an absolute error: to be an exponent.
template <class real> QML_INLINE Vector<real> binary_logarithm(Vector<real> x) {
  if constexpr (sizeof(real) == 4) {
    const Scientific<real> parts = scientific<real>(x);
    return fma(parts.excess,
               polynomial(parts.excess, 1.442695f, -0.721347468f, 0.480910753f, -0.360693268f, 0.287903261f,
                          -0.239169881f, 0.216078226f, -0.205861881f, 0.123109685f),
               parts.exponent);
  } else {
    return logarithm<real>(x) * real(1.4426950408889634);
  }
}

// ln(1 + x) for x > 0, also where 1 + x forgets most of x.
template <class real> QML_INLINE Vector<real> logarithm_of_one_plus(Vector<real> x) {
  const Vector<real> sum = x + real(1);
  const Vector<real> lost = x < real(1) ? x - (sum - real(1)) : Vector<real>{};
  return logarithm<real>(sum) + lost / sum;
}

// sqrt(x). The unmasked intrinsics of GCC 12 warn of a variable of their own that is not initialised.
template <class real> QML_INLINE Vector<real> root(Vector<real> x) {
#if QML_VECTOR_BYTES == 64 && defined(__AVX512F__)
  if constexpr (sizeof(real) == 4) return (Vector<real>)_mm512_maskz_sqrt_ps(__mmask16(-1), (__m512)x);
  else return (Vector<real>)_mm512_maskz_sqrt_pd(__mmask8(-1), (__m512d)x);
#elif QML_VECTOR_BYTES == 32 && defined(__AVX__)
  if constexpr (sizeof(real) == 4) return (Vector<real>)_mm256_sqrt_ps((__m256)x);
  else return (Vector<real>)_mm256_sqrt_pd((__m256d)x);
#elif QML_VECTOR_BYTES == 16 && defined(__SSE2__)
  if constexpr (sizeof(real) == 4) return (Vector<real>)_mm_sqrt_ps((__m128)x);
  else return (Vector<real>)_mm_sqrt_pd((__m128d)x);
#else
  Vector<real> out;
  for (int lane = 0; lane < lanes_of<real>; ++lane) {
    out[lane] = sizeof(real) == 4 ? real(__builtin_sqrtf(float(x[lane]))) : real(__builtin_sqrt(double(x[lane])));
  }
  return out;
#endif
}

// 1 / sqrt(x) for positive normal x.
template <class real> QML_INLINE Vector<real> inverse_root(Vector<real> x) {
#if QML_VECTOR_BYTES == 64 && defined(__AVX512F__)
  // an estimate of 14 bits and Newton steps are several times faster than a square root and a division
  Vector<real> y;
  if constexpr (sizeof(real) == 4) y = (Vector<real>)_mm512_maskz_rsqrt14_ps(__mmask16(-1), (__m512)x);
  else y = (Vector<real>)_mm512_maskz_rsqrt14_pd(__mmask8(-1), (__m512d)x);
  for (int step = 0; step < (sizeof(real) == 4 ? 1 : 2); ++step) {
    const Vector<real> error = fma(-(x * y), y, broadcast<real>(1));
    y = fma(real(0.5) * y, error, y);
  }
  return y;
#else
  return real(1) / root<real>(x);
#endif
}

// 1 / x for positive normal x.
template <class real> QML_INLINE Vector<real> reciprocal(Vector<real> x) {
#if QML_VECTOR_BYTES == 64 && defined(__AVX512F__)
  Vector<real> y;
  if constexpr (sizeof(real) == 4) y = (Vector<real>)_mm512_maskz_rcp14_ps(__mmask16(-1), (__m512)x);
  else y = (Vector<real>)_mm512_maskz_rcp14_pd(__mmask8(-1), (__m512d)x);
  for (int step = 0; step < (sizeof(real) == 4 ? 1 : 2); ++step) y = fma(y, fma(-x, y, broadcast<real>(1)), y);
  return y;
#else
  return real(1) / x;
#endif
}

// x y - z where z is the rounded product x y: the rounding error itself. Written with operators the compiler would see
// two equal products, and their difference is 0.
template <class real> QML_INLINE Vector<real> product_rest(Vector<real> x, Vector<real> y, Vector<real> z) {
#if QML_VECTOR_BYTES == 64 && defined(__AVX512F__)
  if constexpr (sizeof(real) == 4) return (Vector<real>)_mm512_fmsub_ps((__m512)x, (__m512)y, (__m512)z);
  else return (Vector<real>)_mm512_fmsub_pd((__m512d)x, (__m512d)y, (__m512d)z);
#elif QML_VECTOR_BYTES == 32 && defined(__FMA__)
  if constexpr (sizeof(real) == 4) return (Vector<real>)_mm256_fmsub_ps((__m256)x, (__m256)y, (__m256)z);
  else return (Vector<real>)_mm256_fmsub_pd((__m256d)x, (__m256d)y, (__m256d)z);
#elif defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF)
  Vector<real> out;
  for (int lane = 0; lane < lanes_of<real>; ++lane) {
    out[lane] = sizeof(real) == 4 ? real(__builtin_fmaf(float(x[lane]), float(y[lane]), -float(z[lane])))
                                  : real(__builtin_fma(double(x[lane]), double(y[lane]), -double(z[lane])));
  }
  return out;
#else
  // Dekker: both factors in halves, whose products are exact
  constexpr real splitter = sizeof(real) == 4 ? real(4097) : real(134217729);
  const Vector<real> wide_x = splitter * x, wide_y = splitter * y;
  const Vector<real> x_high = wide_x - (wide_x - x), y_high = wide_y - (wide_y - y);
  const Vector<real> x_low = x - x_high, y_low = y - y_high;
  return ((x_high * y_high - z) + x_high * y_low + x_low * y_high) + x_low * y_low;
#endif
}

// x^-exponent for positive normal x.
template <class real> QML_INLINE Vector<real> inverse_power(Vector<real> x, real exponent) {
  if constexpr (sizeof(real) == 4) {
    return power_of_two<real>(-exponent * binary_logarithm<real>(x));
  } else {
    // The error of an exponent is that of the power: the part that comes from whole octaves is large, and kept exact.
    const Scientific<real> parts = scientific<real>(x);
    const Vector<real> factor = broadcast<real>(-exponent), octaves = factor * parts.exponent;
    const Vector<real> rest = fma(factor * real(1.4426950408889634), logarithm_near_one<real>(parts.excess),
                                  product_rest<real>(factor, parts.exponent, octaves));
    return power_of_two<real>(octaves) * power_of_two<real>(rest);
  }
}

// sin(pi x / 2) for 0 <= x <= 1.
template <class real> QML_INLINE Vector<real> sine_of_quarter_turns(Vector<real> x) {
  const Vector<real> angle = x * real(1.5707963267948966), square = angle * angle;
  if constexpr (sizeof(real) == 4) {
    return fma(angle * square,
               polynomial(square, -1.0f / 6, 1.0f / 120, -1.0f / 5040, 1.0f / 362880, -1.0f / 39916800,
                          1.0f / 6227020800.0f),
               angle);
  } else {
    return fma(angle * square,
               polynomial(square, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800.0,
                          -1.0 / 1307674368000.0, 1.0 / 355687428096000.0, -1.0 / 121645100408832000.0,
                          1.0 / 51090942171709440000.0),
               angle);
  }
}

} // namespace QML_ISA
} // namespace qml
