// The C interface of prediction: structures and pairs are checked here and trusted inside.
#include "abi/checks.hpp"
#include "predict/handles.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qml {
namespace {

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

// Places for standard deviations, (structures), (atoms) and (atoms), or null pointers.
struct Uncertainties {
  double *energies, *atom_energies, *forces;
};

// Standard deviations from the deviations of atomic energies (members, atoms) and of forces (force members, n_all, 3).
void tell_uncertainties(const qml_predictor &of, const Structures &s, int64_t n_atoms, int64_t n_all,
                        const double *energies, const double *forces, const Uncertainties &out) {
  const int n = of.n_members;
  for (int64_t k = 0; k < s.n_structures; ++k)
    out.energies[k] = of.calibrations.of_energy(energies + s.offsets[k], n, s.offsets[k + 1] - s.offsets[k], n_atoms);
  for (int64_t i = 0; i < n_atoms; ++i) out.atom_energies[i] = of.calibrations.of_atom_energy(energies + i, n, n_atoms);
  for (int64_t i = 0; out.forces && i < n_atoms; ++i)
    out.forces[i] = of.calibrations.of_force(s.element[i], forces + 3 * i, of.n_force_members, 3 * n_all);
}

void require_committee(const char *name, const qml_predictor &predictor) {
  if (predictor.n_members == 0)
    fail(QML_UNSUPPORTED, "%s: this model has no committee, so its uncertainty is not known. Train it with --committee 8.",
         name);
}

void predict(const qml_predictor *handle, const Structures &s, double *energies, double *atom_energies, double *forces,
             double *virial, const Uncertainties &uncertain, int32_t threads) {
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
  const int64_t n_all = 3 * list.n_all(), n_energies = uncertain.energies ? predictor->n_members * n_atoms : 0;
  const int64_t n_more = uncertain.forces ? predictor->n_force_members : 0;
  double *all_forces = forces && list.n_all() > n_atoms ? predictor->forces.room(n_all) : forces;
  double *member_energies = n_energies ? predictor->members.room(n_energies + n_more * n_all) : nullptr;
  double *member_forces = n_more ? member_energies + n_energies : nullptr;
  if (forces) std::fill(all_forces, all_forces + n_all, 0.0);
  if (n_more) std::fill(member_forces, member_forces + n_more * n_all, 0.0);
  if (virial) std::fill(virial, virial + 9 * s.n_structures, 0.0);
  predictor->engine->run({n_atoms, s.element, list.segments(), list.neighbour(), nullptr, list.places(), list.n_all()},
                         {atom_energies, all_forces, virial, list.structure(), member_energies, member_forces},
                         threads);

  auto give_back = [&](const double *from, double *to) {
    for (int64_t c = 0; c < list.n_all() - n_atoms; ++c)
      for (int axis = 0; axis < 3; ++axis)
        to[3 * int64_t(list.original()[c]) + axis] += from[3 * (n_atoms + c) + axis];
  };
  if (all_forces != forces) std::copy(all_forces, all_forces + 3 * n_atoms, forces), give_back(all_forces, forces);
  for (double *one = member_forces; one < member_forces + n_more * n_all; one += n_all) give_back(one, one);
  if (uncertain.energies)
    tell_uncertainties(*predictor, s, n_atoms, list.n_all(), member_energies, member_forces, uncertain);
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
  predictor->engine->run({n_centres, element, segments, neighbour, vectors, nullptr, n_all},
                         {atom_energies, forces, virial, nullptr, nullptr, nullptr}, threads);
  if (virial) make_symmetric(virial);
}

// All of the lists but the indices of neighbours, which are checked where they are used.
void require_lists(const char *name, const qml_neighbour_lists &lists, int n_elements) {
  require_size(name, "n_centres", lists.n_centres);
  require_size(name, "n_all", lists.n_all);
  require_count(name, "positions", {lists.n_all, 3});
  require_count(name, "the pairs of atoms with elements", {lists.n_centres, n_elements});
  if (lists.reserved != 0) fail(QML_BAD_ARGUMENT, "%s: reserved must be 0, got %d.", name, lists.reserved);
  if (lists.n_all > std::numeric_limits<int32_t>::max() || lists.n_centres > std::numeric_limits<int32_t>::max())
    fail(QML_UNSUPPORTED, "%s: %lld atoms are too many for one call.", name, (long long)lists.n_all);
  require(name, "centres", lists.centres, lists.n_centres);
  require(name, "counts", lists.counts, lists.n_centres);
  require(name, "neighbours", lists.neighbours, lists.n_centres);
  require(name, "element", lists.element, lists.n_all);
  require_finite(name, "positions", lists.positions, 3 * lists.n_all);
  for (int64_t i = 0; i < lists.n_all; ++i)
    if (lists.element[i] < -1 || lists.element[i] >= n_elements)
      fail(QML_BAD_ARGUMENT, "%s: element must lie within -1 ... %d, but that of atom %lld is %d.", name,
           n_elements - 1, (long long)i, lists.element[i]);
  for (int64_t i = 0; i < lists.n_centres; ++i) {
    if (lists.centres[i] < 0 || lists.centres[i] >= lists.n_all || lists.element[lists.centres[i]] < 0)
      fail(QML_BAD_ARGUMENT, "%s: centre %lld is %d, which is no atom with an element of the model.", name,
           (long long)i, lists.centres[i]);
    require_size(name, "counts", lists.counts[i]);
    require(name, "neighbours", lists.neighbours[i], lists.counts[i]);
  }
}

void predict_lists(const qml_predictor *handle, const qml_neighbour_lists *given, double *atom_energies, double *forces,
                   double *virial, double *atom_virials, double *uncertainty, int32_t threads) {
  const char *name = "qml_predictor_predict_lists";
  const std::shared_ptr<qml_predictor> predictor = require_alive(name, handle);
  const std::lock_guard<std::mutex> lock(predictor->one_call);
  require(name, "lists", given, 1);
  require_threads(name, threads);
  const int n_elements = predictor->shape.n_elements;
  require_lists(name, *given, n_elements);
  const int64_t n = given->n_centres, n_all = given->n_all;
  require(name, "atom_energies", atom_energies, n);

  EngineLists &lists = predictor->lists;
  lists.sort(name, *given, n_elements, predictor->shape.cutoff, threads);
  // forces on centres, then those on neighbours; virials of each centre
  double *all = forces ? lists.forces(n + n_all) : nullptr;
  double *virials = atom_virials ? atom_virials : virial ? lists.virials(n) : nullptr;
  if (all) std::fill(all, all + 3 * (n + n_all), 0.0);
  if (virials) std::fill(virials, virials + 9 * n, 0.0);
  for (int64_t i = 0; i < n; ++i) atom_energies[i] = predictor->baseline[size_t(lists.element()[i])];
  double *member_energies = uncertainty ? predictor->atom_energies.room(predictor->n_members * n) : nullptr;
  predictor->engine->run({n, lists.element(), lists.segments(), lists.neighbour(), nullptr, lists.places(), n + n_all},
                         {atom_energies, all, virials, lists.own_group(), member_energies, nullptr}, threads);
  if (forces) {
    std::copy(all + 3 * n, all + 3 * (n + n_all), forces);
    for (int64_t i = 0; i < n; ++i)
      for (int axis = 0; axis < 3; ++axis) forces[3 * int64_t(given->centres[i]) + axis] += all[3 * i + axis];
  }
  for (int64_t i = 0; uncertainty && i < n; ++i)
    uncertainty[i] = predictor->calibrations.of_atom_energy(member_energies + i, predictor->n_members, n);
  if (virial) std::fill(virial, virial + 9, 0.0);
  for (int64_t i = 0; virials && i < n; ++i) {
    make_symmetric(virials + 9 * i);
    for (int k = 0; virial && k < 9; ++k) virial[k] += virials[9 * i + k];
  }
}

} // namespace
} // namespace qml

extern "C" {

int32_t qml_predictor_predict(qml_predictor *predictor, int64_t n_structures, const int64_t *offsets,
                              const int64_t *element, const double *positions, const double *cells,
                              const uint8_t *periodic, double *energies, double *atom_energies, double *forces,
                              double *virial, int32_t threads) {
  return qml::guarded([&] {
    qml::predict(predictor, {n_structures, offsets, element, positions, cells, periodic}, energies, atom_energies,
                 forces, virial, {nullptr, nullptr, nullptr}, threads);
  });
}

int32_t qml_predictor_predict_uncertain(qml_predictor *predictor, int64_t n_structures, const int64_t *offsets,
                                        const int64_t *element, const double *positions, const double *cells,
                                        const uint8_t *periodic, double *energies, double *atom_energies,
                                        double *forces, double *virial, double *energy_uncertainty,
                                        double *atom_energy_uncertainty, double *force_uncertainty, int32_t threads) {
  return qml::guarded([&] {
    const char *name = "qml_predictor_predict_uncertain";
    qml::require_committee(name, *qml::require_alive(name, predictor));
    qml::require(name, "energy_uncertainty", energy_uncertainty, n_structures);
    qml::require(name, "atom_energy_uncertainty", atom_energy_uncertainty, n_structures);
    qml::predict(predictor, {n_structures, offsets, element, positions, cells, periodic}, energies, atom_energies,
                 forces, virial, {energy_uncertainty, atom_energy_uncertainty, forces ? force_uncertainty : nullptr},
                 threads);
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

int32_t qml_predictor_predict_lists(qml_predictor *predictor, const qml_neighbour_lists *lists, double *atom_energies,
                                    double *forces, double *virial, double *atom_virials, int32_t threads) {
  return qml::guarded(
      [&] { qml::predict_lists(predictor, lists, atom_energies, forces, virial, atom_virials, nullptr, threads); });
}

int32_t qml_predictor_predict_lists_uncertain(qml_predictor *predictor, const qml_neighbour_lists *lists,
                                              double *atom_energies, double *forces, double *virial,
                                              double *atom_virials, double *uncertainty, int32_t threads) {
  return qml::guarded([&] {
    const char *name = "qml_predictor_predict_lists_uncertain";
    qml::require_committee(name, *qml::require_alive(name, predictor));
    qml::require(name, "uncertainty", uncertainty, 1);
    qml::predict_lists(predictor, lists, atom_energies, forces, virial, atom_virials, uncertainty, threads);
  });
}
}
