// FCHL19: values, pullback and projected Jacobian, one centre at a time (docs/conventions.md).
#include "fchl19_projection.hpp"
#include "fchl19_three_body.hpp"
#include "fchl19_two_body.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace qml {
namespace QML_ISA {
namespace fchl19 {

inline int thread_number() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

// body(scratch, centre) for all centres, each thread with a scratch of its own. A centre writes only what is its own,
// so the result does not depend on who computes it.
template <class Scratch, class Body>
void over_centres(const qml_fchl19 &p, int64_t n_atoms, const int64_t *segments, int threads, Body body) {
  typedef typename Scratch::Real real;
  int64_t most_neighbours = 0;
  for (int64_t centre = 0; centre < n_atoms; ++centre) {
    const int64_t *own = segments + centre * p.n_elements, count = own[p.n_elements] - own[0];
    if (count > most_neighbours) most_neighbours = count;
  }
  // waking a thread costs as much as a few centres
  const int64_t useful = n_atoms / 4 > 1 ? n_atoms / 4 : 1;
  const int team = threads < useful ? threads : int(useful);

  typedef typename Scratch::Shared Shared;
  Arena shared, own;
  Model<real> model(p, most_neighbours, shared);
  Shared tables(p, shared);
  Scratch(model, tables, own);
  const int64_t shared_bytes = shared.used, own_bytes = own.used;
  char *memory = static_cast<char *>(workspace(size_t(shared_bytes + team * own_bytes)));
  shared = {memory};
  model = Model<real>(p, most_neighbours, shared);
  tables = Shared(p, shared);
  model.tabulate();
  tables.tabulate(p);
#pragma omp parallel num_threads(team)
  {
    Arena arena = {memory + shared_bytes + thread_number() * own_bytes};
    Scratch scratch(model, tables, arena);
#pragma omp for schedule(dynamic, 2)
    for (int64_t centre = 0; centre < n_atoms; ++centre) body(scratch, centre);
  }
}

// For kernels that share nothing but the model.
struct Nothing {
  Nothing(const qml_fchl19 &, Arena &) {}
  void tabulate(const qml_fchl19 &) {}
};

// ---- values ----------------------------------------------------------------------------------------------------------

template <class real> struct ValuesScratch {
  typedef real Real;
  typedef Nothing Shared;
  const Model<real> &model;
  Neighbours<real> neighbours;
  real *gaussians; // (capacity, padded3)
  real *rows;      // (n_angular, capacity)
  real *two_body;  // (padded2)
  real *blocks;    // (n_blocks, n_angular, padded3)

  ValuesScratch(const Model<real> &model, const Nothing &, Arena &arena)
      : model(model), neighbours(model, arena), gaussians(arena.take<real>(model.capacity * model.padded3)),
        rows(arena.take<real>(model.p.n_angular * model.capacity)), two_body(arena.take<real>(model.padded2)),
        blocks(arena.take<real>(model.n_blocks * model.p.n_angular * model.padded3)) {}

  template <class Angular> void add_triples(int64_t element, int64_t j) {
    const int64_t n_angular = model.p.n_angular, padded3 = model.padded3;
    triple_row<Angular>(neighbours, j, rows);
    const real *own = gaussians + j * padded3;
    for (int64_t other = element; other < model.p.n_elements; ++other) {
      const int64_t from = neighbours.start[other] > j ? neighbours.start[other] : j + 1;
      const int64_t to = neighbours.start[other + 1];
      if (from >= to) continue;
      real *block = blocks + model.block_index(element, other) * n_angular * padded3;
      int64_t order = 0;
      const auto add = [&](auto count) QML_INLINE_LAMBDA {
        constexpr int channels = decltype(count)::value;
        onto_grid<channels>(model, gaussians, rows + order * model.capacity, from, to,
                            [&](int64_t l, const Vector<real>(&sums)[channels]) QML_INLINE_LAMBDA {
                              for (int c = 0; c < channels; ++c) {
                                real *at = block + (order + c) * padded3 + l;
                                store(at, fma(load(own + l), sums[c], load(at)));
                              }
                            });
        order += channels;
      };
      while (order + 4 <= n_angular) add(Index<4>{});
      while (order + 2 <= n_angular) add(Index<2>{});
      while (order < n_angular) add(Index<1>{});
    }
  }

  template <class Angular, class io> void compute(const int64_t *segments, const io *vectors, io *out) {
    const qml_fchl19 &p = model.p;
    neighbours.gather(segments, vectors);
    for (int64_t element = 0; element < p.n_elements; ++element, out += p.n_radial2) {
      two_body_values(neighbours, element, two_body);
      for (int64_t k = 0; k < p.n_radial2; ++k) out[k] = io(two_body[k]);
    }
    neighbours.gaussians_by_slot(gaussians);
    const int64_t padded_block = p.n_angular * model.padded3;
    __builtin_memset(blocks, 0, size_t(model.n_blocks * padded_block) * sizeof(real));
    for (int64_t element = 0; element < p.n_elements; ++element) {
      for (int64_t j = neighbours.start[element]; j < neighbours.start[element + 1]; ++j) {
        add_triples<Angular>(element, j);
      }
    }
    for (int64_t block = 0; block < model.n_blocks; ++block, out += model.block) {
      const real *from = blocks + block * padded_block;
      for (int64_t l = 0; l < p.n_radial3; ++l) {
        for (int64_t order = 0; order < p.n_angular; ++order) {
          out[l * p.n_angular + order] = io(from[order * model.padded3 + l]);
        }
      }
    }
  }
};

// ---- pullback --------------------------------------------------------------------------------------------------------

template <class real> struct PullbackScratch {
  typedef real Real;
  typedef RadialBasis<real> Shared;
  const Model<real> &model;
  Neighbours<real> neighbours;
  Gradient<real> gradient;
  RadialFunctions<real> radial;
  int64_t *first_element, *last_element; // (capacity / lanes) of the neighbours in each vector of slots
  real *functions;                       // (n_angular, 2, capacity)
  real *two_body;                        // (padded2) cotangent of one element

  PullbackScratch(const Model<real> &model, const RadialBasis<real> &basis, Arena &arena)
      : model(model), neighbours(model, arena), gradient(model, arena), radial(basis, model, arena),
        first_element(arena.take<int64_t>(model.capacity / lanes_of<real>)),
        last_element(arena.take<int64_t>(model.capacity / lanes_of<real>)),
        functions(arena.take<real>(2 * model.p.n_angular * model.capacity)), two_body(arena.take<real>(model.padded2)) {}

  bool present(int64_t element) const { return neighbours.start[element] < neighbours.start[element + 1]; }

  void list_elements() {
    constexpr int64_t lanes = lanes_of<real>;
    int64_t next = neighbours.first_vector() / lanes;
    for (int64_t element = 0; element < model.p.n_elements; ++element) {
      if (!present(element)) continue;
      const int64_t last = (neighbours.start[element + 1] - 1) / lanes;
      if (neighbours.start[element] / lanes < next) last_element[next - 1] = element;
      for (; next <= last; ++next) first_element[next] = last_element[next] = element;
    }
  }

  template <class Angular, class io> void add_element(int64_t element, const io *cotangent) {
    const qml_fchl19 &p = model.p;
    for (int64_t k = 0; k < model.padded2; ++k) {
      two_body[k] = k < p.n_radial2 ? real(cotangent[element * p.n_radial2 + k]) : real(0);
    }
    for (int64_t other = element; other < p.n_elements; ++other) {
      if (present(other)) radial.tabulate(model.block_index(element, other), cotangent + model.block_of(element, other));
    }
    const RadialRow<real> row = {neighbours, radial, first_element, last_element, functions};
    for (int64_t j = neighbours.start[element]; j < neighbours.start[element + 1]; ++j) {
      gradient.radial[j] += two_body_pullback(neighbours, j, two_body);
      row.fill(element, j);
      triple_pullback<Angular>(neighbours, j, radial.basis.per_width, functions, gradient);
    }
  }

  template <class Angular, class io>
  void compute(const int64_t *segments, const io *vectors, const io *cotangent, io *out) {
    neighbours.gather(segments, vectors);
    list_elements();
    const int64_t begin = neighbours.first_vector();
    real *const parts[] = {gradient.radial, gradient.x, gradient.y, gradient.z};
    for (real *part : parts) __builtin_memset(part + begin, 0, size_t(model.capacity - begin) * sizeof(real));
    for (int64_t element = 0; element < model.p.n_elements; ++element) {
      if (present(element)) add_element<Angular>(element, cotangent);
    }

    const int64_t first_pair = segments[0], n_pairs = segments[model.p.n_elements] - first_pair;
    __builtin_memset(out + 3 * first_pair, 0, size_t(3 * n_pairs) * sizeof(io)); // pairs beyond the cutoff
    const Neighbours<real> &n = neighbours;
    for (int64_t slot = n.first; slot < model.capacity; ++slot) {
      io *to = out + 3 * n.pair[slot];
      const real radial = gradient.radial[slot] * n.inverse_r[slot];
      to[0] = io(gradient.x[slot] + radial * n.x[slot]);
      to[1] = io(gradient.y[slot] + radial * n.y[slot]);
      to[2] = io(gradient.z[slot] + radial * n.z[slot]);
    }
  }
};

// ---- projected Jacobian ----------------------------------------------------------------------------------------------

template <class real> struct JacobianScratch {
  typedef real Real;
  typedef Nothing Shared;
  const Model<real> &model;
  Neighbours<real> neighbours;
  Derivatives<real> derivatives;
  real *gaussians; // (capacity, padded3)
  real *rows;      // (n_angular, 4, capacity)
  real *two_body;  // (padded2)

  JacobianScratch(const Model<real> &model, const Nothing &, Arena &arena)
      : model(model), neighbours(model, arena), derivatives(model, arena),
        gaussians(arena.take<real>(model.capacity * model.padded3)),
        rows(arena.take<real>(4 * model.p.n_angular * model.capacity)), two_body(arena.take<real>(model.padded2)) {}

  bool present(int64_t element) const { return neighbours.start[element] < neighbours.start[element + 1]; }

  // The entries of the representation that neighbours of one element move, in the order `differentiate` writes them.
  void list_columns(int64_t element, int64_t rank) {
    const qml_fchl19 &p = model.p;
    int64_t &depth = derivatives.depth = 0;
    for (int64_t k = 0; k < p.n_radial2; ++k) derivatives.column[depth++] = (element * p.n_radial2 + k) * rank;
    for (int64_t other = 0; other < p.n_elements; ++other) {
      if (!present(other)) continue;
      const int64_t block = model.block_of(element, other);
      for (int64_t order = 0; order < p.n_angular; ++order) {
        for (int64_t l = 0; l < p.n_radial3; ++l) {
          derivatives.column[depth++] = (block + l * p.n_angular + order) * rank;
        }
      }
    }
  }

  // Rows of neighbour j, as number i of the derivatives. A vector that reaches past its piece is mended by the next.
  template <class Angular> void differentiate(int64_t j, int64_t i) {
    const qml_fchl19 &p = model.p;
    const Neighbours<real> &n = neighbours;
    const real unit[3] = {n.x[j] * n.inverse_r[j], n.y[j] * n.inverse_r[j], n.z[j] * n.inverse_r[j]};
    two_body_slopes(n, j, two_body);
    for (int axis = 0; axis < 3; ++axis) {
      real *to = derivatives.row(i, axis);
      for (int64_t k = 0; k < model.padded2; k += lanes_of<real>) store(to + k, unit[axis] * load(two_body + k));
    }
    int64_t at = p.n_radial2;
    triple_slopes_row<Angular>(n, j, rows);
    const real *own = gaussians + j * model.padded3;
    for (int64_t other = 0; other < p.n_elements; ++other) {
      if (!present(other)) continue;
      for (int64_t order = 0; order < p.n_angular; ++order, at += p.n_radial3) {
        onto_grid<4>(model, gaussians, rows + order * 4 * model.capacity, n.start[other], n.start[other + 1],
                     [&](int64_t l, const Vector<real>(&sums)[4]) QML_INLINE_LAMBDA {
                       const Vector<real> gaussian = load(own + l);
                       const Vector<real> radial = real(p.eta3) * (load(model.grid3 + l) - n.r[j]) * sums[3];
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
    const int64_t first_pair = segments[0], n_pairs = segments[model.p.n_elements] - first_pair;
    if (model.capacity - neighbours.first < n_pairs) { // pairs beyond the cutoff
      __builtin_memset(out + 3 * rank * first_pair, 0, size_t(3 * rank * n_pairs) * sizeof(io));
    }
    neighbours.gaussians_by_slot(gaussians);
    for (int64_t element = 0; element < model.p.n_elements; ++element) {
      list_columns(element, rank);
      const int64_t stop = neighbours.start[element + 1];
      for (int64_t from = neighbours.start[element]; from < stop; from += derivatives.most) {
        const int64_t count = stop - from < derivatives.most ? stop - from : derivatives.most;
        for (int64_t i = 0; i < count; ++i) differentiate<Angular>(from + i, i);
        derivatives.project(count, neighbours.pair + from, projection, rank, out);
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
// float for narrow Gaussians with a long cutoff: these are computed in double.
template <class io, class F> void choose(const qml_fchl19 &p, F f) {
  const auto with = [&](auto real) {
    if (p.angular == QML_ANGULAR_PAIR) f(real, Type<AngularPair<type_of<decltype(real)>>>{});
    else f(real, Type<AngularSeries<type_of<decltype(real)>>>{});
  };
  if (sizeof(io) == 4 && p.eta3 * p.cutoff * p.cutoff > 320) with(Type<double>{});
  else with(Type<io>{});
}

} // namespace fchl19

template <class io>
void fchl19_values(const qml_fchl19 &p, int64_t n_atoms, const int64_t *segments, const io *vectors, io *out,
                   int threads) {
  using namespace fchl19;
  choose<io>(p, [&](auto real, auto angular) {
    over_centres<ValuesScratch<type_of<decltype(real)>>>(
        p, n_atoms, segments, threads, [&](auto &scratch, int64_t centre) {
          scratch.template compute<type_of<decltype(angular)>>(segments + centre * p.n_elements, vectors,
                                                               out + centre * scratch.model.size());
        });
  });
}

template <class io>
void fchl19_pullback(const qml_fchl19 &p, int64_t n_atoms, const int64_t *segments, const io *vectors,
                     const io *cotangent, io *out, int threads) {
  using namespace fchl19;
  choose<io>(p, [&](auto real, auto angular) {
    over_centres<PullbackScratch<type_of<decltype(real)>>>(
        p, n_atoms, segments, threads, [&](auto &scratch, int64_t centre) {
          scratch.template compute<type_of<decltype(angular)>>(segments + centre * p.n_elements, vectors,
                                                               cotangent + centre * scratch.model.size(), out);
        });
  });
}

template <class io>
void fchl19_jacobian(const qml_fchl19 &p, int64_t n_atoms, const int64_t *segments, const io *vectors,
                     const int64_t *centre_element, int64_t rank, const io *projections, io *out, int threads) {
  using namespace fchl19;
  choose<io>(p, [&](auto real, auto angular) {
    over_centres<JacobianScratch<type_of<decltype(real)>>>(
        p, n_atoms, segments, threads, [&](auto &scratch, int64_t centre) {
          const io *projection = projections + centre_element[centre] * scratch.model.size() * rank;
          scratch.template compute<type_of<decltype(angular)>>(segments + centre * p.n_elements, vectors, projection,
                                                               rank, out);
        });
  });
}

#define QML_INSTANTIATE(real)                                                                                          \
  template void fchl19_values(const qml_fchl19 &, int64_t, const int64_t *, const real *, real *, int);                \
  template void fchl19_pullback(const qml_fchl19 &, int64_t, const int64_t *, const real *, const real *, real *, int); \
  template void fchl19_jacobian(const qml_fchl19 &, int64_t, const int64_t *, const real *, const int64_t *, int64_t,  \
                                const real *, real *, int);
QML_INSTANTIATE(float)
QML_INSTANTIATE(double)
#undef QML_INSTANTIATE

} // namespace QML_ISA
} // namespace qml
