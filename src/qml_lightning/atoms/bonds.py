"""Bonding classes: which atoms of which elements an atom is bonded to."""

from __future__ import annotations

import torch
from ase.data import covalent_radii
from torch import Tensor

from .neighbours import element_indices, pairs_within
from .structures import Structures

BOND = 1.25  # atoms are bonded within so many times the sum of their covalent radii
MOST_BONDS = 31  # of one atom with atoms of one element; more count as so many


def bonding_classes(structures: Structures, elements: tuple[int, ...]) -> Tensor:
    """Class of each atom, (atoms,): equal numbers for atoms of one element with as many bonds to each element."""
    radii = torch.from_numpy(covalent_radii)[list(elements)]
    element = element_indices(structures.numbers, elements)
    pairs = pairs_within(structures, 2 * BOND * float(radii.max()), elements)
    neighbour = element[pairs.neighbour]
    bonded = pairs.vector.norm(dim=1) < BOND * (radii[element[pairs.centre]] + radii[neighbour])
    place = pairs.centre[bonded] * len(elements) + neighbour[bonded]
    counts = torch.bincount(place, minlength=structures.n_atoms * len(elements)).view(structures.n_atoms, -1)
    different: tuple[Tensor, Tensor] = torch.unique(counts.clamp_max(MOST_BONDS), dim=0, return_inverse=True)
    return different[1]
