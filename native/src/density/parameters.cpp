// The density as a kind of representation: its parameters checked and copied, and the time that it takes.
#include "abi/checks.hpp"
#include "abi/representation.hpp"
#include "density/couplings.hpp"

#include <cmath>
#include <vector>

namespace qml {
namespace density {
namespace {

// Numbers in each array of parameters.
struct Counts {
  int64_t pair_table, radial_table, mixing, weights;
};

int64_t padded(int64_t count) {
  return (count + QML_DENSITY_PADDING - 1) / QML_DENSITY_PADDING * QML_DENSITY_PADDING;
}

Counts counted(const char *function, const qml_density &p) {
  return {require_count(function, "pair_table", {p.n_intervals, 6, padded(p.n_pair)}),
          require_count(function, "radial_table", {p.n_intervals, 6, padded(p.n_radial)}),
          require_count(function, "mixing", {p.n_elements, p.n_radial, p.n_channels}), int64_t(p.n_invariants)};
}

template <class real> void require_arrays(const char *function, const qml_density &p, const Counts &counts) {
  require_finite(function, "pair_table", static_cast<const real *>(p.pair_table), counts.pair_table);
  require_finite(function, "radial_table", static_cast<const real *>(p.radial_table), counts.radial_table);
  require_finite(function, "mixing", static_cast<const real *>(p.mixing), counts.mixing);
  require_finite(function, "weights", static_cast<const real *>(p.weights), counts.weights);
}

RepresentationShape check(const char *function, const void *parameters, int bits) {
  const qml_density &p = *static_cast<const qml_density *>(parameters);
  require_n_elements(function, p.n_elements);
  require_size(function, "n_pair", p.n_pair);
  require_size(function, "n_radial", p.n_radial, 1);
  require_size(function, "n_intervals", p.n_intervals, 1);
  require_size(function, "l_max", p.l_max);
  if (p.l_max > 3) fail(QML_UNSUPPORTED, "%s: l_max goes up to 3, got %d.", function, p.l_max);
  const int32_t two = p.l_max + 1, all = two + path_count[p.l_max];
  if (p.n_invariants != two && p.n_invariants != all)
    fail(QML_BAD_ARGUMENT, "%s: l_max %d has %d invariants of two moments, %d with those of three; got %d.", function,
         p.l_max, two, all, p.n_invariants);
  if (p.reserved != 0) fail(QML_BAD_ARGUMENT, "%s: reserved must be 0, got %d.", function, p.reserved);
  if (p.n_channels < 1 || p.n_channels % QML_DENSITY_PADDING != 0)
    fail(QML_BAD_ARGUMENT, "%s: n_channels must be a multiple of %d, got %d.", function, QML_DENSITY_PADDING, p.n_channels);
  if (!std::isfinite(p.pair_cutoff) || !std::isfinite(p.cutoff))
    fail(QML_NOT_FINITE, "%s: a cutoff is infinite or undefined.", function);
  if (!(p.cutoff > 0) || !(p.pair_cutoff >= p.cutoff))
    fail(QML_BAD_ARGUMENT, "%s: cutoff must be positive and pair_cutoff not below it, got %g and %g.", function, p.cutoff,
         p.pair_cutoff);
  const Counts counts = counted(function, p);
  const int64_t pairs = require_count(function, "the representation", {p.n_elements, p.n_pair});
  const int64_t invariants = require_count(function, "the representation", {p.n_invariants, p.n_channels});
  require_count(function, "the derivatives", {p.n_invariants, p.n_channels, 16});
  if (bits == 32) require_arrays<float>(function, p, counts);
  else require_arrays<double>(function, p, counts);
  return {p.n_elements, pairs + invariants, p.pair_cutoff};
}

// Parameters with arrays of their own.
template <class real> struct Copy {
  qml_density p;
  std::vector<real> pair_table, radial_table, mixing, weights;

  explicit Copy(const qml_density &from) : p(from) {
    const Counts counts = counted("qml_predictor_create", from);
    p.pair_table = rounded(from.pair_table, counts.pair_table, pair_table);
    p.radial_table = rounded(from.radial_table, counts.radial_table, radial_table);
    p.mixing = rounded(from.mixing, counts.mixing, mixing);
    p.weights = rounded(from.weights, counts.weights, weights);
  }

  static const real *rounded(const void *from, int64_t count, std::vector<real> &to) {
    const double *numbers = static_cast<const double *>(from);
    to.assign(numbers, numbers + count);
    return to.data();
  }
};

template <class real> std::shared_ptr<const void> copied(const qml_density &from) {
  const auto copy = std::make_shared<Copy<real>>(from);
  return {copy, &copy->p};
}

std::shared_ptr<const void> copy(const void *parameters, int bits) {
  const qml_density &p = *static_cast<const qml_density *>(parameters);
  return bits == 32 ? copied<float>(p) : copied<double>(p);
}

// Moments of each centre, and functions of each pair.
double work(const void *parameters, double n_centres, double n_pairs) {
  const qml_density &p = *static_cast<const qml_density *>(parameters);
  const double n_harmonics = (p.l_max + 1) * (p.l_max + 1);
  return n_pairs * p.n_radial * n_harmonics * 0.2 +
         n_centres * p.n_channels * (n_harmonics * p.n_radial * p.n_elements + term_count[p.l_max] * 4.0) * 0.1;
}

} // namespace

const RepresentationKind kind = {check, copy, work};

} // namespace density
} // namespace qml
