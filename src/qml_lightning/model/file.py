"""Model files with random features: safetensors with a JSON header. Reading one executes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from ..atoms.units import INTERNAL
from ..errors import SolveError
from ..kernels import FeatureMap
from ..machine.files import meant_by
from ..machine.tensors import all_finite, open_tensors, write_tensors
from .baseline import Baseline
from .basis import Basis, tensors_of_map
from .committee import Committee
from .crowding import Crowding
from .gaps import Gaps
from .potential import Potential
from .projection import Projection
from .provenance import Provenance
from .recipe import Recipe, dtype_of
from .repulsion import Repulsion

FORMAT = "qml-lightning"
# Raised when an older package could no longer read the file. 2: explicit kernels; 3: representations have a kind;
# 4: repulsion of close pairs; 5: of crowded atoms; 6: properties; 7: gaps. A file says the lowest version that can read
# it.
FORMAT_VERSION = 7
WITH_GAPS, WITH_PROPERTIES, WITH_CROWDING, WITHOUT_CROWDING, WITHOUT_REPULSION = 7, 6, 5, 4, 3
HEAVIEST = 118  # atomic number
LARGEST_DEVIATION = 1e100  # eV, eV/Å: its square is a number
TRAINED_ON, COMMITTEE = "trained_on", "committee"  # names of tensors
# First part of the names of tensors that belong to the representation.
REPRESENTATION = "representation."
CROWDING, GAPS = "crowding.", "gaps."


class Described(Protocol):
    """Parts of a model that stand in the header of every file."""

    @property
    def elements(self) -> tuple[int, ...]: ...

    @property
    def provenance(self) -> Provenance: ...

    @property
    def trained_on(self) -> Tensor | None: ...


def common_header(
    model: Described, kind: str, recipe: Mapping[str, Any], version: int = WITHOUT_REPULSION
) -> dict[str, Any]:
    """JSON header of a model of any kind; `version` is the lowest that can read it."""
    return {
        "format": FORMAT,
        "format_version": version,
        "kind": kind,
        "units": {"energy": INTERNAL.energy, "length": INTERNAL.length},
        "elements": list(model.elements),
        "recipe": dict(recipe),
        "provenance": model.provenance.as_dict(),
    }


def _version(repulsion: Repulsion | None) -> int:
    """Lowest version that reads a model with this repulsion."""
    if repulsion is None:
        return WITHOUT_REPULSION
    if repulsion.gaps is not None:
        return WITH_GAPS
    return WITHOUT_CROWDING if repulsion.crowding is None else WITH_CROWDING


def write_model(path: str | Path, header: dict[str, Any], tensors: Mapping[str, Tensor], *, overwrite: bool) -> None:
    """Write a model of any kind, atomically; an existing file is kept unless `overwrite`."""
    precision = header["recipe"].get("precision", "float64")
    if not all_finite(tensors["weights"].to(dtype_of(precision))):
        largest = float(tensors["weights"].abs().max())
        raise SolveError(
            f"{meant_by(path)} was not written: the largest weight is {largest:.1e}, too large for predictions in "
            f"{precision}. Look for labels that are too large in the data, or use a larger ridge."
        )
    write_tensors(path, FORMAT, header, tensors, overwrite=overwrite)


def read_header(path: str | Path) -> dict[str, Any]:
    """JSON header of a model file, checked to be ours and of a known version."""
    with open_tensors(path, FORMAT, FORMAT_VERSION, "model", checked=False) as (header, _):
        return header


def header_of(potential: Potential) -> dict[str, Any]:
    """JSON header of a model with random features."""
    prediction = {"precision": potential.prediction_precision, "energy_noise": potential.energy_noise}
    version = _version(potential.repulsion)
    header = {**common_header(potential, "features", potential.recipe.as_dict(), version), "prediction": prediction}
    return header if potential.committee is None else {**header, "committee": potential.committee.header()}


def tensors_of(potential: Potential) -> dict[str, Tensor]:
    """Tensors of a model with random features."""
    return {
        "weights": potential.weights,
        "baseline": potential.baseline.energies,
        **basis_tensors(potential.basis),
        **trained_on_tensor(potential),
        **repulsion_tensors(potential.repulsion),
        **({} if potential.committee is None else {COMMITTEE: potential.committee.deviations}),
    }


def read_potential(header: Mapping[str, Any], file: Any) -> Potential:
    """The potential with this header and these tensors."""
    basis = read_basis(header, file)
    return Potential(
        basis,
        read_tensor(file, "weights", (basis.n_weights,)),
        read_baseline(file, basis.elements, "baseline"),
        Provenance.from_dict(header["provenance"]),
        read_trained_on(file),
        read_repulsion(file, basis.elements, basis.recipe.representation.cutoff),
        read_committee(header, file, basis),
    )


def read_committee(header: Mapping[str, Any], file: Any, basis: Basis) -> Committee | None:
    """Committee of a model; None in files without one. A KeyError if its numbers make no sense."""
    if "committee" not in header:
        return None
    about = header["committee"]
    members, n_features, forces = (about[name] for name in ("members", "n_features", "force_members"))
    features = basis.recipe.features
    step = (1 + features.paired) * (basis.recipe.rank if features.method == "sorf" else 1)
    whole = all(type(number) is int for number in (members, n_features, forces))
    if (
        not whole
        or not 0 <= forces <= members
        or members < 1
        or not 0 < n_features <= features.n_features
        or n_features % step
    ):
        raise KeyError("committee with members and features of its maps")
    shape = (members, replace(features, n_features=n_features).n_weights(len(basis.elements)))
    committee = Committee.from_header(about, read_tensor(file, COMMITTEE, shape).double())
    every = [*committee.calibrations.values(), *committee.of_elements.values()]
    numbers = [number for one in every for number in (one.scale, one.noise)]
    sound = all(0 <= number < LARGEST_DEVIATION for number in numbers) and math.isfinite(committee.size_exponent)
    sound = sound and all(0 < one.power <= 1 for one in every)
    if {*committee.calibrations} != {"energies", "forces"} or not sound:
        raise KeyError("committee with calibrations of energies and forces")
    return committee


def repulsion_tensors(repulsion: Repulsion | None) -> dict[str, Tensor]:
    """Distances of close pairs and gaps, and parameters of crowding, if there is a repulsion."""
    if repulsion is None:
        return {}
    out = {"repulsion.outer": repulsion.outer, "repulsion.inner": repulsion.inner}
    if repulsion.crowding is not None:
        out |= {CROWDING + one.name: getattr(repulsion.crowding, one.name) for one in fields(Crowding)}
    if repulsion.gaps is not None:
        out |= {GAPS + "low": repulsion.gaps.low, GAPS + "high": repulsion.gaps.high}
    return out


def read_repulsion(file: Any, elements: tuple[int, ...], cutoff: float) -> Repulsion | None:
    """Repulsion of close pairs; None in files without one. A KeyError if its distances make no sense."""
    if "repulsion.outer" not in file.keys():  # noqa: SIM118 (not a dict)
        return None
    shape = (len(elements), len(elements))
    outer, inner = (read_tensor(file, f"repulsion.{name}", shape).double() for name in ("outer", "inner"))
    ordered = bool(((inner > 0) & (inner < outer) & (outer <= cutoff)).all())
    if not ordered or not torch.equal(outer, outer.T) or not torch.equal(inner, inner.T):
        raise KeyError("repulsion with 0 < inner < outer")
    rest = _read_crowding(file, len(elements), cutoff), _read_gaps(file, outer, cutoff)
    return Repulsion(elements, outer.contiguous(), inner.contiguous(), *rest)


def _read_gaps(file: Any, outer: Tensor, cutoff: float) -> Gaps | None:
    """Gaps between distances; None in files without them. A KeyError if their ends make no sense."""
    if GAPS + "low" not in file.keys():  # noqa: SIM118 (not a dict)
        return None
    low, high = (read_tensor(file, GAPS + name, tuple(outer.shape)).double().contiguous() for name in ("low", "high"))
    sound = ((outer <= low) & (low < high) & (high <= cutoff)) | ((low == 0) & (high == 0))
    if not bool(sound.all()) or not torch.equal(low, low.T) or not torch.equal(high, high.T):
        raise KeyError("gaps with outer <= low < high")
    return Gaps(low, high)


def _read_crowding(file: Any, n: int, cutoff: float) -> Crowding | None:
    """Parameters of the crowding of atoms; None in files without them. A KeyError if they make no sense."""
    if CROWDING + "reach" not in file.keys():  # noqa: SIM118 (not a dict)
        return None
    reach = read_tensor(file, CROWDING + "reach", (n, n)).double().contiguous()
    rest = [read_tensor(file, CROWDING + name, (n,)).double().contiguous() for name in ("onset", "full", "strength")]
    onset, full, strength = rest
    reaches = bool(((reach > 0) & (reach <= cutoff)).all()) and torch.equal(reach, reach.T)
    if not reaches or not bool(((onset > 0) & (onset < full) & (strength >= 0)).all()):
        raise KeyError("crowding with 0 < reach, 0 < onset < full and 0 <= strength")
    return Crowding(reach, onset, full, strength)


def trained_on_tensor(model: Described) -> dict[str, Tensor]:
    """Fingerprints of the training structures, if they are known."""
    return {} if model.trained_on is None else {TRAINED_ON: model.trained_on}


def read_trained_on(file: Any) -> Tensor | None:
    """Fingerprints of the training structures; None in files of older versions."""
    return file.get_tensor(TRAINED_ON) if TRAINED_ON in file.keys() else None  # noqa: SIM118


def basis_tensors(basis: Basis) -> dict[str, Tensor]:
    """Axes and feature maps, element by element."""
    tensors = {"projection": basis.projection.matrices, "explained": basis.projection.explained}
    tensors |= {REPRESENTATION + name: tensor for name, tensor in basis.drawn.items()}
    drawn = [tensors_of_map(feature_map) for feature_map in basis.maps]
    tensors |= {name: torch.stack([one[name] for one in drawn]) for name in drawn[0]}
    if "signs" in tensors:
        tensors["signs"] = tensors["signs"].to(torch.int8)  # ±1: an eighth of the room
    return tensors


def read_basis(header: Mapping[str, Any], file: Any) -> Basis:
    """Elements, recipe, axes and feature maps; a KeyError if tensors do not fit the recipe in the header."""
    elements, recipe = read_elements(header), Recipe.from_dict(header["recipe"])
    recipe.check()
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
    shapes = recipe.representation.shapes(n)
    drawn = {name: read_tensor(file, REPRESENTATION + name, shape) for name, shape in shapes.items()}
    size = recipe.representation.arguments(n, drawn).size
    return Basis(elements, recipe, read_axes(file, size, n, recipe.rank), maps, drawn)


def read_elements(header: Mapping[str, Any]) -> tuple[int, ...]:
    """Atomic numbers of a header; a KeyError unless they ascend and are those of elements."""
    elements = tuple(header["elements"])
    known = all(type(z) is int and 1 <= z <= HEAVIEST for z in elements)
    if not elements or not known or list(elements) != sorted({*elements}):
        raise KeyError(f"elements {list(elements)[:10]}")
    return elements


def read_axes(file: Any, size: int, n_elements: int, rank: int) -> Projection:
    """Axes of all elements."""
    matrices = read_tensor(file, "projection", (n_elements, size, rank))
    return Projection(matrices, read_tensor(file, "explained", (n_elements,)))


def read_baseline(file: Any, elements: tuple[int, ...], name: str) -> Baseline:
    """Reference energies."""
    return Baseline(elements, read_tensor(file, name, (len(elements),)))


def read_tensor(file: Any, name: str, shape: tuple[int, ...]) -> Tensor:
    """Tensor of that name; a KeyError if it is missing, has another shape, or is not finite."""
    if name not in file.keys():  # noqa: SIM118 (not a dict)
        raise KeyError(name)
    tensor: Tensor = file.get_tensor(name)
    if tuple(tensor.shape) != shape:
        raise KeyError(f"{name} of shape {shape}, found {tuple(tensor.shape)}")
    if not all_finite(tensor):
        raise KeyError(f"{name} without NaN and infinity")
    return tensor
