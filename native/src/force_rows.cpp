// Derivatives of the features along tangents, added up by row: the force rows of a fit.
//
// A thread owns a tile of columns, so nothing is shared and the order of the sums is that of the tangents. Within a
// tile it takes as many owners as there are lanes, keeps their slopes, then runs through their tangents, again as many
// at once as there are lanes: the rows of one molecule stay in cache while its tangents pass.
#include "feature_map.hpp"

namespace qml {
namespace QML_ISA {
namespace {

template <class real> struct Job {
  const qml_feature_map &map;
  int64_t n_atoms;
  const real *x;
  int64_t n_tangents;
  const real *tangents;
  const int64_t *owner, *row;
  int64_t first, last;
  real *out;
  int64_t stride;
};

// The columns of one tile; `begin` and `end` are frequencies.
template <class real> struct Tile {
  int64_t first_block, last_block, begin, end;
  Vector<real> *input, *scratch, *products;
  real *slopes; // (1 + paired, lanes, end - begin), by the linear product y
};

template <class real> constexpr int64_t frequencies_per_tile = 4096 / int64_t(sizeof(real));

// consume(column of the tile, count, offset in the block): the part of a block that lies within the tile.
template <class real, class Map, class Consume>
QML_INLINE void visit(const Map &map, const Tile<real> &tile, int64_t block, Consume consume) {
  const int64_t start = block * map.block_size(), begin = larger(tile.begin, start);
  consume(begin - tile.begin, smaller(tile.end, start + map.block_size()) - begin, begin - start);
}

template <class real, class Map>
void slopes_of_owners(const Job<real> &job, const Map &map, const Frequencies<real> &frequencies,
                      const Tile<real> &tile, int64_t first_atom) {
  typedef Vector<real> V;
  constexpr int lanes = lanes_of<real>;
  const bool paired = job.map.paired;
  const real amplitude = real(job.map.amplitude);
  const int64_t width = tile.end - tile.begin;
  const int count = int(smaller(lanes, job.n_atoms - first_atom));
  V *cosine_part = tile.products, *sine_part = tile.products + map.block_size();
  gather_rows(job.x + first_atom * map.rank(), count, map.rank(), tile.input);
  for (int64_t block = tile.first_block; block < tile.last_block; ++block) {
    const int64_t start = block * map.block_size();
    map.forward(block, tile.input, tile.scratch, [&](auto size, int at, V *v) QML_INLINE_LAMBDA {
      unroll<decltype(size)::value>([&](auto i) QML_INLINE_LAMBDA {
        const int k = at + decltype(i)::value;
        const Turns<real> angle = frequencies.angle_of(v[decltype(i)::value], start + k);
        const real scale = amplitude * frequencies.scale[start + k];
        cosine_part[k] = sine_of<real>(angle) * -scale;
        if (paired) sine_part[k] = cosine_of<real>(angle) * scale;
      });
    });
    visit(map, tile, block, [&](int64_t column, int64_t size, int64_t offset) {
      store_rows<real>(cosine_part + offset, size, count, tile.slopes + column, width);
      if (paired)
        store_rows<real>(sine_part + offset, size, count, tile.slopes + lanes * width + column, width);
    });
  }
}

// Where the columns of a tile begin, for each of a group of tangents.
template <class real> struct Rows {
  real *out[lanes_of<real>];
  const real *slopes[lanes_of<real>];
  int64_t sine_columns, sine_slopes; // from the cosine part to the sine part
};

// out += slope * product, for `size` columns.
template <bool paired, class real>
__attribute__((noinline)) void add_products(Vector<real> *products, int64_t size, int count, int64_t column,
                                            const Rows<real> &rows) {
  scatter_rows<real>(
      products, size, count,
      [&](int i, int64_t k, Vector<real> v) QML_INLINE_LAMBDA {
        real *to = rows.out[i] + column + k;
        const real *slope = rows.slopes[i] + column + k;
        store(to, fma(v, load<real>(slope), load<real>(to)));
        if constexpr (paired) {
          to += rows.sine_columns;
          store(to, fma(v, load<real>(slope + rows.sine_slopes), load<real>(to)));
        }
      },
      [&](int i, int64_t k, real value) QML_INLINE_LAMBDA {
        real *to = rows.out[i] + column + k;
        const real *slope = rows.slopes[i] + column + k;
        *to += value * *slope;
        if constexpr (paired) to[rows.sine_columns] += value * slope[rows.sine_slopes];
      });
}

template <class real, class Map>
void add_tangents(const Job<real> &job, const Map &map, const Tile<real> &tile, int64_t first_atom,
                  int64_t first_tangent, int count) {
  typedef Vector<real> V;
  const int64_t width = tile.end - tile.begin;
  Rows<real> rows;
  rows.sine_columns = job.last - job.first, rows.sine_slopes = lanes_of<real> * width;
  for (int i = 0; i < count; ++i) {
    rows.out[i] = job.out + job.row[first_tangent + i] * job.stride + (tile.begin - job.first);
    rows.slopes[i] = tile.slopes + (job.owner[first_tangent + i] - first_atom) * width;
  }
  gather_rows(job.tangents + first_tangent * map.rank(), count, map.rank(), tile.input);
  for (int64_t block = tile.first_block; block < tile.last_block; ++block) {
    map.forward(block, tile.input, tile.scratch, [&](auto size, int at, V *v) QML_INLINE_LAMBDA {
      unroll<decltype(size)::value>(
          [&](auto i) QML_INLINE_LAMBDA { tile.products[at + decltype(i)::value] = v[decltype(i)::value]; });
    });
    visit(map, tile, block, [&](int64_t column, int64_t size, int64_t offset) {
      if (job.map.paired) add_products<true, real>(tile.products + offset, size, count, column, rows);
      else add_products<false, real>(tile.products + offset, size, count, column, rows);
    });
  }
}

template <class real, class Map>
void fill_tile(const Job<real> &job, const Map &map, const Frequencies<real> &frequencies, const Tile<real> &tile) {
  constexpr int64_t lanes = lanes_of<real>;
  for (int64_t t = 0; t < job.n_tangents;) {
    const int64_t first_atom = job.owner[t];
    slopes_of_owners(job, map, frequencies, tile, first_atom);
    int64_t end = t;
    while (end < job.n_tangents && job.owner[end] < first_atom + lanes) ++end;
    for (; t < end; t += smaller(lanes, end - t))
      add_tangents(job, map, tile, first_atom, t, int(smaller(lanes, end - t)));
  }
}

} // namespace

template <class real>
void force_rows(const qml_feature_map &given, int64_t n_atoms, const real *x, int64_t n_tangents, const real *tangents,
                const int64_t *owner, const int64_t *row, int64_t, int64_t first, int64_t last, real *out,
                int64_t stride, int threads) {
  if (n_tangents == 0 || first == last) return;
  const Job<real> job{given, n_atoms, x, n_tangents, tangents, owner, row, first, last, out, stride};
  with_linear_map<real>(given, [&](const auto &map) {
    typedef Vector<real> V;
    const int64_t first_block = first / map.block_size(), n_blocks = ceil_divide(last, map.block_size()) - first_block;
    const int n_threads = useful_threads(threads, n_tangents * (last - first));
    const int64_t blocks = larger(1, smaller(frequencies_per_tile<real> / map.block_size(), n_blocks / n_threads));
    const int64_t n_tiles = ceil_divide(n_blocks, blocks), n_slopes = 2 * lanes_of<real> * blocks * map.block_size();
    const int64_t held = map.rank() + 3 * map.block_size();
    Arena arena(workspace(Frequencies<real>::bytes(given) + Arena::bytes<V>(n_threads * held) +
                          Arena::bytes<real>(n_threads * n_slopes)));
    const Frequencies<real> frequencies(given, arena);
    frequencies.fill(given, 0, given.n_frequencies);
    V *vectors = arena.take<V>(n_threads * held);
    real *slopes = arena.take<real>(n_threads * n_slopes);

#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
    for (int64_t i = 0; i < n_tiles; ++i) {
      Tile<real> tile;
      tile.first_block = first_block + i * blocks;
      tile.last_block = smaller(tile.first_block + blocks, first_block + n_blocks);
      tile.begin = larger(first, tile.first_block * map.block_size());
      tile.end = smaller(last, tile.last_block * map.block_size());
      tile.input = vectors + thread_number() * held;
      tile.scratch = tile.input + map.rank();
      tile.products = tile.scratch + map.block_size();
      tile.slopes = slopes + thread_number() * n_slopes;
      fill_tile(job, map, frequencies, tile);
    }
  });
}

template void force_rows<float>(const qml_feature_map &, int64_t, const float *, int64_t, const float *,
                                const int64_t *, const int64_t *, int64_t, int64_t, int64_t, float *, int64_t, int);
template void force_rows<double>(const qml_feature_map &, int64_t, const double *, int64_t, const double *,
                                 const int64_t *, const int64_t *, int64_t, int64_t, int64_t, double *, int64_t, int);

} // namespace QML_ISA
} // namespace qml
