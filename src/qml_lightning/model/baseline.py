"""Reference energies of the elements: subtracted before learning, added to predictions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..atoms.neighbours import element_indices
from ..atoms.structures import Structures
from ..errors import InputError
from ..linear.robust_deviation import deviation_by_median

# Distance to the next image from which a single atom in a cell is free.
FREE = 8.0  # Å
BOUND = 20.0  # eV per atom: matter is bound by a few eV at most
# An energy does not count for reference energies if it is so many standard deviations off, and at most this part of
# them is: larger parts are strained crystals or broken bonds, and no mistakes. Fewer energies than FEWEST all count.
FAR, FEW, FEWEST = 20.0, 0.02, 20
RCOND = 1e-8  # singular values below this part of the largest are zero


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


@dataclass(frozen=True)
class FoundBaseline:
    """Reference energies that follow from data, and how."""

    baseline: Baseline
    fixed: bool  # they stay as they are when structures are added; else they are the least squares of all structures
    words: str  # how they were found, for people
    determined: bool = True  # whether single values have a meaning, not only sums of them


def found_baseline(structures: Structures, energies: Tensor | None, elements: tuple[int, ...]) -> FoundBaseline:
    """Reference energies: those of free atoms in the data, and of other elements least squares of energies per atom.

    Energies that are far off do not count. What is not determined has the smallest norm: structures of one composition
    determine only the sum, which is shared by the atoms. Without energies: zero.
    """
    if energies is None or not bool(energies.isfinite().any()):
        return FoundBaseline(Baseline(elements, torch.zeros(len(elements), dtype=torch.float64)), False, "zero")
    free = free_atoms(structures, energies)
    known = energies.isfinite()
    counts = Baseline.composition(structures, elements)[known]
    atoms = counts.sum(1, keepdim=True)
    # per atom: large structures count no more than small ones
    x, y = counts / atoms, energies[known] / atoms[:, 0]
    free = _with_same_zero(free, elements, x, y)
    values = torch.tensor([free.get(z, 0.0) for z in elements], dtype=torch.float64)
    rest = torch.tensor([z not in free for z in elements])
    determined = True
    words, far = f"free atoms of the data ({', '.join(map(_symbol, free))})" if free else "", 0
    if bool(rest.any()):
        y, x = y - x @ values, x[:, rest]
        values[rest], far = _robust_least_squares(x, y)
        words = f"{words}, others by least squares" if words else "least squares"
        determined = int(torch.linalg.matrix_rank(x, rtol=1e-8)) == x.shape[1]
        if not determined:
            words += "; the compositions determine only sums, single values have no meaning"
    if far:
        words += f"; {far} energies that are far off do not count"
    return FoundBaseline(Baseline(elements, values), bool(free) or far > 0, words, determined)


def free_atoms(structures: Structures, energies: Tensor) -> dict[int, float]:
    """Energy of each element that stands alone in a structure, eV by atomic number; the lowest if there are several."""
    alone = (structures.counts == 1) & energies.isfinite()
    if not bool(alone.any()):
        return {}
    lengths = torch.where(structures.periodic, structures.cells.norm(dim=2), torch.inf)
    alone &= (lengths > FREE).all(1)
    found: dict[int, float] = {}
    for s in alone.nonzero()[:, 0].tolist():
        z, energy = int(structures.numbers[structures.offsets[s]]), float(energies[s])
        found[z] = min(energy, found.get(z, energy))
    return dict(sorted(found.items()))


def _with_same_zero(free: dict[int, float], elements: tuple[int, ...], x: Tensor, y: Tensor) -> dict[int, float]:
    """Energies of free atoms; none, with a warning, if their zero of energy is not that of the molecules.

    That is so if molecules would be bound by more than `BOUND` for each atom.
    """
    known = torch.tensor([z in free for z in elements])
    together = (x[:, ~known].sum(1) == 0) & (x.max(1).values < 1)  # of several of these elements, so no free atoms
    if not bool(together.any()):
        return free
    values = torch.tensor([free.get(z, 0.0) for z in elements], dtype=torch.float64)
    bound = float((y - x @ values)[together].median())
    if abs(bound) <= BOUND:
        return free
    warnings.warn(
        f"The free atoms of the data ({', '.join(map(_symbol, free))}) are not used as reference energies: molecules "
        f"would differ from them by {bound:.3g} eV per atom. Their energies have another zero, or another unit.",
        stacklevel=2,
    )
    return {}


def _robust_least_squares(x: Tensor, y: Tensor) -> tuple[Tensor, int]:
    """Least squares of y ≈ x @ w without values that are far off, and the number of these."""
    ones = torch.ones_like(y)
    solution = least_squares(x, y, ones)
    if len(y) < FEWEST or not bool(_far(y - x @ solution).any()):
        return solution, 0
    far = _far(y - x @ least_absolute(x, y))
    kept = ~far
    if not 0 < int(far.sum()) <= FEW * len(y):
        return solution, 0
    return least_squares(x[kept], y[kept], ones[kept]), int(far.sum())


def _far(residual: Tensor) -> Tensor:
    """Mask of residuals that are too far from the median to belong to the others."""
    off = (residual - residual.median()).abs()
    return off > FAR * deviation_by_median(off) + 1e-3  # eV per atom


def least_absolute(columns: Tensor, y: Tensor) -> Tensor:
    """Solution w that minimises Σ |columns @ w − y|: a minority of wrong energies does not move it."""
    weights = torch.ones_like(y)
    for _ in range(50):
        residual = (y - columns @ least_squares(columns, y, weights)).abs()
        weights = 1.0 / residual.clamp(min=1e-6 * float(residual.max()) + 1e-300)
    return least_squares(columns, y, weights)


def least_squares(columns: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """Solution w of smallest norm that minimises Σ weights · (columns @ w − y)²."""
    root = (weights / weights.max()).sqrt()
    left, right = columns * root[:, None], (y * root)[:, None]
    solution: Tensor = torch.linalg.lstsq(left, right, rcond=RCOND, driver="gelsd").solution
    return solution[:, 0]


def _symbol(number: int) -> str:
    from ase.data import chemical_symbols

    return str(chemical_symbols[number])


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
        """Reference energies as `found_baseline` finds them from all the structures."""
        values, vectors = torch.linalg.eigh(self.sums[1:, 1:])
        known = values > 1e-12 * float(values[-1])  # eigenvalues are squares: 1e-6 of the largest singular value
        values, vectors = values[known], vectors[:, known]
        past = vectors @ ((vectors.T @ self.sums[1:, 0]) / values)
        # the part of the origin that the compositions do not determine is left out, for the smallest norm
        return Baseline(self.origin.elements, vectors @ (vectors.T @ self.origin.energies) + past)


def given_baseline(energies: Mapping[int, float], elements: tuple[int, ...]) -> Baseline:
    """Baseline from given reference energies, in eV by atomic number; an InputError if one is missing."""
    if strange := {z: e for z, e in energies.items() if not (1 <= z <= 118 and math.isfinite(e))}:
        raise InputError(f"Wanted reference energies in eV by atomic number (1 to 118), got {strange}.")
    missing = [z for z in elements if z not in energies]
    if missing:
        raise InputError(f"Reference energies are missing for the atomic numbers {missing}. Give one for each element.")
    return Baseline(elements, torch.tensor([float(energies[z]) for z in elements], dtype=torch.float64))
