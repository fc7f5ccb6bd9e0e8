// Energies and slopes of several weight vectors at once: they share angles, sines and cosines.
#include "features/feature_map.hpp"

namespace qml {
namespace QML_ISA {
namespace {

constexpr int energies_at_once = 4; // of sums side by side, so that they do not wait for each other

// Sines and cosines of one block, times the amplitude, for as many atoms as there are lanes.
template <class real> struct Block {
  int64_t first, size;
  Vector<real> *cosines, *sines;
};

// energies (members, lanes) += of one block
template <int at_once, class real>
QML_INLINE void add_energies(const Block<real> &block, bool paired, int64_t n_frequencies, const real *weights,
                             int64_t apart, double *energies) {
  Vector<real> of_cosines[at_once] = {}, of_sines[at_once] = {};
  const real *own = weights + block.first;
  for (int64_t k = 0; k < block.size; ++k)
    unroll<at_once>([&](auto m) QML_INLINE_LAMBDA {
      constexpr int i = decltype(m)::value;
      of_cosines[i] = fma(block.cosines[k], broadcast<real>(own[i * apart + k]), of_cosines[i]);
      if (paired)
        of_sines[i] = fma(block.sines[k], broadcast<real>(own[i * apart + n_frequencies + k]), of_sines[i]);
    });
  for (int i = 0; i < at_once; ++i) {
    const Vector<real> sum = of_cosines[i] + of_sines[i];
    for (int lane = 0; lane < lanes_of<real>; ++lane) energies[i * lanes_of<real> + lane] += double(sum[lane]);
  }
}

// gradient[k] = derivative of the energy by entry k of the linear map
template <class real>
void differentiate(const Block<real> &block, bool paired, int64_t n_frequencies, const real *weights, const real *scale,
                   Vector<real> *gradient) {
  const real *own = weights + block.first, *of_sines = own + n_frequencies;
  scale += block.first;
  for (int64_t k = 0; k < block.size; ++k) {
    Vector<real> sum = block.sines[k] * -own[k];
    if (paired) sum = fma(block.cosines[k], broadcast<real>(of_sines[k]), sum);
    gradient[k] = sum * scale[k];
  }
}

} // namespace

template <class real>
void members(const qml_feature_map &given, int64_t n_atoms, const real *x, const Members<real> &of, int threads) {
  if (n_atoms == 0) return;
  typedef Vector<real> V;
  constexpr int64_t lanes = lanes_of<real>;
  const LinearMap<real> map(given);
  const bool paired = given.paired;
  const int64_t rank = map.rank, n_frequencies = map.n_frequencies, n_features = n_frequencies * (1 + paired);
  const int n_threads = useful_threads(threads, n_atoms * n_frequencies * (1 + of.n_slopes));
  const int64_t held = rank + 4 * map.block_size + of.n_slopes * rank;
  Arena arena(workspace(Frequencies<real>::bytes(given) + Arena::bytes<V>(n_threads * held) +
                        Arena::bytes<double>(n_threads * of.n * lanes)));
  const Frequencies<real> frequencies(given, arena);
  frequencies.fill(given, 0, n_frequencies);
  V *memory = arena.take<V>(n_threads * held);
  double *sums = arena.take<double>(n_threads * of.n * lanes);
  const real amplitude = real(given.amplitude);

#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
  for (int64_t first = 0; first < n_atoms; first += lanes) {
    const int count = int(smaller(lanes, n_atoms - first));
    V *input = memory + thread_number() * held, *y = input + rank, *gradient = y + map.block_size;
    V *cosines = gradient + map.block_size, *sines = cosines + map.block_size, *slopes = sines + map.block_size;
    double *energies = sums + thread_number() * of.n * lanes;
    gather_rows(x + first * rank, count, rank, input);
    for (int64_t k = 0; k < of.n_slopes * rank; ++k) slopes[k] = V{};
    for (int64_t k = 0; k < of.n * lanes; ++k) energies[k] = 0;
    for (int64_t number = 0; number < map.n_blocks; ++number) {
      const int64_t start = number * map.block_size, size = smaller(map.block_size, n_frequencies - start);
      const Block<real> block = {start, size, cosines, sines};
      map.forward(number, input, y);
      over_frequencies(size, [&](auto n, int64_t at) QML_INLINE_LAMBDA {
        unroll<decltype(n)::value>([&](auto i) QML_INLINE_LAMBDA {
          const int64_t k = at + decltype(i)::value;
          const Turns<real> angle = frequencies.angle_of(y[k], start + k);
          cosines[k] = cosine_of<real>(angle) * amplitude;
          sines[k] = sine_of<real>(angle) * amplitude;
        });
      });
      int m = 0;
      for (; m + energies_at_once <= of.n; m += energies_at_once)
        add_energies<energies_at_once>(block, paired, n_frequencies, of.weights + m * n_features, n_features,
                                       energies + m * lanes);
      for (; m < of.n; ++m)
        add_energies<1>(block, paired, n_frequencies, of.weights + m * n_features, n_features, energies + m * lanes);
      for (int k = 0; k < of.n_slopes; ++k) {
        differentiate(block, paired, n_frequencies, of.weights + k * n_features, frequencies.scale, gradient);
        map.back(number, gradient, slopes + k * rank);
      }
    }
    for (int i = 0; i < count; ++i)
      for (int m = 0; m < of.n; ++m) of.energies[(first + i) * of.n + m] = energies[m * lanes + i];
    for (int k = 0; k < of.n_slopes; ++k)
      store_rows<real>(slopes + k * rank, rank, count, of.slopes + k * of.apart + first * rank, rank);
  }
}

void add_members(Kernels &to) { to.f32.members = members<float>, to.f64.members = members<double>; }

} // namespace QML_ISA
} // namespace qml
