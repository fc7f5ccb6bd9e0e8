// The C interface of the life of a predictor: made from memory or from a file, asked, destroyed.
#include "predict/handles.hpp"

#include "abi/checks.hpp"
#include "file/model_file.hpp"

#include <cmath>
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

void require_skin(double skin) {
  if (!(skin >= 0) || !(skin < farthest))
    fail(QML_BAD_ARGUMENT, "The skin of a neighbour list is a length in Å, at least 0 and below %g, got %g.", farthest,
         skin);
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

std::unique_ptr<qml_predictor> create(const char *name, const qml_model *model) {
  require(name, "model", model, 1);
  const CheckedRepresentation representation = require_representation(name, model->representation, 64);
  const int n_elements = representation.shape.n_elements;
  require_size(name, "rank", model->rank, 1);
  require(name, "maps", model->maps, 1);
  require(name, "weights", model->weights, 1);
  if (model->precision != 32 && model->precision != 64)
    fail(QML_UNSUPPORTED, "%s: the precision is 32 or 64, got %d.", name, model->precision);
  if (model->reserved != 0) fail(QML_BAD_ARGUMENT, "%s: reserved must be 0, got %d.", name, model->reserved);
  require_skin(model->skin);
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
  out->precision = model->precision;
  return out;
}

void set_repulsion(const char *name, qml_predictor &predictor, const int32_t *numbers, const double *outer,
                   const double *inner) {
  const int n = predictor.shape.n_elements;
  require(name, "atomic_numbers", numbers, n);
  require_finite(name, "outer", outer, int64_t(n) * n);
  require_finite(name, "inner", inner, int64_t(n) * n);
  for (int i = 0; i < n; ++i) {
    if (numbers[i] < 1 || numbers[i] > heaviest)
      fail(QML_BAD_ARGUMENT, "%s: atomic numbers lie within 1 ... %d, got %d.", name, heaviest, numbers[i]);
    for (int j = 0; j < n; ++j) {
      const double far = outer[i * n + j], near = inner[i * n + j];
      if (!(near > 0 && near < far && far <= predictor.shape.cutoff) || far != outer[j * n + i] || near != inner[j * n + i])
        fail(QML_BAD_ARGUMENT, "%s: wanted 0 < inner < outer <= %g, the same for a pair of elements in both orders, got "
             "inner %g and outer %g.", name, predictor.shape.cutoff, near, far);
    }
  }
  predictor.engine->set_repulsion(Repulsion(n, numbers, outer, inner));
}

void set_gaps(const char *name, qml_predictor &predictor, const double *low, const double *high) {
  const int n = predictor.shape.n_elements;
  const Repulsion &repulsion = predictor.engine->repulsion();
  if (repulsion.empty()) fail(QML_BAD_ARGUMENT, "%s: set the repulsion first.", name);
  require_finite(name, "low", low, int64_t(n) * n);
  require_finite(name, "high", high, int64_t(n) * n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      const double begin = low[i * n + j], end = high[i * n + j];
      const bool none = begin == 0 && end == 0;
      if (!(none || (begin >= repulsion.shortest_seen(i, j) && begin < end && end <= predictor.shape.cutoff)) ||
          begin != low[j * n + i] || end != high[j * n + i])
        fail(QML_BAD_ARGUMENT, "%s: wanted outer <= low < high <= %g or zeros, the same for a pair of elements in both "
             "orders, got low %g and high %g.", name, predictor.shape.cutoff, begin, end);
    }
  predictor.engine->set_gaps(low, high);
}

void set_crowding(const char *name, qml_predictor &predictor, const double *reach, const double *onset,
                  const double *full, const double *strength) {
  const int n = predictor.shape.n_elements;
  require_finite(name, "reach", reach, int64_t(n) * n);
  require_finite(name, "onset", onset, n);
  require_finite(name, "full", full, n);
  require_finite(name, "strength", strength, n);
  for (int i = 0; i < n; ++i) {
    if (!(onset[i] > 0 && onset[i] < full[i] && strength[i] >= 0))
      fail(QML_BAD_ARGUMENT, "%s: wanted 0 < onset < full and a strength that is not negative, got %g, %g and %g.", name,
           onset[i], full[i], strength[i]);
    for (int j = 0; j < n; ++j)
      if (!(reach[i * n + j] > 0 && reach[i * n + j] <= predictor.shape.cutoff) || reach[i * n + j] != reach[j * n + i])
        fail(QML_BAD_ARGUMENT, "%s: wanted 0 < reach <= %g, the same for a pair of elements in both orders, got %g.",
             name, predictor.shape.cutoff, reach[i * n + j]);
  }
  predictor.engine->set_crowding(Crowding(n, reach, onset, full, strength));
}

// Members of a committee: more say nothing new.
constexpr int32_t most_members = 1024;

Calibration calibration(const char *name, const double *values) {
  if (!(values[0] >= 0) || !(values[1] >= 0) || !(values[2] > 0 && values[2] <= 1))
    fail(QML_BAD_ARGUMENT, "%s: wanted scale and noise that are not negative and 0 < power <= 1, got %g, %g and %g.",
         name, values[0], values[1], values[2]);
  return {values[0], values[1], values[2]};
}

void set_committee(qml_predictor &predictor, int64_t n_members, int64_t n_force_members, int64_t n_features,
                   const double *weights, const double *of_energies, const double *of_forces) {
  const char *name = "qml_predictor_set_committee";
  const int64_t n_elements = predictor.shape.n_elements;
  if (n_members < 1 || n_members > most_members || n_force_members < 0 || n_force_members > n_members ||
      n_force_members > most_force_members)
    fail(QML_BAD_ARGUMENT, "%s: wanted 1 ... %d members, and no more nor more than %d of forces, got %lld and %lld.",
         name, most_members, most_force_members, (long long)n_members, (long long)n_force_members);
  require_finite(name, "of_energies", of_energies, 4);
  require_finite(name, "of_forces", of_forces, 3 * n_elements);
  Calibrations calibrations;
  calibrations.energies = calibration(name, of_energies), calibrations.size_exponent = of_energies[3];
  for (int64_t e = 0; e < n_elements; ++e) calibrations.forces.push_back(calibration(name, of_forces + 3 * e));
  predictor.engine->set_committee(int(n_members), int(n_force_members), n_features, weights);
  predictor.n_members = int32_t(n_members), predictor.n_force_members = int32_t(n_force_members);
  predictor.calibrations = calibrations;
}

} // namespace

std::shared_ptr<qml_predictor> require_alive(const char *function, const qml_predictor *handle) {
  require(function, "predictor", handle, 1);
  std::shared_ptr<qml_predictor> found = registry().find(handle);
  if (!found)
    fail(QML_BAD_ARGUMENT, "%s: there is no such predictor. It was destroyed, or never created.", function);
  return found;
}

void make_symmetric(double *matrix) {
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < a; ++b) matrix[3 * a + b] = matrix[3 * b + a] = 0.5 * (matrix[3 * a + b] + matrix[3 * b + a]);
}

} // namespace qml

extern "C" {

int32_t qml_predictor_create(const qml_model *model, qml_predictor **out) {
  return qml::guarded([&] {
    qml::require("qml_predictor_create", "out", out, 1);
    *out = nullptr;
    *out = qml::registry().add(qml::create("qml_predictor_create", model));
  });
}

int32_t qml_predictor_load(const char *path, int32_t precision, double skin, qml_predictor **out) {
  return qml::guarded([&] {
    const char *name = "qml_predictor_load";
    qml::require(name, "out", out, 1);
    qml::require(name, "path", path, 1);
    if (precision != 0 && precision != 32 && precision != 64)
      qml::fail(QML_UNSUPPORTED, "%s: the precision is 32, 64, or 0 for that of the file, got %d.", name, precision);
    qml::require_skin(skin);
    const qml::StoredModel stored(path, precision, skin);
    const qml_model model = stored.as_struct();
    std::shared_ptr<qml_predictor> made = qml::create(name, &model);
    made->atomic_numbers = stored.atomic_numbers;
    if (!stored.outer.empty())
      qml::set_repulsion(path, *made, stored.atomic_numbers.data(), stored.outer.data(), stored.inner.data());
    if (!stored.gap_low.empty()) qml::set_gaps(path, *made, stored.gap_low.data(), stored.gap_high.data());
    if (!stored.reach.empty())
      qml::set_crowding(path, *made, stored.reach.data(), stored.onset.data(), stored.full.data(),
                        stored.strength.data());
    if (stored.n_members > 0)
      qml::set_committee(*made, stored.n_members, stored.n_force_members, stored.member_features,
                         stored.members.data(), stored.of_energies.data(), stored.of_forces.data());
    *out = qml::registry().add(made);
  });
}

int32_t qml_predictor_set_repulsion(qml_predictor *predictor, const int32_t *atomic_numbers, const double *outer,
                                    const double *inner) {
  return qml::guarded([&] {
    const char *name = "qml_predictor_set_repulsion";
    const std::shared_ptr<qml_predictor> found = qml::require_alive(name, predictor);
    const std::lock_guard<std::mutex> lock(found->one_call);
    qml::set_repulsion(name, *found, atomic_numbers, outer, inner);
  });
}

int32_t qml_predictor_set_gaps(qml_predictor *predictor, const double *low, const double *high) {
  return qml::guarded([&] {
    const char *name = "qml_predictor_set_gaps";
    const std::shared_ptr<qml_predictor> found = qml::require_alive(name, predictor);
    const std::lock_guard<std::mutex> lock(found->one_call);
    qml::set_gaps(name, *found, low, high);
  });
}

int32_t qml_predictor_set_crowding(qml_predictor *predictor, const double *reach, const double *onset,
                                   const double *full, const double *strength) {
  return qml::guarded([&] {
    const char *name = "qml_predictor_set_crowding";
    const std::shared_ptr<qml_predictor> found = qml::require_alive(name, predictor);
    const std::lock_guard<std::mutex> lock(found->one_call);
    qml::set_crowding(name, *found, reach, onset, full, strength);
  });
}

int32_t qml_predictor_set_committee(qml_predictor *predictor, int64_t n_members, int64_t n_force_members,
                                    int64_t n_features, const double *weights, const double *of_energies,
                                    const double *of_forces) {
  return qml::guarded([&] {
    const std::shared_ptr<qml_predictor> found = qml::require_alive("qml_predictor_set_committee", predictor);
    const std::lock_guard<std::mutex> lock(found->one_call);
    qml::set_committee(*found, n_members, n_force_members, n_features, weights, of_energies, of_forces);
  });
}

int32_t qml_predictor_n_members(const qml_predictor *predictor) {
  const std::shared_ptr<qml_predictor> found = qml::registry().find(predictor);
  return found ? found->n_members : 0;
}

void qml_predictor_destroy(qml_predictor *predictor) { qml::registry().remove(predictor); }

int64_t qml_predictor_lists_made(const qml_predictor *predictor) {
  const std::shared_ptr<qml_predictor> found = qml::registry().find(predictor);
  if (!found) return 0;
  const std::lock_guard<std::mutex> lock(found->one_call); // a call in another thread may be listing neighbours
  return found->list.made();
}

int32_t qml_predictor_n_elements(const qml_predictor *predictor) {
  const std::shared_ptr<qml_predictor> found = qml::registry().find(predictor);
  return found ? found->shape.n_elements : 0;
}

int32_t qml_predictor_atomic_number(const qml_predictor *predictor, int32_t element) {
  const std::shared_ptr<qml_predictor> found = qml::registry().find(predictor);
  const bool known = found && element >= 0 && size_t(element) < found->atomic_numbers.size();
  return known ? found->atomic_numbers[size_t(element)] : 0;
}

double qml_predictor_cutoff(const qml_predictor *predictor) {
  const std::shared_ptr<qml_predictor> found = qml::registry().find(predictor);
  return found ? found->shape.cutoff : 0;
}

int32_t qml_predictor_precision(const qml_predictor *predictor) {
  const std::shared_ptr<qml_predictor> found = qml::registry().find(predictor);
  return found ? found->precision : 0;
}
}
