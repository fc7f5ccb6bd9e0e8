// A model's numbers in one precision, copied from the caller and laid out for the kernels of one instruction set.
#pragma once

#include "predict/buffer.hpp"
#include "abi/representation.hpp"
#include "predict/crowding.hpp"
#include "predict/repulsion.hpp"

#include <vector>

namespace qml {

template <class real> struct ModelIn {
  // The arguments were checked at the door.
  ModelIn(const qml_model &given, const CheckedRepresentation &representation, const KernelTable<real> &kernels);
  ModelIn(const ModelIn &) = delete;

  int n_elements() const { return shape.n_elements; }

  const KernelTable<real> &kernels;
  const RepresentationKind &kind;
  const RepresentationShape shape;
  const EnvironmentKernels<real> &environments;
  const std::shared_ptr<const void> parameters; // of the representation
  const int64_t rank;
  std::vector<Buffer<real>> project;       // by element: (size, rank) packed for a product
  std::vector<Buffer<real>> lift;          // the transposes
  std::vector<qml_feature_map> maps;       // by element; their arrays are in `arrays`
  std::vector<const real *> weights;       // by element, in `arrays`
  Repulsion repulsion;                     // empty: none
  Crowding crowding;                       // empty: none
  // A committee: deviations from the weights, of maps with the first features of each.
  struct Committee {
    int n_members = 0, n_force_members = 0;
    std::vector<qml_feature_map> maps;     // by element
    std::vector<const real *> weights;     // by element: (members, features)
    int64_t n_features = 0;
    std::vector<std::vector<real>> arrays;
  } committee;
  // weights (members, elements, n_features)
  void set_committee(int n_members, int n_force_members, int64_t n_features, const double *given);

private:
  std::vector<std::vector<real>> arrays;
  const real *keep(const double *from, int64_t count);
};

extern template struct ModelIn<float>;
extern template struct ModelIn<double>;

} // namespace qml
