"""Crowded atoms: with more neighbours nearby than any atom of the training data, as in matter under great pressure.

There a learnt energy has no meaning, though no single pair of atoms may be too close. The crowding of an atom counts
its neighbours smoothly, and above what the data have, its learnt energy L fades out and a repulsion rises instead:

    crowding = Σ (1 − r² / reach²)⁴                       over neighbours within reach
    y = (crowding − onset) / (full − onset)
    energy = (1 − S(y)) L + strength · y³ / (1 + y²)      S(y) = y³ (10 − 15y + 6y²), at most 1

Atoms below `onset` are untouched, to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..atoms.neighbours import element_indices, pairs_within
from ..atoms.structures import Structures, batches
from ..machine.row_sums import add_rows
from ..machine.transfers import sent

# Reach relative to the shortest distance of a pair of elements in the data: the first neighbours and the nearest of the
# second ones. Less feels single bonds, more is dull: compressed silicon then falls before it is noticed.
REACH = 1.8
WIDTH = 0.5  # of the range of crowding over which the learnt energy fades out, relative to its onset
ATOMS_AT_ONCE = 4096


@dataclass(frozen=True)
class CrowdedAtoms:
    """Atoms that are too crowded: how their learnt energy fades, and their repulsion. Others have fade 1 and zeros."""

    fade: Tensor  # (atoms,) factor of the learnt energy
    fade_slope: Tensor  # (atoms,) its derivative by the crowding
    energy: Tensor  # (atoms,) repulsion, eV
    energy_slope: Tensor  # (atoms,) its derivative by the crowding
    centre: Tensor  # (pairs,) of all pairs
    by_vector: Tensor  # (pairs, 3) derivative of the crowding of the centre by the vector of a pair

    def faded(self, by_vector: Tensor) -> Tensor:
        """Gradient of the learnt part by pair vectors, each with the factor of its centre."""
        return by_vector * self.fade[self.centre][:, None]

    def gradient(self, learnt: Tensor, *, repelled: bool) -> Tensor:
        """Gradient by pair vectors that comes from the change of the crowding; `repelled`: with the repulsion."""
        slope = self.fade_slope * learnt + (self.energy_slope if repelled else 0.0)
        return slope[self.centre][:, None] * self.by_vector


@dataclass(frozen=True)
class Crowding:
    """Crowding from which the learnt energy of an atom of each element fades out."""

    reach: Tensor  # (elements, elements) float64, Å
    onset: Tensor  # (elements,) float64
    full: Tensor  # (elements,) float64: nothing is left of the learnt energy
    strength: Tensor  # (elements,) float64, eV: half of it is the repulsion at `full`

    def to(self, device: torch.device) -> Crowding:
        """Crowding on `device`."""
        return Crowding(*(sent(one, device) for one in (self.reach, self.onset, self.full, self.strength)))

    def count(self, element: Tensor, centre: Tensor, neighbour: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Crowding of each atom, and its derivative by the pair vectors."""
        reach2 = self.reach[element[centre], element[neighbour]] ** 2
        near = (1 - vectors.square().sum(1) / reach2).clamp(min=0)
        counted = add_rows(near.new_zeros(len(element), dtype=torch.float64), centre, near**4)
        return counted, (-8 * near**3 / reach2)[:, None] * vectors

    def excess(self, element: Tensor, centre: Tensor, neighbour: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """y of each atom, zero for those that are not too crowded, and the derivative of the crowding by vectors."""
        counted, by_vector = self.count(element, centre, neighbour, vectors)
        full, onset = self.full[element], self.onset[element]
        return ((counted - onset) / (full - onset)).clamp(min=0), by_vector

    def crowded(self, element: Tensor, centre: Tensor, y: Tensor, by_vector: Tensor) -> CrowdedAtoms:
        """Atoms that are too crowded, from the `excess` of all."""
        full, onset, strength = (one[element] for one in (self.full, self.onset, self.strength))
        width, w = full - onset, y.clamp(max=1)
        return CrowdedAtoms(
            1 - w**3 * (10 - 15 * w + 6 * w**2),
            -30 * w**2 * (1 - w) ** 2 / width,
            strength * y**3 / (1 + y**2),
            strength * y**2 * (3 + y**2) / (1 + y**2) ** 2 / width,
            centre,
            by_vector,
        )

    def and_below(self, structures: Structures, elements: tuple[int, ...]) -> Crowding:
        """Crowding that begins above that of these structures too."""
        most = self.most(structures, elements)
        onset = self.onset.maximum(most)
        return Crowding(self.reach, onset, onset * (self.full / self.onset), self.strength)

    def and_of(self, other: Crowding) -> Crowding:
        """Crowding that begins above the onsets of both.

        Within the shorter of two reaches an atom is no more crowded than within its own.
        """
        onset = self.onset.maximum(other.onset)
        strength = self.strength.maximum(other.strength)
        return Crowding(self.reach.minimum(other.reach), onset, onset * (self.full / self.onset), strength)

    def most(self, structures: Structures, elements: tuple[int, ...]) -> Tensor:
        """Greatest crowding of an atom of each element, (elements,)."""
        out = torch.zeros(len(elements), dtype=torch.float64)
        for index in batches(structures.counts, ATOMS_AT_ONCE):
            part = structures.select(index)
            pairs = pairs_within(part, float(self.reach.max()), elements)
            element = element_indices(part.numbers, elements)
            counted, _ = self.count(element, pairs.centre, pairs.neighbour, pairs.vector)
            out.scatter_reduce_(0, element, counted, "amax")
        return out

    def at(self, most: Tensor, margin: float, strength: float) -> Crowding:
        """Crowding of this reach, with an onset at `margin` times the greatest crowding of the data."""
        # an element without neighbours in the data may have one: at a distance of zero it counts as one
        onset = margin * torch.where(most > 0, most, 1.0)
        return Crowding(self.reach, onset, (1 + WIDTH) * onset, torch.full_like(onset, strength))

    @classmethod
    def reaching(cls, shortest: Tensor, cutoff: float) -> Crowding:
        """Crowding within REACH times the shortest distances (elements, elements); its onset is to be set."""
        nothing = torch.zeros(len(shortest), dtype=torch.float64)
        return cls((REACH * shortest).clamp(max=cutoff), nothing, nothing, nothing)
