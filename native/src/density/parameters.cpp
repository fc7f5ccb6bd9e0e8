// The density as a kind of representation: its parameters checked and copied, and the time that it takes.
#include "abi/checks.hpp"
#include "abi/representation.hpp"

#include <cmath>
#include <vector>

namespace qml {
namespace density {
namespace {

// Numbers in each array of parameters.
struct Counts {
  int64_t pair_table, radial_table, mixing, terms;
};

int64_t padded(int64_t count) {
  return (count + QML_DENSITY_PADDING - 1) / QML_DENSITY_PADDING * QML_DENSITY_PADDING;
}

Counts counted(const char *function, const qml_density &p) {
  return {require_count(function, "pair_table", {p.n_intervals, 6, padded(p.n_pair)}),
          require_count(function, "radial_table", {p.n_intervals, 6, padded(p.n_radial)}),
          require_count(function, "mixing", {p.n_elements, p.n_radial, p.n_channels}), int64_t(p.n_terms)};
}

void require_terms(const char *function, const qml_density &p) {
  const int32_t n_harmonics = (p.l_max + 1) * (p.l_max + 1);
  require(function, "terms", p.terms, p.n_terms);
  int32_t before = -1;
  for (int64_t t = 0; t < p.n_terms; ++t) {
    const int32_t *term = p.terms + 4 * t;
    if (term[0] < before || term[0] > before + 1 || term[0] >= p.n_invariants)
      fail(QML_BAD_ARGUMENT, "%s: terms must be sorted by invariant, each with a term, but term %lld is of %d after %d.",
           function, (long long)t, term[0], before);
    for (int factor = 1; factor <= 3; ++factor)
      if (term[factor] < (factor == 3 ? -1 : 0) || term[factor] >= n_harmonics)
        fail(QML_BAD_ARGUMENT, "%s: the moments of a term lie within 0 ... %d, but term %lld names %d.", function,
             n_harmonics - 1, (long long)t, term[factor]);
    before = term[0];
  }
  if (before + 1 != p.n_invariants)
    fail(QML_BAD_ARGUMENT, "%s: there are terms for %d of %d invariants.", function, before + 1, p.n_invariants);
}

template <class real> void require_arrays(const char *function, const qml_density &p, const Counts &counts) {
  require_finite(function, "pair_table", static_cast<const real *>(p.pair_table), counts.pair_table);
  require_finite(function, "radial_table", static_cast<const real *>(p.radial_table), counts.radial_table);
  require_finite(function, "mixing", static_cast<const real *>(p.mixing), counts.mixing);
  require_finite(function, "factors", static_cast<const real *>(p.factors), counts.terms);
}

RepresentationShape check(const char *function, const void *parameters, int bits) {
  const qml_density &p = *static_cast<const qml_density *>(parameters);
  require_size(function, "n_elements", p.n_elements, 1);
  require_size(function, "n_pair", p.n_pair);
  require_size(function, "n_radial", p.n_radial, 1);
  require_size(function, "n_intervals", p.n_intervals, 1);
  require_size(function, "n_invariants", p.n_invariants, 1);
  require_size(function, "n_terms", p.n_terms, 1);
  require_size(function, "l_max", p.l_max);
  if (p.l_max > 4) fail(QML_UNSUPPORTED, "%s: l_max goes up to 4, got %d.", function, p.l_max);
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
  require_count(function, "the derivatives", {p.n_invariants, p.n_channels, 25});
  require_terms(function, p);
  if (bits == 32) require_arrays<float>(function, p, counts);
  else require_arrays<double>(function, p, counts);
  return {p.n_elements, pairs + invariants, p.pair_cutoff};
}

// Parameters with arrays of their own.
template <class real> struct Copy {
  qml_density p;
  std::vector<real> pair_table, radial_table, mixing, factors;
  std::vector<int32_t> terms;

  explicit Copy(const qml_density &from) : p(from), terms(from.terms, from.terms + 4 * int64_t(from.n_terms)) {
    const Counts counts = counted("qml_predictor_create", from);
    p.pair_table = rounded(from.pair_table, counts.pair_table, pair_table);
    p.radial_table = rounded(from.radial_table, counts.radial_table, radial_table);
    p.mixing = rounded(from.mixing, counts.mixing, mixing);
    p.factors = rounded(from.factors, counts.terms, factors);
    p.terms = terms.data();
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
         n_centres * p.n_channels * (n_harmonics * p.n_radial * p.n_elements + p.n_terms * 4.0) * 0.1;
}

} // namespace

const RepresentationKind kind = {check, copy, work};

} // namespace density
} // namespace qml
