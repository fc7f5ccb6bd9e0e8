// Copies of the numbers of a model, rounded to one precision.
#include "predict/model.hpp"

#include "abi/checks.hpp"

#include <cmath>

namespace qml {

template <class real>
ModelIn<real>::ModelIn(const qml_model &given, const CheckedRepresentation &representation,
                       const KernelTable<real> &kernels)
    : kernels(kernels), kind(representation.kind), shape(representation.shape),
      environments(kernels.environments[given.representation->kind]),
      parameters(kind.copy(given.representation->parameters, 8 * int(sizeof(real)))), rank(given.rank),
      project(size_t(n_elements())), lift(size_t(n_elements())) {
  const int64_t size = shape.size;
  for (int e = 0; e < n_elements(); ++e) {
    const double *matrix = given.projections + e * size * rank;
    kernels.pack(size, rank, matrix, rank, 1, project[size_t(e)].room(kernels.packed_size(size, rank)));
    kernels.pack(rank, size, matrix, 1, rank, lift[size_t(e)].room(kernels.packed_size(rank, size)));

    qml_feature_map map = given.maps[e];
    const int64_t n = map.n_frequencies;
    map.signs = keep(static_cast<const double *>(map.signs), n * map.n_transforms);
    map.row_scale = keep(static_cast<const double *>(map.row_scale), map.n_transforms ? n : 0);
    map.matrix = keep(static_cast<const double *>(map.matrix), map.n_transforms ? 0 : n * rank);
    map.phases = keep(static_cast<const double *>(map.phases), n);
    maps.push_back(map);
    // elements that share their weights share them here too: they stay in the cache
    int same = 0;
    while (given.weights[same] != given.weights[e] || n_features(given.maps[same]) < n_features(map)) ++same;
    weights.push_back(same < e ? weights[size_t(same)] : keep(given.weights[e], n_features(map)));
  }
}

template <class real> const real *ModelIn<real>::keep(const double *from, int64_t count) {
  if (!from || count == 0) return nullptr;
  arrays.emplace_back(from, from + count);
  return arrays.back().data();
}

template <class real>
void ModelIn<real>::set_committee(int n_members, int n_force_members, int64_t n_features, const double *given) {
  const char *name = "qml_predictor_set_committee";
  Committee made;
  made.n_members = n_members, made.n_force_members = n_force_members;
  for (const qml_feature_map &map : maps)
    if (n_features < 1 || n_features > qml::n_features(map) || n_features % (1 + map.paired) ||
        (map.n_transforms && n_features / (1 + map.paired) % map.rank))
      fail(QML_BAD_ARGUMENT, "%s: %lld are not the first features of a map of %lld.", name, (long long)n_features,
           (long long)qml::n_features(map));
  require_finite(name, "weights", given, require_count(name, "weights", {n_members, n_elements(), n_features}));
  for (const qml_feature_map &map : maps) {
    qml_feature_map few = map; // its arrays begin with those of the first features
    few.n_frequencies = n_features / (1 + map.paired);
    few.amplitude = map.amplitude * std::sqrt(double(map.n_frequencies) / double(few.n_frequencies));
    made.maps.push_back(few);
  }
  made.n_features = n_features;
  for (int e = 0; e < n_elements(); ++e) {
    std::vector<real> &own = made.arrays.emplace_back();
    for (int member = 0; member < n_members; ++member) {
      const double *from = given + (member * n_elements() + e) * n_features;
      own.insert(own.end(), from, from + n_features);
    }
    made.weights.push_back(own.data());
  }
  committee = std::move(made);
}

template struct ModelIn<float>;
template struct ModelIn<double>;

} // namespace qml
