"""The kernels in C++: a library with a C interface, for torch tensors on the CPU."""

from __future__ import annotations

from .functions import (
    KINDS,
    energy_and_slope,
    energy_rows,
    environments,
    environments_jacobian,
    environments_pullback,
    feature_moment,
    features,
    force_rows,
    tangent_products,
    tangent_sums,
)  # fmt: skip
from .library import instruction_set, use_instruction_set, why_not
from .predictor import NativePredictor as predictor

NAME = "native"

__all__ = [
    "KINDS", "NAME", "energy_and_slope", "energy_rows", "environments", "environments_jacobian",
    "environments_pullback", "feature_moment", "features", "force_rows", "instruction_set", "predictor",
    "tangent_products", "tangent_sums", "use_instruction_set", "why_not",
]  # fmt: skip
