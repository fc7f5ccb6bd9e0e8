"""Representations of atomic environments: the interface of a kind, and the table of kinds.

A new kind needs a file here, with its parameters and presets, a row in `KINDS`, and kernels of its own in `kernels`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Protocol

from torch import Tensor

from ...kernels import RepresentationArguments
from . import density, fchl19
from .density import Density, Sample
from .fchl19 import FCHL19


class Representation(Protocol):
    """Parameters of a representation: a frozen dataclass that checks itself."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    kind: ClassVar[str]  # its name in model files, and the family of kernels that compute it
    norm_to_lose: ClassVar[float]  # part of the squared norm that the axes of a projection may lose at no cost
    most_axes: ClassVar[int]  # number of axes beyond which nothing is gained

    @property
    def cutoff(self) -> float:
        """Largest distance of a neighbour that counts, in Å."""

    def draw(self, n_elements: int, seed: int, sample: Sample | None = None) -> dict[str, Tensor]:
        """Tensors that belong to the representation, float64 on the CPU; they are stored with a model.

        `sample` gives environments of the data, for a representation that keeps what suits them.
        """
        ...

    def shapes(self, n_elements: int) -> dict[str, tuple[int, ...]]:
        """Shapes of these tensors."""
        ...

    def arguments(self, n_elements: int, drawn: Mapping[str, Tensor]) -> RepresentationArguments:
        """Arguments of the kernels, for `n_elements` elements; their `size` is the length of the vector."""

    def within(self, cutoff: float) -> Representation:
        """This representation with another cutoff, in Å."""
        ...

    def describe(self) -> str:
        """Parameters in words, for people."""


KINDS: dict[str, type[Representation]] = {FCHL19.kind: FCHL19, Density.kind: Density}
PRESETS: dict[str, Representation] = {**fchl19.PRESETS, **density.PRESETS}
DEFAULT: Representation = density.DENSITY
SMALL: Representation = fchl19.SMALL_SERIES  # for checks of data


def representation_as_dict(representation: Representation) -> dict[str, Any]:
    """Parameters with their kind, for JSON."""
    return {"kind": representation.kind, **asdict(representation)}


def representation_from_dict(values: Mapping[str, Any]) -> Representation:
    """The representation that `representation_as_dict` wrote. Files without a kind are older than the table."""
    parameters = dict(values)
    return KINDS[parameters.pop("kind", FCHL19.kind)](**parameters)
