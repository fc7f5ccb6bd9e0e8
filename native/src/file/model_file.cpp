// The reader of model files, the twin of model/file.py.
#include "file/model_file.hpp"

#include "abi/checks.hpp"
#include "abi/representation.hpp"

#include <cmath>

namespace qml {
namespace {

const char format[] = "qml-lightning";
constexpr int64_t newest_version = 7;

std::vector<int32_t> read_elements(const TensorFile &file) {
  const Json *elements = file.header().find("elements");
  if (!elements || elements->kind != Json::list || elements->items.empty()) file.altered("elements");
  std::vector<int32_t> out;
  for (const Json &item : elements->items) {
    if (item.kind != Json::number || !item.is_whole || item.whole < (out.empty() ? 1 : out.back() + 1) ||
        item.whole > heaviest)
      file.altered("elements");
    out.push_back(int32_t(item.whole));
  }
  return out;
}

int32_t bits_of(const TensorFile &file, const std::string &precision) {
  if (precision != "float32" && precision != "float64") file.altered("precision");
  return precision == "float32" ? 32 : 64;
}

// The precision that predictions of this model need; older files do not tell it, and float64 is always good.
int32_t read_precision(const TensorFile &file) {
  if (!file.header().find("prediction")) return 64;
  return bits_of(file, text_field(file, object_field(file, file.header(), "prediction"), "precision"));
}

// Fails where predictions are to be added to those of another method, which an engine would leave out.
void refuse_correction(const TensorFile &file) {
  const Json *provenance = file.header().find("provenance");
  const Json *data = provenance ? provenance->find("data") : nullptr;
  const Json *baseline = data ? data->find("baseline") : nullptr;
  if (!baseline || baseline->kind == Json::null) return;
  if (baseline->kind != Json::text) file.altered("baseline");
  if (!baseline->words.empty())
    fail(QML_UNSUPPORTED, "%.250s is a correction to %.100s, and no potential by itself: that method would be missing. "
         "In Python, potential.calculator(baseline=...) adds both. Or train a model on whole energies.",
         file.path().c_str(), baseline->words.c_str());
}

} // namespace

StoredModel::StoredModel(const char *path, int32_t wanted, double skin) : precision(wanted), skin(skin) {
  const TensorFile file(path, format, newest_version);
  const Json &header = file.header();
  if (header.find("kind") && text_field(file, header, "kind") != "features")
    fail(QML_UNSUPPORTED, "%.250s is a model with explicit kernels, which this library cannot predict with. Use it in "
         "Python, or train a model with random features.", path);
  refuse_correction(file);
  const Json &recipe = object_field(file, header, "recipe");
  atomic_numbers = read_elements(file);
  const int32_t n = int32_t(atomic_numbers.size());
  rank = whole_field(file, recipe, "rank");
  if (precision == 0) precision = read_precision(file);
  stored = read_representation(file, object_field(file, recipe, "representation"), n);
  representation = {stored.kind, 0, stored.parameters.get()};
  const int64_t size = require_representation(path, &representation, 64).shape.size;
  projections = file.doubles("projection", {n, size, rank});
  baseline = file.doubles("baseline", {n});
  read_maps(file, object_field(file, recipe, "features"));
  if (file.has("repulsion.outer")) {
    outer = file.doubles("repulsion.outer", {n, n});
    inner = file.doubles("repulsion.inner", {n, n});
  }
  if (file.has("gaps.low")) {
    gap_low = file.doubles("gaps.low", {n, n});
    gap_high = file.doubles("gaps.high", {n, n});
  }
  if (file.has("crowding.reach")) {
    reach = file.doubles("crowding.reach", {n, n});
    onset = file.doubles("crowding.onset", {n});
    full = file.doubles("crowding.full", {n});
    strength = file.doubles("crowding.strength", {n});
  }
  if (header.find("committee"))
    read_committee(file, object_field(file, header, "committee"),
                   flag_field(file, object_field(file, recipe, "features"), "blocks"));
}

void StoredModel::read_committee(const TensorFile &file, const Json &about, bool blocks) {
  const int64_t n = int64_t(atomic_numbers.size());
  n_members = whole_field(file, about, "members");
  n_force_members = whole_field(file, about, "force_members");
  member_features = whole_field(file, about, "n_features");
  if (n_members < 1 || n_force_members < 0 || n_force_members > n_members || member_features < 1)
    file.altered("committee");
  read_calibrations(file, about);
  const int64_t width = (blocks ? n : 1) * member_features;
  const std::vector<double> read = file.doubles("committee", {n_members, width});
  for (int64_t member = 0; member < n_members; ++member)
    for (int64_t e = 0; e < n; ++e) {
      const double *from = read.data() + member * width + (blocks ? e * member_features : 0);
      members.insert(members.end(), from, from + member_features);
    }
}

void StoredModel::read_calibrations(const TensorFile &file, const Json &about) {
  const auto add = [&](std::vector<double> &to, const Json &one) {
    const double scale = real_field(file, one, "scale"), noise = real_field(file, one, "noise");
    const double power = one.find("power") ? real_field(file, one, "power") : 1; // older files have none
    if (!(scale >= 0) || !(noise >= 0) || !(power > 0 && power <= 1)) file.altered("committee");
    to.insert(to.end(), {scale, noise, power});
  };
  const Json &every = object_field(file, about, "calibrations"), *own = about.find("of_elements");
  add(of_energies, object_field(file, every, "energies"));
  of_energies.push_back(real_field(file, about, "size_exponent"));
  for (const int32_t number : atomic_numbers) { // an element without a calibration of its own has that of all
    const std::string z = std::to_string(number);
    const bool known = own && own->find(z.c_str());
    add(of_forces, known ? object_field(file, *own, z.c_str()) : object_field(file, every, "forces"));
  }
}

void StoredModel::read_maps(const TensorFile &file, const Json &features) {
  const int64_t n = int64_t(atomic_numbers.size()), n_features = whole_field(file, features, "n_features");
  const bool paired = flag_field(file, features, "paired"), blocks = flag_field(file, features, "blocks");
  const std::string &method = text_field(file, features, "method");
  const bool structured = method == "sorf";
  if (!structured && method != "rff" && method != "orf") file.altered("method");
  const int64_t n_frequencies = n_features / (1 + paired), n_transforms = whole_field(file, features, "n_transforms");
  if (n_features < 1 || n_features % (1 + paired) || rank < 1 || (structured && (n_frequencies % rank || !n_transforms)))
    file.altered("n_features");
  phases = file.doubles("phases", {n, n_frequencies});
  if (structured) {
    signs = file.doubles("signs", {n, n_frequencies / rank, n_transforms, rank});
    row_scale = file.doubles("row_scale", {n, n_frequencies});
  } else {
    matrix = file.doubles("matrix", {n, n_frequencies, rank});
  }
  weights = file.doubles("weights", {blocks ? n * n_features : n_features});
  for (int64_t e = 0; e < n; ++e) {
    qml_feature_map map = {};
    map.rank = rank;
    map.n_frequencies = n_frequencies;
    map.n_transforms = structured ? int32_t(n_transforms) : 0;
    map.paired = paired;
    map.amplitude = std::sqrt(2.0 / double(n_features));
    if (structured) {
      map.signs = signs.data() + e * n_frequencies * n_transforms;
      map.row_scale = row_scale.data() + e * n_frequencies;
    } else {
      map.matrix = matrix.data() + e * n_frequencies * rank;
    }
    map.phases = phases.data() + e * n_frequencies;
    maps.push_back(map);
    weights_of.push_back(weights.data() + (blocks ? e * n_features : 0));
  }
}

qml_model StoredModel::as_struct() const {
  return {&representation, rank, projections.data(), maps.data(), weights_of.data(), baseline.data(), precision, 0, skin};
}

} // namespace qml
