// Tiles shared out among threads, and forces summed in one order.
#include "predict/predictor.hpp"

#include "isa/threads.hpp"

#include <algorithm>
#include <new>

namespace qml {
namespace {

// Centres in a tile: enough for full lanes of every element, few enough that their representations stay in the cache.
constexpr int64_t rows_per_tile = 512;
// Work for a thread that is worth waking it, in units of about half a nanosecond: one small molecule is not. There two
// threads save a quarter of the time on idle cores, and lose a thousandfold where another program holds one of them.
constexpr double worth_a_thread = 1 << 19;
// Below so many centres for each thread the threads share the kernels of one tile, else each has tiles of its own and
// they need not wait for each other.
constexpr int64_t own_tile_rows = 64;
// Tiles of each thread whose gradients are in memory at once.
constexpr int64_t tiles_per_thread = 8;

} // namespace

template <class real> void EngineIn<real>::run(const PairList &pairs, const Wanted &wanted, int threads) {
  threads = useful_threads(pairs, threads);
  while (int64_t(tiles.size()) < threads) tiles.emplace_back(new Tile<real>);
  const int64_t most = rows_per_tile * tiles_per_thread * threads;
  for (int64_t first = 0; first < pairs.n_centres; first += most) {
    const int64_t last = std::min(first + most, pairs.n_centres), n_elements = model.n_elements();
    const int64_t first_pair = pairs.segments[first * n_elements], last_pair = pairs.segments[last * n_elements];
    Gradients<real> gradients = {first, first_pair, nullptr, nullptr, nullptr};
    Deviations<real> deviations;
    deviations.energies = wanted.member_energies;
    const int n_more = wanted.member_forces ? model.committee.n_force_members : 0;
    const int64_t apart = 3 * (last_pair - first_pair) + 1, own_apart = 3 * (last - first);
    if (wanted.forces || wanted.virial) {
      gradients.by_pair = gradient_.room((1 + n_more) * apart);
      gradients.own_force = own_force_.room((1 + n_more) * own_apart);
      for (int k = 1; k <= n_more; ++k)
        deviations.gradients.push_back(
            {first, first_pair, gradients.by_pair + k * apart, gradients.own_force + k * own_apart, nullptr});
    }
    if (wanted.virial) gradients.own_virial = own_virial_.room(9 * (last - first));
    run_tiles(pairs, first, last, wanted.atom_energies, gradients, deviations, threads);
    scatter_virial(first, last, gradients, wanted);
    if (wanted.forces) scatter(pairs, first, last, gradients, wanted.forces);
    for (int k = 0; k < n_more; ++k)
      scatter(pairs, first, last, deviations.gradients[size_t(k)], wanted.member_forces + k * 3 * pairs.n_all);
  }
}

template <class real> int EngineIn<real>::useful_threads(const PairList &pairs, int threads) const {
  if (pairs.n_centres == 0) return 1;
  const double n_pairs = double(pairs.segments[pairs.n_centres * model.n_elements()]), n_rows = double(pairs.n_centres);
  const double work =
      n_rows * double(model.maps[0].n_frequencies) + model.kind.work(model.parameters.get(), n_rows, n_pairs);
  return int(std::max(1.0, std::min(double(threads), work / worth_a_thread)));
}

template <class real>
void EngineIn<real>::run_tiles(const PairList &pairs, int64_t first, int64_t last, double *atom_energies,
                               const Gradients<real> &out, const Deviations<real> &deviations, int threads) {
  const int64_t count = last - first;
  if (count < own_tile_rows * threads)
    return tiles[0]->compute(model, pairs, first, last, atom_energies, out, deviations, threads);
  // as many for each thread
  const int64_t n_tiles = threads * ((count + rows_per_tile * threads - 1) / (rows_per_tile * threads));
  bool no_memory = false; // all that can go wrong
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t tile = 0; tile < n_tiles; ++tile) {
    try {
      tiles[size_t(thread_number())]->compute(model, pairs, first + count * tile / n_tiles,
                                              first + count * (tile + 1) / n_tiles, atom_energies, out, deviations, 1);
    } catch (const std::bad_alloc &) {
#pragma omp atomic write
      no_memory = true;
    }
  }
  if (no_memory) throw std::bad_alloc();
}

template <class real>
void EngineIn<real>::scatter_virial(int64_t first, int64_t last, const Gradients<real> &gradients,
                                    const Wanted &wanted) const {
  for (int64_t i = first; wanted.virial && i < last; ++i) {
    double *to = wanted.virial + 9 * (wanted.group ? int64_t(wanted.group[i]) : 0);
    for (int k = 0; k < 9; ++k) to[k] += gradients.own_virial[9 * (i - first) + k];
  }
}

// One thread, so that sums are always in the same order: little work beside the rest.
template <class real>
void EngineIn<real>::scatter(const PairList &pairs, int64_t first, int64_t last, const Gradients<real> &gradients,
                             double *forces) const {
  const int n_elements = model.n_elements();
  const real *g = gradients.by_pair;
  const int32_t *neighbour = pairs.neighbour + gradients.first_pair;
  for (int64_t i = first; i < last; ++i) {
    const double *own = gradients.own_force + 3 * (i - first);
    for (int axis = 0; axis < 3; ++axis) forces[3 * i + axis] += own[axis];
    const int64_t count = pairs.segments[(i + 1) * n_elements] - pairs.segments[i * n_elements];
    for (int64_t k = 0; k < count; ++k, g += 3) {
      double *to = forces + 3 * int64_t(*neighbour++);
      to[0] -= double(g[0]), to[1] -= double(g[1]), to[2] -= double(g[2]);
    }
  }
}

template class EngineIn<float>;
template class EngineIn<double>;

} // namespace qml
