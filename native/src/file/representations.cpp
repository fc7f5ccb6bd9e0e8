// The table of kinds of representation that model files have.
#include "file/representations.hpp"

#include "abi/errors.hpp"

#include <cmath>
#include <limits>

namespace qml {
namespace {

// As FCHL19.arguments in model/representations/fchl19.py, in the same order: the bits are the same.
std::shared_ptr<const void> read_fchl19(const TensorFile &file, const Json &values, int32_t n_elements) {
  const auto p = std::make_shared<qml_fchl19>();
  const std::string &angular = text_field(file, values, "angular");
  if (angular != "pair" && angular != "series") file.altered("angular");
  p->n_elements = n_elements;
  p->n_radial2 = whole_field(file, values, "n_radial2");
  p->n_radial3 = whole_field(file, values, "n_radial3");
  p->n_angular = whole_field(file, values, "n_angular");
  p->angular = angular == "pair" ? QML_ANGULAR_PAIR : QML_ANGULAR_SERIES;
  p->cutoff_power = whole_field(file, values, "cutoff_power", 1); // older files have none
  p->cutoff = real_field(file, values, "cutoff");
  p->eta2 = real_field(file, values, "eta2");
  p->eta3 = real_field(file, values, "eta3");
  p->decay2 = real_field(file, values, "decay2");
  p->decay3 = real_field(file, values, "decay3");
  p->weight3 = real_field(file, values, "weight3") * std::sqrt(p->eta3 / M_PI);
  const double zeta = real_field(file, values, "zeta");
  if (p->angular == QML_ANGULAR_PAIR) p->weight3 *= 2.0 * std::exp(-(zeta * zeta) / 2.0);
  return p;
}

// Parameters of the density with the tensors that they point to.
struct StoredDensity {
  qml_density p = {};
  std::vector<double> pair_table, radial_table, mixing, weights;
};

// Tables in files have no padding.
std::vector<double> padded_table(const TensorFile &file, const std::string &name, int64_t n_intervals, int64_t count) {
  const int64_t width = (count + QML_DENSITY_PADDING - 1) / QML_DENSITY_PADDING * QML_DENSITY_PADDING, n = 6 * n_intervals;
  const std::vector<double> found = file.doubles(name, {n_intervals, 6, count});
  std::vector<double> out(size_t(n * width), 0.0);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t i = 0; i < count; ++i) out[size_t(row * width + i)] = found[size_t(row * count + i)];
  return out;
}

std::shared_ptr<const void> read_density(const TensorFile &file, const Json &values, int32_t n_elements) {
  const auto stored = std::make_shared<StoredDensity>();
  qml_density &p = stored->p;
  const std::vector<int64_t> table = file.shape("representation.radial_table");
  const std::vector<int64_t> weights = file.shape("representation.weights");
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (table.size() != 3 || table[0] > most) file.altered("representation.radial_table");
  if (weights.size() != 1 || weights[0] > most) file.altered("representation.weights");
  p.n_elements = n_elements;
  p.n_pair = whole_field(file, values, "n_pair");
  p.n_radial = whole_field(file, values, "n_radial");
  p.l_max = whole_field(file, values, "l_max");
  p.n_channels = whole_field(file, values, "n_channels");
  p.n_invariants = int32_t(weights[0]);
  p.n_intervals = int32_t(table[0]);
  p.cutoff = real_field(file, values, "density_cutoff");
  p.pair_cutoff = real_field(file, values, "cutoff");
  stored->pair_table = padded_table(file, "representation.pair_table", p.n_intervals, p.n_pair);
  stored->radial_table = padded_table(file, "representation.radial_table", p.n_intervals, p.n_radial);
  stored->mixing = file.doubles("representation.mixing", {n_elements, p.n_radial, p.n_channels});
  stored->weights = file.doubles("representation.weights", {p.n_invariants});
  p.pair_table = stored->pair_table.data();
  p.radial_table = stored->radial_table.data();
  p.mixing = stored->mixing.data();
  p.weights = stored->weights.data();
  return {stored, &stored->p};
}

struct Row {
  const char *name; // in files
  int32_t kind;
  std::shared_ptr<const void> (*read)(const TensorFile &file, const Json &values, int32_t n_elements);
};
const Row rows[] = {{"fchl19", QML_FCHL19, read_fchl19}, {"density", QML_DENSITY, read_density}};

const Json &field(const TensorFile &file, const Json &values, const char *name, Json::Kind kind) {
  const Json *found = values.find(name);
  if (!found || found->kind != kind) file.altered(name);
  return *found;
}

} // namespace

StoredRepresentation read_representation(const TensorFile &file, const Json &values, int32_t n_elements) {
  const Json *given = values.find("kind"); // older files have none
  const std::string kind = given ? text_field(file, values, "kind") : "fchl19";
  for (const Row &row : rows)
    if (kind == row.name) return {row.kind, row.read(file, values, n_elements)};
  fail(QML_UNSUPPORTED, "%.250s has a representation \"%.60s\", which this library cannot compute. Update it, or use the "
       "model in Python.", file.path().c_str(), kind.c_str());
}

double real_field(const TensorFile &file, const Json &values, const char *name) {
  const double value = field(file, values, name, Json::number).real;
  if (!std::isfinite(value)) file.altered(name);
  return value;
}

int32_t whole_field(const TensorFile &file, const Json &values, const char *name) {
  const Json &value = field(file, values, name, Json::number);
  if (!value.is_whole || value.whole < 0 || value.whole > std::numeric_limits<int32_t>::max()) file.altered(name);
  return int32_t(value.whole);
}

int32_t whole_field(const TensorFile &file, const Json &values, const char *name, int32_t where_missing) {
  return values.find(name) ? whole_field(file, values, name) : where_missing;
}

const std::string &text_field(const TensorFile &file, const Json &values, const char *name) {
  return field(file, values, name, Json::text).words;
}

bool flag_field(const TensorFile &file, const Json &values, const char *name) {
  return values.find(name) && field(file, values, name, Json::boolean).whole != 0;
}

const Json &object_field(const TensorFile &file, const Json &values, const char *name) {
  return field(file, values, name, Json::object);
}

} // namespace qml
