"""The kernels in Triton: for CUDA, compiled on first use, and checked without a GPU by Triton's interpreter."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..contract import DensityArguments, FCHL19Arguments, RepresentationArguments
from . import density, fchl19
from .features import energy_and_slope, feature_moment, features
from .jacobian import projected_jacobian
from .rows import energy_rows, force_rows
from .tangents import tangent_products, tangent_sums

__all__ = [
    "KINDS", "NAME", "energy_and_slope", "energy_rows", "environments", "environments_jacobian",
    "environments_pullback", "feature_moment", "features", "force_rows", "predictor", "tangent_products",
    "tangent_sums",
]  # fmt: skip

NAME = "triton"
# Modules with the kernels of each kind.
KINDS: dict[str, Any] = {FCHL19Arguments.kind: fchl19, DensityArguments.kind: density}
predictor = None  # prediction goes through these kernels one by one


def environments(p: RepresentationArguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor:
    out: Tensor = KINDS[p.kind].environments(p, n_atoms, segments, vectors)
    return out


def environments_pullback(
    p: RepresentationArguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor
) -> Tensor:
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
    return projected_jacobian(KINDS[p.kind], p, segments, vectors, centre_element, projections)
