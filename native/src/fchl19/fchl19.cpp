// FCHL19: values, pullback and projected Jacobian, one centre at a time (docs/conventions.md).
#include "fchl19/three_body.hpp"
#include "fchl19/two_body.hpp"
#include "isa/derivatives.hpp"

namespace qml {
namespace QML_ISA {
namespace fchl19 {

// ---- values ----------------------------------------------------------------------------------------------------------

// `share` angular functions of one grid point lie side by side, as they do in the result, so that the lanes are full
// whatever the number of grid points.
template <class real, int share> struct ValuesScratch {
  typedef Setup<real> SetupOf;
  typedef Nothing Shared;
  const Setup<real> &setup;
  Neighbours<real> neighbours;
  int64_t width, row;  // of the grid, whole vectors; of the angular functions of one neighbour
  real *gaussians;     // (capacity, width) each `share` times
  real *rows;          // (most_rows, n_angular / share, capacity, share)
  real *two_body;      // (padded2)
  real *blocks;        // (n_blocks, n_angular / share, width)

  ValuesScratch(const Setup<real> &setup, const Nothing &, ScratchArena &arena)
      : setup(setup), neighbours(setup, arena), width(whole_vectors<real>(share * setup.p.n_radial3)),
        row(setup.p.n_angular * setup.capacity), gaussians(arena.take<real>(setup.capacity * width)),
        rows(arena.take<real>(most_rows<real> * row)), two_body(arena.take<real>(setup.padded2)),
        blocks(arena.take<real>(setup.n_blocks * (setup.p.n_angular / share) * width)) {}

  // The triples of the neighbours j <= i < j + count with all later ones.
  template <class Angular> void add_triples(int64_t element, int64_t j, int64_t count) {
    triple_rows<Angular, share>(neighbours, j, count, rows);
    over_rows<rows_on_grid>(count, [&](int64_t i, auto number) {
      for (int64_t other = element; other < setup.p.n_elements; ++other) {
        const int64_t from = neighbours.start[other] > j + i ? neighbours.start[other] : j + i + 1;
        const int64_t to = neighbours.start[other + 1], n_packs = setup.p.n_angular / share;
        if (from >= to) continue;
        real *block = blocks + setup.block_index(element, other) * n_packs * width;
        const real *pack = rows + i * row;
        for (int64_t k = 0; k < n_packs; ++k, block += width, pack += setup.capacity * share) {
          add_to_grid<decltype(number)::value, share>(gaussians, width, j + i, pack, row, from, to, block);
        }
      }
    });
  }

  template <class Angular, class io> void compute(const int64_t *segments, const io *vectors, io *out) {
    const qml_fchl19 &p = setup.p;
    neighbours.gather(segments, vectors);
    for (int64_t element = 0; element < p.n_elements; ++element, out += p.n_radial2) {
      two_body_values(neighbours, element, two_body);
      for (int64_t k = 0; k < p.n_radial2; ++k) out[k] = io(two_body[k]);
    }
    neighbours.template gaussians_by_slot<share>(gaussians);
    const int64_t n_packs = p.n_angular / share;
    __builtin_memset(blocks, 0, size_t(setup.n_blocks * n_packs * width) * sizeof(real));
    for (int64_t element = 0; element < p.n_elements; ++element) {
      over_panels(neighbours, element,
                  [&](int64_t j, int64_t count) { add_triples<Angular>(element, j, count); });
    }
    const real *from = blocks;
    for (int64_t block = 0; block < setup.n_blocks; ++block, out += setup.block) {
      for (int64_t pack = 0; pack < n_packs; ++pack, from += width) {
        for (int64_t l = 0; l < p.n_radial3; ++l) {
          for (int c = 0; c < share; ++c) out[l * p.n_angular + pack * share + c] = io(from[l * share + c]);
        }
      }
    }
  }
};

// ---- pullback --------------------------------------------------------------------------------------------------------

template <class real> struct PullbackScratch {
  typedef Setup<real> SetupOf;
  typedef RadialBasis<real> Shared;
  // Cotangents at once: those of a model and of two members of a committee.
  static constexpr int most = 3;
  const Setup<real> &setup;
  Neighbours<real> neighbours;
  Gradient<real> gradient;
  RadialFunctions<real> radial;
  Contraction<real> contraction;
  real *two_body; // (most, padded2) cotangents of one element
  real *farthest; // (elements) distance of the farthest neighbour of each
  real most_distant = 0; // largest mean distance of a triple

  PullbackScratch(const Setup<real> &setup, const RadialBasis<real> &basis, ScratchArena &arena)
      : setup(setup), neighbours(setup, arena), gradient(setup, most, arena), radial(basis, setup, most, arena),
        contraction(neighbours, radial, most, arena), two_body(arena.take<real>(most * setup.padded2)),
        farthest(arena.take<real>(setup.p.n_elements)) {}

  bool present(int64_t element) const { return neighbours.start[element] < neighbours.start[element + 1]; }

  template <class Angular, int count, class io> void add_element(int64_t element, const io *cotangents) {
    const qml_fchl19 &p = setup.p;
    for (int64_t c = 0; c < count; ++c) {
      const io *cotangent = cotangents + c * setup.size();
      for (int64_t k = 0; k < setup.padded2; ++k) {
        two_body[c * setup.padded2 + k] = k < p.n_radial2 ? real(cotangent[element * p.n_radial2 + k]) : real(0);
      }
      for (int64_t other = element; other < p.n_elements; ++other) {
        const int64_t own = other == element; // a triple needs two neighbours
        if (neighbours.start[other] + own >= neighbours.start[other + 1]) continue;
        const real mean = real(0.5) * (farthest[element] + farthest[other]);
        radial.tabulate(c, setup.block_index(element, other), mean < most_distant ? mean : most_distant,
                        cotangent + setup.block_of(element, other));
      }
    }
    add_two_body_pullback<count>(neighbours, element, two_body, gradient.radial);
    contraction.of_element(element);
    over_panels(neighbours, element, [&](int64_t j, int64_t rows) {
      triple_pullback<Angular, count>(contraction, j, rows, gradient);
    });
  }

  // Gradients of `count` cotangents, which lie one after the other, of the neighbours that were gathered.
  template <class Angular, int count, class io>
  void compute(const int64_t *segments, const io *cotangents, io *const *outs) {
    const Neighbours<real> &n = neighbours;
    const int64_t begin = n.first_vector(), first_pair = segments[0];
    real *const parts[] = {gradient.radial, gradient.x, gradient.y, gradient.z};
    for (real *part : parts)
      for (int64_t c = 0; c < count; ++c)
        __builtin_memset(part + c * setup.capacity + begin, 0, size_t(setup.capacity - begin) * sizeof(real));
    for (int64_t element = 0; element < setup.p.n_elements; ++element) {
      if (present(element)) add_element<Angular, count>(element, cotangents);
    }

    for (int64_t c = 0; c < count; ++c) {
      const int64_t n_pairs = segments[setup.p.n_elements] - first_pair, own = c * setup.capacity;
      __builtin_memset(outs[c] + 3 * first_pair, 0, size_t(3 * n_pairs) * sizeof(io)); // pairs beyond the cutoff
      for (int64_t slot = n.first; slot < setup.capacity; ++slot) {
        io *to = outs[c] + 3 * n.pair[slot];
        const real radial = gradient.radial[own + slot];
        to[0] = io(gradient.x[own + slot] + radial * n.x[slot]);
        to[1] = io(gradient.y[own + slot] + radial * n.y[slot]);
        to[2] = io(gradient.z[own + slot] + radial * n.z[slot]);
      }
    }
  }

  // The range of mean distances.
  void measure() {
    real near[2] = {real(setup.p.cutoff), real(setup.p.cutoff)}, far[2] = {}; // the nearest two and the farthest two
    for (int64_t element = 0; element < setup.p.n_elements; ++element) {
      farthest[element] = 0;
      for (int64_t slot = neighbours.start[element]; slot < neighbours.start[element + 1]; ++slot) {
        const real r = neighbours.r[slot], above = r > near[0] ? r : near[0], below = r < far[0] ? r : far[0];
        near[0] = r < near[0] ? r : near[0], near[1] = above < near[1] ? above : near[1];
        far[0] = r > far[0] ? r : far[0], far[1] = below > far[1] ? below : far[1];
        farthest[element] = r > farthest[element] ? r : farthest[element];
      }
    }
    most_distant = real(0.5) * (far[0] + far[1]);
    radial.begin_at(real(0.5) * (near[0] + near[1]), most_distant);
  }

  // Gradients of n cotangents, which lie one after the other.
  template <class Angular, class io>
  void compute(const int64_t *segments, const io *vectors, int n, const io *cotangents, io *const *outs) {
    neighbours.gather(segments, vectors);
    measure();
    radial.clear(n < most ? 1 : most);
    int k = 0;
    for (; k + most <= n; k += most) compute<Angular, most>(segments, cotangents + k * setup.size(), outs + k);
    for (; k < n; ++k) compute<Angular, 1>(segments, cotangents + k * setup.size(), outs + k);
  }
};

// ---- projected Jacobian ----------------------------------------------------------------------------------------------

template <class real> struct JacobianScratch {
  typedef Setup<real> SetupOf;
  typedef Nothing Shared;
  const Setup<real> &setup;
  Neighbours<real> neighbours;
  Derivatives<real> derivatives;
  real *gaussians; // (capacity, padded3)
  real *rows;      // (n_angular, 4, capacity)
  real *two_body;  // (padded2)

  JacobianScratch(const Setup<real> &setup, const Nothing &, ScratchArena &arena)
      : setup(setup), neighbours(setup, arena), derivatives(setup.p.n_radial2 + setup.p.n_elements * setup.block, arena),
        gaussians(arena.take<real>(setup.capacity * setup.padded3)),
        rows(arena.take<real>(4 * setup.p.n_angular * setup.capacity)), two_body(arena.take<real>(setup.padded2)) {}

  bool present(int64_t element) const { return neighbours.start[element] < neighbours.start[element + 1]; }

  // The entries of the representation that neighbours of one element move, in the order `differentiate` writes them.
  void list_columns(int64_t element, int64_t rank) {
    const qml_fchl19 &p = setup.p;
    int64_t &depth = derivatives.depth = 0;
    for (int64_t k = 0; k < p.n_radial2; ++k) derivatives.column[depth++] = (element * p.n_radial2 + k) * rank;
    for (int64_t other = 0; other < p.n_elements; ++other) {
      if (!present(other)) continue;
      const int64_t block = setup.block_of(element, other);
      for (int64_t order = 0; order < p.n_angular; ++order) {
        for (int64_t l = 0; l < p.n_radial3; ++l) {
          derivatives.column[depth++] = (block + l * p.n_angular + order) * rank;
        }
      }
    }
  }

  // Rows of neighbour j, as number i of the derivatives. A vector that reaches past its piece is mended by the next.
  template <class Angular> void differentiate(int64_t j, int64_t i) {
    const qml_fchl19 &p = setup.p;
    const Neighbours<real> &n = neighbours;
    const real unit[3] = {n.x[j] * n.inverse_r[j], n.y[j] * n.inverse_r[j], n.z[j] * n.inverse_r[j]};
    two_body_slopes(n, j, two_body);
    for (int axis = 0; axis < 3; ++axis) {
      real *to = derivatives.row(i, axis);
      for (int64_t k = 0; k < setup.padded2; k += lanes_of<real>) store(to + k, unit[axis] * load(two_body + k));
    }
    int64_t at = p.n_radial2;
    triple_slopes_row<Angular>(n, j, rows);
    const real *own = gaussians + j * setup.padded3;
    for (int64_t other = 0; other < p.n_elements; ++other) {
      if (!present(other)) continue;
      for (int64_t order = 0; order < p.n_angular; ++order, at += p.n_radial3) {
        onto_grid<4>(setup, gaussians, rows + order * 4 * setup.capacity, n.start[other], n.start[other + 1],
                     [&](int64_t l, const Vector<real>(&sums)[4]) QML_INLINE_LAMBDA {
                       const Vector<real> gaussian = load(own + l);
                       const Vector<real> radial = real(p.eta3) * (load(setup.grid3 + l) - n.r[j]) * sums[3];
                       for (int axis = 0; axis < 3; ++axis) {
                         store(derivatives.row(i, axis) + at + l, gaussian * fma(radial, unit[axis], sums[axis]));
                       }
                     });
      }
    }
  }

  template <class Angular, class io>
  void compute(const int64_t *segments, const io *vectors, const io *projection, int64_t rank, io *out) {
    neighbours.gather(segments, vectors);
    const int64_t first_pair = segments[0], n_pairs = segments[setup.p.n_elements] - first_pair;
    if (setup.capacity - neighbours.first < n_pairs) { // pairs beyond the cutoff
      __builtin_memset(out + 3 * rank * first_pair, 0, size_t(3 * rank * n_pairs) * sizeof(io));
    }
    neighbours.template gaussians_by_slot<1>(gaussians);
    for (int64_t element = 0; element < setup.p.n_elements; ++element) {
      list_columns(element, rank);
      const int64_t stop = neighbours.start[element + 1];
      for (int64_t from = neighbours.start[element]; from < stop; from += derivatives.most) {
        const int64_t count = stop - from < derivatives.most ? stop - from : derivatives.most;
        for (int64_t i = 0; i < count; ++i) differentiate<Angular>(from + i, i);
        derivatives.project(count, neighbours.pair + from, projection, rank, rank, out);
      }
    }
  }
};

// ---- choice of arithmetic and of angular functions -------------------------------------------------------------------

template <class T> struct Type {
  typedef T type;
};
template <class T> using type_of = typename T::type;

// f(type to compute in, type of the angular functions). The separated Gaussians need exp(eta3 cutoff^2 / 4), beyond
// float for narrow Gaussians with a long cutoff: these are computed in double, and so are steep powers of the distance,
// which float has no table for.
template <class io, class F> void choose(const qml_fchl19 &p, F f) {
  const auto with = [&](auto real) {
    typedef type_of<decltype(real)> Real;
    if (p.angular == QML_ANGULAR_PAIR) f(real, Type<AngularPair<Real>>{});
    else if (p.n_angular == 4) f(real, Type<AngularSeries<Real, 4>>{}); // the default
    else f(real, Type<AngularSeries<Real, 0>>{});
  };
  const bool wide = p.eta3 * p.cutoff * p.cutoff > 320, steep = 0.5 * p.decay3 > InversePower<io>::largest_exponent;
  if (sizeof(io) == 4 && (wide || steep)) with(Type<double>{});
  else with(Type<io>{});
}

// f(Index<share>): the angular functions that lie side by side divide their number and fit into a vector.
template <class Angular, class real, class F> void choose_share(const qml_fchl19 &p, F f) {
  constexpr bool four = lanes_of<real> >= 4;
  if constexpr (Angular::known > 0) {
    f(Index<four && Angular::known % 4 == 0 ? 4 : 2>{});
  } else {
    if constexpr (four) {
      if (p.n_angular % 4 == 0) return f(Index<4>{});
    }
    if (p.n_angular % 2 != 0) return f(Index<1>{});
    f(Index<2>{});
  }
}

template <class io>
void values(const void *parameters, int64_t n_atoms, const int64_t *segments, int64_t apart, const io *vectors,
                   io *out, int threads) {
  const qml_fchl19 &p = *static_cast<const qml_fchl19 *>(parameters);
  choose<io>(p, [&](auto real, auto angular) {
    typedef type_of<decltype(real)> Real;
    typedef type_of<decltype(angular)> Angular;
    choose_share<Angular, Real>(p, [&](auto share) {
      over_centres<ValuesScratch<Real, decltype(share)::value>>(
          p, n_atoms, segments, apart, threads, [&](auto &scratch, int64_t centre) {
            scratch.template compute<Angular>(segments + centre * apart, vectors, out + centre * scratch.setup.size());
          });
    });
  });
}

template <class io>
void pullback(const void *parameters, int64_t n_atoms, const int64_t *segments, int64_t apart, const io *vectors,
              int n, const io *cotangents, io *const *outs, int threads) {
  const qml_fchl19 &p = *static_cast<const qml_fchl19 *>(parameters);
  choose<io>(p, [&](auto real, auto angular) {
    over_centres<PullbackScratch<type_of<decltype(real)>>>(
        p, n_atoms, segments, apart, threads, [&](auto &scratch, int64_t centre) {
          scratch.template compute<type_of<decltype(angular)>>(segments + centre * apart, vectors, n,
                                                               cotangents + centre * n * scratch.setup.size(), outs);
        });
  });
}

template <class io>
void jacobian(const void *parameters, int64_t n_atoms, const int64_t *segments, const io *vectors,
                     const int64_t *centre_element, int64_t rank, const io *projections, io *out, int threads) {
  const qml_fchl19 &p = *static_cast<const qml_fchl19 *>(parameters);
  choose<io>(p, [&](auto real, auto angular) {
    over_centres<JacobianScratch<type_of<decltype(real)>>>(
        p, n_atoms, segments, p.n_elements, threads, [&](auto &scratch, int64_t centre) {
          const io *projection = projections + centre_element[centre] * scratch.setup.size() * rank;
          scratch.template compute<type_of<decltype(angular)>>(segments + centre * p.n_elements, vectors, projection,
                                                               rank, out);
        });
  });
}

} // namespace fchl19

void add_fchl19(Kernels &to) {
  to.f32.environments[QML_FCHL19] = {fchl19::values<float>, fchl19::pullback<float>, fchl19::jacobian<float>};
  to.f64.environments[QML_FCHL19] = {fchl19::values<double>, fchl19::pullback<double>, fchl19::jacobian<double>};
}

} // namespace QML_ISA
} // namespace qml
