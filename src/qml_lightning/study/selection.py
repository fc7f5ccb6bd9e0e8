"""The structures of a pool that teach a model most: a greedy D-optimal choice with the posterior of its equations."""

from __future__ import annotations

from dataclasses import dataclass

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

# Rows that stand for all rows of a structure: random mixtures of them, so that their Gram matrix is right on average.
MIXTURES = 8
# Atoms of structures whose rows are in memory at once.
ATOMS_AT_ONCE = 512


@dataclass(frozen=True)
class Selection:
    """Structures of a pool, the most informative first."""

    index: tuple[int, ...]  # in the pool
    gains: tuple[float, ...]  # information of each beyond all before it, in nats


def select(equations: Equations, pool: Structures, n: int, compute: Compute | None = None) -> Selection:
    """The `n` structures of `pool` that together tell most about the weights, chosen one after the other.

    Each next one has the largest gain log det(1 + Z C Zᵀ): Z are its rows of energies and forces (of the kinds that the
    equations have), C the posterior covariance after all that was chosen before. A structure that is like one of them
    gains little.
    """
    if not 0 < n <= len(pool):
        raise InputError(f"Wanted 1 to {len(pool)} structures of a pool of {len(pool)}, got {n}.")
    recipe, basis = equations.recipe, equations.basis.ready(compute or Compute())
    n_all, paired = basis.maps[0].n_features, basis.maps[0].paired
    n_few = min(COMMITTEE_FEATURES, n_all)
    columns = committee_columns(n_few, n_all, basis.n_weights, paired).to(basis.device)
    factor, _ = trusted_factor(n_all / n_few * _gram(equations, recipe, columns), recipe.ridge)
    kinds = [kind for kind in equations.parts if kind != "stress"]
    rows = _mixed_rows(basis.part(0, n_few), pool, recipe, kinds)
    white: Tensor = torch.linalg.solve_triangular(factor, rows.flatten(0, 1), upper=True, left=False)
    return greedy(white.view(rows.shape), n)


def greedy(rows: Tensor, n: int) -> Selection:
    """Groups of rows chosen one after the other by their gain: rows (groups, rows of each, columns), covariance 1.

    After each choice the others are multiplied with the root of the covariance that it leaves.
    """
    rows, index, gains = rows.clone(), list[int](), list[float]()
    one = torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    for _ in range(n):
        gain = torch.linalg.slogdet(one + rows @ rows.transpose(1, 2))[1]
        gain[index] = -torch.inf
        best = int(gain.argmax())
        index.append(best)
        gains.append(float(gain[best]))
        _, values, vectors = torch.linalg.svd(rows[best], full_matrices=False)
        shrink = 1 - (1 + values.square()).rsqrt()
        rows -= (rows @ vectors.T * shrink) @ vectors
    return Selection(tuple(index), tuple(gains))


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
    """Random mixtures of the weighted rows of each structure, (structures, MIXTURES, columns)."""
    element_indices(pool.numbers, basis.elements)
    # the same mixtures for every structure: those of two that are alike are alike
    shape = (MIXTURES, 1 + 3 * int(pool.counts.max()))
    weights = torch.from_numpy(np.random.default_rng(recipe.seed).standard_normal(shape)) / MIXTURES**0.5
    out = torch.empty(len(pool), MIXTURES, basis.n_weights, dtype=torch.float64, device=basis.device)
    for index in batches(pool.counts, ATOMS_AT_ONCE):
        part = pool.select(index)
        at = environments(basis, part, dict.fromkeys(kinds))
        mixed = torch.zeros(len(part), MIXTURES, basis.n_weights, dtype=torch.float64, device=basis.device)
        for kind in kinds:
            rows = rows_of_kind(basis, at, kind) * recipe.weight_of(kind)
            owner, place = torch.arange(len(part)), torch.zeros(len(part), dtype=torch.int64)
            if kind == "energies":
                rows *= (part.counts.double() ** -recipe.size_exponent).to(rows)[:, None]
            else:
                owner = part.structure_of_atom.repeat_interleave(3)
                place = 1 + torch.arange(len(rows)) - 3 * part.offsets[owner]
            for k in range(MIXTURES):
                by = weights[k, place].to(rows)[:, None]
                mixed[:, k].index_add_(0, owner.to(basis.device), by * rows)
        out[index.to(basis.device)] = mixed
    return out
