"""Linked cells: pairs of atoms that may be close, found where the positions are, on any device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..machine.memory import room_on
from ..machine.transfers import sent
from .cells import heights_of
from .structures import Structures, batches

# Up to this many atoms, all pairs of a molecule are cheaper than a cell list.
ALL_PAIRS_ATOMS = 100
# Bins of a structure for each of its atoms, at most: a box of vacuum has millions otherwise.
BINS_PER_ATOM = 8
# Widths of bins that are tried: the cutoff, and parts of it.
PARTS = (1, 2, 3)
# Candidates that are in memory at once; on a device with a memory of its own as many as a part of it holds, between
# bounds, with their indices and vectors.
MOST_CANDIDATES = 2**22
CANDIDATE_BYTES, PART = 200, 8
# Bins are a little wider than the cutoff, so that no rounding of a coordinate puts a neighbour one bin too far.
MARGIN = 1e-6


@dataclass(frozen=True)
class Grid:
    """Bins of each structure. Without periodicity the grid has no end: bins far apart share a number.

    The grid follows from cells and numbers of atoms. The host knows them, and need not wait for positions.
    """

    inverse: Tensor  # (structures, 3, 3): positions @ inverse count lattice vectors, or Å across them
    scale: Tensor  # (structures, 3) bins for each unit of these coordinates
    bins: Tensor  # (structures, 3)
    reach: Tensor  # (structures, 3) bins to either side in which neighbours are sought
    first: Tensor  # (structures,) number of the first bin of each structure
    blocks: Tensor  # (structures,) bins in which the neighbours of an atom are sought
    known: Tensor  # (structures,) candidates of an atom, if all atoms of the structure are in one bin; else 0
    n_bins: int

    @classmethod
    def of(cls, structures: Structures, cutoff: float) -> Grid:
        """Bins of structures on the host, of the width that leaves the fewest candidates."""
        periodic, counts = structures.periodic.numpy(), structures.counts.numpy()[:, None]
        inverse, heights = heights_of(structures.cells.numpy(), periodic)
        tried = [_tried(periodic, counts, heights, cutoff * (1 + MARGIN), parts) for parts in PARTS]
        work = [(2 * reach + 1).prod(1) * (1 + counts[:, 0] / bins.prod(1)) for bins, reach, _ in tried]
        best = np.argmin(work, axis=0), np.arange(len(counts))
        bins, reach, scale = (np.stack(values)[best] for values in zip(*tried, strict=True))
        n, blocks = bins.prod(1), (2 * reach + 1).prod(1)
        known = np.where(n == 1, blocks * counts[:, 0], 0)
        made = torch.from_numpy
        places = made(inverse), made(scale), made(bins), made(reach), made(np.cumsum(n) - n)
        return cls(*places, made(blocks), made(known), int(n.sum()))

    def to(self, device: torch.device) -> Grid:
        """Grid on `device`, but for the numbers that only the host reads."""
        names = ("inverse", "scale", "bins", "reach", "first")
        moved: dict[str, Any] = {name: sent(getattr(self, name), device) for name in names}
        return replace(self, **moved)


def _tried(
    periodic: np.ndarray, counts: np.ndarray, heights: np.ndarray, wide: float, parts: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bins, reach and scale, (structures, 3) each. A bin is 1 / `parts` of the cutoff wide or more, if the cell is."""
    most = np.maximum(2 * parts + 1, np.ceil(np.cbrt(BINS_PER_ATOM * counts)))
    in_cell = np.clip(np.floor(parts * heights / wide), 1, most)
    # along other directions: so many that no bin within reach to the left is one to the right
    bins = np.where(periodic, in_cell, np.where(counts > ALL_PAIRS_ATOMS, most, 1)).astype(np.int64)
    reach = np.where(periodic, np.ceil(wide * bins / heights), parts * (bins > 1)).astype(np.int64)
    return bins, reach, np.where(periodic, bins, parts / wide)


def candidates(structures: Structures, here: Structures, cutoff: float) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Centre, neighbour and shift of all pairs that may be closer than `cutoff`, a bounded number at a time.

    `structures` are on the host, and `here` are the same on the device, where all of it is done. For structures with
    more than one bin the host waits for the number of candidates; it waits for nothing else.
    """
    plan = Grid.of(structures, cutoff)
    atoms = _Binned.of(here, plan.to(here.positions.device))
    owner = structures.structure_of_atom
    blocks, expected = plan.blocks[owner], plan.blocks * (1 + structures.counts / _total(plan.bins))
    runs = [(int(index[0]), int(index[-1]) + 1) for index in batches(expected[owner], _most(here.positions.device))]
    for first, last in runs or [(0, 0)]:
        known = plan.known[owner[first:last]]
        exact = int(known.sum()) if bool((known > 0).all()) else None
        yield atoms.candidates(first, last, int(blocks[first:last].sum()), exact)


def _most(device: torch.device) -> int:
    """Candidates that are in memory at once."""
    room = room_on(device)
    return MOST_CANDIDATES if room is None else min(max(room // PART // CANDIDATE_BYTES, 2**16), 4 * MOST_CANDIDATES)


@dataclass(frozen=True)
class _Binned:
    """Atoms in their bins."""

    grid: Grid
    owner: Tensor  # (atoms,) structure of each atom
    periodic: Tensor  # (structures, 3) bool
    wrap: Tensor  # (atoms, 3) whole lattice vectors from the cell to the atom
    bin: Tensor  # (atoms, 3)
    members: Tensor  # (atoms,) atoms, bin after bin
    starts: Tensor  # (bins + 1,) place among the members where each bin begins

    @classmethod
    def of(cls, here: Structures, grid: Grid) -> _Binned:
        owner, device = here.structure_of_atom, here.positions.device
        periodic, bins = here.periodic[owner], grid.bins[owner]
        place = (here.positions[:, :, None] * grid.inverse[owner]).sum(1)
        wrap = torch.where(periodic, place.floor(), 0.0)
        at = ((place - wrap) * grid.scale[owner]).floor().long()
        # rounding may leave an atom at the end of its cell; elsewhere bins come again
        at = torch.where(periodic, at.clamp(min=0).minimum(bins - 1), at.remainder(bins))
        number, members = _number(at, bins, grid.first[owner]).sort(stable=True)
        starts = torch.searchsorted(number, torch.arange(grid.n_bins + 1, device=device))
        return cls(grid, owner, here.periodic, wrap.long(), at, members, starts)

    def candidates(self, first: int, last: int, n_blocks: int, exact: int | None) -> tuple[Tensor, Tensor, Tensor]:
        """Candidates of the centres from `first` to `last`, which look into `n_blocks` bins.

        `exact` is the number of candidates if it is known already.
        """
        grid, device = self.grid, self.owner.device
        # a row for each centre and each bin that it looks into
        width = 2 * grid.reach[self.owner[first:last]] + 1
        number = _total(width)
        centre = torch.repeat_interleave(torch.arange(first, last, device=device), number, output_size=n_blocks)
        block = torch.arange(n_blocks, device=device) - (number.cumsum(0) - number)[centre - first]
        s = self.owner[centre]
        wide, bins = width[centre - first], grid.bins[s]
        step = torch.stack(
            [block // (wide[:, 1] * wide[:, 2]), block // wide[:, 2] % wide[:, 1], block % wide[:, 2]], 1
        )
        there = self.bin[centre] + step - grid.reach[s]
        image = torch.where(self.periodic[s], there.div(bins, rounding_mode="floor"), 0)
        place = _number(there.remainder(bins), bins, grid.first[s])
        # a row for each atom in these bins
        begin = self.starts[place]
        inside = self.starts[place + 1] - begin
        total = int(inside.sum()) if exact is None else exact
        row = torch.repeat_interleave(torch.arange(n_blocks, device=device), inside, output_size=total)
        run = (inside.cumsum(0) - inside)[row]
        neighbour = self.members[begin[row] + torch.arange(total, device=device) - run]
        centre = centre[row]
        return centre, neighbour, image[row] + self.wrap[centre] - self.wrap[neighbour]


def _number(at: Tensor, bins: Tensor, first: Tensor) -> Tensor:
    """Number of the bin at `at`, (n, 3) → (n,)."""
    return first + (at[:, 0] * bins[:, 1] + at[:, 1]) * bins[:, 2] + at[:, 2]


def _total(along: Tensor) -> Tensor:
    """Product over the three directions, (n, 3) → (n,)."""
    return along[:, 0] * along[:, 1] * along[:, 2]
