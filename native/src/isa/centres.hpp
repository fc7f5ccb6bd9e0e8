// Kernels of environments go over centres one by one, each thread with a scratch memory of its own.
#pragma once

#include "isa/kernels.hpp"
#include "isa/simd.hpp"
#include "isa/threads.hpp"

namespace qml {
namespace QML_ISA {

template <class real> constexpr int64_t whole_vectors(int64_t count) {
  return (count + lanes_of<real> - 1) / lanes_of<real> * lanes_of<real>;
}

// Hands out pieces of one block of memory; without memory it only measures.
struct ScratchArena {
  char *memory = nullptr;
  int64_t used = 0;

  template <class T> T *take(int64_t count) {
    char *piece = memory ? memory + used : nullptr;
    used += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T *>(piece);
  }
};

// For kernels that share nothing but the setup.
struct Nothing {
  template <class Parameters> Nothing(const Parameters &, ScratchArena &) {}
  template <class Parameters> void tabulate(const Parameters &) {}
};

// body(scratch, centre) for all centres, each thread with a scratch of its own. A centre writes only what is its own,
// so the result does not depend on who computes it. Scratch names two types whose tables all threads read: SetupOf, which
// follows from the parameters and the largest number of neighbours, and Shared.
template <class Scratch, class Parameters, class Body>
void over_centres(const Parameters &p, int64_t n_atoms, const int64_t *segments, int64_t apart, int threads, Body body) {
  typedef typename Scratch::SetupOf Setup;
  typedef typename Scratch::Shared Shared;
  int64_t most_neighbours = 0;
  for (int64_t centre = 0; centre < n_atoms; ++centre) {
    const int64_t *own = segments + centre * apart, count = own[p.n_elements] - own[0];
    if (count > most_neighbours) most_neighbours = count;
  }
  // waking a thread costs as much as a few centres
  const int64_t useful = n_atoms / 4 > 1 ? n_atoms / 4 : 1;
  const int team = threads < useful ? threads : int(useful);

  ScratchArena shared, own;
  Setup setup(p, most_neighbours, shared);
  Shared tables(p, shared);
  Scratch(setup, tables, own);
  const int64_t shared_bytes = shared.used, own_bytes = own.used;
  char *memory = static_cast<char *>(workspace(size_t(shared_bytes + team * own_bytes)));
  shared = {memory};
  setup = Setup(p, most_neighbours, shared);
  tables = Shared(p, shared);
  setup.tabulate();
  tables.tabulate(p);
#pragma omp parallel num_threads(team)
  {
    ScratchArena arena = {memory + shared_bytes + thread_number() * own_bytes};
    Scratch scratch(setup, tables, arena);
#pragma omp for schedule(dynamic, 2)
    for (int64_t centre = 0; centre < n_atoms; ++centre) body(scratch, centre);
  }
}

} // namespace QML_ISA
} // namespace qml
