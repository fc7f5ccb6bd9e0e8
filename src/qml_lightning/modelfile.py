"""Model files: safetensors with a JSON header. Reading one executes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .baseline import Baseline
from .errors import InputError, ModelError
from .exact import ExactPotential, ExactRecipe
from .exact.potential import whole_representation
from .files import check_output, write_atomically
from .kernels import FeatureMap
from .potential import Model, Potential
from .projection import Projection
from .recipes import Recipe
from .units import INTERNAL

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
    path = check_output(path, overwrite=overwrite)
    # safetensors metadata is text by text: one entry, one JSON document
    header = json.dumps(header_of(potential), ensure_ascii=False)
    tensors = _exact_tensors(potential) if isinstance(potential, ExactPotential) else _tensors(potential)
    write_atomically(path, save({name: tensor.contiguous() for name, tensor in tensors.items()}, {FORMAT: header}))


def _exact_tensors(potential: ExactPotential) -> dict[str, Tensor]:
    tensors = {
        "baseline": potential.baseline.energies,
        "element": potential.element,
        "environments": potential.environments,
        "weights": potential.weights,
    }
    if potential.directions is not None:
        tensors["directions"] = potential.directions
    if potential.recipe.rank is not None:
        tensors |= {"projection": potential.projection.matrices, "explained": potential.projection.explained}
    return tensors


def _tensors(potential: Potential) -> dict[str, Tensor]:
    tensors = {
        "weights": potential.weights,
        "baseline": potential.baseline.energies,
        "projection": potential.projection.matrices,
        "explained": potential.projection.explained,
        "phases": torch.stack([m.phases for m in potential.maps]),
    }
    for name in ("signs", "row_scale", "matrix"):
        parts = [getattr(m, name) for m in potential.maps]
        if parts[0] is not None:
            tensors[name] = torch.stack(parts)
    if "signs" in tensors:
        tensors["signs"] = tensors["signs"].to(torch.int8)  # ±1: an eighth of the room
    return tensors


def read_header(path: str | Path) -> dict[str, Any]:
    """The JSON header of a model file, checked to be ours and of a version that is known."""
    return _read(path)[0]


def load_model(path: str | Path) -> Potential | ExactPotential:
    """The potential that `save_model` wrote, of either kind."""
    header, tensors = _read(path)
    try:
        if header.get("kind", "features") == "exact":
            return _exact_potential(header, tensors)
        elements = tuple(header["elements"])
        recipe = Recipe.from_dict(header["recipe"])
        phases = tensors["phases"]
        parts: dict[str, list[Any]] = {
            name: list(tensors[name].double()) if name in tensors else [None] * len(phases)
            for name in ("signs", "row_scale", "matrix")
        }
        maps = tuple(
            FeatureMap(phases[e], recipe.features.paired, *(parts[n][e] for n in ("signs", "row_scale", "matrix")))
            for e in range(len(elements))
        )
        _check_shapes(_shapes(header, recipe), tensors)
        return Potential(
            elements,
            recipe,
            Projection(tensors["projection"], tensors["explained"]),
            maps,
            tensors["weights"],
            Baseline(elements, tensors["baseline"]),
            header["provenance"],
        )
    except (KeyError, TypeError, IndexError) as problem:
        raise ModelError(f"{path} is a {FORMAT} model with a part missing or altered ({problem}).") from problem


def _exact_potential(header: dict[str, Any], tensors: dict[str, Tensor]) -> ExactPotential:
    elements = tuple(header["elements"])
    recipe = ExactRecipe.from_dict(header["recipe"])
    n, m = len(elements), len(tensors["weights"])
    size = recipe.representation.arguments(n).size
    columns = size if recipe.rank is None else recipe.rank
    wanted: dict[str, tuple[int, ...]] = {"baseline": (n,), "element": (m,), "environments": (m, columns)}
    if "directions" in tensors:
        wanted["directions"] = (m, columns)
    projection = whole_representation(n, recipe)
    if recipe.rank is not None:
        wanted |= {"projection": (n, size, columns), "explained": (n,)}
        projection = Projection(tensors["projection"], tensors["explained"])
    _check_shapes(wanted, tensors)
    return ExactPotential(
        elements,
        recipe,
        projection,
        tensors["element"],
        tensors["environments"],
        tensors["weights"],
        tensors.get("directions"),
        Baseline(elements, tensors["baseline"]),
        header["provenance"],
    )


def _shapes(header: dict[str, Any], recipe: Recipe) -> dict[str, tuple[int, ...]]:
    """What the tensors of a model with random features should be like."""
    n, features = len(header["elements"]), recipe.features
    frequencies = features.n_features // (1 + features.paired)
    wanted: dict[str, tuple[int, ...]] = {
        "weights": (features.n_features * (n if features.blocks else 1),),
        "baseline": (n,),
        "explained": (n,),
        "projection": (n, recipe.representation.arguments(n).size, recipe.rank),
        "phases": (n, frequencies),
    }
    if features.method == "sorf":
        wanted["signs"] = (n, frequencies // recipe.rank, features.n_transforms, recipe.rank)
        wanted["row_scale"] = (n, frequencies)
    else:
        wanted["matrix"] = (n, frequencies, recipe.rank)
    return wanted


def _check_shapes(wanted: dict[str, tuple[int, ...]], tensors: dict[str, Tensor]) -> None:
    """A KeyError where tensors do not fit the recipe that the header tells."""
    for name, shape in wanted.items():
        if tuple(tensors[name].shape) != shape:
            raise KeyError(f"{name} of shape {shape}, found {tuple(tensors[name].shape)}")


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not Path(path).is_file():
        raise InputError(f"There is no model file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if FORMAT not in metadata:
                raise ModelError(f"{path} is a safetensors file, but not a model of {FORMAT}.")
            header = json.loads(metadata[FORMAT])
            newest = header.get("format_version", 0)
            if newest > FORMAT_VERSION:
                raise ModelError(
                    f"{path} has format version {newest}; this package reads up to {FORMAT_VERSION}. "
                    "Update it: pip install -U qml-lightning."
                )
            return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, ValueError, OSError) as problem:
        raise ModelError(f"{path} is not a complete safetensors file ({problem}). Was it truncated?") from problem
