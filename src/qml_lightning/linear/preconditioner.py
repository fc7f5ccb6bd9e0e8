"""Preconditioner of an iteration with many features: the direct solution with few of them. Knows no atoms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from .cholesky import first_factorised, substituted

# Effective dimensions of the small model, Σ g / (g + shift) over the eigenvalues g of its Gram matrix, as a part of its
# features. Eigenvalues below the shift cannot be told from chance. Aspirin needs as many steps from 0.46 to 0.67, and
# twice as many at 0.19; ethanol with a ridge of 1e-10 needs the fewest at 0.36.
TRUSTED = (0.36, 0.5)
PROBES = 4  # random vectors that measure the effective dimensions


class Operator(Protocol):
    """A matrix Z that is not stored: its products with vectors are computed, in float64."""

    @property
    def n_columns(self) -> int: ...

    def times(self, weights: Tensor) -> Tensor:
        """Z w, (rows,)."""

    def transposed_times(self, residual: Tensor) -> Tensor:
        """Zᵀ v, (columns,)."""


@dataclass(frozen=True)
class Parted:
    """Z in two parts, the features of a small model and the rest: Z Zᵀ = share · Z_s Z_sᵀ + (1 − share) · Z_r Z_rᵀ.

    Each part has the amplitudes of a feature map of its own size.
    """

    small: Operator
    rest: Operator | None  # None where the small model has all features
    share: float
    joined: Callable[[Tensor, Tensor], Tensor]  # weights of both parts in the order of the columns of Z


class GuidedBySmallModel:
    """Products with Z Zᵀ P⁻¹, where P = Z_s Z_sᵀ + shift is the matrix of the small model.

    P⁻¹ v = (v − Z_s w) / shift with w = (Z_sᵀ Z_s + shift)⁻¹ Z_sᵀ v (Woodbury). Then Z_sᵀ P⁻¹ v = w, so that each
    feature takes part in only one product and one transposed product per step.
    """

    def __init__(self, z: Parted, gram: Tensor, least: float) -> None:
        """`gram` is the lower triangle of Z_sᵀ Z_s, overwritten by its factor; the shift is at least `least`."""
        self.z = z
        self.factor, self.shift = trusted_factor(gram, least)

    @property
    def n_columns(self) -> int:
        return self.z.small.n_columns + (0 if self.z.rest is None else self.z.rest.n_columns)

    def step(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """d = P⁻¹ v, (rows,), Zᵀ d, (columns,), and Z Zᵀ d, (rows,)."""
        z, share = self.z, self.z.share
        inner = substituted(self.factor, z.small.transposed_times(v))
        seen = z.small.times(inner)
        direction = (v - seen) / self.shift
        image, product = math.sqrt(share) * inner, share * seen
        if z.rest is not None:
            others = math.sqrt(1 - share) * z.rest.transposed_times(direction)
            product += math.sqrt(1 - share) * z.rest.times(others)
            image = z.joined(image, others)
        return direction, image, product


def trusted_factor(gram: Tensor, least: float) -> tuple[Tensor, float]:
    """Factor of `gram` + shift, in place of `gram`, and the shift.

    The shift leaves a `TRUSTED` part of effective dimensions. Where even `least` leaves fewer, it is `least`.
    """
    diagonal = gram.diagonal().clone()
    scale = float(diagonal.mean())
    least = max(least, 1e-11 * scale)  # below it, rounding decides
    shift, low, high = 1e-8 * scale, least, math.inf
    while True:
        shift = max(shift, least)
        first_factorised(gram, diagonal, [shift])
        dimensions = _effective_dimensions(gram, shift) / len(gram)
        if TRUSTED[0] <= dimensions <= TRUSTED[1] or (dimensions < TRUSTED[0] and shift == least) or high < 1.1 * low:
            return gram, shift
        if dimensions > TRUSTED[1]:
            low = shift
        else:
            high = shift
        # they fall by about a seventh of the features with each decade
        shift *= 10.0 ** (7 * (dimensions - sum(TRUSTED) / 2))
        if not low < shift < high:
            shift = math.sqrt(low * high)


def _effective_dimensions(factor: Tensor, shift: float) -> float:
    """Trace of G (G + shift)⁻¹ from the factor of G + shift, estimated by a few random vectors."""
    signs = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], (len(factor), PROBES))).to(factor)
    half = torch.linalg.solve_triangular(factor.T, signs, upper=False)
    return len(factor) - shift * float(half.square().sum()) / PROBES
