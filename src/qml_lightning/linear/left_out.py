"""Residuals of each group of rows by the solution without these rows, from one decomposition. Knows no atoms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

ROUNDING = 1e-10  # smallest part of a row that the others are taken to leave free


@dataclass(frozen=True)
class LeftOut:
    """Ridge regression in the eigenvectors of its Gram matrix, and groups of rows that are left out for good.

    With H = Z (ZᵀZ + ridge)⁻¹ Zᵀ and the residual e = y − Z w, the solution without the rows of a group g leaves
    (1 − H_gg)⁻¹ e_g there. Rows that are left out for good change H and e in the same way.
    """

    rows: Tensor  # (rows, columns), Z V: V are the eigenvectors of ZᵀZ
    targets: Tensor  # (rows,)
    groups: Sequence[Tensor]  # row numbers of each group
    vectors: Tensor  # (columns, columns), V
    values: Tensor  # (columns,), eigenvalues
    ridge: float
    gone: tuple[int, ...] = ()  # groups that are left out for good

    @classmethod
    def of(cls, rows: Tensor, targets: Tensor, groups: Sequence[Tensor], ridge: float = 0.0) -> LeftOut:
        """The regression of these rows, which are overwritten."""
        values, vectors = torch.linalg.eigh(rows.T @ rows)
        for some in rows.split(4096):
            some.copy_(some @ vectors)
        return cls(rows, targets, groups, vectors, values.clamp(min=0.0), ridge)

    def with_ridge(self, ridge: float) -> LeftOut:
        """The regression with another ridge."""
        return replace(self, ridge=ridge)

    def without(self, gone: Sequence[int]) -> LeftOut:
        """The regression without these groups."""
        return replace(self, gone=tuple(gone))

    @property
    def _inverse(self) -> Tensor:
        return 1.0 / (self.values + self.ridge)

    def solution(self) -> tuple[Tensor, Tensor]:
        """Weights w in the eigenvectors, and a matrix C such that (ZᵀZ + ridge)⁻¹ = V (1 / (values + ridge) + C Cᵀ) Vᵀ.

        Both are those of the rows that are not left out for good.
        """
        if not self.gone:
            weights = self._inverse * (self.rows.T @ self.targets)
            return weights, self.rows.new_zeros(len(weights), 0)
        rows = torch.cat([self.groups[g] for g in self.gone])
        # their targets do not matter, and may be absurd: zeros in their place leave no rounding behind
        targets = self.targets.index_fill(0, rows, 0.0)
        weights, z = self._inverse * (self.rows.T @ targets), self.rows[rows]
        free = torch.eye(len(rows), dtype=z.dtype, device=z.device) - (z * self._inverse) @ z.T
        # where these rows alone determine a weight, 1 − H has an eigenvalue near zero, which rounding may make negative
        values, vectors = torch.linalg.eigh(free)
        root = values.clamp(min=ROUNDING).rsqrt()
        more = (z * self._inverse).T @ vectors * root
        return weights + more @ (root * (vectors.T @ (z @ weights))), more

    def residuals(self) -> tuple[Tensor, Tensor]:
        """For each row: its residual by the solution without its group, and the factor of its variance.

        The variance of a residual is that of the noise times this factor, which is large for a row that few others
        resemble. NaN where a group alone determines a weight.
        """
        weights, more = self.solution()
        residual, factor = self.targets - self.rows @ weights, torch.empty_like(self.targets)
        for number, group in enumerate(self.groups):
            z = self.rows[group]
            leverage = (z * self._inverse) @ z.T + (z @ more) @ (z @ more).T
            if number in self.gone:
                factor[group] = 1.0 + leverage.diagonal()
                continue
            free = torch.eye(len(z), dtype=z.dtype, device=z.device) - leverage
            half, failed = torch.linalg.cholesky_ex(free)
            inverse = torch.cholesky_inverse(half) if not int(failed) else torch.full_like(free, torch.nan)
            residual[group], factor[group] = inverse @ residual[group], inverse.diagonal()
        return residual, factor

    def predicted(self, rows: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Residuals of other rows, and the factors of their variances."""
        weights, more = self.solution()
        z = rows @ self.vectors
        return targets - z @ weights, 1.0 + (z.square() * self._inverse).sum(1) + (z @ more).square().sum(1)
