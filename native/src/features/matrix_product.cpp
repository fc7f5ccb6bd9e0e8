// Matrix products with a matrix that was packed beforehand: projections and their transposes.
//
// The packed matrix lies in panels of two vectors of columns (the last one may be a single vector), each panel row after
// row and padded with zeros. A tile of rows times a panel stays in registers while it sums over the depth.
#include "features/feature_map.hpp"

namespace qml {
namespace QML_ISA {
namespace {

// 24 or 12 sums, two vectors of the panel and a broadcast: as many as there are registers.
constexpr int tile_rows = QML_VECTOR_BYTES == 64 ? 12 : 6;

template <class real> constexpr int64_t panel_columns = 2 * lanes_of<real>;

template <class real> int64_t padded(int64_t columns) { return ceil_divide(columns, lanes_of<real>) * lanes_of<real>; }

template <int rows, int vectors, class real>
void multiply_tile(const real *a, int64_t depth, const real *panel, real *c, int64_t columns, int64_t filled) {
  typedef Vector<real> V;
  constexpr int lanes = lanes_of<real>;
  V sum[rows][vectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    V b[vectors];
    unroll<vectors>([&](auto v) QML_INLINE_LAMBDA {
      b[decltype(v)::value] = load<real>(panel + (k * vectors + decltype(v)::value) * lanes);
    });
    unroll<rows>([&](auto r) QML_INLINE_LAMBDA {
      constexpr int row = decltype(r)::value;
      const V value = broadcast<real>(a[row * depth + k]);
      unroll<vectors>([&](auto v) QML_INLINE_LAMBDA {
        constexpr int column = decltype(v)::value;
        sum[row][column] = fma(value, b[column], sum[row][column]);
      });
    });
  }
  unroll<rows>([&](auto r) QML_INLINE_LAMBDA {
    constexpr int row = decltype(r)::value;
    real *to = c + row * columns;
    if (filled == vectors * lanes) {
      unroll<vectors>([&](auto v) QML_INLINE_LAMBDA {
        store(to + decltype(v)::value * lanes, sum[row][decltype(v)::value]);
      });
    } else {
      for (int64_t i = 0; i < filled; ++i) to[i] = sum[row][i / lanes][i % lanes];
    }
  });
}

// multiply_tile of the number of rows and vectors that there are
template <int most, class real>
void multiply(int64_t rows, const real *a, int64_t depth, const real *panel, real *c, int64_t columns, int64_t filled) {
  if (rows == most) {
    if (filled > lanes_of<real>) multiply_tile<most, 2>(a, depth, panel, c, columns, filled);
    else multiply_tile<most, 1>(a, depth, panel, c, columns, filled);
  } else if constexpr (most > 1) {
    multiply<most - 1>(rows, a, depth, panel, c, columns, filled);
  }
}

} // namespace

template <class real> int64_t packed_size(int64_t depth, int64_t columns) { return depth * padded<real>(columns); }

template <class real>
void pack(int64_t depth, int64_t columns, const double *b, int64_t row_stride, int64_t column_stride, real *packed) {
  for (int64_t first = 0; first < columns; first += panel_columns<real>) {
    const int64_t width = smaller(panel_columns<real>, padded<real>(columns - first));
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t i = 0; i < width; ++i)
        *packed++ = first + i < columns ? real(b[k * row_stride + (first + i) * column_stride]) : real(0);
  }
}

template <class real>
void matrix_product(int64_t depth, int64_t columns, int64_t n_products, const Product<real> *products, int threads) {
  const int64_t n_panels = ceil_divide(columns, panel_columns<real>);
  int64_t n_tiles = 0, n_rows = 0;
  for (int64_t i = 0; i < n_products; ++i) {
    n_tiles += ceil_divide(products[i].rows, tile_rows);
    n_rows += products[i].rows;
  }
  threads = useful_threads(threads, n_rows * columns * depth / lanes_of<real> / 8);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t task = 0; task < n_tiles * n_panels; ++task) {
    int64_t tile = task / n_panels;
    const Product<real> *product = products;
    for (; tile >= ceil_divide(product->rows, tile_rows); ++product) tile -= ceil_divide(product->rows, tile_rows);
    const int64_t first_row = tile * tile_rows, first_column = task % n_panels * panel_columns<real>;
    multiply<tile_rows>(smaller(tile_rows, product->rows - first_row), product->a + first_row * depth, depth,
                        product->packed + first_column * depth, product->c + first_row * columns + first_column,
                        columns, smaller(panel_columns<real>, columns - first_column));
  }
}

void add_matrix_product(Kernels &to) {
  to.f32.packed_size = packed_size<float>, to.f64.packed_size = packed_size<double>;
  to.f32.pack = pack<float>, to.f64.pack = pack<double>;
  to.f32.matrix_product = matrix_product<float>, to.f64.matrix_product = matrix_product<double>;
}

} // namespace QML_ISA
} // namespace qml
