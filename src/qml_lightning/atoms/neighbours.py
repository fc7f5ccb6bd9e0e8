"""Pairs of atoms within a cutoff."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from vesin import NeighborList

from ..errors import InputError
from .structures import SHORTEST_DISTANCE, Structures, batches

# Up to this many atoms all pairs of a molecule are cheaper than a cell list.
ALL_PAIRS_ATOMS = 100
# Atoms whose distances are looked at together before any work.
CHECKED_AT_ONCE = 20_000
CHECKED_WITHIN = 1.5  # Å: with the shortest distance itself a cell list would have millions of empty cells


@dataclass(frozen=True)
class Pairs:
    """Every ordered pair closer than the cutoff, sorted by centre, then by element of the neighbour.

    `vector = r[neighbour] + shift @ cell - r[centre]`, in Å, float64.
    """

    centre: Tensor  # (pairs,)
    neighbour: Tensor  # (pairs,)
    shift: Tensor  # (pairs, 3) whole lattice vectors
    vector: Tensor  # (pairs, 3)
    segments: Tensor  # (atoms · elements + 1,): centre i, element e begins at segments[i · elements + e]

    def moved(self, structures: Structures) -> Pairs:
        """The same pairs with the vectors of new positions and cells."""
        vector = _vectors(structures, self.centre, self.neighbour, self.shift)
        _check_distances(structures, self.centre, self.neighbour, vector.square().sum(1))
        return replace(self, vector=vector)

    def within(self, cutoff: float) -> Pairs:
        """Those of the pairs that are closer than `cutoff`."""
        near = self.vector.square().sum(1) < cutoff**2
        before = torch.cat([near.new_zeros(1, dtype=torch.int64), near.cumsum(0)])
        return Pairs(
            self.centre[near], self.neighbour[near], self.shift[near], self.vector[near], before[self.segments]
        )


def element_indices(numbers: Tensor, elements: tuple[int, ...]) -> Tensor:
    """Where each atomic number stands in `elements`; an element that is not there is an InputError."""
    table = torch.full((119,), -1, dtype=torch.int64)
    table[list(elements)] = torch.arange(len(elements))
    index = table[numbers]
    if (index < 0).any():
        strangers = sorted(set(numbers[index < 0].tolist()))
        raise InputError(
            f"Elements {_symbols(strangers)} are not among those of the model, {_symbols(elements)}. "
            "Train on structures that contain them."
        )
    return index


def pairs_within(structures: Structures, cutoff: float, elements: tuple[int, ...]) -> Pairs:
    """All pairs of each structure closer than `cutoff`, in any cell and any mix of periodic directions."""
    if not cutoff > 0:
        raise InputError(f"A cutoff is a positive length in Å, got {cutoff}.")
    element = element_indices(structures.numbers, elements)
    centre, neighbour, shift = _candidates(structures, cutoff)
    vector = _vectors(structures, centre, neighbour, shift)
    squared = vector.square().sum(1)
    _check_distances(structures, centre, neighbour, squared)
    key = centre * len(elements) + element[neighbour]
    near = (squared < cutoff**2).nonzero()[:, 0]
    order = near[key[near].sort(stable=True).indices]
    counts = torch.bincount(key[order], minlength=structures.n_atoms * len(elements))
    segments = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return Pairs(centre[order], neighbour[order], shift[order], vector[order], segments)


def check_distances(structures: Structures) -> None:
    """Nothing, or an InputError that names the first two atoms on one spot; structures are counted from the first."""
    for index in batches(structures.counts, CHECKED_AT_ONCE):
        part = structures.select(index)
        centre, neighbour, shift = _candidates(part, CHECKED_WITHIN)
        squared = _vectors(part, centre, neighbour, shift).square().sum(1)
        _check_distances(part, centre, neighbour, squared, first=int(index[0]))


def _candidates(structures: Structures, cutoff: float) -> tuple[Tensor, Tensor, Tensor]:
    """Centre, neighbour and shift of all pairs closer than `cutoff`, and of some that are not."""
    small = ~structures.periodic.any(1) & (structures.counts <= ALL_PAIRS_ATOMS)
    parts = [_all_pairs(structures, small)]
    parts += [_listed(structures, s, cutoff) for s in (~small).nonzero()[:, 0].tolist()]
    centre, neighbour, shift = (torch.cat(values) for values in zip(*parts, strict=True))
    return centre, neighbour, shift


def _vectors(structures: Structures, centre: Tensor, neighbour: Tensor, shift: Tensor) -> Tensor:
    vector = structures.positions[neighbour] - structures.positions[centre]
    if structures.periodic.any():
        cells = structures.cells[structures.structure_of_atom[centre]]
        vector = vector + torch.einsum("pi,pij->pj", shift.to(cells.dtype), cells)
    return vector


def _all_pairs(structures: Structures, which: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every ordered pair of different atoms of the structures marked in `which`, in one batch."""
    atoms = which[structures.structure_of_atom].nonzero()[:, 0]
    owner = structures.structure_of_atom[atoms]
    partners = structures.counts[owner]
    centre = torch.repeat_interleave(atoms, partners)
    run = torch.repeat_interleave(partners.cumsum(0) - partners, partners)
    first = torch.repeat_interleave(structures.offsets[owner], partners)
    neighbour = first + torch.arange(len(centre)) - run
    other = centre != neighbour
    return centre[other], neighbour[other], torch.zeros(int(other.sum()), 3, dtype=torch.int64)


def _listed(structures: Structures, s: int, cutoff: float) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of one large or periodic structure from vesin's cell list."""
    start, stop = structures.offsets[s].item(), structures.offsets[s + 1].item()
    i, j, shift = NeighborList(cutoff=cutoff, full_list=True).compute(
        points=structures.positions[start:stop].numpy(),
        box=structures.cells[s].numpy(),
        periodic=structures.periodic[s].numpy(),
        quantities="ijS",
    )
    as_int64 = [torch.from_numpy(np.ascontiguousarray(a).astype(np.int64)) for a in (i, j, shift)]
    return as_int64[0] + start, as_int64[1] + start, as_int64[2]


def _check_distances(
    structures: Structures, centre: Tensor, neighbour: Tensor, squared: Tensor, first: int = 0
) -> None:
    close = squared < SHORTEST_DISTANCE**2
    if close.any():
        p = int(close.nonzero()[0, 0])
        s = int(structures.structure_of_atom[centre[p]])
        i, j = (int(index[p] - structures.offsets[s]) for index in (centre, neighbour))
        apart = f"{squared[p].sqrt():.3g} Å apart, less than {SHORTEST_DISTANCE} Å"
        raise InputError(
            f"Structure {first + s}: atoms {i} and {j} are {apart}. "
            "Two atoms cannot stand on one spot: remove one, or check the cell and the unit of length."
        )


def _symbols(numbers: tuple[int, ...] | list[int]) -> str:
    from ase.data import chemical_symbols

    return ", ".join(chemical_symbols[z] for z in numbers)
