"""Gaps: distances that no two atoms of the data have, though they have shorter ones (bonds) and longer ones.

There a learnt energy has no meaning, and may draw a hydrogen atom from its bond to an atom that is not bonded to it
(aspirin at 500 K). With b the longest bond, n the next longer distance and x = (r − low) / (high − low):

    low, high = b + STRETCH, n − SHARE (n − b)
    energy of a pair = height · (4 x (1 − x))³         height = STIFFNESS (high − low)², at most HIGHEST

Structures without pairs in a gap are untouched, to the bit. There is none in metals, and none where the data have bonds
that are formed or broken.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..atoms.neighbours import pairs_within
from ..atoms.structures import Structures, batches
from ..machine.transfers import sent

# Models know bonds far beyond the longest one (C–H in ethanol 1.46 eV up a normal mode, to 30 meV), and much less of
# atoms that come nearer from the other side. No pair of 3BPA at 300 to 1200 K is in a gap of its structures at 300 K.
STRETCH = 0.3  # Å by which bonds may be longer than in the data
SHARE = 0.25  # of the distance between n and b by which other atoms may come nearer
LEAST = 0.15  # Å between the ends; a narrower barrier is too low to matter
LONGEST_BOND = 1.3  # of the sum of covalent radii
# Of atoms that bond in pairs: elsewhere atoms change their neighbours.
NONMETALS = (1, 5, 6, 7, 8, 9, 14, 15, 16, 17, 34, 35, 53)
# eV/Å²: 2.9 eV in aspirin, between O and H, where a learnt energy fell by 1 eV. The barrier is curved by at most 24
# times this number, which a hydrogen atom follows in steps of 0.5 fs.
STIFFNESS, HIGHEST = 40.0, 20.0
BIN = 0.01  # Å
ATOMS_AT_ONCE = 4096


@dataclass(frozen=True)
class Gaps:
    """Ends of the gap of each pair of elements; both are zero where there is none."""

    low: Tensor  # (elements, elements) float64, Å
    high: Tensor  # (elements, elements) float64, Å

    @classmethod
    def between(cls, occupied: Tensor, elements: tuple[int, ...]) -> Gaps | None:
        """Widest gap that begins at a bond, of each pair of elements, from `occupied` bins; None if there is none."""
        from ase.data import covalent_radii

        n, low, high = len(elements), *torch.zeros(2, len(elements), len(elements), dtype=torch.float64)
        for i, z in enumerate(elements):
            for j in range(i, n):
                filled = occupied[i, j].nonzero()[:, 0].double() * BIN
                bonds, others = filled[:-1] + BIN, filled[1:]  # the far end of a bin, the near end of the next one
                radii = float(covalent_radii[z] + covalent_radii[elements[j]])
                begin, end = bonds + STRETCH, others - SHARE * (others - bonds)
                width = torch.where(bonds < LONGEST_BOND * radii, end - begin, 0.0)
                if len(width) and {z, elements[j]} <= {*NONMETALS} and float(width.max()) >= LEAST:
                    k = int(width.argmax())
                    low[i, j], high[i, j] = begin[k], end[k]
                    low[j, i], high[j, i] = begin[k], end[k]
        return cls(low, high) if bool(high.any()) else None

    def and_of(self, other: Gaps | None) -> Gaps | None:
        """Gaps of both; None if nothing is wide enough."""
        if other is None:
            return None
        low, high = self.low.maximum(other.low), self.high.minimum(other.high)
        wide = high - low >= LEAST - 1e-9
        return Gaps(torch.where(wide, low, 0.0), torch.where(wide, high, 0.0)) if bool(wide.any()) else None

    def to(self, device: torch.device) -> Gaps:
        """Gaps on `device`."""
        return Gaps(sent(self.low, device), sent(self.high, device))

    def inside(self, centre: Tensor, neighbour: Tensor, squares: Tensor) -> Tensor:
        """Marks of pairs with such squared distances that lie in a gap; elements are given as places."""
        low, high = self.low[centre, neighbour], self.high[centre, neighbour]
        return (squares > low**2) & (squares < high**2)

    def barrier(self, centre: Tensor, neighbour: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        """Energy of pairs at distances r in eV, zero outside of gaps, and its derivative by the distance."""
        low, high = self.low[centre, neighbour], self.high[centre, neighbour]
        width = (high - low).clamp(min=1e-12)
        x = ((r - low) / width).clamp(0, 1)
        arch, height = 4 * x * (1 - x), (STIFFNESS * width**2).clamp(max=HIGHEST)
        return height * arch**3, 12 * height * arch**2 * (1 - 2 * x) / width


def seen_distances(structures: Structures, elements: tuple[int, ...], within: float) -> tuple[Tensor, Tensor]:
    """Shortest distance of each pair of elements in Å, infinite if there is none `within`, and bins that have pairs.

    (elements, elements) float64, and (elements, elements, bins) with bins of BIN.
    """
    n, n_bins = len(elements), int(within / BIN) + 1
    place = torch.full((119,), -1, dtype=torch.int64)
    place[list(elements)] = torch.arange(n)
    shortest = torch.full((n * n,), torch.inf, dtype=torch.float64)
    occupied = torch.zeros(n * n, n_bins, dtype=torch.bool)
    for index in batches(structures.counts, ATOMS_AT_ONCE):
        part = structures.select(index)
        pairs = pairs_within(part, within, elements)
        key = place[part.numbers[pairs.centre]] * n + place[part.numbers[pairs.neighbour]]
        length = pairs.vector.norm(dim=1)
        shortest.scatter_reduce_(0, key, length, "amin")
        occupied[key, (length / BIN).long().clamp(max=n_bins - 1)] = True
    occupied = occupied.view(n, n, n_bins)
    shortest = shortest.view(n, n)
    return shortest.minimum(shortest.T), occupied | occupied.transpose(0, 1)
