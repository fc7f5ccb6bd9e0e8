"""Pairs of a moving structure, listed with a skin and used again while nothing can have crossed it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..errors import InputError
from .neighbours import Pairs, pairs_within
from .structures import Structures


@dataclass(frozen=True)
class SkinnedPairs:
    """All pairs closer than cutoff + skin at the time of listing.

    While no atom has moved by more than skin / 2 they hold every pair closer than the cutoff.
    """

    listed: Pairs
    at: Structures  # as they were when listed
    cutoff: float  # Å
    skin: float  # Å

    def serve(self, structures: Structures) -> bool:
        """Whether every pair within the cutoff is still among these."""
        return (
            torch.equal(structures.offsets, self.at.offsets)
            and torch.equal(structures.numbers, self.at.numbers)
            and torch.equal(structures.periodic, self.at.periodic)
            and torch.equal(structures.cells, self.at.cells)
            and bool((structures.positions - self.at.positions).square().sum(1).max() <= (0.5 * self.skin) ** 2)
        )

    def now(self, structures: Structures) -> Pairs:
        """The pairs within the cutoff at the positions of `structures`, which these must serve."""
        return self.listed.moved(structures).within(self.cutoff)


def skinned_pairs(structures: Structures, cutoff: float, skin: float, elements: tuple[int, ...]) -> SkinnedPairs:
    """Pairs within cutoff + skin, in Å."""
    if not skin >= 0:
        raise InputError(f"The skin of a neighbour list is a length in Å and not negative, got {skin}.")
    return SkinnedPairs(pairs_within(structures, cutoff + skin, elements), structures, cutoff, skin)
