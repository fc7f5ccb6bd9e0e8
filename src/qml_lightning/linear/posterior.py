"""The posterior of a linear model: weights drawn from it, and its variances made to fit errors. Knows no atoms.

With rows Z and ridge λ the posterior of the weights is normal around the solution, with covariance (ZᵀZ + λ)⁻¹ in units
of the variance of the noise. That unit, one for each kind of row, is found from errors on rows that were left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

# Parts of a normal distribution within one and two standard deviations.
WITHIN = (0.6827, 0.9545)
# Noise levels that are tried, as variances relative to the median variance of the posterior. With more than that the
# posterior would say little of structures that are far from all known ones.
NOISE = (0.0, *(10.0 ** (quarter / 4) for quarter in range(-8, 1)))
# Powers of the variance that are tried where it is told by few members: their scatter makes the largest variances too
# large and the smallest ones too small. Forces of silicon, 2 members: two deviations hold 92 % of the errors without a
# power and 94 % with one, one deviation 75 and 73 %.
POWERS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
# Parts within one and two deviations may differ so much from those of a normal distribution for the sake of likelihood.
TOLERANCE = 0.03


@dataclass(frozen=True)
class Calibration:
    """Standard deviation √(scale² v^power + noise²) of an error whose posterior variance is v."""

    scale: float
    noise: float
    power: float = 1.0

    def deviation(self, variance: Tensor) -> Tensor:
        raised = variance if self.power == 1 else variance**self.power
        return (self.scale**2 * raised + self.noise**2).sqrt()


def drawn(factor: Tensor, n: int, seed: int) -> Tensor:
    """Deviations from the mean of the posterior, (n, columns): covariance (UᵀU)⁻¹, U in the upper triangle."""
    normal = torch.from_numpy(np.random.default_rng(seed).standard_normal((len(factor), n))).to(factor)
    found: Tensor = torch.linalg.solve_triangular(factor, normal, upper=True)
    return found.T.contiguous()


def variances(factor: Tensor, rows: Tensor) -> Tensor:
    """Posterior variance z (UᵀU)⁻¹ zᵀ of each row z, (rows,), exactly."""
    half: Tensor = torch.linalg.solve_triangular(factor.T, rows.T, upper=False)
    return half.square().sum(0)


def left_out_members(factor: Tensor, rows: Tensor, deviations: Tensor, groups: Sequence[Tensor]) -> Tensor:
    """Deviations of the members on the rows of each group, as if that group had not been trained on, (rows, members).

    `deviations` (members, columns) are the weights of each member less those of the model, δ, with the covariance
    (UᵀU)⁻¹. Z δ then has the covariance H = Z (UᵀU)⁻¹ Zᵀ, the hat matrix of the group, and (1 − H)^(−1/2) Z δ has
    H (1 − H)⁻¹, that of the posterior without the group. An exact variance could be computed instead; but a few members
    are all that a prediction has, and their errors by chance are alike for many rows. Calibration must see them.
    """
    out = rows @ deviations.T
    for group in (one.to(rows.device) for one in groups):
        hat = _hat(factor, rows[group])
        value, vector = torch.linalg.eigh(_one(hat) - hat)
        root = value.clamp_min(torch.finfo(hat.dtype).eps).rsqrt()
        out[group] = vector @ (root[:, None] * (vector.T @ out[group]))
    return out


def left_out_residuals(factor: Tensor, rows: Tensor, residuals: Tensor, groups: Sequence[Tensor]) -> Tensor:
    """Residuals of the rows of each group by the model without that group: (1 − H)⁻¹ residuals, (rows,)."""
    out = torch.empty_like(residuals)
    for group in (one.to(rows.device) for one in groups):
        hat = _hat(factor, rows[group])
        out[group] = torch.linalg.solve(_one(hat) - hat, residuals[group])
    return out


def _hat(factor: Tensor, rows: Tensor) -> Tensor:
    half: Tensor = torch.linalg.solve_triangular(factor.T, rows.T, upper=False)
    return half.T @ half


def _one(like: Tensor) -> Tensor:
    return torch.eye(len(like), dtype=like.dtype, device=like.device)


def part_of_factor(factor: Tensor, columns: Tensor) -> Tensor:
    """Gram matrix of some columns with the ridge on its diagonal: these rows and columns of UᵀU."""
    rows = torch.arange(len(factor), device=factor.device)[:, None]
    some = torch.where(rows <= columns, factor[:, columns], 0.0)
    return some.T @ some


def calibrated(errors: Tensor, variance: Tensor, powers: Sequence[float] = (1.0,)) -> Calibration:
    """Calibration that makes the variances of a committee agree with its errors on left-out rows.

    Every power is tried with every level of noise. Of a normal distribution, 68 % of the errors are within one standard
    deviation and 95 % within two. Real errors have long tails, so no scale gives both shares. The scale is chosen such
    that the first share is too large by about as much as the second is too small. Among the combinations of power and
    noise whose shares are nearly right, the one with the highest likelihood is taken; if there is none, the one whose
    shares are closest.
    """
    unit = float(variance.median())
    constant = Calibration(0.0, float(errors.square().mean().sqrt()))
    if not unit > 0:
        return constant
    relative, found = variance / unit, list[tuple[float, float, Calibration]]()
    for power, noise in product(powers, NOISE):
        whole = relative**power + noise
        normalised = (errors.square() / whole).sqrt()
        both = torch.cat([normalised / k for k in range(1, 1 + len(WITHIN))])
        if not (scale := float(np.quantile(both.numpy(), np.mean(WITHIN)))) > 0:
            continue
        parts = [float((normalised < k * scale).double().mean()) for k in range(1, 1 + len(WITHIN))]
        missed = max(abs(part - wanted) for part, wanted in zip(parts, WITHIN, strict=True))
        likelihood = -float((0.5 * (normalised / scale).square() + 0.5 * whole.log()).mean()) - np.log(scale)
        made = Calibration(scale * unit ** (-power / 2), scale * noise**0.5, power)
        found.append((missed, likelihood, made))
    # few errors tell the parts to no more than this
    tolerance = max(TOLERANCE, 0.5 / len(errors) ** 0.5)
    near = [one for one in found if one[0] <= tolerance] or sorted(found, key=lambda one: one[0])[:1]
    return max(near, key=lambda one: one[1], default=(0.0, 0.0, constant))[2]
