// The C interface of the predictor: models and structures are checked here and trusted inside.
#include "abi/checks.hpp"
#include "predict/predictor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace qml {
namespace {

// Predictors that exist. A handle that was destroyed, or never made, is refused instead of followed, and one that is in
// use lives until its call returns.
class Registry {
public:
  qml_predictor *add(std::shared_ptr<qml_predictor> predictor) {
    const std::lock_guard<std::mutex> lock(mutex);
    return (alive[predictor.get()] = predictor).get();
  }
  std::shared_ptr<qml_predictor> find(const qml_predictor *handle) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = alive.find(handle);
    return found == alive.end() ? nullptr : found->second;
  }
  // The last owner of what it returns destroys it, outside of the lock.
  std::shared_ptr<qml_predictor> remove(const qml_predictor *handle) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = alive.find(handle);
    if (found == alive.end()) return nullptr;
    const std::shared_ptr<qml_predictor> out = found->second;
    alive.erase(found);
    return out;
  }

private:
  std::mutex mutex;
  std::map<const qml_predictor *, std::shared_ptr<qml_predictor>> alive;
};

// Never destroyed: threads may still hold handles when the process ends.
Registry &registry() {
  static Registry *one = new Registry;
  return *one;
}

std::shared_ptr<qml_predictor> require_alive(const char *function, const qml_predictor *handle) {
  require(function, "predictor", handle, 1);
  std::shared_ptr<qml_predictor> found = registry().find(handle);
  if (!found)
    fail(QML_BAD_ARGUMENT, "%s: there is no such predictor. It was destroyed, or never created.", function);
  return found;
}

// Numbers of a model that stay finite when they are rounded to its precision.
void require_fits(const char *function, const char *name, const double *values, int64_t count, int32_t precision) {
  require_finite(function, name, values, count);
  for (int64_t i = 0; precision == 32 && i < count; ++i)
    if (!std::isfinite(float(values[i])))
      fail(QML_NOT_FINITE, "%s: %s has an entry of %g, beyond the range of float.", function, name, values[i]);
}

void require_fits(const char *function, const qml_feature_map &map, int32_t precision) {
  require(function, "phases", map.phases, 1);
  require_fits(function, "phases", static_cast<const double *>(map.phases), map.n_frequencies, precision);
  if (!std::isfinite(precision == 32 ? double(float(map.amplitude)) : map.amplitude))
    fail(QML_NOT_FINITE, "%s: an amplitude of %g is beyond the range of float.", function, map.amplitude);
  if (map.n_transforms == 0)
    return require_fits(function, "matrix", static_cast<const double *>(map.matrix), map.n_frequencies * map.rank,
                        precision);
  require(function, "row_scale", map.row_scale, 1);
  require_fits(function, "row_scale", static_cast<const double *>(map.row_scale), map.n_frequencies, precision);
  require_fits(function, "signs", static_cast<const double *>(map.signs), map.n_frequencies * map.n_transforms,
               precision);
}

std::unique_ptr<qml_predictor> create(const qml_model *model) {
  const char *name = "qml_predictor_create";
  require(name, "model", model, 1);
  const CheckedRepresentation representation = require_representation(name, model->representation, 64);
  const int n_elements = representation.shape.n_elements;
  require_size(name, "rank", model->rank, 1);
  require(name, "maps", model->maps, 1);
  require(name, "weights", model->weights, 1);
  if (model->precision != 32 && model->precision != 64)
    fail(QML_UNSUPPORTED, "%s: the precision is 32 or 64, got %d.", name, model->precision);
  if (model->reserved != 0) fail(QML_BAD_ARGUMENT, "%s: reserved must be 0, got %d.", name, model->reserved);
  if (!(model->skin >= 0) || !(model->skin < farthest))
    fail(QML_BAD_ARGUMENT, "The skin of a neighbour list is a length in Å, at least 0 and below %g, got %g.", farthest,
         model->skin);
  for (int e = 0; e < n_elements; ++e)
    if (model->maps[e].rank != model->rank)
      fail(QML_BAD_ARGUMENT, "%s: the map of element %d has rank %lld, the model %lld.", name, e,
           (long long)model->maps[e].rank, (long long)model->rank);
  require_fits(name, "projections", model->projections,
               require_count(name, "projections", {n_elements, representation.shape.size, model->rank}), model->precision);
  require_finite(name, "baseline", model->baseline, n_elements);
  for (int e = 0; e < n_elements; ++e) {
    const qml_feature_map *map = model->maps + e;
    require_map<double>(name, map);
    require_fits(name, *map, model->precision);
    require_fits(name, "weights", model->weights[e], n_features(*map), model->precision);
  }
  std::unique_ptr<qml_predictor> out(new qml_predictor);
  const Kernels &kernels = kernels_in_use();
  if (model->precision == 32) out->engine.reset(new EngineIn<float>(*model, representation, kernels.f32));
  else out->engine.reset(new EngineIn<double>(*model, representation, kernels.f64));
  out->shape = representation.shape;
  out->baseline.assign(model->baseline, model->baseline + n_elements);
  out->skin = model->skin;
  return out;
}

void require_structures(const Structures &s, int n_elements) {
  const char *name = "qml_predictor_predict";
  require_count(name, "cells", {s.n_structures, 9});
  const int64_t n_atoms = require_ascending(name, "offsets", s.offsets, s.n_structures + 1);
  require_count(name, "the pairs of atoms with elements", {n_atoms, n_elements});
  if (n_atoms > std::numeric_limits<int32_t>::max() || s.n_structures > std::numeric_limits<int32_t>::max())
    fail(QML_UNSUPPORTED, "%s: %lld structures of %lld atoms are too many for one call; use fewer.", name,
         (long long)s.n_structures, (long long)n_atoms);
  require(name, "positions", s.positions, n_atoms);
  require_elements(name, "element", s.element, n_atoms, n_elements);
  for (int64_t k = 0; k < 3 * s.n_structures; ++k)
    if (s.periodic[k] > 1)
      fail(QML_BAD_ARGUMENT, "%s: periodic must be 0 or 1, got %d for structure %lld.", name, s.periodic[k],
           (long long)(k / 3));
  for (int64_t n = 0; n < s.n_structures; ++n) {
    for (int64_t k = 3 * s.offsets[n]; k < 3 * s.offsets[n + 1]; ++k)
      if (!(std::fabs(s.positions[k]) < farthest))
        fail(QML_NOT_FINITE, "Structure %lld has a coordinate that is NaN, infinite or beyond %g Å.", (long long)n,
             farthest);
    for (int d = 0; d < 3; ++d)
      for (int axis = 0; s.periodic[3 * n + d] && axis < 3; ++axis)
        if (!(std::fabs(s.cells[9 * n + 3 * d + axis]) < farthest))
          fail(QML_NOT_FINITE, "Structure %lld has a cell that is NaN or infinite.", (long long)n);
  }
}

void make_symmetric(double *virial) {
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < a; ++b) virial[3 * a + b] = virial[3 * b + a] = 0.5 * (virial[3 * a + b] + virial[3 * b + a]);
}

void predict(const qml_predictor *handle, const Structures &s, double *energies, double *atom_energies, double *forces,
             double *virial, int32_t threads) {
  const char *name = "qml_predictor_predict";
  const std::shared_ptr<qml_predictor> predictor = require_alive(name, handle);
  const std::lock_guard<std::mutex> lock(predictor->one_call);
  require_size(name, "n_structures", s.n_structures);
  require_threads(name, threads);
  if (s.n_structures == 0) return;
  require(name, "offsets", s.offsets, 1);
  require(name, "cells", s.cells, 1);
  require(name, "periodic", s.periodic, 1);
  require(name, "energies", energies, 1);
  const int n_elements = predictor->shape.n_elements;
  require_structures(s, n_elements);

  NeighbourList &list = predictor->list;
  list.update(s, n_elements, predictor->shape.cutoff, predictor->skin, threads);
  const int64_t n_atoms = list.n_atoms();
  if (!atom_energies) atom_energies = predictor->atom_energies.room(n_atoms);
  for (int64_t i = 0; i < n_atoms; ++i) atom_energies[i] = predictor->baseline[size_t(s.element[i])];
  // forces on copies are kept apart, to be given to their originals
  double *all_forces = forces && list.n_all() > n_atoms ? predictor->forces.room(3 * list.n_all()) : forces;
  if (forces) std::fill(all_forces, all_forces + 3 * list.n_all(), 0.0);
  if (virial) std::fill(virial, virial + 9 * s.n_structures, 0.0);
  predictor->engine->run({n_atoms, s.element, list.segments(), list.neighbour(), nullptr, list.places()},
                         {atom_energies, all_forces, virial, list.structure()}, threads);

  if (all_forces != forces) {
    std::copy(all_forces, all_forces + 3 * n_atoms, forces);
    for (int64_t c = 0; c < list.n_all() - n_atoms; ++c)
      for (int axis = 0; axis < 3; ++axis)
        forces[3 * int64_t(list.original()[c]) + axis] += all_forces[3 * (n_atoms + c) + axis];
  }
  for (int64_t n = 0; n < s.n_structures; ++n) {
    energies[n] = 0;
    for (int64_t i = s.offsets[n]; i < s.offsets[n + 1]; ++i) energies[n] += atom_energies[i];
    if (virial) make_symmetric(virial + 9 * n);
  }
}

void predict_pairs(const qml_predictor *handle, int64_t n_centres, int64_t n_all, const int64_t *element,
                   const int64_t *segments, const int32_t *neighbour, const double *vectors, double *atom_energies,
                   double *forces, double *virial, int32_t threads) {
  const char *name = "qml_predictor_predict_pairs";
  const std::shared_ptr<qml_predictor> predictor = require_alive(name, handle);
  const std::lock_guard<std::mutex> lock(predictor->one_call);
  require_size(name, "n_centres", n_centres);
  require_size(name, "n_all", n_all, n_centres);
  require_threads(name, threads);
  require_count(name, "forces", {n_all, 3});
  require(name, "atom_energies", atom_energies, n_centres);
  const int n_elements = predictor->shape.n_elements;
  require_elements(name, "element", element, n_centres, n_elements);
  const int64_t n_segments = require_count(name, "segments", {n_centres, n_elements});
  const int64_t n_pairs = n_centres ? require_ascending(name, "segments", segments, n_segments + 1) : 0;
  require(name, "neighbour", neighbour, n_pairs);
  require_finite(name, "vectors", vectors, require_count(name, "vectors", {n_pairs, 3}));
  for (int64_t i = 0; i < n_centres; ++i)
    for (int64_t p = segments[i * n_elements]; p < segments[(i + 1) * n_elements]; ++p) {
      if (neighbour[p] < 0 || neighbour[p] >= n_all)
        fail(QML_BAD_ARGUMENT, "%s: neighbours lie within 0 ... %lld, but that of pair %lld is %d.", name,
             (long long)n_all - 1, (long long)p, neighbour[p]);
      const double *v = vectors + 3 * p, r2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
      if (!(r2 < farthest * farthest))
        fail(QML_NOT_FINITE, "%s: the vector of pair %lld is longer than %g Å.", name, (long long)p, farthest);
      if (r2 < shortest_distance * shortest_distance)
        fail(QML_BAD_ARGUMENT, "Atoms %lld and %d are %.3g Å apart, less than %.3g Å. Two atoms cannot stand on one spot.",
             (long long)i, neighbour[p], std::sqrt(r2), shortest_distance);
    }

  for (int64_t i = 0; i < n_centres; ++i) atom_energies[i] = predictor->baseline[size_t(element[i])];
  if (forces) std::fill(forces, forces + 3 * n_all, 0.0);
  if (virial) std::fill(virial, virial + 9, 0.0);
  predictor->engine->run({n_centres, element, segments, neighbour, vectors, nullptr},
                         {atom_energies, forces, virial, nullptr}, threads);
  if (virial) make_symmetric(virial);
}

} // namespace
} // namespace qml

extern "C" {

int32_t qml_predictor_create(const qml_model *model, qml_predictor **out) {
  return qml::guarded([&] {
    qml::require("qml_predictor_create", "out", out, 1);
    *out = nullptr;
    *out = qml::registry().add(qml::create(model));
  });
}

void qml_predictor_destroy(qml_predictor *predictor) { qml::registry().remove(predictor); }

int64_t qml_predictor_lists_made(const qml_predictor *predictor) {
  const std::shared_ptr<qml_predictor> found = qml::registry().find(predictor);
  if (!found) return 0;
  const std::lock_guard<std::mutex> lock(found->one_call); // a call in another thread may be listing neighbours
  return found->list.made();
}

int32_t qml_predictor_predict(qml_predictor *predictor, int64_t n_structures, const int64_t *offsets,
                              const int64_t *element, const double *positions, const double *cells,
                              const uint8_t *periodic, double *energies, double *atom_energies, double *forces,
                              double *virial, int32_t threads) {
  return qml::guarded([&] {
    qml::predict(predictor, {n_structures, offsets, element, positions, cells, periodic}, energies, atom_energies,
                 forces, virial, threads);
  });
}

int32_t qml_predictor_predict_pairs(qml_predictor *predictor, int64_t n_centres, int64_t n_all, const int64_t *element,
                                    const int64_t *segments, const int32_t *neighbour, const double *vectors,
                                    double *atom_energies, double *forces, double *virial, int32_t threads) {
  return qml::guarded([&] {
    qml::predict_pairs(predictor, n_centres, n_all, element, segments, neighbour, vectors, atom_energies, forces,
                       virial, threads);
  });
}
}
