// The lists of an engine hold pairs beyond the cutoff, more than half of all: these are left out, and the rest is sorted.
#include "predict/engine_lists.hpp"

#include "abi/checks.hpp"

#include <cstring>

namespace qml {
namespace {

constexpr int64_t at_once = 64; // neighbours

// Atoms that the entries of a list name; false where one of them is none.
bool decode(const qml_neighbour_lists &given, const int32_t *entries, int64_t count, int32_t *atoms) {
  bool wrong = false;
  for (int64_t k = 0; k < count; ++k) {
    atoms[k] = entries[k] & given.mask;
    wrong |= (atoms[k] < 0) | (int64_t(atoms[k]) >= given.n_all);
  }
  return !wrong;
}

// visit(neighbours, their squared distances, how many) for those of centre i within the cutoff that the model sees, with
// `before` added to their numbers; false where the list is wrong.
template <class Visit>
bool within(const qml_neighbour_lists &given, int64_t i, double cutoff, int32_t before, Visit visit) {
  int32_t atoms[at_once], near[at_once];
  double squared[at_once], near_squared[at_once];
  const double *x = given.positions + 3 * int64_t(given.centres[i]), cutoff2 = cutoff * cutoff;
  for (int64_t first = 0; first < given.counts[i]; first += at_once) {
    const int64_t count = std::min(at_once, given.counts[i] - first);
    if (!decode(given, given.neighbours[i] + first, count, atoms)) return false;
    for (int64_t k = 0; k < count; ++k) {
      const double *y = given.positions + 3 * int64_t(atoms[k]);
      const double dx = y[0] - x[0], dy = y[1] - x[1], dz = y[2] - x[2];
      squared[k] = dx * dx + dy * dy + dz * dz;
    }
    int64_t found = 0; // without a branch: whether one is near cannot be foretold
    for (int64_t k = 0; k < count; ++k) {
      near[found] = before + atoms[k];
      near_squared[found] = squared[k];
      found += (squared[k] < cutoff2) & (given.element[atoms[k]] >= 0);
    }
    visit(near, near_squared, found);
  }
  return true;
}

[[noreturn]] void refuse_index(const char *name, const qml_neighbour_lists &given, int64_t i) {
  int32_t atom = 0;
  for (int32_t k = 0; k < given.counts[i]; ++k)
    if (!decode(given, given.neighbours[i] + k, 1, &atom)) break;
  fail(QML_BAD_ARGUMENT, "%s: neighbours lie within 0 ... %lld, but one of centre %lld is %d.", name,
       (long long)given.n_all - 1, (long long)i, atom);
}

void refuse_distance(const qml_neighbour_lists &given) {
  for (int64_t i = 0; i < given.n_centres; ++i)
    within(given, i, shortest_distance, 0, [&](const int32_t *atoms, const double *squared, int64_t found) {
      if (found > 0)
        fail(QML_BAD_ARGUMENT, "Atoms %d and %d are %.3g Å apart, less than %.3g Å. Two atoms cannot stand on one spot.",
             given.centres[i], atoms[0], std::sqrt(squared[0]), shortest_distance);
    });
}

} // namespace

void EngineLists::sort(const char *name, const qml_neighbour_lists &given, int n_elements, double cutoff, int threads) {
  if (given.n_centres + given.n_all > std::numeric_limits<int32_t>::max())
    fail(QML_UNSUPPORTED, "%lld atoms are too many for one call; use more processes.", (long long)given.n_all);
  number(given);
  int64_t wrong = -1;
  pairs_.list(given.n_centres, n_elements, element_of_all_.begin(), threads, [&](int64_t i, auto visit) {
    if (within(given, i, cutoff, int32_t(given.n_centres), visit)) return;
#pragma omp atomic write
    wrong = i;
  });
  if (wrong >= 0) refuse_index(name, given, wrong);
  if (pairs_.shortest() < shortest_distance) refuse_distance(given);
}

// Centres, and after them all atoms.
void EngineLists::number(const qml_neighbour_lists &given) {
  const int64_t n = given.n_centres;
  int64_t *element = element_.room(n);
  int32_t *group = group_.room(n), *of_all = element_of_all_.room(n + given.n_all);
  double *places = places_.room(3 * (n + given.n_all));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t atom = given.centres[i];
    element[i] = of_all[i] = given.element[atom];
    group[i] = int32_t(i);
    std::memcpy(places + 3 * i, given.positions + 3 * atom, 3 * sizeof(double));
  }
  if (given.n_all == 0) return;
  std::memcpy(of_all + n, given.element, size_t(given.n_all) * sizeof(int32_t));
  std::memcpy(places + 3 * n, given.positions, size_t(given.n_all) * 3 * sizeof(double));
}

} // namespace qml
