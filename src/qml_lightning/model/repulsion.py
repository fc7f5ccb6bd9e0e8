"""Close pairs: nearer than any in the training data, where a learnt energy has no meaning and may fall into a hole.

The learnt part sees such a pair at a longer distance s(r), never below a limit, and the screened repulsion of nuclei
(Ziegler, Biersack and Littmark) is switched on. With w = (outer − r) / (outer − inner), at most 1:

    S(w) = w³ (10 − 15w + 6w²)                                 from 0 at outer to 1 at inner
    s(r) = outer − (outer − inner) (w − w⁴ (2.5 − 3w + w²))    slope 1 − S; (outer + inner) / 2 below inner
    energy of a pair = (ZBL(r) + wall) S(w)

Structures whose pairs are all longer than `outer` are untouched, to the bit. So are all training structures, as `outer`
lies below their shortest distances: to subtract the repulsion from the labels before training would subtract zero.
Distances between those of bonds and all others are the matter of `gaps`, atoms with too many neighbours that of
`crowding`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..atoms.structures import Structures
from ..machine.transfers import count_marks, places_of, sent
from .baseline import Baseline
from .crowding import CrowdedAtoms, Crowding
from .gaps import Gaps, seen_distances

# Distances relative to the shortest in the data. Learnt curves of silicon and ethanol rise down to 0.75 of it, which is
# (OUTER + INNER) / 2, and fall into holes from 0.7 on. Test sets at 1200 K come down to 0.87 of the shortest distance
# in a training set of 50 structures at 300 K (3BPA): they are left alone.
OUTER, INNER = 0.85, 0.65
# Data of so many compositions are of many molecules, and others of their kind may have bonds that none of them has,
# such as O–O and N–F (QM9, 200 molecules). Triple bonds are at least 0.77 of the sum of covalent radii, and
# OUTER · BONDED is 0.72.
MANY_COMPOSITIONS, BONDED = 10, 0.85
WALL = 20.0  # eV: light nuclei repel each other too little to hold a learnt attraction (hydrogen in ethanol at 1000 K)
SEARCHED = 4.0  # Å within which the shortest distances are looked for
COULOMB = 14.3996454784  # e² / (4πε₀) in eV Å
SCREENING = 0.46850  # 0.8854 Bohr radii in Å
WEIGHTS = (0.18175, 0.50986, 0.28022, 0.02817)
DECAYS = (3.19980, 0.94229, 0.40290, 0.20162)


@dataclass(frozen=True)
class ClosePairs:
    """Pairs that are too close or in a gap: vectors as the learnt part sees them, and their repulsion."""

    which: Tensor  # (close,) among all pairs
    vector: Tensor  # (close, 3) as they are, Å
    length: Tensor  # (close,) Å
    seen: Tensor  # (close,) length that the learnt part sees, Å
    slope: Tensor  # (close,) its derivative by the length
    energy: Tensor  # (close,) half of the repulsion, eV
    force: Tensor  # (close,) its derivative by the length, eV/Å

    def held_apart(self, vectors: Tensor) -> Tensor:
        """Vectors of all pairs as the learnt part sees them: those of close pairs are made longer."""
        out = vectors.clone()
        out[self.which] = (self.vector * (self.seen / self.length)[:, None]).to(vectors)
        return out

    def gradient(self, by_seen: Tensor) -> Tensor:
        """Gradient by all vectors as they are, from the gradient of the learnt part by those that it saw."""
        out = self.seen_gradient(by_seen)
        out[self.which] += (self.force / self.length)[:, None] * self.vector
        return out

    def seen_gradient(self, by_seen: Tensor) -> Tensor:
        """The gradient of the learnt part alone by all vectors as they are."""
        out = by_seen.clone()
        unit, given = self.vector / self.length[:, None], by_seen[self.which]
        ratio = self.seen / self.length
        along = (given * unit).sum(1)
        out[self.which] = ratio[:, None] * given + ((self.slope - ratio) * along)[:, None] * unit
        return out


@dataclass(frozen=True)
class Repulsion:
    """Distances of each pair of elements between which the repulsion is switched on."""

    elements: tuple[int, ...]
    outer: Tensor  # (elements, elements) float64, Å
    inner: Tensor  # (elements, elements) float64, Å
    crowding: Crowding | None = None  # of atoms with more neighbours than any in the data
    gaps: Gaps | None = None  # between bonds and longer distances

    @classmethod
    def below(cls, structures: Structures, elements: tuple[int, ...], cutoff: float) -> Repulsion:
        """Repulsion below the shortest distances in `structures`; below bond lengths for pairs that are not there.

        For structures of many compositions it lies below bond lengths in any case, and there are no gaps.
        """
        from ase.data import covalent_radii

        radii = torch.tensor([float(covalent_radii[z]) for z in elements], dtype=torch.float64)
        bonds = (radii[:, None] + radii[None]).clamp(max=cutoff)
        within = min(cutoff, max(SEARCHED, float(bonds.max())))
        shortest, occupied = seen_distances(structures, elements, within)
        shortest = torch.where(shortest.isfinite(), shortest, bonds)
        share = Baseline.composition(structures, elements) / structures.counts[:, None]
        if len(share.unique(dim=0)) >= MANY_COMPOSITIONS:
            shortest = shortest.minimum(BONDED * bonds)
            return cls(elements, OUTER * shortest, INNER * shortest)
        return cls(elements, OUTER * shortest, INNER * shortest, gaps=Gaps.between(occupied, elements))

    def and_below(self, structures: Structures, cutoff: float) -> Repulsion:
        """Repulsion that does not act on these structures either."""
        crowding = None if self.crowding is None else self.crowding.and_below(structures, self.elements)
        return replace(self, crowding=crowding).and_of(Repulsion.below(structures, self.elements, cutoff))

    @classmethod
    def around(cls, structures: Structures, elements: tuple[int, ...], cutoff: float) -> Repulsion:
        """Repulsion below the shortest distances of the structures, and crowding that begins at their largest one."""
        below = cls.below(structures, elements, cutoff)
        reaching = Crowding.reaching(below.shortest, cutoff)
        return replace(below, crowding=reaching.at(reaching.most(structures, elements), 1.0, 0.0))

    def and_of(self, other: Repulsion | None) -> Repulsion:
        """Repulsion that acts only where both do; this one if there is no other."""
        if other is None:
            return self
        crowding = self.crowding
        if crowding is not None and other.crowding is not None:
            crowding = crowding.and_of(other.crowding)
        gaps = None if self.gaps is None else self.gaps.and_of(other.gaps)
        outer, inner = self.outer.minimum(other.outer), self.inner.minimum(other.inner)
        return Repulsion(self.elements, outer, inner, crowding, gaps)

    def to(self, device: torch.device) -> Repulsion:
        """Repulsion on `device`."""
        crowding = None if self.crowding is None else self.crowding.to(device)
        gaps = None if self.gaps is None else self.gaps.to(device)
        return Repulsion(self.elements, sent(self.outer, device), sent(self.inner, device), crowding, gaps)

    @property
    def shortest(self) -> Tensor:
        """Shortest distances in the data, (elements, elements) in Å."""
        return self.outer / OUTER

    def beyond(
        self, element: Tensor, centre: Tensor, neighbour: Tensor, vectors: Tensor
    ) -> tuple[ClosePairs | None, CrowdedAtoms | None]:
        """Pairs that are too close or in a gap, and atoms that are too crowded; None where there are none.

        `element`: place of each atom in `elements`. The host waits once, for both numbers.
        """
        i, j = element[centre], element[neighbour]
        marks = [self._apart_from_data(i, j, vectors)]
        if self.crowding is not None:
            y, by_vector = self.crowding.excess(element, centre, neighbour, vectors)
            marks.append(y > 0)
        n_close, *n_crowded = count_marks(*marks)
        close = self._held(i, j, vectors, places_of(marks[0], n_close)) if n_close else None
        if self.crowding is None or not any(n_crowded):
            return close, None
        return close, self.crowding.crowded(element, centre, y, by_vector)

    def close(self, centre: Tensor, neighbour: Tensor, vectors: Tensor) -> ClosePairs | None:
        """Pairs too close or in a gap, None if none; centres and neighbours are given as places in `elements`."""
        mark = self._apart_from_data(centre, neighbour, vectors)
        (n,) = count_marks(mark)
        return self._held(centre, neighbour, vectors, places_of(mark, n)) if n else None

    def _apart_from_data(self, centre: Tensor, neighbour: Tensor, vectors: Tensor) -> Tensor:
        """Marks of pairs that are too close or in a gap."""
        squares = vectors.square().sum(1)
        near: Tensor = squares < self.outer[centre, neighbour] ** 2
        return near if self.gaps is None else near | self.gaps.inside(centre, neighbour, squares)

    def _held(self, centre: Tensor, neighbour: Tensor, vectors: Tensor, which: Tensor) -> ClosePairs:
        """Pairs at `which`: these are too close or in a gap."""
        i, j, vector = centre[which], neighbour[which], vectors[which]
        outer, inner = self.outer[i, j], self.inner[i, j]
        r, width = vector.norm(dim=1), outer - inner
        w = ((outer - r) / width).clamp(0.0, 1.0)
        step, step_slope = w**3 * (10 - 15 * w + 6 * w**2), -30 * w**2 * (1 - w) ** 2 / width
        seen = torch.where(w > 0, outer - width * (w - w**4 * (2.5 - 3 * w + w**2)), r)
        zbl, zbl_slope = self._screened(i, j, r)
        energy, force = 0.5 * (zbl + WALL) * step, 0.5 * (zbl_slope * step + (zbl + WALL) * step_slope)
        if self.gaps is not None:
            barrier, barrier_slope = self.gaps.barrier(i, j, r)
            energy, force = energy + 0.5 * barrier, force + 0.5 * barrier_slope
        return ClosePairs(which, vector, r, seen, 1 - step, energy, force)

    def _screened(self, i: Tensor, j: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        """ZBL repulsion of nuclei in eV and its derivative by the distance."""
        z = sent(torch.tensor(self.elements, dtype=torch.float64), r.device)
        length = SCREENING / (z[i] ** 0.23 + z[j] ** 0.23)
        terms = [weight * torch.exp(-decay * r / length) for weight, decay in zip(WEIGHTS, DECAYS, strict=True)]
        screened = torch.stack(terms).sum(0)
        screened_slope = -torch.stack([d / length * term for d, term in zip(DECAYS, terms, strict=True)]).sum(0)
        charges = COULOMB * z[i] * z[j]
        zbl = charges * screened / r
        return zbl, charges * screened_slope / r - zbl / r
