/* QML-Lightning's kernels as a C interface: tensors in, tensors out, no atoms, no Python.
 *
 * Every function comes for float and for double (suffix _f32, _f64), works on the caller's memory, runs on at most
 * `threads` OpenMP threads, and gives the same bits for the same input and thread count. It returns QML_OK or an
 * error code; the reason, in words, is then `qml_last_error()` of the calling thread. Nothing is written on error.
 * Arrays are dense, last index fastest. `real` is float or double, as the suffix says. Sizes and
 * their products, indices, order and numbers that are not finite are checked; lengths of arrays cannot be.
 */
#ifndef QML_LIGHTNING_H
#define QML_LIGHTNING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QML_ABI_VERSION 8

enum {
  QML_OK = 0, QML_BAD_ARGUMENT = 1, QML_NOT_FINITE = 2, QML_OUT_OF_MEMORY = 3, QML_UNSUPPORTED = 4, QML_BAD_FILE = 5
};

int32_t qml_abi_version(void);
const char *qml_last_error(void);

/* Instruction set in use: "baseline", "avx2" or "avx512" (x86-64), "baseline" elsewhere. The best one the processor has
 * is taken at first call; `qml_use_isa` forces one of those, or refuses with QML_UNSUPPORTED. */
const char *qml_isa(void);
int32_t qml_use_isa(const char *name);

/* A representation turns the neighbours of an atom into a vector, its environment. It is given by its kind and by the
 * parameters of that kind; arrays among them are `real` in a kernel and double in a model. */
enum { QML_FCHL19 = 0, QML_DENSITY = 1 };

typedef struct {
  int32_t kind;               /* QML_FCHL19, QML_DENSITY */
  int32_t reserved;           /* 0 */
  const void *parameters;     /* qml_fchl19, qml_density */
} qml_representation;

/* Length of the vector, or -1 where the representation is refused. */
int64_t qml_representation_size(const qml_representation *representation);

/* Parameters of FCHL19 (docs/conventions.md):
 * size = n_elements * n_radial2 + n_elements (n_elements + 1) / 2 * n_radial3 * n_angular */
enum { QML_ANGULAR_PAIR = 0, QML_ANGULAR_SERIES = 1 };

typedef struct {
  int32_t n_elements;         /* 1 ... 118 */
  int32_t n_radial2;          /* grid points of the two-body part */
  int32_t n_radial3;          /* grid points of the three-body part */
  int32_t n_angular;          /* angular functions per radial one: 2 for the pair, N for the series cos(n theta), n < N */
  int32_t angular;            /* QML_ANGULAR_PAIR: {cos, sin}; QML_ANGULAR_SERIES: cos(n theta) */
  int32_t cutoff_power;       /* 1: fc = (cos(pi r / cutoff) + 1) / 2; 2: its square, smooth to the third derivative */
  double cutoff;
  double eta2, eta3;
  double decay2, decay3;      /* N2, N3 */
  double weight3;             /* whole factor of the three-body part: sqrt(eta3 / pi) c3, times 2 exp(-zeta^2/2) for the pair */
} qml_fchl19;

/* Parameters of the invariants of the neighbour density (docs/conventions.md). Around each centre
 *   A[z, n, lm] = sum over neighbours of element z of R_n(r) Y_lm        harmonics of degree 0 ... l_max, m = -l ... l,
 *   M[k, lm] = sum over z, n of mixing[z, n, k] A[z, n, lm]              the squares of each degree of Y adding up to 1;
 * invariants of channel k: sum_m M[k, lm]^2 of each degree, then those of three moments, sum G M M M, of each path of degrees
 * l1 <= l2 <= l3 that couples to one, in the order of l3, l2, l1; each times its weight. G has the norm 1.
 * The vector: [pair functions of element 0 | ... | invariant 0 of all channels | invariant 1 of all channels | ...]
 * size = n_elements * n_pair + n_invariants * n_channels
 * Radial functions are tables: interval i of n_intervals even ones from 0 to the cutoff has the polynomial
 * sum_j table[i, j, n] x^j, 0 <= x < 1. Their last dimension is padded to a multiple of QML_DENSITY_PADDING. */
#define QML_DENSITY_PADDING 16

typedef struct {
  int32_t n_elements;         /* 1 ... 118 */
  int32_t n_pair;             /* radial functions of pairs */
  int32_t n_radial;           /* radial functions of the density */
  int32_t l_max;              /* 0 ... 3 */
  int32_t n_channels;         /* a multiple of QML_DENSITY_PADDING */
  int32_t n_invariants;       /* of each channel: l_max + 1 without products of three moments, or all */
  int32_t n_intervals;
  int32_t reserved;           /* 0 */
  double cutoff;              /* of the density */
  double pair_cutoff;         /* of the pair functions, not below that of the density */
  const void *pair_table;     /* real (n_intervals, 6, n_pair padded) */
  const void *radial_table;   /* real (n_intervals, 6, n_radial padded) */
  const void *mixing;         /* real (n_elements, n_radial, n_channels) */
  const void *weights;        /* real (n_invariants) */
} qml_density;

/* One feature map, that of one element: u = row_scale * (H D_n ... H D_1 x) + phases with H of entries +-1 (not
 * normalised), or u = matrix x + phases when n_transforms is 0.
 * Features: amplitude * cos(u), or amplitude * [cos(u) | sin(u)] when paired. n_features = n_frequencies * (1 + paired).
 * For n_transforms > 0, rank is a power of two and divides n_frequencies. Angles u are good up to 2^22 turns in float,
 * 2^51 in double; beyond, where rounding leaves nothing of an angle, features are not defined. */
typedef struct {
  int64_t rank;
  int64_t n_frequencies;
  int32_t n_transforms;
  int32_t paired;
  double amplitude;
  const void *signs;          /* real (n_frequencies / rank, n_transforms, rank), entries +-1; D_1 first */
  const void *row_scale;      /* real (n_frequencies); NULL: 1 */
  const void *matrix;         /* real (n_frequencies, rank), when n_transforms is 0 */
  const void *phases;         /* real (n_frequencies); NULL: 0 */
} qml_feature_map;

/* The kernels, each as F(name, suffix, (parameters), (their names)): the one list from which they are declared here,
 * defined in the library and checked by its wrappers.
 *
 * Neighbours are sorted by centre, then by element: the pairs of centre i with neighbours of element e are
 * segments[i * n_elements + e] <= p < segments[i * n_elements + e + 1]. */
#define QML_KERNELS(F, real, suffix)                                                                                   \
  /* pair vectors (pairs, 3), of 0.1 or longer -> out (atoms, size) */                                                 \
  F(environments, suffix,                                                                                              \
    (const qml_representation *representation, int64_t n_atoms, const int64_t *segments, const real *vectors,          \
     real *out, int32_t threads),                                                                                      \
    (representation, n_atoms, segments, vectors, out, threads))                                                        \
  /* cotangent (atoms, size) -> out (pairs, 3): gradient of sum(cotangent * environments) by each pair vector */       \
  F(environments_pullback, suffix,                                                                                     \
    (const qml_representation *representation, int64_t n_atoms, const int64_t *segments, const real *vectors,          \
     const real *cotangent, real *out, int32_t threads),                                                               \
    (representation, n_atoms, segments, vectors, cotangent, out, threads))                                             \
  /* projections (n_elements, size, rank), centre_element (atoms) -> out (pairs, 3, rank): derivative of the projected \
   * environment of the centre by each pair vector */                                                                  \
  F(environments_jacobian, suffix,                                                                                     \
    (const qml_representation *representation, int64_t n_atoms, const int64_t *segments, const real *vectors,          \
     const int64_t *centre_element, int64_t rank, const real *projections, real *out, int32_t threads),                \
    (representation, n_atoms, segments, vectors, centre_element, rank, projections, out, threads))                     \
  /* x (atoms, rank) -> out (atoms, n_features) */                                                                     \
  F(features, suffix,                                                                                                  \
    (const qml_feature_map *map, int64_t n_atoms, const real *x, real *out, int32_t threads),                          \
    (map, n_atoms, x, out, threads))                                                                                   \
  /* out[row[i]] += features of x[i], in double; out (n_rows, n_features) with leading dimension `stride` */           \
  F(energy_rows, suffix,                                                                                               \
    (const qml_feature_map *map, int64_t n_atoms, const real *x, const int64_t *row, int64_t n_rows, double *out,      \
     int64_t stride, int32_t threads),                                                                                 \
    (map, n_atoms, x, row, n_rows, out, stride, threads))

/* Products with features and their derivatives. With the suffix _mixed the map, x, angles, sines and cosines are float,
 * the same numbers each time, and all that they are multiplied with is double: a solver gets products to the last digits
 * of double at the speed of float angles. */
#define QML_PRODUCTS(F, real, wide, suffix)                                                                            \
  /* out[row[t]] += derivative of the features of x[owner[t]] along tangents[t], in double; tangents (n, rank), owner  \
   * ascending, out as above */                                                                                        \
  F(force_rows, suffix,                                                                                                \
    (const qml_feature_map *map, int64_t n_atoms, const real *x, int64_t n_tangents, const wide *tangents,             \
     const int64_t *owner, const int64_t *row, int64_t n_rows, double *out, int64_t stride, int32_t threads),          \
    (map, n_atoms, x, n_tangents, tangents, owner, row, n_rows, out, stride, threads))                                 \
  /* x (atoms, rank), weights (n_features) -> energy (atoms) and its gradient by x, slope (atoms, rank);               \
   * no (atoms, n_features) array is formed */                                                                         \
  F(energy_and_slope, suffix,                                                                                          \
    (const qml_feature_map *map, int64_t n_atoms, const real *x, const wide *weights, double *energy, wide *slope,     \
     int32_t threads),                                                                                                 \
    (map, n_atoms, x, weights, energy, slope, threads))                                                                \
  /* the transpose: moment (n_features) += sum_i a_i z(x_i) + (dz/dx)(x_i) tangent_i, in double;                       \
   * coefficients a (atoms) and tangents (atoms, rank) may each be NULL */                                             \
  F(feature_moment, suffix,                                                                                            \
    (const qml_feature_map *map, int64_t n_atoms, const real *x, const wide *coefficients, const wide *tangents,       \
     double *moment, int32_t threads),                                                                                 \
    (map, n_atoms, x, coefficients, tangents, moment, threads))                                                        \
  /* tangents (n, rank), owner (n) ascending, x (owners, rank) -> out[t] = tangents[t] . x[owner[t]], in double */     \
  F(tangent_products, suffix,                                                                                          \
    (int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner, int64_t n_owners, const wide *x,    \
     double *out, int32_t threads),                                                                                    \
    (rank, n_tangents, tangents, owner, n_owners, x, out, threads))                                                    \
  /* the transpose: out (owners, rank) = sum of coefficients[t] tangents[t] over the tangents of each owner */         \
  F(tangent_sums, suffix,                                                                                              \
    (int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner, const double *coefficients,         \
     int64_t n_owners, wide *out, int32_t threads),                                                                    \
    (rank, n_tangents, tangents, owner, coefficients, n_owners, out, threads))

/* Every kernel in every precision. */
#define QML_ALL_KERNELS(F)                                                                                             \
  QML_KERNELS(F, float, f32)                                                                                           \
  QML_KERNELS(F, double, f64)                                                                                          \
  QML_PRODUCTS(F, float, float, f32)                                                                                   \
  QML_PRODUCTS(F, double, double, f64)                                                                                 \
  QML_PRODUCTS(F, float, double, mixed)

#define QML_DECLARE(name, suffix, parameters, names) int32_t qml_##name##_##suffix parameters;
QML_ALL_KERNELS(QML_DECLARE)
#undef QML_DECLARE

/* A trained potential made ready: atoms in, energies (eV), forces (eV/A) and virials (eV) out, in one call for a batch
 * of structures, with no array of atoms x features. It serves with the instruction set that was in use when it was
 * created and keeps its working memory from call to call. Threads that share one wait for each other. A handle that was
 * destroyed is refused. */
typedef struct qml_predictor qml_predictor;

typedef struct {
  const qml_representation *representation;
  int64_t rank;
  const double *projections;      /* (n_elements, size, rank) */
  const qml_feature_map *maps;    /* (n_elements), their arrays double and their rank as above */
  const double *const *weights;   /* (n_elements) pointers to n_features weights each; they may be the same */
  const double *baseline;         /* (n_elements) energies of the lone atoms */
  int32_t precision;              /* 32 or 64: what representation and features are computed in; sums are double */
  int32_t reserved;               /* 0 */
  double skin;                    /* A. Above 0, pairs are listed this much beyond the cutoff, and listed anew only when
                                   * an atom has moved by half of it or anything else has changed */
} qml_model;

/* Copies all of the model. */
int32_t qml_predictor_create(const qml_model *model, qml_predictor **out);
void qml_predictor_destroy(qml_predictor *predictor);

/* The same from a model file (safetensors, docs/conventions.md). Every byte of it is checked, and its checksum;
 * QML_BAD_FILE where it is cut, altered or not ours, QML_UNSUPPORTED where it only corrects another method. precision: 32,
 * 64, or 0 for the one that the file asks for. */
int32_t qml_predictor_load(const char *path, int32_t precision, double skin, qml_predictor **out);

/* Close pairs, nearer than any in the training data: a pair of elements i and j below outer[i, j] (A) is seen by the
 * learnt part at a longer distance, never below (outer + inner) / 2, and the screened repulsion of nuclei (ZBL) with a wall of
 * 20 eV is switched on between outer and inner. atomic_numbers (n_elements); outer and inner (n_elements, n_elements), symmetric,
 * 0 < inner < outer <= cutoff. A file that has these distances sets them by itself. */
int32_t qml_predictor_set_repulsion(qml_predictor *predictor, const int32_t *atomic_numbers, const double *outer,
                                    const double *inner);

/* Gaps: distances that no two atoms of the training data have, between those of bonds and all longer ones. With
 * x = (r - low) / (high - low), a pair of elements i and j repels itself from there by h (4 x (1 - x))^3, h = 40 eV/A^2 (high - low)^2, at most
 * 20 eV. low and high (n_elements, n_elements), symmetric, outer <= low < high <= cutoff, or both 0 where there is no gap. Set the
 * repulsion first. A file that has gaps sets them by itself. */
int32_t qml_predictor_set_gaps(qml_predictor *predictor, const double *low, const double *high);

/* Crowded atoms, with more neighbours nearby than any in the training data. The crowding of an atom is the sum of
 * (1 - r^2 / reach^2)^4 over its neighbours within reach (A) of their pair of elements. With y = (crowding - onset) / (full - onset),
 * its learnt energy fades out from y = 0 to y = 1, and a repulsion of strength * y^3 / (1 + y^2) (eV) rises. reach (n_elements, n_elements),
 * symmetric, 0 < reach <= cutoff; onset, full, strength (n_elements), 0 < onset < full. A file that has these numbers sets them
 * by itself. */
int32_t qml_predictor_set_crowding(qml_predictor *predictor, const double *reach, const double *onset,
                                   const double *full, const double *strength);

/* A committee tells how uncertain a prediction is: weights (n_members, n_elements, n_features) are deviations from those of
 * the model, of maps with the first n_features features and the amplitude that belongs to so few. The first
 * n_force_members of them have forces as well. With the mean v of the squares of their deviations, a standard deviation is
 * sqrt(scale^2 v^power + noise^2), in eV and eV/A: of_energies (4) are scale, noise, power, and the power of the number of
 * atoms with which the noise grows; of_forces (n_elements, 3) are scale, noise and power. A file that has a committee sets it by
 * itself. */
int32_t qml_predictor_set_committee(qml_predictor *predictor, int64_t n_members, int64_t n_force_members,
                                    int64_t n_features, const double *weights, const double *of_energies,
                                    const double *of_forces);

/* Members of the committee; 0 where there is none. */
int32_t qml_predictor_n_members(const qml_predictor *predictor);

/* What a predictor is: elements (in its own order, ascending atomic numbers), cutoff in A, 32 or 64 bits. An atomic number
 * is 0 where the predictor was not loaded from a file. All are 0 for a handle that was destroyed. */
int32_t qml_predictor_n_elements(const qml_predictor *predictor);
int32_t qml_predictor_atomic_number(const qml_predictor *predictor, int32_t element);
double qml_predictor_cutoff(const qml_predictor *predictor);
int32_t qml_predictor_precision(const qml_predictor *predictor);

/* Number of neighbour lists made so far. */
int64_t qml_predictor_lists_made(const qml_predictor *predictor);

/* Structure s owns the atoms offsets[s] <= i < offsets[s + 1]; element (atoms) counts as the model's do; positions
 * (atoms, 3); cells (n, 3, 3), rows are lattice vectors; periodic (n, 3), 0 or 1.
 * Out: energies (n); atom_energies (atoms), forces (atoms, 3) and virial (n, 3, 3), the symmetric derivative of the
 * energy by strain: each of these three may be NULL. */
int32_t qml_predictor_predict(qml_predictor *predictor, int64_t n_structures, const int64_t *offsets,
                              const int64_t *element, const double *positions, const double *cells,
                              const uint8_t *periodic, double *energies, double *atom_energies, double *forces,
                              double *virial, int32_t threads);

/* The same, and standard deviations from the committee: energy_uncertainty (n), atom_energy_uncertainty (atoms) of the
 * learnt part without noise of labels, and force_uncertainty (atoms) of each component, which may be NULL and is written
 * where forces are. */
int32_t qml_predictor_predict_uncertain(qml_predictor *predictor, int64_t n_structures, const int64_t *offsets,
                                        const int64_t *element, const double *positions, const double *cells,
                                        const uint8_t *periodic, double *energies, double *atom_energies,
                                        double *forces, double *virial, double *energy_uncertainty,
                                        double *atom_energy_uncertainty, double *force_uncertainty, int32_t threads);

/* Prediction from pairs that an engine has listed. Of n_all atoms the first n_centres have neighbours (the others are
 * copies, or belong to other processes): segments as above, (n_centres * n_elements + 1); neighbour (pairs) < n_all;
 * vectors (pairs, 3) from the centre. Pairs beyond the cutoff do not count.
 * Out: atom_energies (n_centres); forces (n_all, 3) and virial (3, 3), of all centres together, may be NULL. */
int32_t qml_predictor_predict_pairs(qml_predictor *predictor, int64_t n_centres, int64_t n_all, const int64_t *element,
                                    const int64_t *segments, const int32_t *neighbour, const double *vectors,
                                    double *atom_energies, double *forces, double *virial, int32_t threads);

/* The neighbour lists of an engine as they are (LAMMPS: a full list of owned atoms, ghosts behind them). */
typedef struct {
  int64_t n_centres, n_all;
  const int32_t *centres;             /* (n_centres) atoms that have neighbours, each once */
  const int32_t *counts;              /* (n_centres) */
  const int32_t *const *neighbours;   /* (n_centres) pointers to counts[i] atoms each */
  int32_t mask;                       /* a neighbour is this & its entry: engines keep flags in the upper bits */
  int32_t reserved;                   /* 0 */
  const int32_t *element;             /* (n_all) as the model counts; -1: an atom that the model does not see */
  const double *positions;            /* (n_all, 3) */
} qml_neighbour_lists;

/* Prediction from these lists; pairs beyond the cutoff do not count.
 * Out: atom_energies (n_centres); forces (n_all, 3), those on ghosts to be sent to their owners; virial (3, 3) of all
 * centres together; atom_virials (n_centres, 3, 3), whose sum it is: each of the last three may be NULL. */
int32_t qml_predictor_predict_lists(qml_predictor *predictor, const qml_neighbour_lists *lists, double *atom_energies,
                                    double *forces, double *virial, double *atom_virials, int32_t threads);

/* The same, and the uncertainty of each atomic energy, (n_centres) in eV, from the committee. */
int32_t qml_predictor_predict_lists_uncertain(qml_predictor *predictor, const qml_neighbour_lists *lists,
                                              double *atom_energies, double *forces, double *virial,
                                              double *atom_virials, double *uncertainty, int32_t threads);

#ifdef __cplusplus
}
#endif
#endif
