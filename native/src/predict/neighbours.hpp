// Pairs of atoms within a cutoff, in any cell and any mix of periodic directions.
//
// Periodicity becomes copies: the images of atoms that come near the cell are appended as further atoms, each with the
// translation from its original. What follows knows no cells: a pair is a centre and another atom, original or copy.
#pragma once

#include "predict/buffer.hpp"
#include "predict/sorted_pairs.hpp"

namespace qml {

// The caller's structures, laid end to end.
struct Structures {
  int64_t n_structures;
  const int64_t *offsets;   // (structures + 1)
  const int64_t *element;   // (atoms)
  const double *positions;  // (atoms, 3)
  const double *cells;      // (structures, 3, 3)
  const uint8_t *periodic;  // (structures, 3)

  int64_t n_atoms() const { return offsets[n_structures]; }
};

class NeighbourList {
public:
  // Lists the pairs closer than cutoff + skin, or keeps the list of an earlier call that still holds every pair closer
  // than the cutoff: nothing changed but positions, and none of them by more than skin / 2. Then measures where
  // originals and copies are now. Fails where two atoms are too close.
  void update(const Structures &structures, int n_elements, double cutoff, double skin, int threads);

  int64_t made() const { return n_made; }
  int64_t n_atoms() const { return n_originals; }
  int64_t n_all() const { return n_originals + n_copies; }
  const int64_t *segments() const { return pairs_.segments(); }  // (atoms * n_elements + 1)
  const int32_t *neighbour() const { return pairs_.neighbour(); }
  const double *places() const { return places_.begin(); }      // (n_all, 3)
  const int32_t *original() const { return original_.begin(); } // (copies) what each is a copy of
  const int32_t *structure() const { return structure_.begin(); } // (atoms)

private:
  // A box around one structure with its copies, divided into cells; their atoms lie side by side in the sorted arrays.
  struct Grid {
    double origin[3], cells_per_length[3];
    int64_t n_cells[3];
    int64_t first_cell, first_sorted;

    int64_t cells() const { return n_cells[0] * n_cells[1] * n_cells[2]; }

    int64_t cell(int axis, double x) const {
      const double at = (x - origin[axis]) * cells_per_length[axis];
      return at < 0 ? 0 : at >= double(n_cells[axis]) ? n_cells[axis] - 1 : int64_t(at);
    }
  };

  int64_t n_made = 0, n_originals = 0, n_copies = 0, n_structures = 0;
  bool serves = false;
  double skin_ = 0;

  SortedPairs pairs_; // with their shortest distance, as they were when listed
  Buffer<int32_t> original_, structure_;
  Buffer<double> places_, wrap_, translation_; // wrap (atoms, 3): into the cell; translation (copies, 3)
  // as they were when listed
  Buffer<int64_t> offsets_, element_;
  Buffer<double> positions_, cells_;
  Buffer<uint8_t> periodic_;
  // for the search
  Buffer<Grid> grids_;
  Buffer<int64_t> copies_until_; // (structures + 1)
  Buffer<int32_t> cell_start_, sorted_, element_of_all_, cell_of_atom_;
  Buffer<double> sorted_x_, sorted_y_, sorted_z_;

  bool still_serves(const Structures &structures, double skin) const;
  void keep(const Structures &structures);
  void move(const double *positions);
  void make_copies(const Structures &structures, double reach);
  void sort_into_cells(const Structures &structures, double reach);
  void sort_structure(const Structures &structures, int64_t number);
  Grid grid_around(const Structures &structures, int64_t number, double reach) const;
  template <class Function> void over_atoms(const Structures &structures, int64_t number, Function f) const;
  void check_distances(const Structures &structures, int n_elements) const;
  template <class Visit> void search(int64_t centre, double reach, Visit visit) const;
};

} // namespace qml
