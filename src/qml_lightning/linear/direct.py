"""Ridge regression from gathered equations, by Cholesky in float64. Knows no atoms."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .cholesky import NOT_FINITE, factorised, first_factorised, not_positive_definite, substituted
from .normal_equations import Gram, Part, Rows, add_product
from .ridge import Refinement, Ridge, best_of, compared, left_out, next_ridge
from .solution import Solution

# From this many ridges on, one eigendecomposition is cheaper than a factorisation for each: measured on one thread it
# takes as long as 8.6 of them for a matrix of size 1024, 9.0 at 2048, and each ridge after it takes next to nothing.
EIGEN_FROM = 10


@dataclass(frozen=True)
class Term:
    """Equations, their weight in the sum, and the mixture of their targets to fit: y = targets @ mixture."""

    part: Part
    weight: float = 1.0
    mixture: Tensor | None = None  # (n_targets,); None: the first

    def vector(self, columns: Tensor) -> Tensor:
        """The target to fit: columns @ mixture, (…, n_targets) → (…)."""
        return columns[..., 0] if self.mixture is None else columns @ self.mixture.to(columns)

    def squared_error(self, weights: Tensor) -> float:
        """|Z w − y|², without the weight of the term."""
        squares, moment = self.part.squares(), self.vector(self.part.moments()).to(weights.device)
        target = float(self.vector(self.vector(squares)))
        return max(0.0, self.part.squared_length(weights) - 2.0 * float(weights @ moment) + target)


def solve(terms: Sequence[Term], ridge: Ridge, *, groups: Sequence[Tensor] = (), keep_factor: bool = False) -> Solution:
    """Weights w that minimise Σ weight² |Z w − y|² + ridge |w|². Gram matrices among the terms are used up.

    A given ridge is used as it is; where it is lost in rounding, a SolveError is raised. A chosen one is then made
    larger. Where the dual form suits the terms and `groups` of row numbers are given (the rows of one structure each,
    say), a chosen ridge is also refined: see `_refined`. `keep_factor`: the solution holds the factor of its ridge.
    """
    matrix, right, weights_of = _system(terms, use_up=True)
    diagonal = matrix.diagonal().clone()
    first = used = first_factorised(matrix, diagonal, ridge.attempts)
    report = {}
    dual = dual_rows([term.part for term in terms]) is not None
    if groups and ridge.refinement is not None and dual:
        solution, errors = _refined(matrix, diagonal, right, groups, first, ridge.refinement)
        used, report["ridges"] = best_of(errors, ridge.refinement.worth), compared(errors)
        if keep_factor and used != [*errors][-1]:
            factorised(matrix, diagonal, used)
    else:
        solution = substituted(matrix, right)
    if first != ridge.value:
        warnings.warn(f"The ridge {ridge.value:g} is lost in rounding; {used:g} was taken.", stacklevel=2)
    kept = (matrix, solution if dual else None) if keep_factor else (None, None)
    return Solution(weights_of(solution), used, ridge.chosen, report, *kept)


def _refined(
    matrix: Tensor, diagonal: Tensor, right: Tensor, groups: Sequence[Tensor], first: float, rules: Refinement
) -> tuple[Tensor, dict[float, float]]:
    """Dual solution with the best ridge, and the error with each ridge in the order of trial.

    Trials begin with `first`, whose factor is in `matrix`, and follow `rules`. The error is the root mean
    square of the residuals on the rows of each group, by the solution without these rows.
    """
    solution, errors = right, {}
    tried: float | None = first
    while tried is not None:
        errors[tried] = math.inf
        if tried == first or factorised(matrix, diagonal, tried):
            dual = substituted(matrix, right)
            errors[tried] = float(left_out(matrix, dual, groups).square().mean().sqrt())
            solution = dual if best_of(errors, rules.worth) == tried else solution
        tried = next_ridge(errors, rules)
    return solution, errors


def ridge_path(terms: Sequence[Term], ridges: Sequence[float], *, inner: Tensor | None = None) -> list[Tensor]:
    """Weights for each ridge; the terms stay as they are. `inner`: `inner_products` of all rows, if they are known."""
    matrix, right, weights_of = _system(terms, inner=inner)
    return [weights_of(solution) for solution in _positive_path(matrix, right, ridges)]


def _system(
    terms: Sequence[Term], *, use_up: bool = False, inner: Tensor | None = None
) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Lower triangle and right-hand side of positive definite equations, and a function from solution to weights.

    Few rows: the dual form w = Zᵀ (Z Zᵀ + ridge)⁻¹ y, for which `inner` is Z Zᵀ without the weights if it is known.
    Otherwise normal equations, in the memory of the first Gram matrix if the terms may be used up: at large N_F another
    one would not fit.
    """
    if (rows := dual_rows([term.part for term in terms])) is not None:
        matrix = inner_products(rows) if inner is None else inner.clone()
        weight = torch.cat([torch.full((part.n,), term.weight).to(matrix) for term, part in zip(terms, rows)])
        y = torch.cat([term.vector(part.filled()[1]) for term, part in zip(terms, rows)])
        return matrix.mul_(weight).mul_(weight[:, None]), weight * y, lambda dual: _combined(rows, weight * dual)
    matrix = _summed(terms, use_up)
    moments = [term.weight**2 * term.vector(term.part.moments()).to(matrix.device) for term in terms]
    return matrix, torch.stack(moments).sum(0), lambda weights: weights


def dual_rows(parts: Sequence[Part]) -> list[Rows] | None:
    """The parts, if the dual form suits them: rows only, and no more of them than columns."""
    rows = [part for part in parts if isinstance(part, Rows)]
    return rows if len(rows) == len(parts) and sum(part.n for part in rows) <= rows[0].n_columns else None


def inner_products(rows: Sequence[Rows]) -> Tensor:
    """Lower triangle of Z Zᵀ of all rows, one part after the other."""
    z = [part.filled()[0] for part in rows]
    total = sum(map(len, z))
    matrix = torch.zeros(total, total, dtype=torch.float64, device=z[0].device)
    for i, one in enumerate(z):
        first = sum(map(len, z[:i]))
        *before, own = matrix[first : first + len(one)].split(list(map(len, z)), 1)[: i + 1]
        for other, place in zip(z, before):
            place.addmm_(one, other.T)
        add_product(own, one.T, 1.0)
    return matrix


def _combined(rows: Sequence[Rows], dual: Tensor) -> Tensor:
    """Weights Zᵀ β of the dual solution β, over the rows of all parts."""
    shares = dual.split([part.n for part in rows])
    return torch.stack([part.filled()[0].T @ share for part, share in zip(rows, shares, strict=True)]).sum(0)


def _summed(terms: Sequence[Term], use_up: bool) -> Tensor:
    """Lower triangle of Σ weight² ZᵀZ."""
    first = next((term for term in terms if isinstance(term.part, Gram)), None) if use_up else None
    if first is not None and isinstance(first.part, Gram):
        first.part.close()
        gram = first.part.gram if first.weight == 1.0 else first.part.gram.mul_(first.weight**2)
    else:
        n, device = terms[0].part.n_columns, terms[0].part.home
        gram = torch.zeros(n, n, dtype=torch.float64, device=device)
    for term in terms:
        if term is not first:
            term.part.add_to_gram(gram, term.weight**2)
    return gram


def _positive_path(matrix: Tensor, right: Tensor, ridges: Sequence[float]) -> list[Tensor]:
    """(matrix + ridge)⁻¹ right for each ridge, from the lower triangle of `matrix`, which is overwritten."""
    diagonal = matrix.diagonal().clone()
    if len(ridges) < EIGEN_FROM:
        solutions = []
        for ridge in ridges:
            first_factorised(matrix, diagonal, [ridge])
            solutions.append(substituted(matrix, right))
        return solutions
    if not bool(diagonal.isfinite().all()):
        raise not_positive_definite(len(matrix), min(ridges), NOT_FINITE)
    values, vectors = torch.linalg.eigh(matrix, UPLO="L")
    inside = vectors.T @ right
    rounding = float(values[-1]) * torch.finfo(torch.float64).eps
    if float(values[0]) + min(ridges) <= 0:
        would_do = 10.0 ** math.ceil(math.log10(max(-2 * float(values[0]), rounding)))
        raise not_positive_definite(len(matrix), min(ridges), f"A ridge of {would_do:g} would do.")
    return [vectors @ (inside / (values + ridge)) for ridge in ridges]
