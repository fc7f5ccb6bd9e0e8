// Derivatives of the features along tangents, added up by row: the force rows of a fit.
//
// A thread owns a tile of columns, so nothing is shared and the order of the sums is always the same. Within a tile it
// takes a group of owners, keeps their slopes, then runs through their tangents, as many at once as there are lanes.
// Tangents of a group come row by row, so that those of one row are summed in registers, and memory is touched once.
// `real` is the type of x and of the angles, `wide` that of the tangents and of all products with them.
#include "features/feature_map.hpp"

namespace qml {
namespace QML_ISA {
namespace {

template <class real, class wide> struct Job {
  const qml_feature_map &map;
  int64_t n_atoms;
  const real *x;
  int64_t n_tangents;
  const wide *tangents;
  const int64_t *owner, *row, *order;
  double *out;
  int64_t stride;
};

// The columns of one tile; `begin` and `end` are frequencies.
template <class real, class wide> struct ColumnTile {
  int64_t first_block, last_block, begin, end;
  Vector<real> *input, *scratch, *formed;
  Vector<wide> *tangents, *products;
  real *slopes; // (1 + paired, owners_in_group, end - begin), by the angle
};

constexpr int64_t frequencies_per_tile = 512;

// `slopes`: those of first_atom, for the whole width of the tile.
template <class real, class wide>
void slopes_of_owners(const Job<real, wide> &job, const LinearMap<real> &map, const Frequencies<real> &frequencies,
                      const ColumnTile<real, wide> &tile, int64_t first_atom, real *slopes) {
  typedef Vector<real> V;
  constexpr int lanes = lanes_of<real>;
  const bool paired = job.map.paired;
  const int64_t width = tile.end - tile.begin;
  const int count = int(smaller(lanes, job.n_atoms - first_atom));
  V *cosine_part = tile.formed, *sine_part = tile.formed + map.block_size;
  gather_rows(job.x + first_atom * map.rank, count, map.rank, tile.input);
  for (int64_t block = tile.first_block; block < tile.last_block; ++block) {
    const int64_t start = block * map.block_size;
    const int64_t size = smaller(map.block_size, tile.end - start);
    map.forward(block, tile.input, tile.scratch);
    over_frequencies(size, [&](auto n, int64_t at) QML_INLINE_LAMBDA {
      unroll<decltype(n)::value>([&](auto i) QML_INLINE_LAMBDA {
        const int64_t k = at + decltype(i)::value;
        const Turns<real> angle = frequencies.angle_of(tile.scratch[k], start + k);
        cosine_part[k] = -sine_of<real>(angle);
        if (paired) sine_part[k] = cosine_of<real>(angle);
      });
    });
    real *to = slopes + (start - tile.begin);
    store_rows<real>(cosine_part, size, count, to, width);
    if (paired) store_rows<real>(sine_part, size, count, to + owners_in_group * width, width);
  }
}

// Pointers to the first column of a tile, for each tangent of a group.
template <class real, class wide> struct Rows {
  double *out[lanes_of<wide>];
  const real *slopes[lanes_of<wide>];
  int64_t sine_columns, sine_slopes; // from the cosine part to the sine part
  double amplitude;
};

// out += amplitude * sum of slope * product over the tangents of each row, for `size` columns.
template <bool paired, class real, class wide>
__attribute__((noinline)) void add_products(Vector<wide> *products, int64_t size, int count, int64_t column,
                                            const Rows<real, wide> &rows) {
  typedef Vector<wide> W;
  const int64_t whole = transpose_squares<wide>(products, size);
  for (int i = 0, end; i < count; i = end) {
    double *to = rows.out[i] + column, *sine_to = to + rows.sine_columns;
    for (end = i + 1; end < count && rows.out[end] == rows.out[i];) ++end;
    for (int64_t k = 0; k < whole; k += lanes_of<wide>) {
      W cosine{}, sine{};
      for (int j = i; j < end; ++j) {
        const real *slope = rows.slopes[j] + column + k;
        cosine = fma(products[k + j], load_as<wide>(slope), cosine);
        if constexpr (paired) sine = fma(products[k + j], load_as<wide>(slope + rows.sine_slopes), sine);
      }
      add_to(to + k, cosine, rows.amplitude);
      if constexpr (paired) add_to(sine_to + k, sine, rows.amplitude);
    }
    for (int64_t k = whole; k < size; ++k)
      for (int j = i; j < end; ++j) {
        const real *slope = rows.slopes[j] + column + k;
        to[k] += rows.amplitude * double(products[k][j] * wide(*slope));
        if constexpr (paired) sine_to[k] += rows.amplitude * double(products[k][j] * wide(slope[rows.sine_slopes]));
      }
  }
}

template <class real, class wide>
void add_tangents(const Job<real, wide> &job, const LinearMap<wide> &map, const Frequencies<real> &frequencies,
                  const ColumnTile<real, wide> &tile, int64_t first_atom, const int64_t *tangents, int count) {
  constexpr int lanes = lanes_of<wide>;
  const int64_t width = tile.end - tile.begin;
  const wide *vector[lanes];
  for (int i = 0; i < lanes; ++i) vector[i] = job.tangents + tangents[smaller(i, count - 1)] * map.rank;
  Rows<real, wide> rows;
  rows.sine_columns = job.map.n_frequencies, rows.sine_slopes = owners_in_group * width;
  rows.amplitude = job.map.amplitude;
  for (int i = 0; i < count; ++i) {
    rows.out[i] = job.out + job.row[tangents[i]] * job.stride + tile.begin;
    rows.slopes[i] = tile.slopes + (job.owner[tangents[i]] - first_atom) * width;
  }
  gather_lanes(vector, map.rank, tile.tangents);
  for (int64_t block = tile.first_block; block < tile.last_block; ++block) {
    const real *scale = frequencies.scale + block * map.block_size;
    const int64_t column = block * map.block_size - tile.begin, size = smaller(map.block_size, width - column);
    map.forward(block, tile.tangents, tile.products);
    for (int64_t k = 0; k < size; ++k) tile.products[k] *= wide(scale[k]);
    if (job.map.paired) add_products<true>(tile.products, size, count, column, rows);
    else add_products<false>(tile.products, size, count, column, rows);
  }
}

template <class real, class wide>
void fill_tile(const Job<real, wide> &job, const LinearMap<real> &map, const LinearMap<wide> &wide_map,
               const Frequencies<real> &frequencies, const ColumnTile<real, wide> &tile) {
  for (int64_t t = 0; t < job.n_tangents;) {
    const int64_t first_atom = job.owner[job.order[t]] / owners_in_group * owners_in_group;
    const int64_t last_atom = smaller(first_atom + owners_in_group, job.n_atoms);
    for (int64_t atom = first_atom; atom < last_atom; atom += lanes_of<real>)
      slopes_of_owners(job, map, frequencies, tile, atom, tile.slopes + (atom - first_atom) * (tile.end - tile.begin));
    int64_t end = t;
    while (end < job.n_tangents && job.owner[job.order[end]] < last_atom) ++end;
    for (int64_t count; t < end; t += count) {
      count = smaller(lanes_of<wide>, end - t);
      add_tangents(job, wide_map, frequencies, tile, first_atom, job.order + t, int(count));
    }
  }
}

} // namespace

template <class real, class wide>
void force_rows(const qml_feature_map &given, int64_t n_atoms, const real *x, int64_t n_tangents, const wide *tangents,
                const int64_t *owner, const int64_t *row, const int64_t *order, double *out, int64_t stride,
                int threads) {
  if (n_tangents == 0) return;
  const Job<real, wide> job{given, n_atoms, x, n_tangents, tangents, owner, row, order, out, stride};
  const LinearMap<real> map(given);
  typedef Vector<real> V;
  typedef Vector<wide> W;
  const int64_t n = map.n_frequencies, n_blocks = map.n_blocks;
  const int n_threads = useful_threads(threads, n_tangents * n);
  const int64_t blocks = larger(1, smaller(frequencies_per_tile / map.block_size, n_blocks / n_threads));
  const int64_t n_tiles = ceil_divide(n_blocks, blocks), n_slopes = 2 * owners_in_group * blocks * map.block_size;
  const int64_t held = map.rank + 3 * map.block_size, held_wide = map.rank + map.block_size;
  Arena arena(workspace(Frequencies<real>::bytes(given) + Widened<real, wide>::bytes(given) +
                        Arena::bytes<V>(n_threads * held) + Arena::bytes<W>(n_threads * held_wide) +
                        Arena::bytes<real>(n_threads * n_slopes)));
  const Frequencies<real> frequencies(given, arena);
  frequencies.fill(given, 0, given.n_frequencies);
  const Widened<real, wide> widened(given, arena);
  const LinearMap<wide> wide_map(widened.map);
  V *vectors = arena.take<V>(n_threads * held);
  W *wide_vectors = arena.take<W>(n_threads * held_wide);
  real *slopes = arena.take<real>(n_threads * n_slopes);

#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
  for (int64_t i = 0; i < n_tiles; ++i) {
    ColumnTile<real, wide> tile;
    tile.first_block = i * blocks;
    tile.last_block = smaller(tile.first_block + blocks, n_blocks);
    tile.begin = tile.first_block * map.block_size;
    tile.end = smaller(n, tile.last_block * map.block_size);
    tile.input = vectors + thread_number() * held;
    tile.scratch = tile.input + map.rank;
    tile.formed = tile.scratch + map.block_size;
    tile.tangents = wide_vectors + thread_number() * held_wide;
    tile.products = tile.tangents + map.rank;
    tile.slopes = slopes + thread_number() * n_slopes;
    fill_tile(job, map, wide_map, frequencies, tile);
  }
}

void add_force_rows(Kernels &to) {
  to.f32.products.force_rows = force_rows<float, float>, to.f64.products.force_rows = force_rows<double, double>;
  to.mixed.force_rows = force_rows<float, double>;
}

} // namespace QML_ISA
} // namespace qml
