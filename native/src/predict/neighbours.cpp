// Copies of periodic atoms, a grid of cells around each structure, and the pairs found in it.
#include "predict/neighbours.hpp"

#include "abi/checks.hpp"
#include "predict/lattice.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace qml {
namespace {

// A molecule up to this size is one cell: all pairs.
constexpr int64_t all_pairs_atoms = 100;

template <class T> T *copied(Buffer<T> &to, const T *from, int64_t count) {
  T *out = to.room(count);
  if (count > 0) std::memcpy(out, from, size_t(count) * sizeof(T));
  return out;
}
template <class T> bool same(const Buffer<T> &a, const T *b, int64_t count) {
  return count == 0 || std::memcmp(a.begin(), b, size_t(count) * sizeof(T)) == 0;
}

} // namespace

// Neighbours of an atom, on average: fifty times as many as in diamond. Their triples would take minutes.
static constexpr double most_neighbours = 20000;

void NeighbourList::update(const Structures &structures, int n_elements, double cutoff, double skin, int threads) {
  if (still_serves(structures, skin)) {
    move(structures.positions);
    // atoms that were farther apart cannot have come that close
    if (pairs_.shortest() < shortest_distance + skin) check_distances(structures, n_elements);
    return;
  }
  serves = false;
  n_originals = structures.n_atoms();
  make_copies(structures, cutoff + skin);
  move(structures.positions);
  sort_into_cells(structures, cutoff + skin);
  const double reach = cutoff + skin;
  pairs_.list(n_originals, n_elements, element_of_all_.begin(), threads,
              [&](int64_t i, auto visit) { search(i, reach, visit); });
  if (double(segments()[n_originals * n_elements]) > most_neighbours * double(n_originals))
    fail(QML_BAD_ARGUMENT, "Atoms have %.3g neighbours each within %.3g Å. No matter is so dense: check positions, cells and "
         "their unit of length.", double(segments()[n_originals * n_elements]) / double(n_originals), cutoff + skin);
  ++n_made;
  if (pairs_.shortest() < shortest_distance) check_distances(structures, n_elements);
  if (skin > 0) keep(structures);
  skin_ = skin;
  serves = skin > 0;
}

bool NeighbourList::still_serves(const Structures &s, double skin) const {
  if (!serves || skin != skin_ || s.n_structures != n_structures || s.n_atoms() != n_originals ||
      !same(offsets_, s.offsets, s.n_structures + 1) || !same(element_, s.element, n_originals) ||
      !same(cells_, s.cells, 9 * s.n_structures) || !same(periodic_, s.periodic, 3 * s.n_structures))
    return false;
  const double most = 0.25 * skin * skin, *before = positions_.begin();
  for (int64_t i = 0; i < n_originals; ++i) {
    const double x = s.positions[3 * i] - before[3 * i], y = s.positions[3 * i + 1] - before[3 * i + 1],
                 z = s.positions[3 * i + 2] - before[3 * i + 2], moved = x * x + y * y + z * z;
    if (!(moved <= most)) return false; // also where it is not a number
  }
  return true;
}

void NeighbourList::keep(const Structures &s) {
  n_structures = s.n_structures;
  copied(offsets_, s.offsets, n_structures + 1);
  copied(element_, s.element, n_originals);
  copied(positions_, s.positions, 3 * n_originals);
  copied(cells_, s.cells, 9 * n_structures);
  copied(periodic_, s.periodic, 3 * n_structures);
}

void NeighbourList::move(const double *positions) {
  double *place = places_.begin();
  const double *wrap = wrap_.begin(), *translation = translation_.begin();
  const int32_t *original = original_.begin();
  for (int64_t k = 0; k < 3 * n_originals; ++k) place[k] = positions[k] + wrap[k];
  double *copy = place + 3 * n_originals;
  for (int64_t c = 0; c < n_copies; ++c)
    for (int axis = 0; axis < 3; ++axis)
      copy[3 * c + axis] = place[3 * int64_t(original[c]) + axis] + translation[3 * c + axis];
}

void NeighbourList::make_copies(const Structures &s, double reach) {
  int32_t *structure = structure_.room(n_originals);
  double *wrap = wrap_.room(3 * n_originals);
  int64_t *until = copies_until_.room(s.n_structures + 1);
  // counted first, then written
  for (const bool writing : {false, true}) {
    n_copies = 0;
    until[0] = 0;
    for (int64_t n = 0; n < s.n_structures; ++n) {
      const uint8_t *periodic = s.periodic + 3 * n;
      const bool molecule = !periodic[0] && !periodic[1] && !periodic[2];
      const Lattice lattice(n, s.cells + 9 * n, periodic);
      if (!molecule) lattice.require_images(n, reach, s.offsets[n + 1] - s.offsets[n]);
      for (int64_t i = s.offsets[n]; i < s.offsets[n + 1]; ++i) {
        structure[i] = int32_t(n);
        wrap[3 * i] = wrap[3 * i + 1] = wrap[3 * i + 2] = 0;
        if (molecule) continue;
        lattice.images(n, s.positions + 3 * i, reach, wrap + 3 * i, [&](const double *translation) {
          if (writing) {
            original_.begin()[n_copies] = int32_t(i);
            std::memcpy(translation_.begin() + 3 * n_copies, translation, 3 * sizeof(double));
          }
          ++n_copies;
        });
      }
      until[n + 1] = n_copies;
    }
    if (n_originals + n_copies > std::numeric_limits<int32_t>::max())
      fail(QML_UNSUPPORTED, "%lld atoms with their periodic images are too many for one call; use fewer, or a larger cell.",
           (long long)(n_originals + n_copies));
    if (!writing) {
      original_.room(n_copies);
      translation_.room(3 * n_copies);
    }
  }
  places_.room(3 * (n_originals + n_copies));
}

void NeighbourList::sort_into_cells(const Structures &s, double reach) {
  const int64_t total = n_all();
  int32_t *element = element_of_all_.room(total);
  for (int64_t i = 0; i < n_originals; ++i) element[i] = int32_t(s.element[i]);
  for (int64_t c = 0; c < n_copies; ++c) element[n_originals + c] = element[original_.begin()[c]];

  Grid *grids = grids_.room(s.n_structures);
  const int64_t *until = copies_until_.begin();
  int64_t n_cells = 0, n_sorted = 0;
  for (int64_t n = 0; n < s.n_structures; ++n) {
    grids[n] = grid_around(s, n, reach);
    grids[n].first_cell = n_cells;
    grids[n].first_sorted = n_sorted;
    n_cells += grids[n].cells() + 1;
    n_sorted += s.offsets[n + 1] - s.offsets[n] + until[n + 1] - until[n];
  }
  int32_t *start = cell_start_.room(n_cells);
  std::fill(start, start + n_cells, 0);
  cell_of_atom_.room(total), sorted_.room(total);
  sorted_x_.room(total), sorted_y_.room(total), sorted_z_.room(total);
  for (int64_t n = 0; n < s.n_structures; ++n) sort_structure(s, n);
}

// f(atom) over the originals and copies of a structure
template <class Function> void NeighbourList::over_atoms(const Structures &s, int64_t n, Function f) const {
  const int64_t *until = copies_until_.begin();
  for (int64_t i = s.offsets[n]; i < s.offsets[n + 1]; ++i) f(i);
  for (int64_t c = until[n]; c < until[n + 1]; ++c) f(n_originals + c);
}

// The box around a structure, divided into cells; the places of its first cell and atom are set by the caller.
NeighbourList::Grid NeighbourList::grid_around(const Structures &s, int64_t n, double reach) const {
  Grid grid{};
  const double *place = places_.begin();
  const int64_t copies = copies_until_.begin()[n + 1] - copies_until_.begin()[n];
  const int64_t count = s.offsets[n + 1] - s.offsets[n] + copies;
  double high[3];
  for (int axis = 0; axis < 3; ++axis) {
    grid.origin[axis] = std::numeric_limits<double>::max();
    high[axis] = std::numeric_limits<double>::lowest();
  }
  over_atoms(s, n, [&](int64_t i) {
    for (int axis = 0; axis < 3; ++axis) {
      grid.origin[axis] = std::min(grid.origin[axis], place[3 * i + axis]);
      high[axis] = std::max(high[axis], place[3 * i + axis]);
    }
  });
  // Cells of half the reach: 5 x 5 rows of them hold fewer strangers than 3 x 3 of the whole. No more cells than
  // atoms: where these are few in a large space, the cells are larger.
  double side = 0.5 * reach;
  const bool one_cell = count <= all_pairs_atoms && copies == 0;
  for (bool fits = false; !fits; side *= 1.26) {
    double product = 1;
    for (int axis = 0; axis < 3; ++axis) {
      const double wanted = one_cell ? 1 : std::max(1.0, std::floor((high[axis] - grid.origin[axis]) / side));
      product *= wanted;
      grid.n_cells[axis] = int64_t(std::min(wanted, 1e9));
    }
    fits = product <= double(2 * count + 64);
  }
  for (int axis = 0; axis < 3; ++axis) {
    const double extent = high[axis] - grid.origin[axis];
    grid.cells_per_length[axis] = extent > 0 ? double(grid.n_cells[axis]) / extent : 0;
  }
  return grid;
}

// Sort the atoms of a structure by cell: count those of each cell, add up to where each cell starts, and fill.
void NeighbourList::sort_structure(const Structures &s, int64_t n) {
  const Grid &grid = grids_.begin()[n];
  const double *place = places_.begin();
  int32_t *first = cell_start_.begin() + grid.first_cell, *cell_of = cell_of_atom_.begin(), *sorted = sorted_.begin();
  double *x = sorted_x_.begin(), *y = sorted_y_.begin(), *z = sorted_z_.begin();
  const int64_t cells = grid.cells();
  over_atoms(s, n, [&](int64_t i) {
    const double *at = place + 3 * i;
    cell_of[i] = int32_t((grid.cell(2, at[2]) * grid.n_cells[1] + grid.cell(1, at[1])) * grid.n_cells[0] +
                         grid.cell(0, at[0]));
    ++first[cell_of[i] + 1];
  });
  for (int64_t cell = 0; cell < cells; ++cell) first[cell + 1] += first[cell];
  over_atoms(s, n, [&](int64_t i) {
    const int64_t to = grid.first_sorted + first[cell_of[i]]++;
    sorted[to] = int32_t(i);
    x[to] = place[3 * i], y[to] = place[3 * i + 1], z[to] = place[3 * i + 2];
  });
  // each start has moved to the next one: move them back
  for (int64_t cell = cells; cell > 0; --cell) first[cell] = first[cell - 1];
  first[0] = 0;
}

// visit(neighbours, their squared distances, how many) for all neighbours of a centre, always in the same order.
template <class Visit> void NeighbourList::search(int64_t centre, double reach, Visit visit) const {
  constexpr int64_t most = 64; // candidates at once
  double squared[most], near_squared[most];
  int32_t near[most];
  const Grid &grid = grids_.begin()[structure_.begin()[centre]];
  const double *at = places_.begin() + 3 * centre, reach2 = reach * reach;
  const int32_t *start = cell_start_.begin() + grid.first_cell, *sorted = sorted_.begin() + grid.first_sorted;
  const double *x = sorted_x_.begin() + grid.first_sorted, *y = sorted_y_.begin() + grid.first_sorted,
               *z = sorted_z_.begin() + grid.first_sorted;
  const double px = at[0], py = at[1], pz = at[2];
  int64_t low[3], high[3];
  for (int axis = 0; axis < 3; ++axis) {
    low[axis] = grid.cell(axis, at[axis] - reach);
    high[axis] = grid.cell(axis, at[axis] + reach);
  }
  for (int64_t c = low[2]; c <= high[2]; ++c) {
    for (int64_t b = low[1]; b <= high[1]; ++b) {
      const int64_t row = (c * grid.n_cells[1] + b) * grid.n_cells[0];
      const int64_t stop = start[row + high[0] + 1];
      for (int64_t first = start[row + low[0]]; first < stop; first += most) {
        const int64_t count = std::min(most, stop - first);
        for (int64_t k = 0; k < count; ++k) {
          const double dx = x[first + k] - px, dy = y[first + k] - py, dz = z[first + k] - pz;
          squared[k] = dx * dx + dy * dy + dz * dz;
        }
        int64_t found = 0; // without a branch: whether one is near cannot be foretold
        for (int64_t k = 0; k < count; ++k) {
          near[found] = sorted[first + k];
          near_squared[found] = squared[k];
          found += (squared[k] < reach2) & (sorted[first + k] != centre);
        }
        visit(near, near_squared, found);
      }
    }
  }
}

void NeighbourList::check_distances(const Structures &s, int n_elements) const {
  const double *place = places_.begin();
  for (int64_t i = 0; i < n_originals; ++i) {
    for (int64_t p = segments()[i * n_elements]; p < segments()[(i + 1) * n_elements]; ++p) {
      const int64_t j = neighbour()[p];
      const double x = place[3 * j] - place[3 * i], y = place[3 * j + 1] - place[3 * i + 1],
                   z = place[3 * j + 2] - place[3 * i + 2], r = std::sqrt(x * x + y * y + z * z);
      if (r >= shortest_distance) continue;
      const int64_t n = structure()[i], first = s.offsets[n];
      fail(QML_BAD_ARGUMENT,
           "Structure %lld: atoms %lld and %lld are %.3g Å apart, less than %.3g Å. Two atoms cannot stand on one "
           "spot: remove one, or check the cell and the unit of length.",
           (long long)n, (long long)(i - first),
           (long long)((j < n_originals ? j : original()[j - n_originals]) - first), r, shortest_distance);
    }
  }
}

} // namespace qml
