"""Reference energies of the elements: subtracted before learning, added to predictions."""

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
    """Reference energy of each element."""

    elements: tuple[int, ...]
    energies: Tensor  # (elements,) float64, eV

    def per_atom(self, structures: Structures) -> Tensor:
        """Reference energy of each atom, (atoms,)."""
        return self.energies[element_indices(structures.numbers, self.elements)]

    def total(self, structures: Structures) -> Tensor:
        """Sum of the reference energies in each structure, (structures,)."""
        return self.composition(structures, self.elements) @ self.energies

    @staticmethod
    def composition(structures: Structures, elements: tuple[int, ...]) -> Tensor:
        """Number of atoms of each element in each structure, (structures, elements)."""
        element = element_indices(structures.numbers, elements)
        key = structures.structure_of_atom * len(elements) + element
        return torch.bincount(key, minlength=len(structures) * len(elements)).view(-1, len(elements)).double()


def fit_baseline(structures: Structures, energies: Tensor | None, elements: tuple[int, ...]) -> Baseline:
    """Reference energies by least squares of the energies per atom; of smallest norm if they are not determined.

    Structures of one composition determine only the sum, which is shared by the atoms. Without energies: zero.
    """
    if energies is None or not bool(energies.isfinite().any()):
        return Baseline(elements, torch.zeros(len(elements), dtype=torch.float64))
    known = energies.isfinite()
    counts = Baseline.composition(structures, elements)[known]
    atoms = counts.sum(1, keepdim=True)
    # per atom: large structures count no more than small ones
    solution = torch.linalg.lstsq(counts / atoms, energies[known][:, None] / atoms, rcond=1e-8, driver="gelsd").solution
    return Baseline(elements, solution[:, 0])


@dataclass(frozen=True)
class References:
    """Sums over structures from which least-squares reference energies follow. The sums of two data sets add.

    Energies are counted from an origin near the result: total energies are large, and the sums would lose digits.
    """

    origin: Baseline
    sums: Tensor  # (1 + elements, 1 + elements) Σ xᵀx, x = [energy − origin, atoms of each element] / atoms

    @classmethod
    def without_structures(cls, origin: Baseline) -> References:
        n = 1 + len(origin.elements)
        return cls(origin, torch.zeros(n, n, dtype=torch.float64))

    def with_structures(self, structures: Structures, energies: Tensor | None, sign: float = 1.0) -> References:
        """Sums with these structures added; with `sign` −1, removed."""
        if energies is None:
            return self
        counts = Baseline.composition(structures, self.origin.elements)
        x = torch.cat([(energies - self.origin.total(structures))[:, None], counts], 1)[energies.isfinite()]
        x = x / x[:, 1:].sum(1, keepdim=True)
        return References(self.origin, self.sums + sign * (x.T @ x))

    def counted_from(self, origin: Baseline) -> References:
        """Sums for energies counted from another origin."""
        mixture = self.mixture(origin)
        return References(origin, mixture.T @ self.sums @ mixture)

    def mixture(self, origin: Baseline) -> Tensor:
        """Matrix m, (1 + elements, 1 + elements), that moves the origin: [energy − origin, atoms] @ m."""
        out = torch.eye(len(self.sums), dtype=torch.float64)
        out[1:, 0] = self.origin.energies - origin.energies
        return out

    def least_squares(self) -> Baseline:
        """Reference energies as `fit_baseline` finds them from all the structures."""
        values, vectors = torch.linalg.eigh(self.sums[1:, 1:])
        known = values > 1e-12 * float(values[-1])  # eigenvalues are squares: 1e-6 of the largest singular value
        values, vectors = values[known], vectors[:, known]
        past = vectors @ ((vectors.T @ self.sums[1:, 0]) / values)
        # the part of the origin that the compositions do not determine is left out, for the smallest norm
        return Baseline(self.origin.elements, vectors @ (vectors.T @ self.origin.energies) + past)


def given_baseline(energies: Mapping[int, float], elements: tuple[int, ...]) -> Baseline:
    """Baseline from given reference energies, in eV by atomic number; an InputError if one is missing."""
    missing = [z for z in elements if z not in energies]
    if missing:
        raise InputError(f"Reference energies are missing for the atomic numbers {missing}. Give one for each element.")
    return Baseline(elements, torch.tensor([float(energies[z]) for z in elements], dtype=torch.float64))
