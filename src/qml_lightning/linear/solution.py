"""Weights that a solver found, and how it found them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Solution:
    """Weights w that minimise |Z w − y|² + ridge |w|²."""

    weights: Tensor  # (columns,) float64
    ridge: float  # the one that was used
    chosen: bool  # the ridge was chosen from data; False: it was given
    report: dict[str, Any] = field(default_factory=dict)  # for the provenance of a model
    factor: Tensor | None = None  # Cholesky factor in the upper triangle, where it is kept
    dual: Tensor | None = None  # (rows,) with w = Zᵀ dual, where the factor is that of Z Zᵀ + ridge
