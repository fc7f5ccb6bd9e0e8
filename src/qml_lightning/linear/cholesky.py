"""Cholesky factorisation in place, in float64, and the remedy where a ridge is lost in rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import SolveError

# Columns of the factor formed at once: wide enough for matrix products at full rate, narrow beside the matrix.
BLOCK = 256

NOT_FINITE = "It holds values that are not finite: look at the labels and the geometry of the training set."


def solve_positive(matrix: Tensor, right: Tensor, ridge: float) -> Tensor:
    """(matrix + ridge)⁻¹ right from the lower triangle of `matrix`, which is overwritten."""
    first_factorised(matrix, matrix.diagonal().clone(), [ridge])
    return substituted(matrix, right)


def substituted(factor: Tensor, right: Tensor) -> Tensor:
    """(UᵀU)⁻¹ right with U in the upper triangle of `factor`."""
    # two substitutions: torch.cholesky_solve would copy the factor, and at large N_F a copy would not fit
    half = torch.linalg.solve_triangular(factor.T, right[:, None], upper=False)
    solution: Tensor = torch.linalg.solve_triangular(factor, half, upper=True)
    return solution[:, 0]


def first_factorised(matrix: Tensor, diagonal: Tensor, ridges: Sequence[float]) -> float:
    """The first ridge that is not lost in rounding, as `factorised` tells; a SolveError if all are."""
    for ridge in ridges:
        if factorised(matrix, diagonal, ridge):
            return ridge
    raise not_positive_definite(len(matrix), ridges[-1], _remedy(matrix, diagonal, ridges[-1]))


def factorised(matrix: Tensor, diagonal: Tensor, ridge: float) -> bool:
    """Whether the strict lower triangle of `matrix` with diagonal + ridge has a factor; it is then in the upper one.

    The strict lower triangle stays as it is, so that another ridge can be tried. The factor is made a block of rows at
    a time, each brought up to date by one matrix product with the blocks before it.
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


def not_positive_definite(size: int, ridge: float, remedy: str) -> SolveError:
    """Error for a matrix that has no factor, on disk as in memory."""
    return SolveError(
        f"The Gram matrix of size {size} plus ridge {ridge:g} is not positive definite to rounding. {remedy}"
    )


def _remedy(matrix: Tensor, diagonal: Tensor, ridge: float) -> str:
    """Advice that names the smallest power of ten which factorises, where one is found."""
    if not bool(diagonal.isfinite().all()):
        return NOT_FINITE
    # rounding of a Gram matrix is about eps · trace: start there, no smaller ridge can help
    rounding = float(diagonal.sum()) * torch.finfo(torch.float64).eps
    start = max(ridge * 10, rounding / 1000, 1e-300)
    for power in range(math.floor(math.log10(start)), math.ceil(math.log10(start)) + 12):
        if 10.0**power > ridge and factorised(matrix, diagonal, 10.0**power):
            return f"A ridge of {10.0**power:g} would do."
    return "Use a larger ridge or fewer features."
