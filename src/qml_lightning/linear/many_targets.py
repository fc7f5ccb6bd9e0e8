"""Ridge regression of several targets from one decomposition, each with a ridge of its own. Knows no atoms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import SolveError
from .cholesky import NOT_FINITE, not_positive_definite
from .direct import dual_rows, inner_products
from .normal_equations import Gram, Part, Rows

# Ridges that are compared, as powers of ten of the largest eigenvalue: from what is lost in rounding up.
LEAST, LARGEST, STEP = -15.0, -1.0, 1 / 3


@dataclass(frozen=True)
class Sample:
    """Rows that are left out, in groups, to compare ridges."""

    numbers: Tensor  # (rows,) numbers of the rows, one group after the other
    size: int = 1  # rows of a group, which are left out at once
    rows: Rows | None = None  # the rows themselves, with their targets; the dual form does not need them


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues and eigenvectors of ZᵀZ, or of ZZᵀ where there are no more rows than columns."""

    values: Tensor  # (n,), not negative
    vectors: Tensor  # (n, n)
    inside: Tensor  # (n, targets): vectorsᵀ Zᵀ targets, or vectorsᵀ targets
    dual: Rows | None  # the rows, where the matrix is ZZᵀ

    @classmethod
    def of(cls, part: Part) -> Spectrum:
        """Spectrum of gathered equations."""
        rows = dual_rows([part])
        if rows is not None:
            matrix, right = inner_products(rows), rows[0].filled()[1]
        elif isinstance(part, Gram):
            part.close()
            matrix, right = part.gram, part.moments()
        else:
            matrix = torch.zeros(part.n_columns, part.n_columns, dtype=torch.float64, device=part.device)
            part.add_to_gram(matrix, 1.0)
            right = part.moments()
        if not bool(matrix.diagonal().isfinite().all()):
            raise not_positive_definite(len(matrix), 0.0, NOT_FINITE)
        values, vectors = torch.linalg.eigh(matrix, UPLO="L")
        if not float(values[-1]) > 0:
            raise SolveError("All rows are zero: there is nothing to learn from. Look at the geometry of the data.")
        return cls(values.clamp(min=0.0), vectors, vectors.T @ right, None if rows is None else rows[0])

    def ridges(self) -> list[float]:
        """Ridges to compare, ascending."""
        n = round((LARGEST - LEAST) / STEP) + 1
        largest = float(self.values[-1])
        return [float(f"{largest * 10 ** (LEAST + STEP * k):.2g}") for k in range(n)]

    def weights(self, ridges: Sequence[float]) -> Tensor:
        """Weights of each target with its ridge, (columns, targets)."""
        shrunk = self.inside / (self.values[:, None] + torch.tensor(ridges, dtype=torch.float64).to(self.values))
        solution = self.vectors @ shrunk
        return solution if self.dual is None else self.dual.filled()[0].T @ solution

    def left_out(self, ridges: Sequence[float], sample: Sample) -> Tensor:
        """Root mean square of the residuals of a sample by solutions without each of its groups, (ridges, targets).

        Dual form, K = ZZᵀ + ridge: they are ((K⁻¹)_gg)⁻¹ (K⁻¹ y)_g. Otherwise, with the hat matrix
        H = Z (ZᵀZ + ridge)⁻¹ Zᵀ, they are (1 − H_gg)⁻¹ (y − Z w)_g. NaN where a group alone determines a weight.
        """
        if self.dual is not None:
            left, targets, one, sign = self.vectors[sample.numbers], None, 0.0, 1.0
        else:
            assert sample.rows is not None, "more rows than columns: the rows to leave out are needed"
            rows, targets = sample.rows.filled()
            left, one, sign = rows @ self.vectors, 1.0, -1.0
        groups = left.reshape(-1, sample.size, left.shape[1])
        identity = one * torch.eye(sample.size, dtype=left.dtype, device=left.device)
        errors = []
        for ridge in ridges:
            inverse = 1.0 / (self.values + ridge)
            own = left @ (self.inside * inverse[:, None])
            own = own if targets is None else targets - own
            matrix = identity + sign * (groups * inverse) @ groups.transpose(1, 2)
            found, failed = torch.linalg.solve_ex(matrix, own.reshape(len(groups), sample.size, -1))
            found[failed != 0] = torch.nan
            errors.append(found.flatten(0, 1).square().mean(0).sqrt())
        return torch.stack(errors)


@dataclass(frozen=True)
class Solved:
    """Weights of several targets, the ridge of each, and its error on left-out rows."""

    weights: Tensor  # (columns, targets)
    ridges: list[float]
    left_out: list[float]  # root mean square of the residuals of rows that are left out, for each target


def solve_several(part: Part, sample: Sample, ridge: float | None = None) -> Solved:
    """Weights that minimise |Z w − y|² + ridge |w|² for each target, all from one decomposition of the equations.

    The ridge of each target is that whose solutions without the rows of the sample, group by group, have the least
    error there. `ridge`: one for all targets, if it is given.
    """
    spectrum = Spectrum.of(part)
    tried = spectrum.ridges() if ridge is None else [ridge]
    errors = spectrum.left_out(tried, sample)
    best = errors.nan_to_num(torch.inf).argmin(0)
    ridges = [tried[k] for k in best.tolist()]
    return Solved(spectrum.weights(ridges).cpu(), ridges, errors.gather(0, best[None])[0].tolist())
