// Invariants of the neighbour density: values, pullback and projected Jacobian, one centre at a time (docs/conventions.md).
#include "density/moments.hpp"
#include "isa/derivatives.hpp"

namespace qml {
namespace QML_ISA {
namespace density {

// ---- values ----------------------------------------------------------------------------------------------------------

template <class real> struct ValuesScratch {
  typedef Setup<real> SetupOf;
  typedef Nothing Shared;
  const Setup<real> &setup;
  Moments<real> moments;
  real *functions; // (pair width)

  ValuesScratch(const Setup<real> &setup, const Nothing &, ScratchArena &arena)
      : setup(setup), moments(setup, arena), functions(arena.take<real>(setup.pair_table.width)) {}

  void compute(const int64_t *segments, const real *vectors, real *out) {
    const qml_density &p = setup.p;
    moments.compute(segments, vectors, false);
    const Neighbours<real> &far = moments.far;
    __builtin_memset(out, 0, size_t(setup.pair_size()) * sizeof(real));
    for (int64_t element = 0; element < p.n_elements; ++element) {
      for (int64_t slot = far.start[element]; slot < far.start[element + 1]; ++slot) {
        setup.pair_table.evaluate(far.r[slot], functions, nullptr);
        for (int64_t n = 0; n < p.n_pair; ++n) out[element * p.n_pair + n] += functions[n];
      }
    }
    with_invariants<real>(p, [&](auto invariants) { invariants.values(moments.moments, out + setup.pair_size()); });
  }
};

// ---- pullback --------------------------------------------------------------------------------------------------------

// Cotangents of one centre lie side by side in the products, so that radial functions and harmonics are read once.
template <class real> struct PullbackScratch {
  typedef Setup<real> SetupOf;
  typedef Nothing Shared;
  static constexpr int most = 4; // cotangents at once
  const Setup<real> &setup;
  Moments<real> moments;
  real *functions, *factors; // (pair width)
  real *pair_slopes;         // (slots, pair width)
  real *gradient;            // (harmonics, channels) of the moments
  real *turned;              // (channels, cotangents, padded) its transpose
  real *by_density;          // (radial functions, cotangents, padded) gradient by the density of one element
  real *by_harmonic, *by_r;  // (slots, cotangents, padded) that times radial functions, and times their derivatives

  PullbackScratch(const Setup<real> &setup, const Nothing &, ScratchArena &arena)
      : setup(setup), moments(setup, arena), functions(arena.take<real>(setup.pair_table.width)),
        factors(arena.take<real>(setup.pair_table.width)),
        pair_slopes(arena.take<real>(setup.capacity * setup.pair_table.width)),
        gradient(arena.take<real>(setup.n_harmonics * setup.p.n_channels)),
        turned(arena.take<real>(setup.p.n_channels * most * setup.padded)),
        by_density(arena.take<real>(setup.p.n_radial * most * setup.padded)),
        by_harmonic(arena.take<real>(setup.capacity * most * setup.padded)),
        by_r(arena.take<real>(setup.capacity * most * setup.padded)) {}

  // The part that does not depend on the cotangents.
  void prepare(const int64_t *segments, const real *vectors) {
    moments.compute(segments, vectors, true);
    for (int64_t slot = 0; slot < moments.far.count; ++slot)
      setup.pair_table.evaluate(moments.far.r[slot], functions, pair_slopes + slot * setup.pair_table.width);
  }

  // Gradients of `n` cotangents, at most `most`, that lie one after the other.
  void compute(const int64_t *segments, int n, const real *cotangents, real *const *outs) {
    const qml_density &p = setup.p;
    const int64_t first_pair = segments[0], n_pairs = segments[p.n_elements] - first_pair;
    const int64_t width = setup.radial_table.width, columns = n * setup.padded;
    const Neighbours<real> &near = moments.near;
    for (int k = 0; k < n; ++k) {
      const real *cotangent = cotangents + k * setup.size();
      __builtin_memset(outs[k] + 3 * first_pair, 0, size_t(3 * n_pairs) * sizeof(real)); // pairs beyond the cutoff
      add_pairs(cotangent, outs[k]);
      if (near.count == 0) continue;
      with_invariants<real>(p, [&](auto invariants) {
        invariants.pullback(moments.moments, cotangent + setup.pair_size(), gradient);
      });
      turn(turned + k * setup.padded, columns);
    }
    for (int64_t element = 0; element < p.n_elements; ++element) {
      if (!near.present(element)) continue;
      const int64_t from = near.start[element], count = near.start[element + 1] - from;
      product<real>(p.n_radial, p.n_channels, columns, {setup.mixing(element), p.n_channels, 1}, turned, columns,
                    by_density, columns);
      product<real>(count, p.n_radial, columns, {moments.radial + from * width, width, 1}, by_density, columns,
                    by_harmonic + from * columns, columns);
      product<real>(count, p.n_radial, columns, {moments.slope + from * width, width, 1}, by_density, columns,
                    by_r + from * columns, columns);
    }
    add_near(n, outs);
  }

private:
  void add_pairs(const real *cotangent, real *out) {
    const Neighbours<real> &far = moments.far;
    const int64_t width = setup.pair_table.width;
    for (int64_t element = 0; element < setup.p.n_elements; ++element) {
      for (int64_t n = 0; n < width; ++n)
        factors[n] = n < setup.p.n_pair ? cotangent[element * setup.p.n_pair + n] : real(0);
      for (int64_t slot = far.start[element]; slot < far.start[element + 1]; ++slot) {
        const real *slopes = pair_slopes + slot * width;
        Vector<real> sums = {};
        for (int64_t n = 0; n < width; n += lanes_of<real>) sums = fma(load(factors + n), load(slopes + n), sums);
        const real along = sum<real>(sums);
        for (int axis = 0; axis < 3; ++axis) out[3 * far.pair[slot] + axis] = along * far.unit[axis][slot];
      }
    }
  }

  // The gradient turned into `to`, whose rows are `apart`.
  void turn(real *to, int64_t apart) {
    constexpr int lanes = lanes_of<real>;
    Vector<real> rows[most_harmonics + lanes] = {};
    for (int64_t k = 0; k < setup.p.n_channels; k += lanes) {
      for (int64_t lm = 0; lm < setup.n_harmonics; ++lm) rows[lm] = load(gradient + lm * setup.p.n_channels + k);
      for (int64_t lm = setup.n_harmonics; lm < setup.padded; ++lm) rows[lm] = Vector<real>{};
      store_rows<real>(rows, setup.padded, lanes, to + k * apart, apart);
    }
  }

  // Gradients of each near neighbour: along its vector by the radial functions, across it by the harmonics.
  void add_near(int n, real *const *outs) const {
    constexpr int lanes = lanes_of<real>;
    const Neighbours<real> &near = moments.near;
    Vector<real> values[most_harmonics], tilts[most_harmonics][3], of_harmonic[most_harmonics + lanes];
    Vector<real> of_r[most_harmonics + lanes], u[3];
    for (int64_t slot = 0; slot < near.count; slot += lanes) {
      const int64_t count = near.count - slot < lanes ? near.count - slot : lanes;
      near.unit_of(slot, u);
      harmonics<real>(setup.p.l_max, u, values);
      harmonic_slopes<real>(setup.p.l_max, u, tilts);
      const Vector<real> per = load(near.inverse + slot);
      for (int k = 0; k < n; ++k) {
        const int64_t at = (slot * n + k) * setup.padded;
        gather_rows<real>(by_harmonic + at, count, setup.padded, of_harmonic, n * setup.padded);
        gather_rows<real>(by_r + at, count, setup.padded, of_r, n * setup.padded);
        Vector<real> radial = {}, across[3] = {};
        for (int64_t lm = 0; lm < setup.n_harmonics; ++lm) {
          radial = fma(of_r[lm], values[lm], radial);
          for (int axis = 0; axis < 3; ++axis) across[axis] = fma(of_harmonic[lm], tilts[lm][axis], across[axis]);
        }
        const Vector<real> along = across[0] * u[0] + across[1] * u[1] + across[2] * u[2];
        const Vector<real> whole = radial - along * per;
        for (int axis = 0; axis < 3; ++axis) {
          const Vector<real> g = fma(across[axis], per, whole * u[axis]);
          for (int64_t i = 0; i < count; ++i) outs[k][3 * near.pair[slot + i] + axis] += g[i];
        }
      }
    }
  }
};

// ---- projected Jacobian ----------------------------------------------------------------------------------------------

template <class real> struct JacobianScratch {
  typedef Setup<real> SetupOf;
  typedef Nothing Shared;
  static constexpr int64_t columns_at_once = 128;
  const Setup<real> &setup;
  Moments<real> moments;
  Derivatives<real> derivatives;
  real *functions;   // (pair width)
  real *pair_slopes; // (slots, pair width)
  real *slopes;      // (invariants, harmonics, channels)
  real *tilts;       // (slots, 3, padded) derivatives of the harmonics
  real *by_moment;   // (channels, columns) derivative of the projection by the moments of one harmonic
  real *by_density;  // (elements, radial functions * harmonics + pair functions, columns)

  int64_t depth() const { return setup.p.n_radial * setup.n_harmonics + setup.p.n_pair; }

  JacobianScratch(const Setup<real> &setup, const Nothing &, ScratchArena &arena)
      : setup(setup), moments(setup, arena), derivatives(depth(), arena),
        functions(arena.take<real>(setup.pair_table.width)),
        pair_slopes(arena.take<real>(setup.capacity * setup.pair_table.width)),
        slopes(arena.take<real>(setup.p.n_invariants * setup.n_harmonics * setup.p.n_channels)),
        tilts(arena.take<real>(setup.capacity * 3 * setup.padded)),
        by_moment(arena.take<real>(setup.p.n_channels * columns_at_once)),
        by_density(arena.take<real>(setup.p.n_elements * depth() * columns_at_once)) {}

  void compute(const int64_t *segments, const real *vectors, const real *projection, int64_t rank, real *out) {
    const qml_density &p = setup.p;
    moments.compute(segments, vectors, true);
    const int64_t first_pair = segments[0], n_pairs = segments[p.n_elements] - first_pair;
    if (moments.far.count < n_pairs) // pairs beyond the cutoff
      __builtin_memset(out + 3 * rank * first_pair, 0, size_t(3 * rank * n_pairs) * sizeof(real));
    for (int64_t slot = 0; slot < moments.far.count; ++slot)
      setup.pair_table.evaluate(moments.far.r[slot], functions, pair_slopes + slot * setup.pair_table.width);
    with_invariants<real>(p, [&](auto invariants) { invariants.slopes(moments.moments, slopes); });
    tilt();
    for (int64_t first = 0; first < rank; first += columns_at_once) {
      const int64_t columns = rank - first < columns_at_once ? rank - first : columns_at_once;
      differentiate_density(projection + first, rank, columns);
      int64_t near = 0;
      for (int64_t element = 0; element < p.n_elements; ++element)
        project(element, near, columns, out + first, rank);
    }
  }

private:
  void tilt() {
    constexpr int lanes = lanes_of<real>;
    Vector<real> found[most_harmonics][3], one[most_harmonics + lanes] = {}, u[3];
    for (int64_t slot = 0; slot < moments.near.count; slot += lanes) {
      moments.near.unit_of(slot, u);
      const Vector<real> per = load(moments.near.inverse + slot);
      harmonic_slopes<real>(setup.p.l_max, u, found);
      for (int axis = 0; axis < 3; ++axis) {
        for (int64_t lm = 0; lm < setup.n_harmonics; ++lm) {
          const Vector<real> along = found[lm][0] * u[0] + found[lm][1] * u[1] + found[lm][2] * u[2];
          one[lm] = per * (found[lm][axis] - along * u[axis]);
        }
        for (int64_t lm = setup.n_harmonics; lm < setup.padded; ++lm) one[lm] = Vector<real>{};
        store_rows<real>(one, setup.padded, lanes, tilts + (slot * 3 + axis) * setup.padded, 3 * setup.padded);
      }
    }
  }

  // Derivative of some columns of the projected invariants by the density, element by element, with the rows of the
  // pair functions behind it.
  void differentiate_density(const real *projection, int64_t rank, int64_t columns) {
    const qml_density &p = setup.p;
    const int64_t whole = whole_vectors<real>(columns);
    const real *of_invariants = projection + setup.pair_size() * rank;
    for (int64_t lm = 0; lm < setup.n_harmonics; ++lm) {
      differentiate_moments(lm, of_invariants, rank, columns);
      for (int64_t element = 0; element < p.n_elements; ++element) {
        if (!moments.near.present(element)) continue;
        real *to = by_density + (element * depth() + lm) * columns_at_once;
        product<real>(p.n_radial, p.n_channels, whole, {setup.mixing(element), p.n_channels, 1}, by_moment,
                      columns_at_once, to, setup.n_harmonics * columns_at_once);
      }
    }
    for (int64_t element = 0; element < p.n_elements; ++element) {
      real *to = by_density + ((element + 1) * depth() - p.n_pair) * columns_at_once;
      for (int64_t n = 0; n < p.n_pair; ++n, to += columns_at_once)
        copy(projection + (element * p.n_pair + n) * rank, columns, to);
    }
  }

  static void copy(const real *from, int64_t columns, real *to) {
    __builtin_memcpy(to, from, size_t(columns) * sizeof(real));
    for (int64_t column = columns; column % lanes_of<real> != 0; ++column) to[column] = 0;
  }

  // by_moment[k] = sum over the invariants of their derivative by moment `lm` of channel k, times their rows.
  void differentiate_moments(int64_t lm, const real *projection, int64_t rank, int64_t columns) {
    const qml_density &p = setup.p;
    __builtin_memset(by_moment, 0, size_t(p.n_channels * columns_at_once) * sizeof(real));
    for (int64_t invariant = 0; invariant < p.n_invariants; ++invariant) {
      const real *slope = slopes + (invariant * setup.n_harmonics + lm) * p.n_channels;
      const real *row = projection + invariant * p.n_channels * rank;
      if (!setup.moved[invariant * setup.n_harmonics + lm]) continue;
      for (int64_t k = 0; k < p.n_channels; ++k, row += rank) {
        real *to = by_moment + k * columns_at_once;
        int64_t column = 0;
        for (; column + lanes_of<real> <= columns; column += lanes_of<real>)
          store(to + column, fma(load(row + column), slope[k], load(to + column)));
        for (; column < columns; ++column) to[column] += row[column] * slope[k];
      }
    }
  }

  // Rows of the neighbours of one element; `near` counts those within the cutoff of the density.
  void project(int64_t element, int64_t &near, int64_t columns, real *out, int64_t rank) {
    const Neighbours<real> &far = moments.far;
    const real *base = by_density + element * depth() * columns_at_once;
    derivatives.depth = depth();
    for (int64_t d = 0; d < depth(); ++d) derivatives.column[d] = d * columns_at_once;
    const int64_t stop = far.start[element + 1];
    for (int64_t from = far.start[element]; from < stop; from += derivatives.most) {
      const int64_t count = stop - from < derivatives.most ? stop - from : derivatives.most;
      for (int64_t i = 0; i < count; ++i) differentiate(from + i, near, i);
      derivatives.project(count, far.pair + from, base, columns, rank, out);
    }
  }

  // Derivatives of the density and of the pair functions by neighbour `slot`, as number i of the rows.
  void differentiate(int64_t slot, int64_t &near_slot, int64_t i) {
    const qml_density &p = setup.p;
    const Neighbours<real> &far = moments.far, &near = moments.near;
    const bool inside = near_slot < near.count && near.pair[near_slot] == far.pair[slot];
    const int64_t behind = p.n_radial * setup.n_harmonics;
    for (int axis = 0; axis < 3; ++axis) {
      real *to = derivatives.row(i, axis);
      const real unit = far.unit[axis][slot];
      for (int64_t n = 0; n < p.n_pair; ++n) to[behind + n] = unit * pair_slopes[slot * setup.pair_table.width + n];
      if (!inside) {
        __builtin_memset(to, 0, size_t(behind) * sizeof(real));
        continue;
      }
      const real *value = moments.radial + near_slot * setup.radial_table.width;
      const real *slope = moments.slope + near_slot * setup.radial_table.width;
      const real *angular = moments.angular + near_slot * setup.padded;
      const real *tilted = tilts + (near_slot * 3 + axis) * setup.padded;
      for (int64_t n = 0; n < p.n_radial; ++n)
        for (int64_t lm = 0; lm < setup.n_harmonics; ++lm)
          to[n * setup.n_harmonics + lm] = slope[n] * unit * angular[lm] + value[n] * tilted[lm];
    }
    near_slot += inside;
  }
};

// ---- entries ---------------------------------------------------------------------------------------------------------

template <class real>
void values(const void *parameters, int64_t n_atoms, const int64_t *segments, int64_t apart, const real *vectors,
            real *out, int threads) {
  const qml_density &p = *static_cast<const qml_density *>(parameters);
  over_centres<ValuesScratch<real>>(p, n_atoms, segments, apart, threads, [&](auto &scratch, int64_t centre) {
    scratch.compute(segments + centre * apart, vectors, out + centre * scratch.setup.size());
  });
}

template <class real>
void pullback(const void *parameters, int64_t n_atoms, const int64_t *segments, int64_t apart, const real *vectors,
              int n, const real *cotangents, real *const *outs, int threads) {
  const qml_density &p = *static_cast<const qml_density *>(parameters);
  over_centres<PullbackScratch<real>>(p, n_atoms, segments, apart, threads, [&](auto &scratch, int64_t centre) {
    scratch.prepare(segments + centre * apart, vectors);
    for (int k = 0; k < n; k += scratch.most)
      scratch.compute(segments + centre * apart, n - k < scratch.most ? n - k : scratch.most,
                      cotangents + (centre * n + k) * scratch.setup.size(), outs + k);
  });
}

template <class real>
void jacobian(const void *parameters, int64_t n_atoms, const int64_t *segments, const real *vectors,
              const int64_t *centre_element, int64_t rank, const real *projections, real *out, int threads) {
  const qml_density &p = *static_cast<const qml_density *>(parameters);
  over_centres<JacobianScratch<real>>(p, n_atoms, segments, p.n_elements, threads, [&](auto &scratch, int64_t centre) {
    const real *projection = projections + centre_element[centre] * scratch.setup.size() * rank;
    scratch.compute(segments + centre * p.n_elements, vectors, projection, rank, out);
  });
}

} // namespace density

void add_density(Kernels &to) {
  to.f32.environments[QML_DENSITY] = {density::values<float>, density::pullback<float>, density::jacobian<float>};
  to.f64.environments[QML_DENSITY] = {density::values<double>, density::pullback<double>, density::jacobian<double>};
}

} // namespace QML_ISA
} // namespace qml
