"""Files of models with explicit kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..model.file import (
    common_header,
    read_axes,
    read_baseline,
    read_elements,
    read_tensor,
    read_trained_on,
    trained_on_tensor,
)
from ..model.provenance import Provenance
from .potential import ExactPotential, whole_representation
from .recipe import ExactRecipe


def header_of(potential: ExactPotential) -> dict[str, Any]:
    """JSON header of a model with explicit kernels."""
    return common_header(potential, "exact", potential.recipe.as_dict())


def tensors_of(potential: ExactPotential) -> dict[str, Tensor]:
    """Tensors of a model file: weights, training environments, and axes if there are any."""
    tensors = {
        "weights": potential.weights,
        "baseline": potential.baseline.energies,
        "element": potential.element,
        "environments": potential.environments,
    }
    if potential.directions is not None:
        tensors["directions"] = potential.directions
    if potential.recipe.rank is not None:
        tensors |= {"projection": potential.projection.matrices, "explained": potential.projection.explained}
    return tensors | trained_on_tensor(potential)


def read_potential(header: Mapping[str, Any], file: Any) -> ExactPotential:
    """Potential from the header and the tensors of a file."""
    elements, recipe = read_elements(header), ExactRecipe.from_dict(header["recipe"])
    recipe.check()
    element: Tensor = file.get_tensor("element")
    n, m = len(elements), len(element)
    if element.dtype != torch.int64 or (m and not 0 <= int(element.min()) <= int(element.max()) < n):
        raise KeyError(f"element with indices from 0 to {n - 1}")
    if recipe.rank is None:
        projection = whole_representation(n, recipe)
    else:
        projection = read_axes(file, recipe.arguments(n).size, n, recipe.rank)
    columns = projection.matrices.shape[2]
    return ExactPotential(
        elements,
        recipe,
        projection,
        element,
        read_tensor(file, "environments", (m, columns)),
        read_tensor(file, "weights", (m,)),
        read_tensor(file, "directions", (m, columns)) if "directions" in file.keys() else None,  # noqa: SIM118
        read_baseline(file, elements, "baseline"),
        Provenance.from_dict(header["provenance"]),
        read_trained_on(file),
    )
