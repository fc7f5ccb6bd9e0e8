// Features of atoms, written out: for the energy rows of a fit.
#include "feature_map.hpp"

namespace qml {
namespace QML_ISA {
namespace {

template <class Map, class real>
void write_block(const qml_feature_map &given, const Map &map, const Frequencies<real> &frequencies, int64_t block,
                 const Vector<real> *x, Vector<real> *scratch, int count, real *out) {
  typedef Vector<real> V;
  const real amplitude = real(given.amplitude);
  const bool paired = given.paired;
  const int64_t n = map.n_frequencies(), first = block * map.block_size();
  const int64_t size = smaller(map.block_size(), n - first), n_features = n * (paired ? 2 : 1);
  V *cosines = scratch + map.block_size(), *sines = cosines + map.block_size();
  map.forward(block, x, scratch, [&](auto width, int at, V *v) QML_INLINE_LAMBDA {
    unroll<decltype(width)::value>([&](auto i) QML_INLINE_LAMBDA {
      const int k = at + decltype(i)::value;
      const Turns<real> angle = frequencies.angle_of(v[decltype(i)::value], first + k);
      cosines[k] = cosine_of<real>(angle) * amplitude;
      if (paired) sines[k] = sine_of<real>(angle) * amplitude;
    });
  });
  store_rows<real>(cosines, size, count, out + first, n_features);
  if (paired) store_rows<real>(sines, size, count, out + n + first, n_features);
}

} // namespace

template <class real>
void features(const qml_feature_map &given, int64_t n_atoms, const real *x, real *out, int threads) {
  if (n_atoms == 0) return;
  with_linear_map<real>(given, [&](const auto &map) {
    typedef Vector<real> V;
    constexpr int64_t lanes = lanes_of<real>;
    const int64_t rank = map.rank(), n_features = map.n_frequencies() * (given.paired ? 2 : 1);
    const int n_threads = useful_threads(threads, n_atoms * map.n_frequencies());
    const int64_t n_groups = ceil_divide(n_atoms, lanes);
    const int64_t n_parts = smaller(map.n_blocks(), ceil_divide(4 * n_threads, n_groups));
    const int64_t held = rank + 3 * map.block_size();
    Arena arena(workspace(Frequencies<real>::bytes(given) + Arena::bytes<V>(n_threads * held)));
    const Frequencies<real> frequencies(given, arena);
    frequencies.fill(given, 0, given.n_frequencies);
    V *memory = arena.take<V>(n_threads * held);

#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
    for (int64_t task = 0; task < n_groups * n_parts; ++task) {
      const int64_t first = task / n_parts * lanes, part = task % n_parts;
      const int count = int(smaller(lanes, n_atoms - first));
      V *input = memory + thread_number() * held, *scratch = input + rank;
      gather_rows(x + first * rank, count, rank, input);
      for (int64_t block = map.n_blocks() * part / n_parts; block < map.n_blocks() * (part + 1) / n_parts; ++block)
        write_block(given, map, frequencies, block, input, scratch, count, out + first * n_features);
    }
  });
}

template void features<float>(const qml_feature_map &, int64_t, const float *, float *, int);
template void features<double>(const qml_feature_map &, int64_t, const double *, double *, int);

} // namespace QML_ISA
} // namespace qml
