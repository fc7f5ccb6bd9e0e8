"""A system of atoms that move, in eV and Å: shared by the adapters of simulation programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..atoms.structures import Structures
from ..errors import InputError
from ..model.potential import Model, Potential
from ..model.recipe import Precision


def whole_potential(model: str | Path | Model, *, correction: bool = False) -> Model:
    """A model or that of a file. One that only corrects another method is refused unless `correction`."""
    potential = Potential.load(str(model)) if isinstance(model, str | Path) else model
    if not correction:
        potential.refuse_correction()
    return potential


@dataclass(frozen=True)
class Evaluated:
    """Energy and its derivatives."""

    energy: float  # eV
    forces: np.ndarray  # (atoms, 3) eV/Å
    virial: np.ndarray | None  # (3, 3) eV, symmetric derivative of the energy by strain; None without a cell


class MovingAtoms:
    """A model made ready for atoms that move: elements and periodic directions stay, positions and cell change."""

    def __init__(
        self,
        model: str | Path | Model,
        numbers: Sequence[int],
        periodic: Sequence[bool] | bool = False,
        *,
        precision: Precision | None = None,
        skin: float = 0.5,
    ) -> None:
        potential = whole_potential(model)
        if unknown := sorted({int(z) for z in numbers} - set(potential.elements)):
            raise InputError(
                f"The atomic numbers {unknown} are not among those of the model, {list(potential.elements)}. Train on "
                "structures that contain them."
            )
        self.predictor = potential.on(precision=precision, skin=skin)
        self.numbers = torch.tensor([int(z) for z in numbers])
        self.periodic = torch.tensor(np.broadcast_to(np.asarray(periodic, dtype=bool), (3,)).copy())[None]
        self.offsets = torch.tensor([0, len(self.numbers)])

    def evaluate(self, positions: np.ndarray, cell: np.ndarray | None = None) -> Evaluated:
        """Energy, forces and virial; the rows of `cell` are lattice vectors, in Å."""
        given = np.ascontiguousarray(positions, dtype=np.float64)
        if given.shape != (len(self.numbers), 3):
            raise InputError(
                f"Wanted positions of {len(self.numbers)} atoms, got an array of shape {given.shape}. Make a new "
                "object where the number of atoms has changed."
            )
        if cell is None and bool(self.periodic.any()):
            raise InputError(
                "The atoms are periodic, but came without a cell. Give lattice vectors, or periodic=False."
            )
        cells = np.zeros((3, 3)) if cell is None else np.ascontiguousarray(cell, dtype=np.float64)
        structures = Structures(
            self.numbers, torch.from_numpy(given), self.offsets, torch.from_numpy(cells)[None], self.periodic
        )
        whole = structures.has_volume
        prediction = self.predictor.predict(structures, forces=True, stress=whole)
        assert prediction.forces is not None
        virial = None if prediction.stress is None else (prediction.stress[0] * structures.volumes[0]).numpy()
        return Evaluated(prediction.energies.item(), prediction.forces.numpy(), virial)
