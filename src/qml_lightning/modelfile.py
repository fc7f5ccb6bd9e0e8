"""Model files: safetensors with a JSON header. Reading one executes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .baseline import Baseline
from .basis import Drawn
from .kernels import FeatureMap
from .potential import Potential
from .projection import Projection
from .recipes import Recipe
from .tensorfile import open_tensors, write_tensors
from .units import INTERNAL

FORMAT = "qml-lightning"
FORMAT_VERSION = 1  # raised when an older package could no longer read the file


def header_of(potential: Potential) -> dict[str, Any]:
    """The JSON header that `save_model` writes."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "units": {"energy": INTERNAL.energy, "length": INTERNAL.length},
        "elements": list(potential.elements),
        "recipe": potential.recipe.as_dict(),
        "provenance": potential.provenance,
    }


def save_model(potential: Potential, path: str | Path, *, overwrite: bool = False) -> None:
    """Write `potential` to `path`, atomically; an existing file is kept unless `overwrite`."""
    tensors = {"weights": potential.weights, "baseline": potential.baseline.energies, **basis_tensors(potential)}
    write_tensors(path, FORMAT, header_of(potential), tensors, overwrite=overwrite)


def read_header(path: str | Path) -> dict[str, Any]:
    """The JSON header of a model file, checked to be ours and of a version that is known."""
    with open_tensors(path, FORMAT, FORMAT_VERSION, "model") as (header, _):
        return header


def load_model(path: str | Path) -> Potential:
    """The potential that `save_model` wrote."""
    with open_tensors(path, FORMAT, FORMAT_VERSION, "model") as (header, file):
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
    axes = read_tensor(file, "projection", (n, recipe.representation.arguments(n).size, recipe.rank))
    return elements, recipe, Projection(axes, read_tensor(file, "explained", (n,))), maps


def read_tensor(file: Any, name: str, shape: tuple[int, ...]) -> Tensor:
    """The tensor of that name, or a KeyError if it is not there or of another shape."""
    if name not in file.keys():  # noqa: SIM118 (not a dict)
        raise KeyError(name)
    tensor: Tensor = file.get_tensor(name)
    if tuple(tensor.shape) != shape:
        raise KeyError(f"{name} of shape {shape}, found {tuple(tensor.shape)}")
    return tensor
