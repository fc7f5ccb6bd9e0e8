// Products of matrices that fit into the first level of the cache.
#pragma once

#include "isa/simd.hpp"

namespace qml {
namespace QML_ISA {
namespace density {

// A matrix as it lies in memory: element (i, k) is at[i * row + k * column].
template <class real> struct Matrix {
  const real *at;
  int64_t row, column;
};

template <int rows, int vectors, class real>
QML_INLINE void product_tile(int64_t depth, Matrix<real> a, const real *b, int64_t b_row, real *c, int64_t c_row,
                             bool add) {
  constexpr int lanes = lanes_of<real>;
  Vector<real> sum[rows][vectors];
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < vectors; ++v) sum[i][v] = add ? load(c + i * c_row + v * lanes) : Vector<real>{};
  for (int64_t k = 0; k < depth; ++k) {
    Vector<real> factor[vectors];
    for (int v = 0; v < vectors; ++v) factor[v] = load(b + k * b_row + v * lanes);
    for (int i = 0; i < rows; ++i) {
      const Vector<real> value = broadcast<real>(a.at[i * a.row + k * a.column]);
      for (int v = 0; v < vectors; ++v) sum[i][v] = fma(value, factor[v], sum[i][v]);
    }
  }
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < vectors; ++v) store(c + i * c_row + v * lanes, sum[i][v]);
}

template <int vectors, class real>
void product_panel(int64_t rows, int64_t depth, Matrix<real> a, const real *b, int64_t b_row, real *c, int64_t c_row,
                   bool add) {
  constexpr int most = vectors == 1 ? 8 : 4; // sums that fit into the registers
  for (; rows >= most; rows -= most, a.at += most * a.row, c += most * c_row)
    product_tile<most, vectors>(depth, a, b, b_row, c, c_row, add);
  if (most > 4 && rows >= 4) {
    product_tile<4, vectors>(depth, a, b, b_row, c, c_row, add);
    rows -= 4, a.at += 4 * a.row, c += 4 * c_row;
  }
  if (rows >= 2) {
    product_tile<2, vectors>(depth, a, b, b_row, c, c_row, add);
    rows -= 2, a.at += 2 * a.row, c += 2 * c_row;
  }
  if (rows) product_tile<1, vectors>(depth, a, b, b_row, c, c_row, add);
}

// c (rows, columns) = a (rows, depth) b (depth, columns), or that added to c. Columns are whole vectors.
template <class real>
void product(int64_t rows, int64_t depth, int64_t columns, Matrix<real> a, const real *b, int64_t b_row, real *c,
             int64_t c_row, bool add = false) {
  constexpr int lanes = lanes_of<real>, wide = QML_VECTOR_BYTES == 64 ? 4 : 2;
  int64_t first = 0;
  for (; first + wide * lanes <= columns; first += wide * lanes)
    product_panel<wide>(rows, depth, a, b + first, b_row, c + first, c_row, add);
  // what is left in one panel: each entry of a is read once for all of its vectors
  switch ((columns - first) / lanes) {
  case 3: return product_panel<3>(rows, depth, a, b + first, b_row, c + first, c_row, add);
  case 2: return product_panel<2>(rows, depth, a, b + first, b_row, c + first, c_row, add);
  case 1: return product_panel<1>(rows, depth, a, b + first, b_row, c + first, c_row, add);
  }
}

} // namespace density
} // namespace QML_ISA
} // namespace qml
