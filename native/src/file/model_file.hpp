// A trained potential read from a model file.
#pragma once

#include "file/representations.hpp"
#include "isa/kernels.hpp"

namespace qml {

// What qml_model points to, in memory of its own.
struct StoredModel {
  // precision: 32, 64, or 0 for that of the file.
  StoredModel(const char *path, int32_t precision, double skin);
  StoredModel(const StoredModel &) = delete;

  qml_model as_struct() const;

  std::vector<int32_t> atomic_numbers; // of the elements, ascending
  std::vector<double> outer, inner;    // distances of close pairs, (elements, elements); empty: the file has none
  std::vector<double> gap_low, gap_high; // ends of gaps, (elements, elements); empty: none
  std::vector<double> reach, onset, full, strength; // of crowded atoms, (elements, elements) and (elements); empty: none
  int32_t n_members = 0, n_force_members = 0; // of the committee; 0: the file has none
  int64_t member_features = 0;
  std::vector<double> of_energies, of_forces; // calibrations, (4) and (elements, 3)
  std::vector<double> members;         // (members, elements, features)

private:
  StoredRepresentation stored;
  qml_representation representation;
  int64_t rank;
  int32_t precision;
  double skin;
  std::vector<double> projections, signs, row_scale, matrix, phases, weights, baseline;
  std::vector<qml_feature_map> maps;
  std::vector<const double *> weights_of;

  void read_maps(const TensorFile &file, const Json &features);
  void read_committee(const TensorFile &file, const Json &about, bool blocks);
  void read_calibrations(const TensorFile &file, const Json &about);
};

} // namespace qml
