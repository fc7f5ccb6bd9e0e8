// Sums of features and of their derivatives over atoms: the transpose of energy_and_slope, for matrix-free solvers.
#include "feature_map.hpp"

namespace qml {
namespace QML_ISA {
namespace {

template <class real> struct Atoms {
  Vector<real> coefficients;     // 0 for the lanes without an atom
  const Vector<real> *x;         // (rank)
  const Vector<real> *tangents;  // (rank), 0 for the lanes without an atom; or null
};

// sums[k] += a cos u - sin u du, and sine_sums[k] += a sin u + cos u du when paired.
template <class Map, class real>
void add_block(const Map &map, const Frequencies<real> &frequencies, int64_t block, const Atoms<real> &atoms,
               Vector<real> *scratch, Vector<real> *sums, Vector<real> *sine_sums) {
  typedef Vector<real> V;
  const int64_t first = block * map.block_size();
  V *du = scratch + map.block_size();
  if (atoms.tangents) {
    map.forward(block, atoms.tangents, scratch, [&](auto n, int at, V *v) QML_INLINE_LAMBDA {
      unroll<decltype(n)::value>([&](auto i) QML_INLINE_LAMBDA {
        const int k = at + decltype(i)::value;
        du[k] = v[decltype(i)::value] * frequencies.scale[first + k];
      });
    });
  } else {
    for (int64_t k = 0; k < map.block_size(); ++k) du[k] = V{};
  }
  map.forward(block, atoms.x, scratch, [&](auto n, int at, V *v) QML_INLINE_LAMBDA {
    unroll<decltype(n)::value>([&](auto i) QML_INLINE_LAMBDA {
      const int k = at + decltype(i)::value;
      const Turns<real> angle = frequencies.angle_of(v[decltype(i)::value], first + k);
      const V cosine = cosine_of<real>(angle), sine = sine_of<real>(angle);
      sums[k] += fma(atoms.coefficients, cosine, -(sine * du[k]));
      if (sine_sums) sine_sums[k] += fma(atoms.coefficients, sine, cosine * du[k]);
    });
  });
}

} // namespace

template <class real>
void feature_moment(const qml_feature_map &given, int64_t n_atoms, const real *x, const real *coefficients,
                    const real *tangents, double *moment, int threads) {
  if (n_atoms == 0) return;
  with_linear_map<real>(given, [&](const auto &map) {
    typedef Vector<real> V;
    constexpr int64_t lanes = lanes_of<real>;
    // Lanes are summed in `real` over this many atoms each, then in double.
    constexpr int64_t groups_per_sum = 32;
    const int64_t rank = map.rank(), n = map.n_frequencies(), n_groups = ceil_divide(n_atoms, lanes);
    const int n_threads = useful_threads(threads, n_atoms * n);
    const int64_t blocks = larger(1, smaller(1024 / map.block_size(), map.n_blocks() / n_threads));
    const int64_t width = blocks * map.block_size(), n_tiles = ceil_divide(map.n_blocks(), blocks);
    const int64_t held = 2 * rank + 2 * map.block_size() + 2 * width;
    Arena arena(workspace(Frequencies<real>::bytes(given) + Arena::bytes<V>(n_threads * held)));
    const Frequencies<real> frequencies(given, arena);
    frequencies.fill(given, 0, given.n_frequencies);
    V *memory = arena.take<V>(n_threads * held);

#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
    for (int64_t tile = 0; tile < n_tiles; ++tile) {
      V *positions = memory + thread_number() * held, *directions = positions + rank;
      V *scratch = directions + rank, *sums = scratch + 2 * map.block_size();
      const int64_t first_block = tile * blocks, last_block = smaller(first_block + blocks, map.n_blocks());
      const int64_t begin = first_block * map.block_size(), size = smaller(n, begin + width) - begin;
      for (int64_t first_group = 0; first_group < n_groups; first_group += groups_per_sum) {
        for (int64_t k = 0; k < 2 * width; ++k) sums[k] = V{};
        for (int64_t group = first_group; group < smaller(n_groups, first_group + groups_per_sum); ++group) {
          const int64_t first = group * lanes, count = smaller(lanes, n_atoms - first);
          Atoms<real> atoms{V{}, positions, tangents ? directions : nullptr};
          gather_rows(x + first * rank, count, rank, positions);
          if (coefficients)
            for (int64_t i = 0; i < count; ++i) atoms.coefficients[i] = coefficients[first + i];
          if (tangents) {
            gather_rows(tangents + first * rank, count, rank, directions);
            for (int64_t k = 0; k < rank; ++k)
              for (int64_t i = count; i < lanes; ++i) directions[k][i] = 0;
          }
          for (int64_t block = first_block; block < last_block; ++block) {
            V *block_sums = sums + (block - first_block) * map.block_size();
            V *sine_sums = given.paired ? block_sums + width : nullptr;
            add_block(map, frequencies, block, atoms, scratch, block_sums, sine_sums);
          }
        }
        for (int64_t k = 0; k < size; ++k) {
          moment[begin + k] += given.amplitude * sum_lanes<real>(sums[k]);
          if (given.paired) moment[n + begin + k] += given.amplitude * sum_lanes<real>(sums[width + k]);
        }
      }
    }
  });
}

template void feature_moment<float>(const qml_feature_map &, int64_t, const float *, const float *, const float *,
                                    double *, int);
template void feature_moment<double>(const qml_feature_map &, int64_t, const double *, const double *, const double *,
                                     double *, int);

} // namespace QML_ISA
} // namespace qml
