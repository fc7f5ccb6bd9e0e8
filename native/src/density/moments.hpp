// The density around one centre, in radial functions and spherical harmonics, and its mixture into channels.
#pragma once

#include "density/invariants.hpp"
#include "density/neighbours.hpp"
#include "density/product.hpp"

#include <initializer_list>

namespace qml {
namespace QML_ISA {
namespace density {

// Sizes and tables of one call.
template <class real> struct Setup {
  qml_density p;
  int64_t capacity;               // slots for neighbours, whole vectors
  int64_t n_harmonics, padded;    // spherical harmonics, and whole vectors of them
  RadialTable<real> pair_table, radial_table;
  bool *moved;                    // (invariants, harmonics) whether an invariant depends on a moment

  Setup(const qml_density &p, int64_t most_neighbours, ScratchArena &arena)
      : p(p), capacity(whole_vectors<real>(most_neighbours)), n_harmonics((p.l_max + 1) * (p.l_max + 1)),
        padded(whole_vectors<real>(n_harmonics)), pair_table(p.pair_table, p.n_intervals, p.n_pair, p.pair_cutoff),
        radial_table(p.radial_table, p.n_intervals, p.n_radial, p.cutoff),
        moved(arena.take<bool>(p.n_invariants * n_harmonics)) {}

  void tabulate() {
    __builtin_memset(moved, 0, size_t(p.n_invariants * n_harmonics));
    for (int64_t l = 0; l <= p.l_max; ++l)
      for (int64_t i = l * l; i < (l + 1) * (l + 1); ++i) moved[l * n_harmonics + i] = true;
    for (const Coupling &term : couplings) {
      const int64_t invariant = p.l_max + 1 + term.path;
      if (invariant >= p.n_invariants) break;
      for (const int harmonic : {term.a, term.b, term.c}) moved[invariant * n_harmonics + harmonic] = true;
    }
  }

  int64_t pair_size() const { return int64_t(p.n_elements) * p.n_pair; }
  int64_t size() const { return pair_size() + int64_t(p.n_invariants) * p.n_channels; }
  // mixing (radial functions, channels) of one element
  const real *mixing(int64_t element) const {
    return static_cast<const real *>(p.mixing) + element * p.n_radial * p.n_channels;
  }
};

// Neighbours of one centre, radial functions and harmonics of each, and the moments of all channels.
template <class real> struct Moments {
  const Setup<real> &setup;
  Neighbours<real> far, near;     // within the cutoff of pairs, and within that of the density
  real *radial, *slope;           // (slots, width) of the near ones
  real *angular;                  // (slots, padded)
  real *density;                  // (elements, radial functions, padded)
  real *moments;                  // (harmonics, channels)

  Moments(const Setup<real> &setup, ScratchArena &arena)
      : setup(setup), far(setup.p.n_elements, setup.p.pair_cutoff, setup.capacity, arena),
        near(setup.p.n_elements, setup.p.cutoff, setup.capacity, arena) {
    radial = arena.take<real>(setup.capacity * setup.radial_table.width);
    slope = arena.take<real>(setup.capacity * setup.radial_table.width);
    angular = arena.take<real>(setup.capacity * setup.padded);
    density = arena.take<real>(setup.p.n_elements * setup.p.n_radial * setup.padded);
    moments = arena.take<real>(setup.n_harmonics * setup.p.n_channels);
  }

  real *density_of(int64_t element) const { return density + element * setup.p.n_radial * setup.padded; }

  void compute(const int64_t *segments, const real *vectors, bool slopes) {
    const qml_density &p = setup.p;
    far.gather(segments, vectors);
    near.gather(segments, vectors);
    const RadialTable<real> &table = setup.radial_table;
    for (int64_t slot = 0; slot < near.count; ++slot)
      table.evaluate(near.r[slot], radial + slot * table.width, slopes ? slope + slot * table.width : nullptr);
    evaluate_harmonics();
    __builtin_memset(moments, 0, size_t(setup.n_harmonics * p.n_channels) * sizeof(real));
    for (int64_t element = 0; element < p.n_elements; ++element) {
      if (!near.present(element)) continue;
      const int64_t first = element;
      for (; element < p.n_elements && near.present(element); ++element) sum_density(element);
      // of all elements side by side: one product
      product<real>(setup.n_harmonics, (element - first) * p.n_radial, p.n_channels,
                    {density_of(first), 1, setup.padded}, setup.mixing(first), p.n_channels, moments, p.n_channels, true);
    }
  }

private:
  void sum_density(int64_t element) {
    const int64_t from = near.start[element], n = near.start[element + 1] - from, width = setup.radial_table.width;
    product<real>(setup.p.n_radial, n, setup.padded, {radial + from * width, 1, width}, angular + from * setup.padded,
                  setup.padded, density_of(element), setup.padded);
  }

  void evaluate_harmonics() {
    constexpr int lanes = lanes_of<real>;
    Vector<real> found[most_harmonics + lanes] = {}, u[3];
    for (int64_t slot = 0; slot < near.count; slot += lanes) {
      near.unit_of(slot, u);
      harmonics<real>(setup.p.l_max, u, found);
      store_rows<real>(found, setup.padded, lanes, angular + slot * setup.padded, setup.padded);
      for (int64_t lm = setup.n_harmonics; lm < setup.padded; ++lm) found[lm] = Vector<real>{};
    }
  }
};

} // namespace density
} // namespace QML_ISA
} // namespace qml
