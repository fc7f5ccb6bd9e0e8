"""The kernels in plain torch: the definition of each, readable and differentiable, on any device."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..contract import DensityArguments, FCHL19Arguments, RepresentationArguments
from . import density, fchl19
from .features import energy_and_slope, energy_rows, feature_moment, features, force_rows, linear, linear_transposed
from .tangents import tangent_products, tangent_sums

__all__ = [
    "KINDS", "NAME", "energy_and_slope", "energy_rows", "environments", "environments_jacobian",
    "environments_pullback", "feature_moment", "features", "force_rows", "linear", "linear_transposed", "predictor",
    "tangent_products", "tangent_sums",
]  # fmt: skip

NAME = "reference"
# Modules with the functions `environments…` of each kind.
KINDS: dict[str, Any] = {FCHL19Arguments.kind: fchl19, DensityArguments.kind: density}
predictor = None  # prediction goes through these kernels one by one


def environments(p: RepresentationArguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor:
    """Representation of every centre, (atoms, size), from its pair vectors (pairs, 3) in Å.

    Pairs of centre i with neighbours of element e are segments[i·n + e] ≤ pair < segments[i·n + e + 1].
    """
    out: Tensor = KINDS[p.kind].environments(p, n_atoms, segments, vectors)
    return out


def environments_pullback(
    p: RepresentationArguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor
) -> Tensor:
    """Gradient of Σ cotangent · environments by each pair vector, (pairs, 3)."""
    out: Tensor = KINDS[p.kind].environments_pullback(p, n_atoms, segments, vectors, cotangent)
    return out


def environments_jacobian(
    p: RepresentationArguments,
    n_atoms: int,
    segments: Tensor,
    vectors: Tensor,
    centre_element: Tensor,
    projections: Tensor,
) -> Tensor:
    """Derivative of the projected representation by each pair vector, (pairs, 3, rank).

    projections (elements, size, rank): the one of the centre's element applies.
    """
    out: Tensor = KINDS[p.kind].environments_jacobian(p, n_atoms, segments, vectors, centre_element, projections)
    return out
