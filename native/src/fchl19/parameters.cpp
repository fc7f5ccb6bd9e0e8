// FCHL19 as a kind of representation: its parameters checked and copied, and the time that it takes.
#include "abi/checks.hpp"
#include "abi/representation.hpp"

#include <cmath>

namespace qml {
namespace fchl19 {
namespace {

RepresentationShape check(const char *function, const void *parameters, int) {
  const qml_fchl19 *p = static_cast<const qml_fchl19 *>(parameters);
  require_n_elements(function, p->n_elements);
  require_size(function, "n_radial2", p->n_radial2);
  require_size(function, "n_radial3", p->n_radial3);
  require_size(function, "n_angular", p->n_angular, 1);
  if (p->angular != QML_ANGULAR_PAIR && p->angular != QML_ANGULAR_SERIES)
    fail(QML_UNSUPPORTED, "%s: no angular functions number %d; there are 0 (pair) and 1 (series).", function,
         p->angular);
  if (p->angular == QML_ANGULAR_PAIR && p->n_angular != 2)
    fail(QML_BAD_ARGUMENT, "%s: the angular pair has n_angular 2, got %d.", function, p->n_angular);
  if (p->cutoff_power != 1 && p->cutoff_power != 2)
    fail(QML_UNSUPPORTED, "%s: the cutoff function has the power 1 or 2, got %d.", function, p->cutoff_power);
  for (const double value : {p->cutoff, p->eta2, p->eta3, p->decay2, p->decay3, p->weight3})
    if (!std::isfinite(value)) fail(QML_NOT_FINITE, "%s: a parameter is infinite or undefined.", function);
  if (!(p->cutoff > 0) || !(p->eta2 > 0) || !(p->eta3 > 0))
    fail(QML_BAD_ARGUMENT, "%s: cutoff, eta2 and eta3 must be positive.", function);
  // the Gaussians are split into factors of each distance (three_body.hpp), which would leave the range of double
  if (!(p->eta3 * p->cutoff * p->cutoff <= 2800))
    fail(QML_UNSUPPORTED, "%s: eta3 * cutoff^2 must not be above 2800, got %g.", function,
         p->eta3 * p->cutoff * p->cutoff);
  const int64_t n = p->n_elements, three = require_count(function, "the representation", {n, n, p->n_radial3, p->n_angular});
  const int64_t two = require_count(function, "the representation", {n, p->n_radial2});
  return {p->n_elements, two + three / n * (n + 1) / 2, p->cutoff};
}

std::shared_ptr<const void> copy(const void *parameters, int) {
  return std::make_shared<qml_fchl19>(*static_cast<const qml_fchl19 *>(parameters));
}

// Triples, times the numbers that each of them adds to.
double work(const void *parameters, double n_centres, double n_pairs) {
  const qml_fchl19 *p = static_cast<const qml_fchl19 *>(parameters);
  return 0.5 * n_pairs * n_pairs / n_centres * (double(p->n_radial3) * p->n_angular);
}

} // namespace

const RepresentationKind kind = {check, copy, work};

} // namespace fchl19
} // namespace qml
