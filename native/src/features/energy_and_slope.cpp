// Energies and their gradients by x, the features never leaving the registers.
//
// `real` is the type of x and of the angles, `wide` that of the weights, of all products with them and of the slopes.
#include "features/feature_map.hpp"

namespace qml {
namespace QML_ISA {
namespace {

// energy = sum energy_cos cos u + energy_sin sin u, and d energy / d y = sum slope_cos cos u + slope_sin sin u
template <class real> struct Weights {
  real *energy_cos, *energy_sin, *slope_cos, *slope_sin;

  static size_t bytes(const qml_feature_map &map) { return 4 * Arena::bytes<real>(map.n_frequencies); }

  Weights(const qml_feature_map &map, Arena &arena)
      : energy_cos(arena.take<real>(map.n_frequencies)), energy_sin(arena.take<real>(map.n_frequencies)),
        slope_cos(arena.take<real>(map.n_frequencies)), slope_sin(arena.take<real>(map.n_frequencies)) {}

  template <class narrow>
  void fill(const qml_feature_map &map, const real *weights, const narrow *scale, int64_t first, int64_t last) const {
    const real amplitude = real(map.amplitude);
    const real *sine_weights = map.paired ? weights + map.n_frequencies : nullptr;
    real *__restrict energy_c = energy_cos, *__restrict energy_s = energy_sin;
    real *__restrict slope_c = slope_cos, *__restrict slope_s = slope_sin;
    for (int64_t f = first; f < last; ++f) {
      energy_c[f] = amplitude * weights[f];
      slope_s[f] = -amplitude * weights[f] * real(scale[f]);
    }
    for (int64_t f = first; f < last; ++f) {
      const real weight = sine_weights ? sine_weights[f] : real(0);
      energy_s[f] = amplitude * weight;
      slope_c[f] = amplitude * weight * real(scale[f]);
    }
  }
};

// Energies (of each lane) and slopes of one group of atoms over some blocks.
template <bool phased, class Map, class Back, class real, class wide>
void contract(const Map &map, const Back &back, const Frequencies<real> &frequencies, const Weights<wide> &weights,
              int64_t first_block, int64_t last_block, const Vector<real> *x, Vector<real> *scratch,
              Vector<wide> *back_scratch, double *energy, Vector<wide> *slope) {
  typedef Vector<wide> W;
  constexpr int share = Map::share, parts = parts_of<wide, real>, halves = parts_of<double, wide>;
  for (int64_t block = first_block; block < last_block; ++block) {
    const int64_t first = block * map.block_size();
    Vector<double> sum[parts * halves] = {};
    map.there_and_back(back, block, x, scratch, back_scratch, slope, [&](auto n, int at, const Vector<real> *y, auto &gradient)
                           QML_INLINE_LAMBDA {
      Parted<wide, real, decltype(n)::value> cosines, sines;
      unroll<decltype(n)::value>([&](auto i) QML_INLINE_LAMBDA {
        const int64_t f = first + (at + decltype(i)::value) * share;
        const Turns<real> angle = frequencies.template angle_of<share, phased>(y[decltype(i)::value], f);
        cosines.values[decltype(i)::value] = cosine_of<real>(angle);
        sines.values[decltype(i)::value] = sine_of<real>(angle);
      });
      cosines.settle(), sines.settle();
      unroll<parts>([&](auto part) QML_INLINE_LAMBDA {
        constexpr int p = decltype(part)::value;
        Parted<double, wide, decltype(n)::value> terms;
        unroll<decltype(n)::value>([&](auto i) QML_INLINE_LAMBDA {
          const int64_t f = first + (at + decltype(i)::value) * share;
          const W cosine = cosines.template read<p>(decltype(i)::value), sine = sines.template read<p>(decltype(i)::value);
          terms.values[decltype(i)::value] = fma(sine, spread<wide, share>(weights.energy_sin + f),
                                                 cosine * spread<wide, share>(weights.energy_cos + f));
          gradient[p][decltype(i)::value] = fma(sine, spread<wide, share>(weights.slope_sin + f),
                                                cosine * spread<wide, share>(weights.slope_cos + f));
        });
        // Weights are many times larger than the energy: a sum in float would lose ten times what sines and cosines do,
        // and the energy would depend on the order of its terms, so on what else is in the batch.
        terms.settle();
        unroll<halves>([&](auto half) QML_INLINE_LAMBDA {
          constexpr int h = decltype(half)::value;
          unroll<decltype(n)::value>([&](auto i) QML_INLINE_LAMBDA {
            sum[p * halves + h] += terms.template read<h>(decltype(i)::value);
          });
        });
      });
    });
    for (int i = 0; i < lanes_of<real>; ++i) energy[i] += sum[i / lanes_of<double>][i % lanes_of<double>];
  }
}

// Atoms that are computed side by side: as many as there are lanes, or fewer with several lanes each.
struct Group {
  int64_t first;
  int count, share;
};

// Full groups, then the rest: a group of half as many atoms with two lanes each takes little more than half the time.
class Groups {
public:
  Groups(int64_t n_atoms, int lanes, bool can_share) : lanes(lanes), n_full(n_atoms / lanes) {
    int64_t first = n_full * lanes;
    const bool whole = !can_share || n_atoms - first == lanes - 1; // the pieces of an almost full group cost more
    for (int share = whole ? 1 : 2; first < n_atoms; share *= 2) {
      const int width = lanes / share, count = int(smaller(width, n_atoms - first));
      if (count < width && !whole) continue;
      rest[n_rest++] = {first, count, share};
      first += count;
    }
  }
  int64_t size() const { return n_full + n_rest; }
  Group operator[](int64_t i) const { return i < n_full ? Group{i * lanes, lanes, 1} : rest[i - n_full]; }

private:
  int lanes;
  int64_t n_full;
  int n_rest = 0;
  Group rest[8];
};

// f(the map, with vectors shared by as many lanes as wanted)
template <bool can_share, class Map, class F>
void with_share(int wanted, const qml_feature_map &given, const Map &map, F f) {
  if (wanted == Map::share) return f(map);
  if constexpr (can_share && Map::can_be_shared && Map::share < lanes_of<typename Map::real>)
    with_share<can_share>(wanted, given, typename Map::template Shared<2 * Map::share>(given), f);
}

template <class wide, class Map, class real>
void contract_all(const qml_feature_map &given, const Map &map, int64_t n_atoms, const real *x, const wide *weights,
                  double *energy, wide *slope, int threads) {
  typedef Vector<real> V;
  typedef Vector<wide> W;
  constexpr int lanes = lanes_of<real>, parts = parts_of<wide, real>;
  const int64_t rank = map.rank(), n_blocks = map.n_blocks();
  const Groups groups(n_atoms, lanes, Map::can_be_shared && parts == 1);
  threads = useful_threads(threads, n_atoms * map.n_frequencies());
  // A task is a group of atoms and a part of the blocks; parts only where groups alone cannot feed the threads.
  const int64_t n_parts = threads == 1 || groups.size() >= 8 * threads ? 1 : smaller(n_blocks, 4 * threads);
  const int64_t n_tasks = groups.size() * n_parts, n_kept = n_parts == 1 ? threads : n_tasks;
  const int64_t held = rank + larger(rank, map.block_size()), held_back = parts == 1 ? 0 : parts * map.block_size();
  Arena arena(workspace(Frequencies<real>::bytes(given) + Weights<wide>::bytes(given) + Widened<real, wide>::bytes(given) +
                        Arena::bytes<V>(threads * held) + Arena::bytes<W>(threads * held_back) +
                        Arena::bytes<W>(n_kept * parts * rank) + Arena::bytes<double>(n_tasks * lanes)));
  const Frequencies<real> frequencies(given, arena);
  const Weights<wide> prepared(given, arena);
  const Widened<real, wide> back_map(given, arena);
  V *vectors = arena.take<V>(threads * held);
  W *back_vectors = arena.take<W>(threads * held_back), *slopes = arena.take<W>(n_kept * parts * rank);
  double *energies = arena.take<double>(n_tasks * lanes);

  auto write = [&](const Group &group, W *sum, const double *sum_energy) {
    for (int i = 0; i < group.count; ++i) {
      double total = 0;
      for (int j = 0; j < group.share; ++j) total += sum_energy[i * group.share + j];
      energy[group.first + i] = total;
    }
    for (int part = 0, first = 0; first < group.count; ++part, first += lanes_of<wide>) {
      const int count = parts == 1 ? group.count : int(smaller(lanes_of<wide>, group.count - first));
      store_shared(sum + part * rank, rank, count, group.share, slope + (group.first + first) * rank);
    }
  };

#pragma omp parallel num_threads(threads)
  {
    V *input = vectors + thread_number() * held, *scratch = input + rank;
    W *back_scratch;
    if constexpr (parts == 1) back_scratch = scratch;
    else back_scratch = back_vectors + thread_number() * held_back;
#pragma omp for schedule(static)
    for (int64_t block = 0; block < n_blocks; ++block) {
      const int64_t first = block * map.block_size(), last = smaller(first + map.block_size(), given.n_frequencies);
      frequencies.fill(given, first, last);
      prepared.fill(given, weights, frequencies.scale, first, last);
    }
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < n_tasks; ++task) {
      const Group group = groups[task / n_parts];
      const int64_t part = task % n_parts;
      W *sum = slopes + (n_parts == 1 ? thread_number() : task) * parts * rank;
      double *sum_energy = energies + task * lanes;
      for (int64_t k = 0; k < parts * rank; ++k) sum[k] = W{};
      for (int i = 0; i < lanes; ++i) sum_energy[i] = 0;
      gather_shared(x + group.first * rank, group.count, rank, group.share, input);
      with_share<parts == 1>(group.share, given, map, [&](const auto &shared) {
        const auto back = shared.template in<wide>(back_map.map);
        const int64_t first = n_blocks * part / n_parts, last = n_blocks * (part + 1) / n_parts;
        if (frequencies.phased)
          contract<true>(shared, back, frequencies, prepared, first, last, input, scratch, back_scratch, sum_energy, sum);
        else
          contract<false>(shared, back, frequencies, prepared, first, last, input, scratch, back_scratch, sum_energy, sum);
      });
      if (n_parts == 1) write(group, sum, sum_energy);
    }
    if (n_parts > 1) {
#pragma omp for schedule(static)
      for (int64_t i = 0; i < groups.size(); ++i) {
        W *sum = slopes + i * n_parts * parts * rank;
        double *sum_energy = energies + i * n_parts * lanes;
        for (int64_t part = 1; part < n_parts; ++part) {
          for (int64_t k = 0; k < parts * rank; ++k) sum[k] += sum[part * parts * rank + k];
          for (int lane = 0; lane < lanes; ++lane) sum_energy[lane] += sum_energy[part * lanes + lane];
        }
        write(groups[i], sum, sum_energy);
      }
    }
  }
}

} // namespace

template <class real, class wide>
void energy_and_slope(const qml_feature_map &map, int64_t n_atoms, const real *x, const wide *weights, double *energy,
                      wide *slope, int threads) {
  if (n_atoms == 0) return;
  with_linear_map<real>(map, [&](const auto &linear) {
    contract_all<wide>(map, linear, n_atoms, x, weights, energy, slope, threads);
  });
}

void add_energy_and_slope(Kernels &to) {
  to.f32.products.energy_and_slope = energy_and_slope<float, float>, to.f64.products.energy_and_slope = energy_and_slope<double, double>;
  to.mixed.energy_and_slope = energy_and_slope<float, double>;
}

} // namespace QML_ISA
} // namespace qml
