// Energies, forces and virials from pairs of atoms, a tile of centres at a time.
#pragma once

#include "buffer.hpp"
#include "model.hpp"
#include "neighbours.hpp"

#include <memory>

namespace qml {

// The neighbours of every centre: those of centre i and element e are segments[i * n_elements + e] <= pair < the next.
struct PairList {
  int64_t n_centres;
  const int64_t *segments;   // (centres * n_elements + 1)
  const int32_t *neighbour;  // (pairs)
  // One of the two: vectors of all pairs, or places of all atoms, centres first.
  const double *vectors;     // (pairs, 3)
  const double *places;      // (n_all, 3)
};

// What is wanted, all of it set to zero or to the baseline before; null: not wanted.
struct Wanted {
  double *atom_energies;     // (centres)
  double *forces;            // (n_all, 3), those of the copies apart
  double *virial;            // (groups, 3, 3), not symmetric yet
  const int32_t *group;      // (centres) null: all in one
};

class Engine {
public:
  virtual ~Engine() = default;
  // element (centres)
  virtual void run(const PairList &pairs, const int64_t *element, const Wanted &wanted, int threads) = 0;
};

template <class real> class EngineIn final : public Engine {
public:
  EngineIn(const qml_model &given, const KernelTable<real> &kernels) : model(given, kernels) {}
  void run(const PairList &pairs, const int64_t *element, const Wanted &wanted, int threads) override;

private:
  ModelIn<real> model;
  // of one tile; rows are sorted by element
  Buffer<int64_t> centre_, first_row_, segments_; // (rows), (elements + 1), (rows * elements + 1)
  Buffer<real> vectors_, gradient_;               // (pairs, 3)
  Buffer<real> values_;                           // (rows, size), then their cotangents
  Buffer<real> projected_, slope_;                // (rows, rank)
  Buffer<double> energy_, own_force_, own_virial_; // (rows), (rows, 3), (rows, 3, 3)
  Buffer<Product<real>> products_;

  void sort_tile(const PairList &pairs, const int64_t *element, int64_t first, int64_t last);
  void measure(const PairList &pairs, int64_t n_rows, int threads);
  void multiply(const std::vector<Buffer<real>> &matrices, int64_t depth, int64_t columns, const real *a, real *c,
                int threads);
  void contract(int threads);
  void sum_gradients(int64_t n_rows, bool virial, int threads);
  void scatter(const PairList &pairs, int64_t n_rows, const Wanted &wanted) const;
};

extern template class EngineIn<float>;
extern template class EngineIn<double>;

} // namespace qml

// The opaque object of the C interface.
struct qml_predictor {
  std::unique_ptr<qml::Engine> engine;
  qml_fchl19 representation;
  std::vector<double> baseline;
  double skin;
  qml::NeighbourList list;
  qml::Buffer<double> atom_energies, forces, virial;
};
