// Rows of derivatives times a projection: the matrix product of the projected Jacobian.
#pragma once

#include "isa/centres.hpp"

namespace qml {
namespace QML_ISA {

template <class real, class io> QML_INLINE void store_as(io *to, Vector<real> v) {
  store_lanes<io, lanes_of<real>>(to, __builtin_convertvector(v, Vector<io, lanes_of<real>>));
}

// Derivatives of the representation by the positions of neighbours of one element, three rows each, and for every
// column where its row of the projection begins. Columns that vanish for that element do not appear.
template <class real> struct Derivatives {
  static constexpr int64_t most = 32; // neighbours at a time
  int64_t depth, stride;
  real *rows;          // (most, 3, stride), of each row `depth` numbers
  int64_t *column;     // (depth)

  Derivatives(int64_t deepest, ScratchArena &arena) : depth(0) {
    stride = whole_vectors<real>(deepest) + lanes_of<real>; // room for the padding of the last piece
    rows = arena.take<real>(most * 3 * stride);
    column = arena.take<int64_t>(deepest);
  }

  real *row(int64_t neighbour, int axis) const { return rows + (neighbour * 3 + axis) * stride; }

  // out[pair[i]] (3, rank), of it the first `used` columns, = rows of neighbour i times the projection, for i < count.
  template <class io>
  void project(int64_t count, const int64_t *pair, const io *projection, int64_t used, int64_t rank, io *out) const {
    // as many vectors of columns as leave the accumulators of two neighbours in registers
    constexpr int wide = QML_VECTOR_BYTES == 64 ? 4 : 2, lanes = lanes_of<real>;
    int64_t first = 0;
    for (; first + wide * lanes <= used; first += wide * lanes) {
      columns<wide>(count, pair, projection, rank, out, first, lanes);
    }
    for (; first + lanes <= used; first += lanes) columns<1>(count, pair, projection, rank, out, first, lanes);
    if (first < used) columns<1>(count, pair, projection, rank, out, first, int(used - first));
  }

private:
  template <int vectors, class io>
  void columns(int64_t count, const int64_t *pair, const io *projection, int64_t rank, io *out, int64_t first,
               int valid) const {
    int64_t i = 0;
    for (; i + 2 <= count; i += 2) tile<2, vectors>(i, pair, projection + first, rank, out + first, valid);
    if (i < count) tile<1, vectors>(i, pair, projection + first, rank, out + first, valid);
  }

  template <int neighbours, int vectors, class io>
  void tile(int64_t i, const int64_t *pair, const io *projection, int64_t rank, io *out, int valid) const {
    constexpr int lanes = lanes_of<real>;
    Vector<real> sums[neighbours][3][vectors] = {};
    const real *from[neighbours];
    for (int n = 0; n < neighbours; ++n) from[n] = row(i + n, 0);
    const int64_t apart = stride;
    for (int64_t d = 0; d < depth; ++d) {
      const io *factor = projection + column[d];
      Vector<real> factors[vectors];
      for (int v = 0; v < vectors; ++v) factors[v] = partial_load(factor + v * lanes, vectors > 1 ? lanes : valid);
      for (int n = 0; n < neighbours; ++n) {
        for (int axis = 0; axis < 3; ++axis) {
          for (int v = 0; v < vectors; ++v) sums[n][axis][v] += from[n][axis * apart] * factors[v];
        }
        ++from[n];
        // one pointer per neighbour: left alone, the compiler keeps one per row and runs out of registers
        asm("" : "+r"(from[n]));
      }
    }
    for (int n = 0; n < neighbours; ++n) {
      for (int axis = 0; axis < 3; ++axis) {
        io *to = out + (pair[i + n] * 3 + axis) * rank;
        for (int v = 0; v < vectors; ++v) {
          partial_store(to + v * lanes, sums[n][axis][v], vectors > 1 ? lanes : valid);
        }
      }
    }
  }

  template <class io> static QML_INLINE Vector<real> partial_load(const io *from, int valid) {
    if (valid == lanes_of<real>) return load_as<real>(from);
    Vector<real> out = {};
    for (int lane = 0; lane < valid; ++lane) out[lane] = real(from[lane]);
    return out;
  }
  template <class io> static QML_INLINE void partial_store(io *to, Vector<real> v, int valid) {
    if (valid == lanes_of<real>) return store_as<real>(to, v);
    for (int lane = 0; lane < valid; ++lane) to[lane] = io(v[lane]);
  }
};

} // namespace QML_ISA
} // namespace qml
