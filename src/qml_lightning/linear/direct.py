"""Ridge regression from gathered equations, by Cholesky in float64. Knows no atoms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import SolveError
from .normal_equations import Gram, Part, Rows, add_product, memory_for
from .ridge import best_of, next_ridge

# Columns of the factor formed at once: wide enough for matrix products at full rate, narrow beside the matrix.
BLOCK = 256

NOT_FINITE = "It holds values that are not finite: look at the labels and the geometry of the training set."


# From this many ridges on, one eigendecomposition is cheaper than a factorisation for each: measured on one thread it
# takes as long as 8.6 of them for a matrix of size 1024, 9.0 at 2048, and each ridge after it takes next to nothing.
EIGEN_FROM = 10


@dataclass(frozen=True)
class Term:
    """Equations, what they count for, and which mixture of their targets is to be met: y = targets @ mixture."""

    part: Part
    weight: float = 1.0
    mixture: Tensor | None = None  # (n_targets,); None: the first

    def vector(self, columns: Tensor) -> Tensor:
        """(…, n_targets) → (…)"""
        return columns[..., 0] if self.mixture is None else columns @ self.mixture.to(columns)

    def squared_error(self, weights: Tensor) -> float:
        """|Z w − y|², without its weight."""
        squares, moment = self.part.squares(), self.vector(self.part.moments())
        target = float(self.vector(self.vector(squares)))
        return max(0.0, self.part.squared_length(weights) - 2.0 * float(weights @ moment) + target)


def memory_for_fit(n_columns: int, counts: Sequence[int], processes: int = 1) -> int:
    """Bytes that it takes to gather that many rows of each kind, in each process, and to solve them in one."""
    total = sum(counts)
    # the dual matrix, or that of all rows, which takes the place of one kind's Gram matrix if there is one
    solving = 8 * min(total, n_columns) ** 2 if max(counts) <= n_columns else 0
    return processes * sum(memory_for(rows, n_columns) for rows in counts) + solving


def solve(terms: Sequence[Term], *ridges: float) -> tuple[Tensor, float]:
    """Weights w that minimise Σ weight² |Z w − y|² + ridge |w|², and the ridge: the first of them that is not lost in
    rounding. Gram matrices among the terms are used up."""
    matrix, right, weights_of = _system(terms, use_up=True)
    ridge = _first_factorised(matrix, matrix.diagonal().clone(), ridges)
    return weights_of(substituted(matrix, right)), ridge


def solve_judged(
    terms: Sequence[Term], *ridges: float, judges: Sequence[Tensor], least: float
) -> tuple[Tensor, float, dict[float, float]]:
    """The same from rows in dual form for the best ridge, and the errors with all that were tried: from the first of
    them that is not lost in rounding on, and not below `least`.

    `judges` are numbers of rows, each group to be met without its own rows (`left_out`): the error is the root mean
    square of what is left of them.
    """
    matrix, right, weights_of = _system(terms)
    diagonal, errors, found = matrix.diagonal().clone(), {}, right
    first = _first_factorised(matrix, diagonal, ridges)
    tried: float | None = first
    while tried is not None:
        errors[tried] = math.inf
        if tried == first or _factorised(matrix, diagonal, tried):
            dual = substituted(matrix, right)
            errors[tried] = float(left_out(matrix, dual, judges).square().mean().sqrt())
            found = dual if best_of(errors) == tried else found
        tried = next_ridge(errors, least)
    return weights_of(found), best_of(errors), errors


def left_out(factor: Tensor, dual: Tensor, groups: Sequence[Tensor]) -> Tensor:
    """What the solution without the rows of a group leaves of them, one group after the other: with K = UᵀU the matrix
    of all rows and β = K⁻¹ y its solution, ((K⁻¹)_gg)⁻¹ β_g. Takes a substitution for each row, no factorisation."""
    at_once, left = max(1, BLOCK // max(map(len, groups))), []
    for k in range(0, len(groups), at_once):
        some = groups[k : k + at_once]
        rows = torch.cat(list(some))
        unit = torch.zeros(len(factor), len(rows), dtype=factor.dtype, device=factor.device)
        unit[rows, torch.arange(len(rows))] = 1.0
        halves = torch.linalg.solve_triangular(factor.T, unit, upper=False).split([len(group) for group in some], 1)
        left += [torch.linalg.solve(half.T @ half, dual[group]) for half, group in zip(halves, some, strict=True)]
    return torch.cat(left)


def ridge_path(terms: Sequence[Term], ridges: Sequence[float], *, inner: Tensor | None = None) -> list[Tensor]:
    """The weights for each ridge, in memory of their own. `inner` is as `_system` has it."""
    matrix, right, weights_of = _system(terms, inner=inner)
    return [weights_of(solution) for solution in positive_path(matrix, right, ridges)]


def _system(
    terms: Sequence[Term], *, use_up: bool = False, inner: Tensor | None = None
) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Lower triangle and right-hand side of positive equations, and what makes weights of their solution.

    Rows only, and no more of them than columns: the dual form w = Zᵀ (Z Zᵀ + ridge)⁻¹ y, for which `inner` is Z Zᵀ
    without the weights if it is known (`inner_products`). Otherwise normal equations, in the memory of the first Gram
    matrix when the terms may be used up: at large N_F another one would not fit.
    """
    if (rows := dual_rows([term.part for term in terms])) is not None:
        matrix = inner_products(rows) if inner is None else inner.clone()
        weight = torch.cat([torch.full((part.n,), term.weight).to(matrix) for term, part in zip(terms, rows)])
        y = torch.cat([term.vector(part.filled()[1]) for term, part in zip(terms, rows)])
        return matrix.mul_(weight).mul_(weight[:, None]), weight * y, lambda dual: _combined(rows, weight * dual)
    moment = torch.stack([term.weight**2 * term.vector(term.part.moments()) for term in terms]).sum(0)
    return _summed(terms, use_up), moment, lambda weights: weights


def dual_rows(parts: Sequence[Part]) -> list[Rows] | None:
    """The parts, if the dual form suits them: rows only, and no more of them than columns."""
    rows = [part for part in parts if isinstance(part, Rows)]
    return rows if len(rows) == len(parts) and sum(part.n for part in rows) <= rows[0].n_columns else None


def inner_products(rows: Sequence[Rows]) -> Tensor:
    """Lower triangle of Z Zᵀ of all rows, one after the other."""
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
    """Zᵀ dual."""
    shares = dual.split([part.n for part in rows])
    return torch.stack([part.filled()[0].T @ share for part, share in zip(rows, shares, strict=True)]).sum(0)


def _summed(terms: Sequence[Term], use_up: bool) -> Tensor:
    """Lower triangle of Σ weight² ZᵀZ."""
    first = next((term for term in terms if isinstance(term.part, Gram)), None) if use_up else None
    if first is not None and isinstance(first.part, Gram):
        first.part.close()
        gram = first.part.gram if first.weight == 1.0 else first.part.gram.mul_(first.weight**2)
    else:
        n, device = terms[0].part.n_columns, terms[0].part.device
        gram = torch.zeros(n, n, dtype=torch.float64, device=device)
    for term in terms:
        if term is not first:
            term.part.add_to_gram(gram, term.weight**2)
    return gram


def positive_path(matrix: Tensor, right: Tensor, ridges: Sequence[float]) -> list[Tensor]:
    """(matrix + ridge)⁻¹ right for each ridge, from the lower triangle of `matrix`, which is overwritten."""
    if len(ridges) >= EIGEN_FROM:
        return _by_eigenvalues(matrix, right, ridges)
    diagonal = matrix.diagonal().clone()
    solutions = []
    for ridge in ridges:
        matrix.diagonal().copy_(diagonal)  # of the lower triangle, only it is not kept beside a factor
        solutions.append(solve_positive(matrix, right, ridge))
    return solutions


def _by_eigenvalues(matrix: Tensor, right: Tensor, ridges: Sequence[float]) -> list[Tensor]:
    if not bool(matrix.diagonal().isfinite().all()):
        solve_positive(matrix, right, min(ridges))  # says what is wrong
    values, vectors = torch.linalg.eigh(matrix, UPLO="L")
    inside = vectors.T @ right
    rounding = float(values[-1]) * torch.finfo(torch.float64).eps
    if float(values[0]) + min(ridges) <= 0:
        would_do = 10.0 ** math.ceil(math.log10(max(-2 * float(values[0]), rounding)))
        raise not_positive_definite(len(matrix), min(ridges), f"A ridge of {would_do:g} would do.")
    return [vectors @ (inside / (values + ridge)) for ridge in ridges]


def solve_positive(matrix: Tensor, right: Tensor, ridge: float) -> Tensor:
    """(matrix + ridge)⁻¹ right from the lower triangle of `matrix`, which is overwritten."""
    return substituted(cholesky(matrix, ridge), right)


def substituted(factor: Tensor, right: Tensor) -> Tensor:
    """(UᵀU)⁻¹ right with U in the upper triangle of `factor`."""
    # two substitutions: torch.cholesky_solve would copy the factor, and at large N_F a copy would not fit
    half = torch.linalg.solve_triangular(factor.T, right[:, None], upper=False)
    solution: Tensor = torch.linalg.solve_triangular(factor, half, upper=True)
    return solution[:, 0]


def cholesky(matrix: Tensor, ridge: float) -> Tensor:
    """`matrix` with the Cholesky factor U of matrix + ridge = UᵀU in its upper triangle: in place, from the lower one.

    The matrix itself stays in the lower triangle, but for its diagonal, so that a larger ridge can be tried when this
    one does not do.
    """
    diagonal = matrix.diagonal().clone()
    if not _factorised(matrix, diagonal, ridge):
        raise not_positive_definite(len(matrix), ridge, _remedy(matrix, diagonal, ridge))
    return matrix


def not_positive_definite(size: int, ridge: float, remedy: str) -> SolveError:
    """The error for a matrix that has no factor, on disk as in memory."""
    return SolveError(
        f"The Gram matrix of size {size} plus ridge {ridge:g} is not positive definite to rounding. {remedy}"
    )


def _first_factorised(matrix: Tensor, diagonal: Tensor, ridges: Sequence[float]) -> float:
    """The first ridge that is not lost in rounding; the factor with it is in the upper triangle."""
    for ridge in ridges[:-1]:
        if _factorised(matrix, diagonal, ridge):
            return ridge
    matrix.diagonal().copy_(diagonal)  # of the lower triangle, only it is not kept beside a factor
    cholesky(matrix, ridges[-1])
    return ridges[-1]


def _factorised(matrix: Tensor, diagonal: Tensor, ridge: float) -> bool:
    """Whether the strict lower triangle, with diagonal + ridge, has a factor; it is then in the upper triangle.

    A block of rows of the factor at a time, each brought up to date by one matrix product with those before it.
    """
    for first in range(0, len(matrix), BLOCK):
        last = min(first + BLOCK, len(matrix))
        panel = matrix[first:, first:last].clone()
        inner = panel[: last - first]
        inner.diagonal().copy_(diagonal[first:last] + ridge)
        panel.addmm_(matrix[:first, first:].T, matrix[:first, first:last], alpha=-1)
        factor, failed = torch.linalg.cholesky_ex(inner)
        if int(failed) or not bool(factor.diagonal().isfinite().all()):
            return False
        inside = matrix[first:last, first:last]
        inside.copy_(inside.tril(-1) + factor.T)
        below = torch.linalg.solve_triangular(factor.T, panel[last - first :], upper=True, left=False)
        matrix[first:last, last:] = below.T
    return True


def _remedy(matrix: Tensor, diagonal: Tensor, ridge: float) -> str:
    """The smallest power of ten that factorises."""
    if not bool(diagonal.isfinite().all()):
        return NOT_FINITE
    # rounding of a Gram matrix is about eps · trace: start there, no smaller ridge can help
    rounding = float(diagonal.sum()) * torch.finfo(torch.float64).eps
    start = max(ridge * 10, rounding / 1000, 1e-300)
    for power in range(math.floor(math.log10(start)), math.ceil(math.log10(start)) + 12):
        if 10.0**power > ridge and _factorised(matrix, diagonal, 10.0**power):
            return f"A ridge of {10.0**power:g} would do."
    return "Use a larger ridge or fewer features."
