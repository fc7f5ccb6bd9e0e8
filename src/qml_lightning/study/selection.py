"""The structures of a pool that teach a model most: a greedy choice with the posterior of its equations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from ..atoms.neighbours import element_indices
from ..atoms.structures import Structures, batches
from ..errors import InputError
from ..linear.preconditioner import trusted_factor
from ..machine.compute import Compute
from ..model.basis import ReadyBasis
from ..model.committee import COMMITTEE_FEATURES, committee_columns
from ..model.recipe import Recipe
from ..training.environments import environments
from ..training.equations import Equations
from ..training.rows import rows_of_kind

# Rows that stand for all force rows of a structure: random mixtures, so that their Gram matrix is right on average.
MIXTURES = 8
# Atoms of structures whose rows are in memory at once.
ATOMS_AT_ONCE = 512
# Structures whose rows differ by less than this part of them are alike: a label of one says what the other's would be.
ALIKE = 0.1
# What a choice makes small: the variance of the forces of the pool, or the volume of the posterior of the weights.
Criterion = Literal["variance", "determinant"]


@dataclass(frozen=True)
class Selection:
    """Structures of a pool, in the order of the choice."""

    index: tuple[int, ...]  # in the pool
    # what each adds to all before it: the part of the variance of the pool that it takes away, or information in nats
    gains: tuple[float, ...]


def select(
    equations: Equations,
    pool: Structures,
    n: int,
    *,
    criterion: Criterion = "variance",
    compute: Compute | None = None,
) -> Selection:
    """The `n` structures of `pool` that together teach most, chosen one after the other.

    With Z the rows of a structure (energy and forces, as far as the equations have them) and C the posterior covariance
    after all that was chosen before, "variance" (I-optimal) takes the one that lowers the posterior variance of the
    forces of all structures of the pool most, by trace((1 + Z C Zᵀ)⁻¹ Z C M C Zᵀ), M = Σ zᵀz over their rows z.
    "determinant" (D-optimal) takes the one with the largest log det(1 + Z C Zᵀ). Structures that are like one of those
    chosen come last.
    """
    if not 0 < n <= len(pool):
        raise InputError(f"Wanted 1 to {len(pool)} structures of a pool of {len(pool)}, got {n}.")
    if criterion not in get_args(Criterion):
        raise InputError(f"Structures can be chosen by {' or '.join(get_args(Criterion))}, got {criterion!r}.")
    recipe, basis = equations.recipe, equations.basis.ready(compute or Compute())
    n_all, paired = basis.maps[0].n_features, basis.maps[0].paired
    n_few = min(COMMITTEE_FEATURES, n_all)
    columns = committee_columns(n_few, n_all, basis.n_weights, paired).to(basis.device)
    factor, _ = trusted_factor(n_all / n_few * _gram(equations, recipe, columns), recipe.ridge)
    kinds = [kind for kind in equations.parts if kind != "stress"]
    rows = _mixed_rows(basis.part(0, n_few), pool, recipe, kinds)
    white: Tensor = torch.linalg.solve_triangular(factor, rows.flatten(0, 1), upper=True, left=False).view(rows.shape)
    if criterion == "determinant":
        return most_informative(white, n)
    # forces of the pool, if there are any; else its energies
    return least_variance(white, white[:, -MIXTURES:] if "forces" in kinds else white, n)


def most_informative(rows: Tensor, n: int) -> Selection:
    """Groups of rows chosen by log det(1 + Z C Zᵀ): rows (groups, rows of each, columns), C = 1 at first."""
    barred, rows, one = _Barred(rows), rows.clone(), _one(rows)
    index, gains = list[int](), list[float]()
    for _ in range(n):
        gain = torch.linalg.slogdet(one + rows @ rows.mT)[1]
        index.append(best := barred.best(gain))
        gains.append(float(gain[best]))
        vectors, shrink, _ = _learnt(rows[best])
        rows -= (rows @ vectors.T * shrink) @ vectors
    return Selection(tuple(index), tuple(gains))


def least_variance(rows: Tensor, targets: Tensor, n: int) -> Selection:
    """Groups of rows chosen by what they take from the variance of all `targets` (groups, rows of each, columns).

    After each choice all rows are multiplied with the root S of the covariance that it leaves, so that C = 1 again.
    """
    targets = targets.flatten(0, 1)
    moment = targets.T @ targets  # Σ zᵀz
    whole = float(moment.trace())
    barred, rows, one = _Barred(rows), rows.clone(), _one(rows)
    index, gains, of_targets = list[int](), list[float](), rows @ moment
    for _ in range(n):
        gain = torch.linalg.solve(one + rows @ rows.mT, of_targets @ rows.mT).diagonal(dim1=1, dim2=2).sum(1) / whole
        index.append(best := barred.best(gain))
        gains.append(float(gain[best]))
        vectors, shrink, shrink_squared = _learnt(rows[best])
        # rows S · S moment S: S = 1 − Vᵀ shrink V, S² = 1 − Vᵀ shrink_squared V
        of_targets -= (rows @ vectors.T * shrink_squared) @ (vectors @ moment)
        of_targets -= (of_targets @ vectors.T * shrink) @ vectors
        rows -= (rows @ vectors.T * shrink) @ vectors
        moment -= vectors.T @ (shrink[:, None] * (vectors @ moment))
        moment -= (moment @ vectors.T * shrink) @ vectors
    return Selection(tuple(index), tuple(gains))


def _one(rows: Tensor) -> Tensor:
    return torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)


class _Barred:
    """Structures that were chosen, and those that are like them."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.chosen, self.alike = (torch.zeros(len(rows), dtype=torch.bool, device=rows.device) for _ in range(2))

    def best(self, gain: Tensor) -> int:
        """The structure that gains most of those that are left, which is now chosen."""
        barred = self.chosen if bool(self.alike.all()) else self.alike
        best = int(torch.where(barred, -torch.inf, gain).argmax())
        apart = (self.rows - self.rows[best]).square().sum((1, 2))
        self.chosen[best] = True
        self.alike |= apart <= ALIKE**2 * self.rows[best].square().sum()
        return best


def _learnt(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Directions V that rows tell of, and by how much they shrink its deviations and its variances."""
    _, values, vectors = torch.linalg.svd(rows, full_matrices=False)
    left = 1 / (1 + values.square())
    return vectors, 1 - left.sqrt(), 1 - left


def _gram(equations: Equations, recipe: Recipe, columns: Tensor) -> Tensor:
    """Gram matrix of some columns, with the weights of the recipe."""
    total = torch.zeros(len(columns), len(columns), dtype=torch.float64, device=columns.device)
    for kind, part in equations.parts.items():
        whole = torch.zeros(part.n_columns, part.n_columns, dtype=torch.float64, device=columns.device)
        part.add_to_gram(whole, recipe.weight_of(kind) ** 2)
        lower = whole.tril()
        some = lower[columns][:, columns] + lower.T[columns][:, columns]
        total += some - torch.diag(whole.diagonal()[columns])
    return total


def _mixed_rows(basis: ReadyBasis, pool: Structures, recipe: Recipe, kinds: list[str]) -> Tensor:
    """Weighted rows of each structure: that of its energy, and random mixtures of those of its forces.

    (structures, 1 or MIXTURES or 1 + MIXTURES, columns); energies come first.
    """
    element_indices(pool.numbers, basis.elements)
    # the same mixtures for every structure: those of two that are alike are alike
    shape = (MIXTURES, 3 * int(pool.counts.max()))
    weights = torch.from_numpy(np.random.default_rng(recipe.seed).standard_normal(shape)) / MIXTURES**0.5
    sizes = {"energies": 1, "forces": MIXTURES}
    n_rows = sum(sizes[kind] for kind in kinds)
    out = torch.zeros(len(pool), n_rows, basis.n_weights, dtype=torch.float64, device=basis.device)
    for index in batches(pool.counts, ATOMS_AT_ONCE):
        part = pool.select(index)
        at = environments(basis, part, dict.fromkeys(kinds))
        mixed = torch.zeros(len(part), n_rows, basis.n_weights, dtype=torch.float64, device=basis.device)
        if "energies" in kinds:
            size = (part.counts.double() ** -recipe.size_exponent).to(mixed)[:, None]
            mixed[:, 0] = recipe.weight_of("energies") * size * rows_of_kind(basis, at, "energies")
        if "forces" in kinds:
            rows = recipe.weight_of("forces") * rows_of_kind(basis, at, "forces")
            owner = part.structure_of_atom.repeat_interleave(3)
            place = torch.arange(len(rows)) - 3 * part.offsets[owner]
            for k in range(MIXTURES):
                by = weights[k, place].to(rows)[:, None]
                mixed[:, k - MIXTURES].index_add_(0, owner.to(basis.device), (by * rows).to(mixed))
        out[index.to(basis.device)] = mixed
    return out
