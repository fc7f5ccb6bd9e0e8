"""Pairs of atoms within a cutoff, listed anew or kept with a skin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from vesin import NeighborList

from ..errors import InputError
from . import linked_cells
from .cells import check_cells
from .linked_cells import ALL_PAIRS_ATOMS
from .structures import Structures, batches, offsets_from_counts

# Two nuclei closer than this are one atom written twice, not chemistry.
SHORTEST_DISTANCE = 0.1  # Å
# Devices whose lists vesin makes. Elsewhere linked cells make the same ones.
VESIN_ON = ("cpu",)
# vesin looks a little further: which pairs are within the cutoff is decided by one formula on all devices.
MARGIN = 1e-9
# Atoms whose distances are checked together before any work.
CHECKED_AT_ONCE = 20_000
CHECKED_WITHIN = 1.5  # Å: with SHORTEST_DISTANCE itself a cell list would have millions of empty cells


@dataclass(frozen=True)
class Pairs:
    """Every ordered pair closer than the cutoff, sorted by centre, element of the neighbour, neighbour, and shift.

    `vector = r[neighbour] + shift @ cell - r[centre]`, in Å, float64.
    """

    centre: Tensor  # (pairs,)
    neighbour: Tensor  # (pairs,)
    shift: Tensor  # (pairs, 3) whole lattice vectors
    vector: Tensor  # (pairs, 3)
    segments: Tensor  # (atoms · elements + 1,): centre i, element e begins at segments[i · elements + e]

    def moved(self, structures: Structures) -> Pairs:
        """Pairs of the same atoms, with the vectors of new positions and cells."""
        here = structures.to(self.vector.device)
        return replace(self, vector=_measured(here, self.centre, self.neighbour, self.shift)[0])

    def within(self, cutoff: float) -> Pairs:
        """Pairs that are closer than `cutoff`."""
        close = self.vector.square().sum(1) < cutoff**2
        segments = offsets_from_counts(close.long())[self.segments]
        near = close.nonzero()[:, 0]
        return Pairs(self.centre[near], self.neighbour[near], self.shift[near], self.vector[near], segments)


@dataclass(frozen=True)
class SkinnedPairs:
    """All pairs closer than cutoff + skin at the positions where they were listed.

    They hold every pair closer than the cutoff until an atom has moved by more than skin / 2.
    """

    listed: Pairs
    at: Structures  # as they were when listed
    cutoff: float  # Å
    skin: float  # Å

    @classmethod
    def of(
        cls,
        structures: Structures,
        cutoff: float,
        skin: float,
        elements: tuple[int, ...],
        device: torch.device | str = "cpu",
    ) -> SkinnedPairs:
        """Pairs within cutoff + skin, in Å."""
        return cls(pairs_within(structures, cutoff + skin, elements, device), structures, cutoff, skin)

    def serve(self, structures: Structures) -> bool:
        """Whether every pair within the cutoff is still among these."""
        unchanged = ("offsets", "numbers", "periodic", "cells")
        if not all(torch.equal(getattr(structures, name), getattr(self.at, name)) for name in unchanged):
            return False
        return bool((structures.positions - self.at.positions).square().sum(1).max() <= (0.5 * self.skin) ** 2)

    def now(self, structures: Structures) -> Pairs:
        """Pairs within the cutoff at the positions of `structures`, which these must serve."""
        return self.listed.moved(structures).within(self.cutoff)


def element_indices(numbers: Tensor, elements: tuple[int, ...]) -> Tensor:
    """Place of each atomic number in `elements`; an InputError if one is not there."""
    table = torch.full((119,), -1, dtype=torch.int64)
    table[list(elements)] = torch.arange(len(elements))
    index = table[numbers]
    if (index < 0).any():
        unknown = sorted(set(numbers[index < 0].tolist()))
        raise InputError(
            f"Elements {_symbols(unknown)} are not among those of the model, {_symbols(elements)}. "
            "Train on structures that contain them."
        )
    return index


def pairs_within(
    structures: Structures, cutoff: float, elements: tuple[int, ...], device: torch.device | str = "cpu"
) -> Pairs:
    """All pairs of each structure closer than `cutoff`, in any cell and any mix of periodic directions, on `device`.

    Structures are on the host. A device other than the CPU finds the pairs itself, and the host waits for their number.
    """
    if not cutoff > 0:
        raise InputError(f"A cutoff is a positive length in Å, got {cutoff}.")
    element = element_indices(structures.numbers, elements).to(device)
    check_cells(structures, cutoff)
    here, parts = structures.to(device), []
    for centre, neighbour, shift in _candidates(structures, here, cutoff):
        vector, squared = _measured(here, centre, neighbour, shift)
        near = (squared < cutoff**2).nonzero()[:, 0]
        parts.append((centre[near], neighbour[near], shift[near], vector[near]))
    centre, neighbour, shift, vector = (torch.cat(values) for values in zip(*parts, strict=True))
    segment = centre * len(elements) + element[neighbour]
    key, order = (segment * structures.n_atoms + neighbour).sort(stable=True)
    if bool(structures.periodic.any()):
        order = order[_by_shift(key, shift[order])]
    bounds = torch.arange(structures.n_atoms * len(elements) + 1, device=device)
    segments = torch.searchsorted(segment[order], bounds)
    return Pairs(centre[order], neighbour[order], shift[order], vector[order], segments)


def check_distances(structures: Structures) -> None:
    """Raise an InputError that names the first two atoms on one spot."""
    for index in batches(structures.counts, CHECKED_AT_ONCE):
        part = structures.select(index)
        check_cells(part, CHECKED_WITHIN, int(index[0]))
        for found in _candidates(part, part, CHECKED_WITHIN):
            _measured(part, *found, first=int(index[0]))


def _candidates(
    structures: Structures, here: Structures, cutoff: float
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Centre, neighbour and shift of all pairs closer than `cutoff`, and of some that are not, in several parts.

    `here` are the structures on the device where the pairs are wanted.
    """
    if here.positions.device.type in VESIN_ON:
        small = ~structures.periodic.any(1) & (structures.counts <= ALL_PAIRS_ATOMS)
        yield _all_pairs(structures, small)
        for s in (~small).nonzero()[:, 0].tolist():
            yield _listed(structures, s, cutoff * (1 + MARGIN))
    else:
        yield from linked_cells.candidates(structures, here, cutoff)


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
    found = NeighborList(cutoff=cutoff, full_list=True).compute(
        points=structures.positions[start:stop].numpy(),
        box=structures.cells[s].numpy(),
        periodic=structures.periodic[s].numpy(),
        quantities="ijS",
    )
    i, j, shift = (torch.from_numpy(np.ascontiguousarray(values).astype(np.int64)) for values in found)
    return i + start, j + start, shift


def _measured(
    structures: Structures, centre: Tensor, neighbour: Tensor, shift: Tensor, first: int = 0
) -> tuple[Tensor, Tensor]:
    """Vectors and squared lengths of pairs; an InputError if two atoms stand on one spot.

    `first` is the number that the error gives to the first structure.
    """
    vector = structures.positions[neighbour] - structures.positions[centre]
    if structures.periodic.any():
        cells = structures.cells[structures.structure_of_atom[centre]]
        vector = vector + torch.einsum("pi,pij->pj", shift.to(cells.dtype), cells)
    squared = vector.square().sum(1)
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
    return vector, squared


def _symbols(numbers: Sequence[int]) -> str:
    from ase.data import chemical_symbols

    return ", ".join(chemical_symbols[z] for z in numbers)
