"""Atomic reference energies: what is subtracted before learning and added after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..atoms.neighbours import element_indices
from ..atoms.structures import Structures
from ..errors import InputError


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


@dataclass(frozen=True)
class References:
    """What least-squares reference energies need, as sums over structures: they add, and are refitted late.

    Energies are counted from an origin near the answer, so that the sums lose no digits to the energies of the atoms.
    """

    origin: Baseline
    sums: Tensor  # (1 + elements, 1 + elements) Σ xᵀx of x = [energy past the origin, atoms of each element] / atoms

    def with_structures(self, structures: Structures, energies: Tensor | None, sign: float = 1.0) -> References:
        """Those of these structures added (sign −1: taken out)."""
        if energies is None:
            return self
        counts = Baseline.composition(structures, self.origin.elements)
        x = torch.cat([(energies - self.origin.total(structures))[:, None], counts], 1)[energies.isfinite()]
        x = x / x[:, 1:].sum(1, keepdim=True)
        return References(self.origin, self.sums + sign * (x.T @ x))

    def counted_from(self, origin: Baseline) -> References:
        """The same from another origin."""
        mixture = self.mixture(origin)
        return References(origin, mixture.T @ self.sums @ mixture)

    def mixture(self, origin: Baseline) -> Tensor:
        """What turns [energy past this origin, atoms] into [energy past another one, atoms] when multiplied from the
        right, (1 + elements, 1 + elements)."""
        out = torch.eye(len(self.sums), dtype=torch.float64)
        out[1:, 0] = self.origin.energies - origin.energies
        return out

    def least_squares(self) -> Baseline:
        """As `fit_baseline` of all the structures."""
        values, vectors = torch.linalg.eigh(self.sums[1:, 1:])
        told = values > 1e-12 * float(values[-1])  # squares: these are 1e-6 of the largest singular value
        values, vectors = values[told], vectors[:, told]
        past = vectors @ ((vectors.T @ self.sums[1:, 0]) / values)
        # of the origin, only what compositions tell: the rest is zero, for the smallest norm
        return Baseline(self.origin.elements, vectors @ (vectors.T @ self.origin.energies) + past)


def references_from(origin: Baseline) -> References:
    """The sums of no structure."""
    n = 1 + len(origin.elements)
    return References(origin, torch.zeros(n, n, dtype=torch.float64))


def given_baseline(energies: Mapping[int, float], elements: tuple[int, ...]) -> Baseline:
    """Reference energies in eV by atomic number, as given."""
    missing = [z for z in elements if z not in energies]
    if missing:
        raise InputError(f"Reference energies are missing for the atomic numbers {missing}. Give one for each element.")
    return Baseline(elements, torch.tensor([float(energies[z]) for z in elements], dtype=torch.float64))
