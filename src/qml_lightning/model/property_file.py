"""Files of models of properties: safetensors with a JSON header, as those of potentials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import InputError
from ..machine.tensors import open_tensors
from .file import (
    FORMAT,
    FORMAT_VERSION,
    WITH_PROPERTIES,
    basis_tensors,
    common_header,
    read_basis,
    read_tensor,
    read_trained_on,
    trained_on_tensor,
    write_model,
)
from .properties import KINDS, Property, PropertyModel
from .provenance import Provenance

KIND = "properties"  # of the model, in the header


def header_of(model: PropertyModel) -> dict[str, Any]:
    """JSON header of a model of properties."""
    header = common_header(model, KIND, model.recipe.as_dict(), WITH_PROPERTIES)
    return {**header, "properties": [one.header() for one in model.properties]}


def tensors_of(model: PropertyModel) -> dict[str, Tensor]:
    """Tensors of a model of properties."""
    own = {"weights": model.weights, "baseline": model.baseline}
    return {**own, **basis_tensors(model.basis), **trained_on_tensor(model)}


def save(model: PropertyModel, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a model of properties, atomically; an existing file is kept unless `overwrite`."""
    write_model(path, header_of(model), tensors_of(model), overwrite=overwrite)


def load(path: str | Path) -> PropertyModel:
    """The model that `save` wrote. Nothing in the file is executed."""
    with open_tensors(path, FORMAT, FORMAT_VERSION, "model") as (header, file):
        if header.get("kind") == KIND:
            return read_model(header, file)
    raise InputError(f"{path} is a potential, not a model of properties. Read it with qml_lightning.load.")


def read_model(header: Mapping[str, Any], file: Any) -> PropertyModel:
    """The model with this header and these tensors."""
    basis = read_basis(header, file)
    properties = tuple(Property(**about) for about in header[KIND])
    names = [one.name for one in properties]
    sound = all(
        one.kind in KINDS and isinstance(one.name, str) and math.isfinite(one.ridge) and one.ridge >= 0
        for one in properties
    )
    if not properties or not sound or len({*names}) < len(names):
        raise KeyError("properties with names and kinds")
    return PropertyModel(
        basis,
        properties,
        read_tensor(file, "weights", (basis.n_weights, len(properties))),
        read_tensor(file, "baseline", (len(basis.elements), len(properties))),
        Provenance.from_dict(header["provenance"]),
        read_trained_on(file),
    )
