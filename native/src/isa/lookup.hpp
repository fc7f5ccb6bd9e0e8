// A table of a few numbers, looked up by every lane on its own.
#pragma once

#include "isa/elementary.hpp"

namespace qml {
namespace QML_ISA {

// Numbers in a table: as many as one instruction can look up, or two.
template <class real> constexpr int table_size = QML_VECTOR_BYTES == 64 && sizeof(real) == 4 ? 32 : 16;

// table[index % table_size]
template <class real> QML_INLINE Vector<real> lookup(const real *table, IntegerVector<real> index) {
#if QML_VECTOR_BYTES == 64 && defined(__AVX512F__)
  if constexpr (sizeof(real) == 4) {
    return (Vector<real>)_mm512_permutex2var_ps((__m512)load(table), (__m512i)index, (__m512)load(table + 16));
  } else {
    return (Vector<real>)_mm512_permutex2var_pd((__m512d)load(table), (__m512i)index, (__m512d)load(table + 8));
  }
#elif QML_VECTOR_BYTES == 32 && defined(__AVX2__)
  if constexpr (sizeof(real) == 4) {
    const __m256 low = _mm256_permutevar8x32_ps((__m256)load(table), (__m256i)index);
    const __m256 high = _mm256_permutevar8x32_ps((__m256)load(table + 8), (__m256i)index);
    return (Vector<real>)_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32((__m256i)index, 28)));
  } else {
    const __m256i inside = _mm256_and_si256((__m256i)index, _mm256_set1_epi64x(table_size<real> - 1));
    return (Vector<real>)_mm256_i64gather_pd(table, inside, 8);
  }
#else
  Vector<real> out;
  for (int lane = 0; lane < lanes_of<real>; ++lane) out[lane] = table[index[lane] & (table_size<real> - 1)];
  return out;
#endif
}

} // namespace QML_ISA
} // namespace qml
