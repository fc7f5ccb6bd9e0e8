"""The posterior of a linear model: weights drawn from it, and its variances made to fit errors. Knows no atoms.

With rows Z and ridge λ the posterior of the weights is normal around the solution, with covariance (ZᵀZ + λ)⁻¹ in units
of the variance of the noise. That unit, one for each kind of row, is found from errors on rows that were left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Parts of a normal distribution within one and two standard deviations.
WITHIN = (0.6827, 0.9545)
# Noise levels that are tried, as variances relative to the median variance of the posterior. With more than that the
# posterior would say little of structures that are far from all known ones.
NOISE = (0.0, *(10.0 ** (quarter / 4) for quarter in range(-8, 1)))


@dataclass(frozen=True)
class Calibration:
    """Standard deviation √(scale² v + noise²) of an error whose posterior variance is v."""

    scale: float
    noise: float

    def deviation(self, variance: Tensor) -> Tensor:
        return (self.scale**2 * variance + self.noise**2).sqrt()


def drawn(factor: Tensor, n: int, seed: int) -> Tensor:
    """Deviations from the mean of the posterior, (n, columns): covariance (UᵀU)⁻¹, U in the upper triangle."""
    normal = torch.from_numpy(np.random.default_rng(seed).standard_normal((len(factor), n))).to(factor)
    found: Tensor = torch.linalg.solve_triangular(factor, normal, upper=True)
    return found.T.contiguous()


def variances(factor: Tensor, rows: Tensor) -> Tensor:
    """Posterior variance z (UᵀU)⁻¹ zᵀ of each row z, (rows,), exactly."""
    half: Tensor = torch.linalg.solve_triangular(factor.T, rows.T, upper=False)
    return half.square().sum(0)


def left_out_variances(factor: Tensor, rows: Tensor, groups: Sequence[Tensor]) -> Tensor:
    """Posterior variances of the rows of each group by the model without that group, (rows,).

    With the hat matrix H = Z (UᵀU)⁻¹ Zᵀ of a group they are the diagonal of H (1 − H)⁻¹.
    """
    out = rows.new_empty(len(rows))
    for group in groups:
        hat = _hat(factor, rows[group])
        out[group] = torch.linalg.solve(_one(hat) - hat, hat).diagonal()
    return out


def left_out_residuals(factor: Tensor, rows: Tensor, residuals: Tensor, groups: Sequence[Tensor]) -> Tensor:
    """Residuals of the rows of each group by the model without that group: (1 − H)⁻¹ residuals, (rows,)."""
    out = torch.empty_like(residuals)
    for group in groups:
        hat = _hat(factor, rows[group])
        out[group] = torch.linalg.solve(_one(hat) - hat, residuals[group])
    return out


def _hat(factor: Tensor, rows: Tensor) -> Tensor:
    half: Tensor = torch.linalg.solve_triangular(factor.T, rows.T, upper=False)
    return half.T @ half


def _one(like: Tensor) -> Tensor:
    return torch.eye(len(like), dtype=like.dtype, device=like.device)


def part_of_factor(factor: Tensor, columns: Tensor) -> Tensor:
    """Columns of UᵀU, in rows and in columns: the Gram matrix of some columns, with the ridge on its diagonal."""
    rows = torch.arange(len(factor), device=factor.device)[:, None]
    some = torch.where(rows <= columns, factor[:, columns], 0.0)
    return some.T @ some


def sampled(variance: Tensor, freedom: int, seed: int) -> Tensor:
    """Variances as so many random members would tell them: times χ² / freedom."""
    drawn = np.random.default_rng(seed).chisquare(freedom, len(variance)) / freedom
    return variance * torch.from_numpy(drawn).to(variance)


def calibrated(errors: Tensor, variance: Tensor) -> Calibration:
    """Calibration of posterior variances by errors on rows that were left out.

    For each level of noise the scale makes one and two standard deviations together hold as many errors as those of a
    normal distribution: errors have long tails, so one holds too many and two as much too few. The level with the best
    likelihood is taken.
    """
    unit = float(variance.median())
    best, found = -np.inf, Calibration(0.0, float(errors.square().mean().sqrt()))
    for relative in NOISE if unit > 0 else ():
        whole = variance + relative * unit
        normalised = (errors.square() / whole).sqrt()
        both = torch.cat([normalised / k for k in range(1, 1 + len(WITHIN))])
        if not (scale := float(np.quantile(both.numpy(), np.mean(WITHIN)))) > 0:
            continue
        likelihood = -float((0.5 * (normalised / scale).square() + 0.5 * whole.log()).mean()) - np.log(scale)
        if likelihood > best:
            best, found = likelihood, Calibration(scale, float(scale * (relative * unit) ** 0.5))
    return found
