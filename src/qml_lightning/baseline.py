"""Atomic reference energies: what is subtracted before learning and added after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from .errors import InputError
from .neighbours import element_indices
from .structures import Structures


@dataclass(frozen=True)
class Baseline:
    """An energy in eV for each element."""

    elements: tuple[int, ...]
    energies: Tensor  # (elements,) float64

    def per_atom(self, structures: Structures) -> Tensor:
        """(atoms,)"""
        return self.energies[element_indices(structures.numbers, self.elements)]

    def total(self, structures: Structures) -> Tensor:
        """(structures,)"""
        return self.composition(structures, self.elements) @ self.energies

    @staticmethod
    def composition(structures: Structures, elements: tuple[int, ...]) -> Tensor:
        """Atoms of each element in each structure, (structures, elements)."""
        element = element_indices(structures.numbers, elements)
        key = structures.structure_of_atom * len(elements) + element
        return torch.bincount(key, minlength=len(structures) * len(elements)).view(-1, len(elements)).double()


def fit_baseline(structures: Structures, energies: Tensor | None, elements: tuple[int, ...]) -> Baseline:
    """Least squares of the energies per atom over the composition; of smallest norm where compositions do not tell.

    For a single molecule only the total is determined: it is shared out over the atoms. Without energies: zero.
    """
    if energies is None or not bool(energies.isfinite().any()):
        return Baseline(elements, torch.zeros(len(elements), dtype=torch.float64))
    known = energies.isfinite()
    counts = Baseline.composition(structures, elements)[known]
    atoms = counts.sum(1, keepdim=True)
    # per atom: large structures do not outvote small ones
    solution = torch.linalg.lstsq(counts / atoms, energies[known][:, None] / atoms, rcond=1e-8, driver="gelsd").solution
    return Baseline(elements, solution[:, 0])


def given_baseline(energies: Mapping[int, float], elements: tuple[int, ...]) -> Baseline:
    """Reference energies in eV by atomic number, as given."""
    missing = [z for z in elements if z not in energies]
    if missing:
        raise InputError(f"Reference energies are missing for the atomic numbers {missing}. Give one for each element.")
    return Baseline(elements, torch.tensor([float(energies[z]) for z in elements], dtype=torch.float64))
