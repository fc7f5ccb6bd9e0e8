// Derivatives of the features along tangents, added up by row: the force rows of a fit.
//
// A thread owns a tile of columns, so nothing is shared and the order of the sums is always the same. Within a tile it
// takes a group of owners, keeps their slopes, then runs through their tangents, as many at once as there are lanes.
// Tangents of a group come row by row, so that those of one row are summed in registers, and memory is touched once.
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
  const int64_t *owner, *row, *order;
  double *out;
  int64_t stride;
};

// The columns of one tile; `begin` and `end` are frequencies.
template <class real> struct Tile {
  int64_t first_block, last_block, begin, end;
  Vector<real> *input, *scratch, *products;
  real *slopes; // (1 + paired, owners_in_group, end - begin), by the linear product y
};

constexpr int64_t frequencies_per_tile = 512;

// `slopes`: those of first_atom, for the whole width of the tile.
template <class real, class Map>
void slopes_of_owners(const Job<real> &job, const Map &map, const Frequencies<real> &frequencies,
                      const Tile<real> &tile, int64_t first_atom, real *slopes) {
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
    real *to = slopes + (start - tile.begin);
    const int64_t size = smaller(map.block_size(), tile.end - start);
    store_rows<real>(cosine_part, size, count, to, width);
    if (paired) store_rows<real>(sine_part, size, count, to + owners_in_group * width, width);
  }
}

// Where the columns of a tile begin, for each of a group of tangents.
template <class real> struct Rows {
  double *out[lanes_of<real>];
  const real *slopes[lanes_of<real>];
  int64_t sine_columns, sine_slopes; // from the cosine part to the sine part
};

// out += sum of slope * product over the tangents of each row, for `size` columns.
template <bool paired, class real>
__attribute__((noinline)) void add_products(Vector<real> *products, int64_t size, int count, int64_t column,
                                            const Rows<real> &rows) {
  typedef Vector<real> V;
  const int64_t whole = transpose_squares<real>(products, size);
  for (int i = 0, end; i < count; i = end) {
    double *to = rows.out[i] + column, *sine_to = to + rows.sine_columns;
    for (end = i + 1; end < count && rows.out[end] == rows.out[i];) ++end;
    for (int64_t k = 0; k < whole; k += lanes_of<real>) {
      V cosine{}, sine{};
      for (int j = i; j < end; ++j) {
        const real *slope = rows.slopes[j] + column + k;
        cosine = fma(products[k + j], load<real>(slope), cosine);
        if constexpr (paired) sine = fma(products[k + j], load<real>(slope + rows.sine_slopes), sine);
      }
      add_to(to + k, cosine);
      if constexpr (paired) add_to(sine_to + k, sine);
    }
    for (int64_t k = whole; k < size; ++k)
      for (int j = i; j < end; ++j) {
        const real *slope = rows.slopes[j] + column + k;
        to[k] += products[k][j] * *slope;
        if constexpr (paired) sine_to[k] += products[k][j] * slope[rows.sine_slopes];
      }
  }
}

template <class real, class Map>
void add_tangents(const Job<real> &job, const Map &map, const Tile<real> &tile, int64_t first_atom,
                  const int64_t *tangents, int count) {
  typedef Vector<real> V;
  constexpr int lanes = lanes_of<real>;
  const int64_t width = tile.end - tile.begin;
  const real *vector[lanes];
  for (int i = 0; i < lanes; ++i) vector[i] = job.tangents + tangents[smaller(i, count - 1)] * map.rank();
  Rows<real> rows;
  rows.sine_columns = job.map.n_frequencies, rows.sine_slopes = owners_in_group * width;
  for (int i = 0; i < count; ++i) {
    rows.out[i] = job.out + job.row[tangents[i]] * job.stride + tile.begin;
    rows.slopes[i] = tile.slopes + (job.owner[tangents[i]] - first_atom) * width;
  }
  gather_lanes(vector, map.rank(), tile.input);
  for (int64_t block = tile.first_block; block < tile.last_block; ++block) {
    map.forward(block, tile.input, tile.scratch, [&](auto size, int at, V *v) QML_INLINE_LAMBDA {
      unroll<decltype(size)::value>(
          [&](auto i) QML_INLINE_LAMBDA { tile.products[at + decltype(i)::value] = v[decltype(i)::value]; });
    });
    const int64_t column = block * map.block_size() - tile.begin, size = smaller(map.block_size(), width - column);
    if (job.map.paired) add_products<true, real>(tile.products, size, count, column, rows);
    else add_products<false, real>(tile.products, size, count, column, rows);
  }
}

template <class real, class Map>
void fill_tile(const Job<real> &job, const Map &map, const Frequencies<real> &frequencies, const Tile<real> &tile) {
  constexpr int64_t lanes = lanes_of<real>;
  for (int64_t t = 0; t < job.n_tangents;) {
    const int64_t first_atom = job.owner[job.order[t]] / owners_in_group * owners_in_group;
    const int64_t last_atom = smaller(first_atom + owners_in_group, job.n_atoms);
    for (int64_t atom = first_atom; atom < last_atom; atom += lanes)
      slopes_of_owners(job, map, frequencies, tile, atom, tile.slopes + (atom - first_atom) * (tile.end - tile.begin));
    int64_t end = t;
    while (end < job.n_tangents && job.owner[job.order[end]] < last_atom) ++end;
    for (; t < end; t += smaller(lanes, end - t))
      add_tangents(job, map, tile, first_atom, job.order + t, int(smaller(lanes, end - t)));
  }
}

} // namespace

template <class real>
void force_rows(const qml_feature_map &given, int64_t n_atoms, const real *x, int64_t n_tangents, const real *tangents,
                const int64_t *owner, const int64_t *row, const int64_t *order, double *out, int64_t stride,
                int threads) {
  if (n_tangents == 0) return;
  const Job<real> job{given, n_atoms, x, n_tangents, tangents, owner, row, order, out, stride};
  with_linear_map<real>(given, [&](const auto &map) {
    typedef Vector<real> V;
    const int64_t n = map.n_frequencies(), n_blocks = map.n_blocks();
    const int n_threads = useful_threads(threads, n_tangents * n);
    const int64_t blocks = larger(1, smaller(frequencies_per_tile / map.block_size(), n_blocks / n_threads));
    const int64_t n_tiles = ceil_divide(n_blocks, blocks), n_slopes = 2 * owners_in_group * blocks * map.block_size();
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
      tile.first_block = i * blocks;
      tile.last_block = smaller(tile.first_block + blocks, n_blocks);
      tile.begin = tile.first_block * map.block_size();
      tile.end = smaller(n, tile.last_block * map.block_size());
      tile.input = vectors + thread_number() * held;
      tile.scratch = tile.input + map.rank();
      tile.products = tile.scratch + map.block_size();
      tile.slopes = slopes + thread_number() * n_slopes;
      fill_tile(job, map, frequencies, tile);
    }
  });
}

template void force_rows<float>(const qml_feature_map &, int64_t, const float *, int64_t, const float *,
                                const int64_t *, const int64_t *, const int64_t *, double *, int64_t, int);
template void force_rows<double>(const qml_feature_map &, int64_t, const double *, int64_t, const double *,
                                 const int64_t *, const int64_t *, const int64_t *, double *, int64_t, int);

} // namespace QML_ISA
} // namespace qml
