// Energies, forces and virials from pairs of atoms, in tiles of centres.
#pragma once

#include "predict/calibration.hpp"
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
  double *member_energies;   // (members, centres) written, not added to
  double *member_forces;     // (force members, n_all, 3)
};

class Engine {
public:
  virtual ~Engine() = default;
  virtual void run(const PairList &pairs, const Wanted &wanted, int threads) = 0;
  virtual void set_repulsion(const Repulsion &repulsion) = 0;
  // The repulsion was set before.
  virtual const Repulsion &repulsion() const = 0;
  virtual void set_gaps(const double *low, const double *high) = 0;
  virtual void set_crowding(const Crowding &crowding) = 0;
  virtual void set_committee(int n_members, int n_force_members, int64_t n_features, const double *weights) = 0;
};

template <class real> class EngineIn final : public Engine {
public:
  EngineIn(const qml_model &given, const CheckedRepresentation &representation, const KernelTable<real> &kernels)
      : model(given, representation, kernels) {}
  void run(const PairList &pairs, const Wanted &wanted, int threads) override;
  void set_repulsion(const Repulsion &repulsion) override { model.repulsion = repulsion; }
  const Repulsion &repulsion() const override { return model.repulsion; }
  void set_gaps(const double *low, const double *high) override { model.repulsion.set_gaps(low, high); }
  void set_crowding(const Crowding &crowding) override { model.crowding = crowding; }
  void set_committee(int n_members, int n_force_members, int64_t n_features, const double *weights) override {
    model.set_committee(n_members, n_force_members, n_features, weights);
  }

private:
  ModelIn<real> model;
  std::vector<std::unique_ptr<Tile<real>>> tiles; // one for each thread
  Buffer<real> gradient_;
  Buffer<double> own_force_, own_virial_;

  int useful_threads(const PairList &pairs, int threads) const;
  void run_tiles(const PairList &pairs, int64_t first, int64_t last, double *atom_energies, const Gradients<real> &out,
                 const Deviations<real> &deviations, int threads);
  void scatter_virial(int64_t first, int64_t last, const Gradients<real> &gradients, const Wanted &wanted) const;
  void scatter(const PairList &pairs, int64_t first, int64_t last, const Gradients<real> &gradients,
               double *forces) const;
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
  int32_t n_members = 0, n_force_members = 0; // of the committee
  qml::Calibrations calibrations;             // of its deviations
  qml::NeighbourList list;
  qml::Buffer<double> atom_energies, forces, members;
  qml::EngineLists lists;
};
