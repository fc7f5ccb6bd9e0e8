"""Pairs of atoms within a cutoff, listed anew or kept with a skin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor
from vesin import NeighborList

from ..errors import InputError
from ..machine.transfers import count_marks, places_of, sent
from . import linked_cells
from .cells import check_cells, heights_of
from .linked_cells import ALL_PAIRS_ATOMS
from .structures import Structures, batches, offsets_from_counts

# Two nuclei closer than this are one atom written twice, not chemistry.
SHORTEST_DISTANCE = 0.1  # Å
# Devices whose lists vesin makes. Elsewhere linked cells make the same ones.
VESIN_ON = ("cpu",)
# vesin looks a little further: which pairs are within the cutoff is decided by one formula on all devices.
MARGIN = 1e-9
# vesin has no more cells than these. For flat structures that need more it divides by zero, and ends the process.
VESIN_CELLS = 100_000
# Atoms whose distances are checked together before any work.
CHECKED_AT_ONCE = 20_000
CHECKED_WITHIN = 1.5  # Å: with SHORTEST_DISTANCE itself a cell list would have millions of empty cells


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

    def moved(self, structures: Structures, cutoff: float) -> Pairs:
        """Pairs closer than `cutoff` at new positions and cells; an InputError if two atoms meet.

        The host waits once, for the number of pairs.
        """
        vector = _vectors(structures, structures.to(self.vector.device), self.centre, self.neighbour, self.shift)
        squared = vector.square().sum(1)
        close = squared < cutoff**2
        n, n_meeting = count_marks(close, _meeting(squared))
        if n_meeting:
            _refuse(structures, self.centre, self.neighbour, vector)
        return replace(self, vector=vector)._only(close, n)

    def within(self, cutoff: float) -> Pairs:
        """Pairs that are closer than `cutoff`."""
        close = self.vector.square().sum(1) < cutoff**2
        return self._only(close, *count_marks(close))

    def _only(self, close: Tensor, n: int) -> Pairs:
        """The `n` pairs that are marked."""
        segments = offsets_from_counts(close.long())[self.segments]
        near = places_of(close, n)
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
        return self.listed.moved(structures, self.cutoff)


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

    Structures are on the host, but for positions that are on `device` already. A device other than the CPU finds the
    pairs itself, and the host waits for their number.
    """
    if not cutoff > 0:
        raise InputError(f"A cutoff is a positive length in Å, got {cutoff}.")
    element = sent(element_indices(structures.numbers, elements), device)
    check_cells(structures, cutoff)
    here, parts = structures.to(device), []
    counts = torch.zeros(structures.n_atoms * len(elements), dtype=torch.int64, device=device)
    for found in _candidates(structures, here, cutoff):  # their centres ascend from part to part
        near, vector = _near(structures, here, found, cutoff)
        centre, neighbour, shift = found
        segment, order = (centre[near] * len(elements) + element[neighbour[near]]).sort(stable=True)
        counts.scatter_add_(0, segment, torch.ones_like(segment))
        near = near[order]
        parts.append((centre[near], neighbour[near], shift[near], vector[near]))
    centre, neighbour, shift, vector = (torch.cat(values) for values in zip(*parts, strict=True))
    return Pairs(centre, neighbour, shift, vector, offsets_from_counts(counts))


def check_distances(structures: Structures) -> None:
    """Raise an InputError that names the first two atoms on one spot."""
    for index in batches(structures.counts, CHECKED_AT_ONCE):
        part = structures.select(index)
        check_cells(part, CHECKED_WITHIN, int(index[0]))
        for found in _candidates(part, part, CHECKED_WITHIN):
            _near(part, part, found, CHECKED_WITHIN, int(index[0]))


Listed = tuple[Tensor, Tensor, Tensor]  # centre, neighbour and shift of pairs


def _candidates(structures: Structures, here: Structures, cutoff: float) -> Iterator[Listed]:
    """All pairs that may be closer than `cutoff`, in one part or several.

    `here` are the structures on the device where the pairs are wanted.
    """
    if here.positions.device.type not in VESIN_ON:
        yield from linked_cells.candidates(structures, here, cutoff)
        return
    small = ~structures.periodic.any(1) & (structures.counts <= ALL_PAIRS_ATOMS)
    parts = [_all_pairs(structures, small)]
    parts += [_listed(structures, s, cutoff * (1 + MARGIN)) for s in (~small).nonzero()[:, 0].tolist()]
    centre, neighbour, shift = (torch.cat(values) for values in zip(*parts, strict=True))
    yield centre, neighbour, shift


def _near(
    structures: Structures, here: Structures, found: Listed, cutoff: float, first: int = 0
) -> tuple[Tensor, Tensor]:
    """Indices of the candidates that are pairs, and vectors of all candidates; an InputError if two atoms meet.

    The host waits once, for the number of pairs. `first` is the number that the error gives to the first structure.
    """
    centre, neighbour, shift = found
    vector = _vectors(structures, here, *found)
    squared = vector.square().sum(1)
    other = (centre != neighbour) | (shift != 0).any(1)  # nobody is a neighbour of himself
    near = other & (squared < cutoff**2)
    n, n_meeting = count_marks(near, other & _meeting(squared))
    if n_meeting:
        _refuse(structures, centre[other], neighbour[other], vector[other], first)
    return places_of(near, n), vector


def _all_pairs(structures: Structures, which: Tensor) -> Listed:
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


def _listed(structures: Structures, s: int, cutoff: float) -> Listed:
    """Pairs of one large or periodic structure from vesin's cell list, or from ours if vesin's would fail."""
    start, stop = structures.offsets[s].item(), structures.offsets[s + 1].item()
    if _too_flat(structures, s, cutoff):
        alone = structures.select([s])
        i, j, shift = (torch.cat(values) for values in zip(*linked_cells.candidates(alone, alone, cutoff), strict=True))
        return i + start, j + start, shift
    found = NeighborList(cutoff=cutoff, full_list=True).compute(
        points=structures.positions[start:stop].numpy(),
        box=structures.cells[s].numpy(),
        periodic=structures.periodic[s].numpy(),
        quantities="ijS",
    )
    i, j, shift = (torch.from_numpy(np.ascontiguousarray(values).astype(np.int64)) for values in found)
    return i + start, j + start, shift


def _too_flat(structures: Structures, s: int, cutoff: float) -> bool:
    """Whether vesin's cell list might have no cell along the shortest direction: it limits their number."""
    periodic, points = (
        structures.periodic[s].numpy(),
        structures.positions[structures.offsets[s] : structures.offsets[s + 1]],
    )
    inverse, heights = heights_of(structures.cells[s : s + 1].numpy(), periodic[None])
    cells = np.maximum(1.0, np.where(periodic, heights[0], np.ptp(points.numpy() @ inverse[0], axis=0)) // cutoff)
    fewer = min(1.0, float(np.cbrt(VESIN_CELLS / cells.prod())))
    return fewer < 1 and float(cells.min()) * fewer < 2


def _vectors(structures: Structures, here: Structures, centre: Tensor, neighbour: Tensor, shift: Tensor) -> Tensor:
    """Vectors of pairs in Å, (pairs, 3), where they are; `here` are the structures there."""
    vector = here.positions[neighbour] - here.positions[centre]
    if bool(structures.periodic.any()):
        cells = here.cells[here.structure_of_atom[centre]]
        vector = vector + torch.einsum("pi,pij->pj", shift.to(cells.dtype), cells)
    return vector


def _meeting(squared: Tensor) -> Tensor:
    """Mask of pairs whose two atoms are at the same place."""
    return squared < SHORTEST_DISTANCE**2


def _refuse(structures: Structures, centre: Tensor, neighbour: Tensor, vector: Tensor, first: int = 0) -> NoReturn:
    """Raise an InputError that names the first two atoms on one spot."""
    squared = vector.square().sum(1)
    p = int(_meeting(squared).nonzero()[0, 0])
    s = int(structures.structure_of_atom[int(centre[p])])
    i, j = (int(index[p]) - int(structures.offsets[s]) for index in (centre, neighbour))
    apart = f"{squared[p].sqrt():.3g} Å apart, less than {SHORTEST_DISTANCE} Å"
    raise InputError(
        f"Structure {first + s}: atoms {i} and {j} are {apart}. "
        "Two atoms cannot stand on one spot: remove one, or check the cell and the unit of length."
    )


def _symbols(numbers: Sequence[int]) -> str:
    from ase.data import chemical_symbols

    return ", ".join(chemical_symbols[z] for z in numbers)
