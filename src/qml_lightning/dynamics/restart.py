"""Restart files of molecular dynamics: atoms, velocities and random numbers at one step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..errors import InputError, ModelError
from ..machine.tensors import open_tensors, write_tensors

if TYPE_CHECKING:
    from ase import Atoms

FORMAT, VERSION = "qml-lightning-dynamics", 2  # 1: without replicas


@dataclass(frozen=True)
class RestartPoint:
    """State of a run after a step."""

    step: int
    settings: dict[str, Any]  # of the run: another run must not go on from it
    model: str  # checksum of the model file
    random: list[dict[str, Any]]  # state of the random numbers of each replica
    files: list[dict[str, int]]  # of each: bytes of text files, and frames of a .traj file, up to this step

    def write(self, path: Path, atoms: Atoms) -> None:
        """Write this state with positions, momenta and cell, atomically."""
        header = {
            "format_version": VERSION,
            "step": self.step,
            "settings": self.settings,
            "model": self.model,
            "random": self.random,
            "files": self.files,
        }
        arrays = {"positions": atoms.positions, "momenta": atoms.get_momenta(), "cell": atoms.cell.array}
        tensors = {name: torch.from_numpy(np.array(values, dtype=np.float64)) for name, values in arrays.items()}
        tensors["numbers"] = torch.from_numpy(atoms.numbers.astype(np.int64))
        write_tensors(path, FORMAT, header, tensors, overwrite=True)


def read_restart(path: Path, atoms: Atoms) -> RestartPoint:
    """The state in a file; `atoms` are moved to where it left them. An InputError if they are other atoms."""
    with open_tensors(path, FORMAT, VERSION, "restart") as (header, file):
        tensors = {name: file.get_tensor(name).numpy() for name in ("positions", "momenta", "cell", "numbers")}
        random, files = (_each(header[name]) for name in ("random", "files"))
        point = RestartPoint(header["step"], header["settings"], header["model"], random, files)
        n = len(tensors["numbers"])
        wanted = {"positions": (n, 3), "momenta": (n, 3), "cell": (3, 3)}
        if any(tensors[name].shape != shape for name, shape in wanted.items()):
            raise ModelError(f"{path} has arrays that do not belong together.")
    if not np.array_equal(tensors["numbers"], atoms.numbers):
        raise InputError(
            f"{path} is the restart file of other atoms. Begin anew in another file, or give its structure."
        )
    atoms.set_cell(tensors["cell"])
    atoms.positions = tensors["positions"]
    atoms.set_momenta(tensors["momenta"])
    return point


def _each(value: Any) -> list[Any]:
    """A value of each replica; version 1 has that of the only one."""
    return value if isinstance(value, list) else [value]


def random_state(rng: np.random.Generator) -> dict[str, Any]:
    """State of a generator as JSON; its numbers have 128 bits and become texts."""
    state: Any = rng.bit_generator.state
    inner = {name: str(value) for name, value in state["state"].items()}
    return {"state": inner, "has_uint32": int(state["has_uint32"]), "uinteger": int(state["uinteger"])}


def random_from(state: dict[str, Any]) -> np.random.Generator:
    """Generator that goes on from that state."""
    bits = np.random.PCG64()
    inner = {name: int(value) for name, value in state["state"].items()}
    whole: Any = {"bit_generator": "PCG64", **state, "state": inner}
    bits.state = whole
    return np.random.Generator(bits)
