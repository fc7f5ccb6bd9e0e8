// Features of atoms, written out, or added up by row: the energy rows of a fit.
#include "features/feature_map.hpp"

namespace qml {
namespace QML_ISA {
namespace {

// cosines[k] = amplitude * cosine of angle k of one block, and cosines[block_size + k] the sines when paired, for as many
// atoms as there are lanes.
template <class real>
__attribute__((noinline)) void form_block(const qml_feature_map &given, const LinearMap<real> &map,
                                          const Frequencies<real> &frequencies, real amplitude, int64_t block,
                                          const Vector<real> *x, Vector<real> *scratch, Vector<real> *cosines) {
  typedef Vector<real> V;
  const bool paired = given.paired;
  const int64_t first = block * map.block_size;
  V *sines = cosines + map.block_size;
  map.forward(block, x, scratch);
  over_frequencies(smaller(map.block_size, map.n_frequencies - first), [&](auto n, int64_t at) QML_INLINE_LAMBDA {
    unroll<decltype(n)::value>([&](auto i) QML_INLINE_LAMBDA {
      const int64_t k = at + decltype(i)::value;
      const Turns<real> angle = frequencies.angle_of(scratch[k], first + k);
      cosines[k] = cosine_of<real>(angle) * amplitude;
      if (paired) sines[k] = sine_of<real>(angle) * amplitude;
    });
  });
}

// put(features, how many, first column) for the parts of a block.
template <class real, class V, class Put>
void each_part(const qml_feature_map &given, const LinearMap<real> &map, int64_t block, V *cosines, Put put) {
  const int64_t n = map.n_frequencies, first = block * map.block_size;
  for (int part = 0; part <= given.paired; ++part)
    put(cosines + part * map.block_size, smaller(map.block_size, n - first), part * n + first);
}

} // namespace

template <class real>
void features(const qml_feature_map &given, int64_t n_atoms, const real *x, real *out, int threads) {
  if (n_atoms == 0) return;
  const LinearMap<real> map(given);
  typedef Vector<real> V;
  constexpr int64_t lanes = lanes_of<real>;
  const int64_t rank = map.rank, n_features = map.n_frequencies * (given.paired ? 2 : 1);
  const int n_threads = useful_threads(threads, n_atoms * map.n_frequencies);
  const int64_t n_groups = ceil_divide(n_atoms, lanes);
  const int64_t n_parts = smaller(map.n_blocks, ceil_divide(4 * n_threads, n_groups));
  const int64_t held = rank + 3 * map.block_size;
  Arena arena(workspace(Frequencies<real>::bytes(given) + Arena::bytes<V>(n_threads * held)));
  const Frequencies<real> frequencies(given, arena);
  frequencies.fill(given, 0, given.n_frequencies);
  V *memory = arena.take<V>(n_threads * held);

#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
  for (int64_t task = 0; task < n_groups * n_parts; ++task) {
    const int64_t first = task / n_parts * lanes, part = task % n_parts;
    const int count = int(smaller(lanes, n_atoms - first));
    V *input = memory + thread_number() * held, *scratch = input + rank, *formed = scratch + map.block_size;
    gather_rows(x + first * rank, count, rank, input);
    for (int64_t block = map.n_blocks * part / n_parts; block < map.n_blocks * (part + 1) / n_parts; ++block) {
      form_block(given, map, frequencies, real(given.amplitude), block, input, scratch, formed);
      each_part(given, map, block, formed, [&](V *v, int64_t size, int64_t column) {
        store_rows<real>(v, size, count, out + first * n_features + column, n_features);
      });
    }
  }
}

// Sums of cosines times the amplitude in double. A thread owns a tile of columns: the order is that of the atoms.
template <class real>
void energy_rows(const qml_feature_map &given, int64_t n_atoms, const real *x, const int64_t *row, double *out,
                 int64_t stride, int threads) {
  if (n_atoms == 0) return;
  const LinearMap<real> map(given);
  typedef Vector<real> V;
  constexpr int64_t lanes = lanes_of<real>;
  const int64_t rank = map.rank, n_blocks = map.n_blocks;
  const int n_threads = useful_threads(threads, n_atoms * map.n_frequencies);
  const int64_t blocks = larger(1, smaller(1024 / map.block_size, n_blocks / n_threads));
  const int64_t held = rank + 3 * map.block_size;
  Arena arena(workspace(Frequencies<real>::bytes(given) + Arena::bytes<V>(n_threads * held)));
  const Frequencies<real> frequencies(given, arena);
  frequencies.fill(given, 0, given.n_frequencies);
  V *memory = arena.take<V>(n_threads * held);
  const double amplitude = given.amplitude;

#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
  for (int64_t begin = 0; begin < n_blocks; begin += blocks) {
    V *input = memory + thread_number() * held, *scratch = input + rank, *formed = scratch + map.block_size;
    for (int64_t first = 0; first < n_atoms; first += lanes) {
      const int count = int(smaller(lanes, n_atoms - first));
      gather_rows(x + first * rank, count, rank, input);
      for (int64_t block = begin; block < smaller(begin + blocks, n_blocks); ++block) {
        form_block(given, map, frequencies, real(1), block, input, scratch, formed);
        each_part(given, map, block, formed, [&](V *v, int64_t size, int64_t column) {
          double *rows[lanes];
          for (int i = 0; i < count; ++i) rows[i] = out + row[first + i] * stride + column;
          add_rows<real>(v, size, count, amplitude, rows);
        });
      }
    }
  }
}

void add_features(Kernels &to) {
  to.f32.features = features<float>, to.f64.features = features<double>;
  to.f32.energy_rows = energy_rows<float>, to.f64.energy_rows = energy_rows<double>;
}

} // namespace QML_ISA
} // namespace qml
