// Energies, forces and virials from pairs of atoms, in tiles of centres.
#pragma once

#include "predict/engine_lists.hpp"
#include "predict/neighbours.hpp"
#include "predict/tile.hpp"

#include <memory>
#include <mutex>

namespace qml {

// Outputs that are added to: the caller has set them to zero or to the baseline. Null pointers are not computed.
struct Wanted {
  double *atom_energies;     // (centres)
  double *forces;            // (n_all, 3)
  double *virial;            // (groups, 3, 3), not symmetric yet
  const int32_t *group;      // (centres) null: all in one
};

class Engine {
public:
  virtual ~Engine() = default;
  virtual void run(const PairList &pairs, const Wanted &wanted, int threads) = 0;
  virtual void set_repulsion(const Repulsion &repulsion) = 0;
};

template <class real> class EngineIn final : public Engine {
public:
  EngineIn(const qml_model &given, const CheckedRepresentation &representation, const KernelTable<real> &kernels)
      : model(given, representation, kernels) {}
  void run(const PairList &pairs, const Wanted &wanted, int threads) override;
  void set_repulsion(const Repulsion &repulsion) override { model.repulsion = repulsion; }

private:
  ModelIn<real> model;
  std::vector<std::unique_ptr<Tile<real>>> tiles; // one for each thread
  Buffer<real> gradient_;
  Buffer<double> own_force_, own_virial_;

  int useful_threads(const PairList &pairs, int threads) const;
  void run_tiles(const PairList &pairs, int64_t first, int64_t last, double *atom_energies, const Gradients<real> &out,
                 int threads);
  void scatter(const PairList &pairs, int64_t first, int64_t last, const Gradients<real> &gradients,
               const Wanted &wanted) const;
};

extern template class EngineIn<float>;
extern template class EngineIn<double>;

} // namespace qml

// The opaque object of the C interface.
struct qml_predictor {
  std::mutex one_call; // held by the call that uses the memory below
  std::unique_ptr<qml::Engine> engine;
  qml::RepresentationShape shape;
  std::vector<double> baseline;
  std::vector<int32_t> atomic_numbers; // of the elements; empty where they are not known
  double skin;
  int32_t precision;
  qml::NeighbourList list;
  qml::Buffer<double> atom_energies, forces;
  qml::EngineLists lists;
};
