"""Provenance of a model: its data, its plan, its solution, and the software that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from typing import Any

import torch


@dataclass(frozen=True)
class Provenance:
    """How a model came to be, for people to read. Fields that are empty are not written to files."""

    data: dict[str, Any] = field(default_factory=dict)  # sources of the structures
    targets: dict[str, int] = field(default_factory=dict)  # number of rows of each kind of label
    solution: dict[str, Any] = field(default_factory=dict)  # report of the solver
    structures: int = 0
    atoms: int = 0
    threads: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    kernels: str = ""
    device: str = ""
    choice: dict[str, Any] | None = None  # trials that speak for the recipe; None: it was given
    plan: dict[str, Any] | None = None  # solver with its cost and the reason
    seconds: float | None = None
    more: dict[str, Any] = field(default_factory=dict)  # entries of files that this version does not know

    @classmethod
    def here(cls, **known: Any) -> Provenance:
        """Provenance with the threads and versions of this process."""
        versions = {"qml-lightning": version("qml-lightning"), "torch": torch.__version__}
        return cls(threads=torch.get_num_threads(), versions=versions, **known)

    def as_dict(self) -> dict[str, Any]:
        """Entries of the JSON header of a file."""
        known = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "more"}
        empty: tuple[Any, ...] = (None, "", {}, 0)
        return {name: value for name, value in known.items() if value not in empty} | self.more

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Provenance:
        """The provenance that `as_dict` wrote."""
        names = {f.name for f in fields(cls)} - {"more"}
        known = {name: value for name, value in values.items() if name in names}
        return cls(**known, more={name: value for name, value in values.items() if name not in names})
