// Sums of features and of their derivatives over atoms: the transpose of energy_and_slope, for matrix-free solvers.
//
// `real` is the type of x and of the angles, `wide` that of coefficients and tangents and of all products with them.
#include "features/feature_map.hpp"

namespace qml {
namespace QML_ISA {
namespace {

// One atom in each lane of a vector of `real`, which is several vectors of `wide`.
template <class real, class wide> struct Atoms {
  Vector<wide> coefficients[parts_of<wide, real>]; // 0 for the lanes without an atom
  const Vector<real> *x;                           // (rank)
  const Vector<wide> *tangents;                    // (parts, rank), 0 for the lanes without an atom; or null
};

// sums[k] += a cos u - sin u du, and sine_sums[k] += a sin u + cos u du when paired; du: room for (parts, block_size).
template <class real, class wide>
void add_block(const LinearMap<real> &map, const LinearMap<wide> &wide_map, const Frequencies<real> &frequencies,
               int64_t block, const Atoms<real, wide> &atoms, Vector<real> *scratch, Vector<wide> *du,
               Vector<wide> *sums, Vector<wide> *sine_sums) {
  typedef Vector<wide> W;
  constexpr int parts = parts_of<wide, real>;
  const int64_t first = block * map.block_size, size = map.block_size, count = smaller(size, map.n_frequencies - first);
  for (int64_t part = 0; part < parts; ++part) {
    W *own = du + part * size;
    if (atoms.tangents) {
      wide_map.forward(block, atoms.tangents + part * map.rank, own);
      for (int64_t k = 0; k < count; ++k) own[k] *= wide(frequencies.scale[first + k]);
    } else {
      for (int64_t k = 0; k < count; ++k) own[k] = W{};
    }
  }
  map.forward(block, atoms.x, scratch);
  over_frequencies(count, [&](auto n, int64_t at) QML_INLINE_LAMBDA {
    Parted<wide, real, decltype(n)::value> cosines, sines;
    unroll<decltype(n)::value>([&](auto i) QML_INLINE_LAMBDA {
      const Turns<real> angle = frequencies.angle_of(scratch[at + decltype(i)::value], first + at + decltype(i)::value);
      cosines.values[decltype(i)::value] = cosine_of<real>(angle);
      sines.values[decltype(i)::value] = sine_of<real>(angle);
    });
    cosines.settle(), sines.settle();
    unroll<decltype(n)::value>([&](auto i) QML_INLINE_LAMBDA {
      const int64_t k = at + decltype(i)::value;
      W sum = sums[k], sine_sum = sine_sums ? sine_sums[k] : W{};
      unroll<parts>([&](auto part) QML_INLINE_LAMBDA {
        constexpr int p = decltype(part)::value;
        const W cosine = cosines.template read<p>(decltype(i)::value), sine = sines.template read<p>(decltype(i)::value);
        const W along = du[p * size + k];
        sum += fma(atoms.coefficients[p], cosine, -(sine * along));
        sine_sum += fma(atoms.coefficients[p], sine, cosine * along);
      });
      sums[k] = sum;
      if (sine_sums) sine_sums[k] = sine_sum;
    });
  });
}

} // namespace

template <class real, class wide>
void feature_moment(const qml_feature_map &given, int64_t n_atoms, const real *x, const wide *coefficients,
                    const wide *tangents, double *moment, int threads) {
  if (n_atoms == 0) return;
  const LinearMap<real> map(given);
  typedef Vector<real> V;
  typedef Vector<wide> W;
  constexpr int64_t lanes = lanes_of<real>, parts = parts_of<wide, real>;
  // Lanes are summed in `wide` over this many atoms each, then in double.
  constexpr int64_t groups_per_sum = 32;
  const int64_t rank = map.rank, n = map.n_frequencies, n_groups = ceil_divide(n_atoms, lanes);
  const int n_threads = useful_threads(threads, n_atoms * n);
  const int64_t blocks = larger(1, smaller(1024 / map.block_size, map.n_blocks / n_threads));
  const int64_t width = blocks * map.block_size, n_tiles = ceil_divide(map.n_blocks, blocks);
  const int64_t held = rank + map.block_size, held_wide = parts * (rank + map.block_size) + 2 * width;
  Arena arena(workspace(Frequencies<real>::bytes(given) + Widened<real, wide>::bytes(given) +
                        Arena::bytes<V>(n_threads * held) + Arena::bytes<W>(n_threads * held_wide)));
  const Frequencies<real> frequencies(given, arena);
  frequencies.fill(given, 0, given.n_frequencies);
  const Widened<real, wide> widened_map(given, arena);
  const LinearMap<wide> wide_map(widened_map.map);
  V *memory = arena.take<V>(n_threads * held);
  W *wide_memory = arena.take<W>(n_threads * held_wide);

#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
  for (int64_t tile = 0; tile < n_tiles; ++tile) {
    V *positions = memory + thread_number() * held, *scratch = positions + rank;
    W *directions = wide_memory + thread_number() * held_wide, *du = directions + parts * rank;
    W *sums = du + parts * map.block_size;
    const int64_t first_block = tile * blocks, last_block = smaller(first_block + blocks, map.n_blocks);
    const int64_t begin = first_block * map.block_size, size = smaller(n, begin + width) - begin;
    for (int64_t first_group = 0; first_group < n_groups; first_group += groups_per_sum) {
      for (int64_t k = 0; k < 2 * width; ++k) sums[k] = W{};
      for (int64_t group = first_group; group < smaller(n_groups, first_group + groups_per_sum); ++group) {
        const int64_t first = group * lanes, count = smaller(lanes, n_atoms - first);
        Atoms<real, wide> atoms{{}, positions, tangents ? directions : nullptr};
        gather_rows(x + first * rank, count, rank, positions);
        if (coefficients)
          for (int64_t i = 0; i < count; ++i)
            atoms.coefficients[i / lanes_of<wide>][i % lanes_of<wide>] = coefficients[first + i];
        for (int64_t part = 0; tangents && part < parts; ++part) {
          W *lanes_of_part = directions + part * rank;
          const int64_t before = part * lanes_of<wide>, there = larger(0, smaller(lanes_of<wide>, count - before));
          if (there > 0) gather_rows(tangents + (first + before) * rank, there, rank, lanes_of_part);
          for (int64_t k = 0; k < rank; ++k)
            for (int64_t i = there; i < lanes_of<wide>; ++i) lanes_of_part[k][i] = 0;
        }
        for (int64_t block = first_block; block < last_block; ++block) {
          W *block_sums = sums + (block - first_block) * map.block_size;
          W *sine_sums = given.paired ? block_sums + width : nullptr;
          add_block(map, wide_map, frequencies, block, atoms, scratch, du, block_sums, sine_sums);
        }
      }
      for (int64_t k = 0; k < size; ++k) {
        moment[begin + k] += given.amplitude * sum_lanes<wide>(sums[k]);
        if (given.paired) moment[n + begin + k] += given.amplitude * sum_lanes<wide>(sums[width + k]);
      }
    }
  }
}

void add_feature_moment(Kernels &to) {
  to.f32.products.feature_moment = feature_moment<float, float>, to.f64.products.feature_moment = feature_moment<double, double>;
  to.mixed.feature_moment = feature_moment<float, double>;
}

} // namespace QML_ISA
} // namespace qml
