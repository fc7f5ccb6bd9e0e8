// The kernels of one instruction set as a table of functions, and the little that all instruction sets share.
//
// A kernel source is compiled once for each instruction set, with QML_ISA naming the set. It defines templates in namespace
// qml::QML_ISA and puts them into the table for float and double. Arguments were checked at the C interface (abi) and are
// trusted here.
#pragma once

// All else is hidden: the library exports the C interface alone.
#pragma GCC visibility push(default)
#include "qml_lightning.h"
#pragma GCC visibility pop

#include <stddef.h>
#include <stdint.h>

namespace qml {

// At least `bytes` bytes, aligned to 64, kept by the calling thread for its next call: a step of molecular dynamics
// does not allocate. Throws std::bad_alloc, so it is called before a parallel region, for all of its threads.
void *workspace(size_t bytes);

// c (rows, columns) = a (rows, depth) b, with b (depth, columns) packed.
template <class real> struct Product {
  const real *a;
  int64_t rows;
  const real *packed;
  real *c;
};

// force_rows takes so many owners at a time; its `order` is that of the tangents: by group, then by row.
constexpr int64_t owners_in_group = 16;

// Products with features and tangents: x, angles and tangents are `real`, all that they are multiplied with is `wide`.
template <class real, class wide> struct ProductTable {
  void (*force_rows)(const qml_feature_map &map, int64_t n_atoms, const real *x, int64_t n_tangents,
                     const wide *tangents, const int64_t *owner, const int64_t *row, const int64_t *order, double *out,
                     int64_t stride, int threads);
  void (*energy_and_slope)(const qml_feature_map &map, int64_t n_atoms, const real *x, const wide *weights,
                           double *energy, wide *slope, int threads);
  void (*feature_moment)(const qml_feature_map &map, int64_t n_atoms, const real *x, const wide *coefficients,
                         const wide *tangents, double *moment, int threads);
  void (*tangent_products)(int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner, const wide *x,
                           double *out, int threads);
  void (*tangent_sums)(int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner,
                       const double *coefficients, int64_t n_owners, wide *out, int threads);
};

// Members of a committee: weights of the features of one map, and what comes of them.
template <class real> struct Members {
  int n, n_slopes;     // members, and the first ones of them that have slopes
  const real *weights; // (members, features)
  double *energies;    // (atoms, members)
  real *slopes;        // (atoms, rank) of each, `apart` from one to the next
  int64_t apart;
};

// Kernels of one kind of representation, which knows the type of its parameters.
// segments: `apart` entries from one centre to the next, n_elements where one begins with the last of the one before
template <class real> struct EnvironmentKernels {
  void (*values)(const void *parameters, int64_t n_atoms, const int64_t *segments, int64_t apart, const real *vectors,
                 real *out, int threads);
  // of n cotangents at once, (atoms, n, size), each with an output of its own: they share what follows from the vectors
  void (*pullback)(const void *parameters, int64_t n_atoms, const int64_t *segments, int64_t apart,
                   const real *vectors, int n, const real *cotangents, real *const *outs, int threads);
  void (*jacobian)(const void *parameters, int64_t n_atoms, const int64_t *segments, const real *vectors,
                   const int64_t *centre_element, int64_t rank, const real *projections, real *out, int threads);
};

constexpr int n_representations = 0
#define QML_REPRESENTATION(number, room) +1
#include "abi/representations.def"
#undef QML_REPRESENTATION
    ;

template <class real> struct KernelTable {
  ProductTable<real, real> products;
  EnvironmentKernels<real> environments[n_representations];
  void (*features)(const qml_feature_map &map, int64_t n_atoms, const real *x, real *out, int threads);
  void (*members)(const qml_feature_map &map, int64_t n_atoms, const real *x, const Members<real> &of, int threads);
  void (*energy_rows)(const qml_feature_map &map, int64_t n_atoms, const real *x, const int64_t *row, double *out,
                      int64_t stride, int threads);
  int64_t (*packed_size)(int64_t depth, int64_t columns);
  // b[k * row_stride + i * column_stride] -> packed, rounded
  void (*pack)(int64_t depth, int64_t columns, const double *b, int64_t row_stride, int64_t column_stride,
               real *packed);
  void (*matrix_product)(int64_t depth, int64_t columns, int64_t n_products, const Product<real> *products,
                         int threads);
};

struct Kernels {
  const char *isa;
  KernelTable<float> f32;
  KernelTable<double> f64;
  ProductTable<float, double> mixed;
};

// Each to be called only where the processor has that instruction set.
namespace baseline { const Kernels &kernels(); }
namespace avx2 { const Kernels &kernels(); }
namespace avx512 { const Kernels &kernels(); }

// The table in use: the best one, or that of qml_use_isa or of the environment variable QML_LIGHTNING_ISA.
const Kernels &kernels_in_use();

#ifdef QML_ISA
namespace QML_ISA {

// Each source of kernels puts its own into the table.
void add_energy_and_slope(Kernels &to);
void add_feature_moment(Kernels &to);
void add_features(Kernels &to);
void add_force_rows(Kernels &to);
void add_matrix_product(Kernels &to);
void add_members(Kernels &to);
void add_tangents(Kernels &to);
#define QML_REPRESENTATION(number, room) void add_##room(Kernels &to);
#include "abi/representations.def"
#undef QML_REPRESENTATION

} // namespace QML_ISA
#endif

} // namespace qml
