"""Errors of a potential on labelled structures, with units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..atoms.dataset import Dataset
from ..atoms.structures import Labels, Structures
from ..errors import InputError
from .potential import Model
from .predictor import Prediction, Predictor


@dataclass(frozen=True)
class Error:
    """Mean absolute and root mean square error over `n` numbers."""

    mae: float
    rmse: float
    n: int


@dataclass(frozen=True)
class Metrics:
    """Errors in eV, eV/Å and eV/Å³; None where there are no labels."""

    structures: int
    atoms: int
    energy: Error | None  # of the total energy, eV
    energy_per_atom: Error | None  # eV
    forces: Error | None  # over components, eV/Å
    stress: Error | None  # over the nine components, eV/Å³
    forces_by_element: dict[int, Error]  # by atomic number

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        plain = {name: _plain(getattr(self, name)) for name in ("energy", "energy_per_atom", "forces", "stress")}
        by_element = {str(number): _plain(error) for number, error in self.forces_by_element.items()}
        return {"structures": self.structures, "atoms": self.atoms, **plain, "forces_by_element": by_element}


def _plain(error: Error | None) -> dict[str, float] | None:
    return None if error is None else {"mae": error.mae, "rmse": error.rmse}


def evaluate(potential: Model | Predictor, data: Dataset) -> Metrics:
    """Errors of `potential` on the labels of `data`."""
    if not data.labels.kinds:
        raise InputError("These structures have no energies, forces or stress to compare with.")
    prediction = potential.predict(
        data.structures, forces=data.labels.forces is not None, stress=data.labels.stress is not None
    )
    return compare(data.structures, data.labels, prediction)


def compare(structures: Structures, labels: Labels, prediction: Prediction) -> Metrics:
    """Errors of predictions against labels."""
    energy = forces = stress = None
    if labels.energies is not None:
        energy = prediction.energies - labels.energies
    if labels.forces is not None:
        assert prediction.forces is not None
        forces = prediction.forces - labels.forces
    if labels.stress is not None:
        assert prediction.stress is not None
        stress = prediction.stress - labels.stress
    return Metrics(
        len(structures),
        structures.n_atoms,
        _error(energy),
        _error(None if energy is None else energy / structures.counts),
        _error(forces),
        _error(stress),
        {} if forces is None else {z: error for z in structures.elements
                                   if (error := _error(forces[structures.numbers == z]))},
    )  # fmt: skip


def _error(difference: Tensor | None) -> Error | None:
    """None where nothing is known."""
    if difference is None:
        return None
    known = difference[difference.isfinite()]
    if len(known) == 0:
        return None
    return Error(float(known.abs().mean()), float(known.square().mean().sqrt()), len(known))
