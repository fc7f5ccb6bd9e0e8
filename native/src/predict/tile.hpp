// The prediction path of one tile of centres: representation, projection, features, and all the way back.
#pragma once

#include "predict/buffer.hpp"
#include "predict/model.hpp"

#include <vector>

namespace qml {

// The neighbours of every centre: those of centre i and element e are segments[i * n_elements + e] <= pair < the next.
struct PairList {
  int64_t n_centres;
  const int64_t *element;    // (centres)
  const int64_t *segments;   // (centres * n_elements + 1)
  const int32_t *neighbour;  // (pairs)
  // One of the two: vectors of all pairs, or places of all atoms, centres first.
  const double *vectors;     // (pairs, 3)
  const double *places;      // (n_all, 3)
  int64_t n_all;             // atoms that have forces
};

// Gradients of a run of centres and their pairs, as they are listed.
template <class real> struct Gradients {
  int64_t first_centre, first_pair;
  real *by_pair;        // (pairs, 3) gradient of the energy by the pair vectors; null: energies alone are wanted
  double *own_force;    // (centres, 3) the sum of these
  double *own_virial;   // (centres, 3, 3) the sum of vector times gradient; null: not wanted
};

// Members that have forces, at most.
constexpr int most_force_members = 64;

// Deviations by the members of a committee, of a run of centres and their pairs.
template <class real> struct Deviations {
  double *energies = nullptr;                // (members, centres) of all runs; null: not wanted
  std::vector<Gradients<real>> gradients;    // of the first members; empty: not wanted
};

template <class real> class Tile {
public:
  // Adds the energies of the centres first <= i < last, and writes their gradients.
  void compute(const ModelIn<real> &model, const PairList &pairs, int64_t first, int64_t last, double *atom_energies,
               const Gradients<real> &out, const Deviations<real> &deviations, int threads);

private:
  // Rows are the centres sorted by element.
  Buffer<int64_t> centre_, first_row_, segments_; // (rows), (elements + 1), (rows, elements + 1)
  Buffer<real> vectors_;                          // (pairs, 3), as they are listed
  Buffer<real> values_;                           // (rows, size), then cotangents (rows, 1 + force members, size)
  Buffer<real> projected_, slope_;                // (rows, rank), (1 + force members, rows, rank)
  Buffer<real> side_by_side_;                     // (rows, 1 + force members, rank) slopes
  Buffer<double> energy_, of_members_;            // (rows), (rows, members)
  Buffer<Product<real>> products_;
  std::vector<ClosePair> close_;
  std::vector<CrowdedCentre> crowded_;
  Buffer<double> learnt_; // (1 + force members, crowded centres) energies before they fade

  void hold_apart(const Repulsion &repulsion, const PairList &pairs, int n_elements, int64_t first, int64_t last,
                  double *atom_energies);
  void let_go();
  void count_neighbours(const Crowding &crowding, const PairList &pairs, int n_elements, int64_t n_rows);
  void fade(int number, double *energy, int64_t apart, real *slopes, int64_t rank);
  void push_apart(const Crowding &crowding, const PairList &pairs, int n_elements, int number, real *gradient) const;
  void turn(real *gradient, bool repelled) const;
  const real *side_by_side(const real *slopes, int64_t n_rows, int64_t rank, int n_more);
  void deviate(const ModelIn<real> &model, int n_slopes, int threads);
  void tell_energies(int64_t n_rows, int64_t n_centres, int n_members, double *energies) const;
  void sort(const ModelIn<real> &model, const PairList &pairs, int64_t first, int64_t last);
  void measure(const PairList &pairs, int n_elements, int64_t first, int64_t last);
  void multiply(const ModelIn<real> &model, const std::vector<Buffer<real>> &matrices, int64_t depth, int64_t columns,
                int64_t each, const real *a, real *c, int threads);
  // Energies and slopes of the projected rows.
  void contract(const ModelIn<real> &model, int threads);
  void sum_gradients(const PairList &pairs, int n_elements, int64_t first, int64_t last,
                     const Gradients<real> &out) const;
};

extern template class Tile<float>;
extern template class Tile<double>;

} // namespace qml
