"""Model files: safetensors with a JSON header. Reading one executes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..atoms.units import INTERNAL
from ..exact import ExactPotential, ExactRecipe
from ..exact.potential import whole_representation
from ..kernels import FeatureMap
from ..machine.tensors import open_tensors, write_tensors
from .baseline import Baseline
from .basis import Drawn
from .potential import Model, Potential
from .projection import Projection
from .recipe import Recipe

FORMAT = "qml-lightning"
FORMAT_VERSION = 2  # raised when an older package could no longer read the file
FEATURES_VERSION = 1  # of models with random features: the first packages read them still


def header_of(potential: Potential | ExactPotential) -> dict[str, Any]:
    """The JSON header that `save_model` writes."""
    exact = isinstance(potential, ExactPotential)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION if exact else FEATURES_VERSION,
        "kind": "exact" if exact else "features",
        "units": {"energy": INTERNAL.energy, "length": INTERNAL.length},
        "elements": list(potential.elements),
        "recipe": potential.recipe.as_dict(),
        "provenance": potential.provenance,
    }


def save_model(potential: Model, path: str | Path, *, overwrite: bool = False) -> None:
    """Write `potential` to `path`, atomically; an existing file is kept unless `overwrite`."""
    assert isinstance(potential, Potential | ExactPotential)  # there are no others
    more = _kernel_tensors(potential) if isinstance(potential, ExactPotential) else basis_tensors(potential)
    tensors = {"weights": potential.weights, "baseline": potential.baseline.energies, **more}
    write_tensors(path, FORMAT, header_of(potential), tensors, overwrite=overwrite)


def read_header(path: str | Path) -> dict[str, Any]:
    """The JSON header of a model file, checked to be ours and of a version that is known."""
    with open_tensors(path, FORMAT, FORMAT_VERSION, "model") as (header, _):
        return header


def load_model(path: str | Path) -> Potential | ExactPotential:
    """The potential that `save_model` wrote, of either kind."""
    with open_tensors(path, FORMAT, FORMAT_VERSION, "model") as (header, file):
        if header.get("kind", "features") == "exact":
            return _read_exact(header, file)
        elements, recipe, projection, maps = read_basis(header, file)
        n = len(elements)
        weights = recipe.features.n_weights(n)
        return Potential(
            elements,
            recipe,
            projection,
            maps,
            read_tensor(file, "weights", (weights,)),
            Baseline(elements, read_tensor(file, "baseline", (n,))),
            header["provenance"],
        )


def _kernel_tensors(potential: ExactPotential) -> dict[str, Tensor]:
    """Training environments, and axes if there are any."""
    tensors = {"element": potential.element, "environments": potential.environments}
    if potential.directions is not None:
        tensors["directions"] = potential.directions
    if potential.recipe.rank is not None:
        tensors |= {"projection": potential.projection.matrices, "explained": potential.projection.explained}
    return tensors


def _read_exact(header: dict[str, Any], file: Any) -> ExactPotential:
    elements, recipe = tuple(header["elements"]), ExactRecipe.from_dict(header["recipe"])
    element: Tensor = file.get_tensor("element")
    n, m = len(elements), len(element)
    if recipe.rank is None:
        projection = whole_representation(n, recipe)
    else:
        projection = _read_axes(file, recipe.representation.arguments(n).size, n, recipe.rank)
    columns = projection.matrices.shape[2]
    return ExactPotential(
        elements,
        recipe,
        projection,
        element,
        read_tensor(file, "environments", (m, columns)),
        read_tensor(file, "weights", (m,)),
        read_tensor(file, "directions", (m, columns)) if "directions" in file.keys() else None,  # noqa: SIM118
        Baseline(elements, read_tensor(file, "baseline", (n,))),
        header["provenance"],
    )


def basis_tensors(drawn: Drawn) -> dict[str, Tensor]:
    """Axes and feature maps, element by element."""
    tensors = {
        "projection": drawn.projection.matrices,
        "explained": drawn.projection.explained,
        "phases": torch.stack([m.phases for m in drawn.maps]),
    }
    for name in ("signs", "row_scale", "matrix"):
        parts = [getattr(m, name) for m in drawn.maps]
        if parts[0] is not None:
            tensors[name] = torch.stack(parts)
    if "signs" in tensors:
        tensors["signs"] = tensors["signs"].to(torch.int8)  # ±1: an eighth of the room
    return tensors


def read_basis(header: dict[str, Any], file: Any) -> tuple[tuple[int, ...], Recipe, Projection, tuple[FeatureMap, ...]]:
    """Elements, recipe, axes and feature maps; a KeyError where tensors do not fit the recipe that the header tells."""
    elements, recipe = tuple(header["elements"]), Recipe.from_dict(header["recipe"])
    n, features = len(elements), recipe.features
    frequencies = features.n_features // (1 + features.paired)
    wanted: dict[str, tuple[int, ...]] = {"phases": (n, frequencies)}
    if features.method == "sorf":
        wanted["signs"] = (n, frequencies // recipe.rank, features.n_transforms, recipe.rank)
        wanted["row_scale"] = (n, frequencies)
    else:
        wanted["matrix"] = (n, frequencies, recipe.rank)
    read = {name: read_tensor(file, name, shape).double() for name, shape in wanted.items()}
    maps = tuple(
        FeatureMap(paired=features.paired, **{name: tensor[e] for name, tensor in read.items()}) for e in range(n)
    )
    return elements, recipe, _read_axes(file, recipe.representation.arguments(n).size, n, recipe.rank), maps


def _read_axes(file: Any, size: int, n: int, rank: int) -> Projection:
    return Projection(read_tensor(file, "projection", (n, size, rank)), read_tensor(file, "explained", (n,)))


def read_tensor(file: Any, name: str, shape: tuple[int, ...]) -> Tensor:
    """The tensor of that name, or a KeyError if it is not there or of another shape."""
    if name not in file.keys():  # noqa: SIM118 (not a dict)
        raise KeyError(name)
    tensor: Tensor = file.get_tensor(name)
    if tuple(tensor.shape) != shape:
        raise KeyError(f"{name} of shape {shape}, found {tuple(tensor.shape)}")
    return tensor
