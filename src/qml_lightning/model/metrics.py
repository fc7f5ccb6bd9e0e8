"""Errors of a potential on labelled structures, and how they are written: words, units, digits."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..atoms.dataset import Dataset
from ..atoms.structures import VOIGT, Labels, Structures
from ..atoms.units import GPA
from ..errors import InputError
from ..machine.display import one_line, table_html
from .potential import Model
from .predictor import Prediction, Predictor

# Each quantity that has an error: its name in a heading, the unit in which people see it, and that unit in eV and Å, in
# which errors are kept.
WORDS = {"energy": "energy", "energy_per_atom": "energy", "forces": "force", "stress": "stress"}
UNITS = {"energy": "meV", "energy_per_atom": "meV/atom", "forces": "meV/Å", "stress": "GPa"}
SCALES = {"energy": 1e3, "energy_per_atom": 1e3, "forces": 1e3, "stress": 1.0 / GPA}


@dataclass(frozen=True)
class Error:
    """Mean absolute and root mean square error over `n` numbers."""

    mae: float
    rmse: float
    n: int


@dataclass(frozen=True)
class Metrics:
    """Errors of predictions in eV, eV/Å and eV/Å³; None if there are no such labels."""

    structures: int
    atoms: int
    energy: Error | None  # of the total energy, eV
    energy_per_atom: Error | None  # eV
    forces: Error | None  # over components, eV/Å
    stress: Error | None  # over the six components, eV/Å³
    forces_by_element: dict[int, Error]  # by atomic number

    def __repr__(self) -> str:
        known = {name: getattr(self, name) for name in UNITS}
        errors = [f"{WORDS[name]} {with_unit(name, one.mae)}" for name, one in known.items() if one is not None]
        return one_line("Metrics", [f"{self.structures:,} structures, MAE: {', '.join(errors) or 'no labels'}"])

    def _repr_html_(self) -> str:
        rows = [(one.name, one.mae, one.rmse, one.unit, f"{one.n:,}") for one in error_lines(self)]
        title = f"Errors on {self.structures:,} structures, {self.atoms:,} atoms"
        return table_html(title, ("", "MAE", "RMSE", "unit", "values"), rows, right=(1, 2, 4))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, in eV and Å."""
        plain = {name: _plain(getattr(self, name)) for name in UNITS}
        by_element = {str(number): _plain(error) for number, error in self.forces_by_element.items()}
        return {"structures": self.structures, "atoms": self.atoms, **plain, "forces_by_element": by_element}


def _plain(error: Error | None) -> dict[str, float] | None:
    return None if error is None else {"mae": error.mae, "rmse": error.rmse}


def evaluate(potential: Model | Predictor, data: Dataset) -> Metrics:
    """Errors of `potential` on the labels of `data`."""
    if not data.labels.kinds:
        raise InputError("These structures have no energies, forces or stress to compare with. Use labelled ones.")
    prediction = potential.predict(
        data.structures, forces=data.labels.forces is not None, stress=data.labels.stress is not None
    )
    return compare(data.structures, data.labels, prediction)


def compare(structures: Structures, labels: Labels, prediction: Prediction) -> Metrics:
    """Errors of predictions against labels."""
    found = {"energies": prediction.energies, "forces": prediction.forces, "stress": prediction.stress}
    wrong = {kind: found[kind] - getattr(labels, kind) for kind in labels.kinds}  # type: ignore[operator]  # asked for
    energy, forces = wrong.get("energies"), wrong.get("forces")
    stress = None
    if "stress" in wrong:
        # a symmetric tensor has six components
        stress = torch.stack([wrong["stress"][:, a, b] for a, b in VOIGT], 1)
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
    """Error over the finite numbers; None if there are none."""
    if difference is None:
        return None
    known = difference[difference.isfinite()]
    if len(known) == 0:
        return None
    return Error(float(known.abs().mean()), float(known.square().mean().sqrt()), len(known))


@dataclass(frozen=True)
class ErrorLine:
    """One line of an error table, as text."""

    name: str
    mae: str
    rmse: str
    unit: str
    n: int  # labels compared


def error_lines(metrics: Metrics) -> list[ErrorLine]:
    """Lines of an error table: each kind of label, and the forces on each element if there are several elements."""
    from ase.data import chemical_symbols

    lines = []
    for quantity, unit in UNITS.items():
        found = {quantity.replace("_", " "): getattr(metrics, quantity)}
        if quantity == "forces" and len(metrics.forces_by_element) > 1:
            found |= {f"  on {chemical_symbols[z]}": error for z, error in sorted(metrics.forces_by_element.items())}
        lines += [
            ErrorLine(name, shown(quantity, error.mae, 4), shown(quantity, error.rmse, 4), unit, error.n)
            for name, error in found.items()
            if error is not None
        ]
    return lines


def heading(quantity: str) -> str:
    """Heading of a column of errors, such as `force (meV/Å)`."""
    return f"{WORDS[quantity]} ({UNITS[quantity]})"


def with_unit(quantity: str, value: float, uncertainty: float | None = None) -> str:
    """An error in eV and Å as text, such as `12.3 meV/Å`, or `12.3 ± 1.2 meV/Å`."""
    spread = f" ± {shown(quantity, uncertainty, 2)}" if uncertainty else ""
    return f"{shown(quantity, value)}{spread} {UNITS[quantity]}"


def mean_and_spread(quantity: str, values: Sequence[float]) -> str:
    """Mean and standard deviation of some errors, such as `12.3 ± 0.40`; of one error only its value."""
    spread = f" ± {shown(quantity, statistics.stdev(values), 2)}" if len(values) > 1 else ""
    return shown(quantity, statistics.fmean(values)) + spread


def shown(quantity: str, value: float, digits: int = 3) -> str:
    """An error in eV and Å as a number of its unit in so many significant digits; larger ones are whole: `12,345`."""
    value *= SCALES[quantity]
    if abs(value) >= 10**digits - 0.5:  # from here on, the number of digits would ask for a power of ten
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}".removesuffix(".")
