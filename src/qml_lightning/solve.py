"""Ridge regression from gathered equations, by Cholesky in float64. Knows no atoms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .errors import SolveError
from .normal import Equations, Gram, Rows

# Columns of the factor formed at once: wide enough for matrix products at full rate, narrow beside the matrix.
BLOCK = 256

NOT_FINITE = "It holds values that are not finite: look at the labels and the geometry of the training set."


def solve(equations: Sequence[tuple[Equations, float]], ridge: float) -> Tensor:
    """Weights w that minimise Σ weight² |Z w − y|² + ridge |w|² over pairs (equations, weight).

    Rows only, and fewer of them than columns: the dual form w = Zᵀ (Z Zᵀ + ridge)⁻¹ y. Otherwise normal equations.
    """
    n_columns = equations[0][0].n_columns
    rows = [(part, weight) for part, weight in equations if isinstance(part, Rows)]
    if len(rows) == len(equations) and sum(part.n for part, _ in rows) < n_columns:
        return _dual(rows, ridge)
    device = equations[0][0].device
    # a single Gram matrix of weight 1 is taken over: at large N_F a copy would not fit
    whole = max(equations, key=lambda pair: isinstance(pair[0], Gram) and pair[1] == 1.0)
    if isinstance(whole[0], Gram) and whole[1] == 1.0:
        whole[0].flush()
        gram, moment = whole[0].gram, whole[0].moment.clone()
        rest = [pair for pair in equations if pair is not whole]
    else:
        gram = torch.zeros(n_columns, n_columns, dtype=torch.float64, device=device)
        moment = torch.zeros(n_columns, dtype=torch.float64, device=device)
        rest = list(equations)
    for part, weight in rest:
        part.add_to_gram(gram, moment, weight**2)
    return solve_positive(gram, moment, ridge)


def _dual(parts: Sequence[tuple[Rows, float]], ridge: float) -> Tensor:
    z = torch.cat([weight * part.rows[: part.n] for part, weight in parts])
    y = torch.cat([weight * part.targets[: part.n] for part, weight in parts])
    return z.T @ solve_positive(z @ z.T, y, ridge)


def solve_positive(matrix: Tensor, right: Tensor, ridge: float) -> Tensor:
    """(matrix + ridge)⁻¹ right from the lower triangle of `matrix`, which is overwritten."""
    return torch.cholesky_solve(right[:, None], cholesky(matrix, ridge))[:, 0]


def cholesky(matrix: Tensor, ridge: float) -> Tensor:
    """`matrix` with the Cholesky factor of matrix + ridge in its lower triangle: in place, from the lower triangle.

    The matrix itself is kept in the upper triangle, so that a larger ridge can be tried when this one does not do.
    """
    diagonal = matrix.diagonal().clone()
    for first in range(0, len(matrix), BLOCK):
        last = first + BLOCK
        matrix[first:last, last:] = matrix[last:, first:last].T
        inner = matrix[first:last, first:last]
        inner.copy_(inner.tril() + inner.tril(-1).T)
    if not _factorised(matrix, diagonal, ridge):
        raise not_positive_definite(len(matrix), ridge, _remedy(matrix, diagonal, ridge))
    return matrix


def not_positive_definite(size: int, ridge: float, remedy: str) -> SolveError:
    """The error for a matrix that has no factor, on disk as in memory."""
    return SolveError(
        f"The Gram matrix of size {size} plus ridge {ridge:g} is not positive definite to rounding. {remedy}"
    )


def _factorised(matrix: Tensor, diagonal: Tensor, ridge: float) -> bool:
    """Whether the upper triangle, with diagonal + ridge, has a factor; it is then in the lower triangle.

    A block of columns at a time, each brought up to date by one matrix product with those before it.
    """
    for first in range(0, len(matrix), BLOCK):
        last = min(first + BLOCK, len(matrix))
        panel = matrix[first:last, first:].T.contiguous()
        upper = matrix[first:last, first:last].triu(1)
        inner = panel[: last - first].copy_(upper + upper.T)
        inner.diagonal().copy_(diagonal[first:last] + ridge)
        panel.addmm_(matrix[first:, :first], matrix[first:last, :first].T, alpha=-1)
        factor, failed = torch.linalg.cholesky_ex(inner)
        if int(failed) or not bool(factor.diagonal().isfinite().all()):
            return False
        inside = matrix[first:last, first:last]
        inside.copy_(inside.triu(1) + factor)
        below = panel[last - first :]
        matrix[last:, first:last] = torch.linalg.solve_triangular(factor.T, below, upper=True, left=False)
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
