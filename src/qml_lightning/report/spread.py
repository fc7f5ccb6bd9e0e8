"""How errors are spread in the report of a model: by element and by group."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from ..model.metrics import SCALES, heading, shown
from .card import symbol
from .drawing import COLOURS, histogram, ranges
from .page import columns, table
from .points import Compared, by_frequency, voigt

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..model.predictor import Prediction

MOST_GROUPS = 24  # in a drawing; the table has all


def by_group(data: Dataset, errors: Compared) -> str:
    """Mean absolute errors of each group (config_type); nothing if there are none."""
    groups, atoms = _groups(data), data.structures.counts.numpy()
    if not groups:
        return ""
    columns_of = {
        "energy_per_atom": (errors.energy, np.ones(len(data))),
        "forces": (errors.force, atoms),
        "stress": (errors.stress, np.ones(len(data))),
    }
    columns_of = {quantity: one for quantity, one in columns_of.items() if np.isfinite(one[0]).any()}
    rows = []
    for name, own in groups.items():
        cells = [name, f"{int(own.sum()):,}"]
        for quantity, (wrong, weights) in columns_of.items():
            known = own & np.isfinite(wrong)
            mean = float(np.average(np.abs(wrong[known]), weights=weights[known])) if known.any() else None
            cells.append("" if mean is None else shown(quantity, mean))
        rows.append(cells)
    heads = ("group", "structures", *(heading(quantity) for quantity in columns_of))
    return "<h3>MAE by group (config_type)</h3>" + table(heads, rows, right=range(1, len(heads)))


def distributions(data: Dataset, prediction: Prediction, errors: Compared) -> str:
    """Histograms of the errors of energies, forces by element and stress; and how far those of each group reach."""
    parts = [histogram(1e3 * errors.energy, "energy error (meV/atom)", colour="--soft")]
    for (z, wrong), colour in zip(
        force_errors(data, prediction).items(), cycle(COLOURS)
    ):  # colours of the plot of forces
        words = f"length of the force error on {symbol(z)} (meV/Å)"
        parts.append(histogram(wrong, words, colour=colour, lengths=True))
    if data.labels.stress is not None and prediction.stress is not None:
        stress = voigt(prediction.stress - data.labels.stress).numpy().ravel()
        parts.append(histogram(SCALES["stress"] * stress, "error of a stress component (GPa)", colour="--soft"))
    grouped = columns(*(ranges(series, label) for label, series in group_errors(data, prediction, errors).items()))
    return columns(*parts) + (f"<h3>By group (config_type)</h3>{grouped}" if grouped else "")


def force_errors(data: Dataset, prediction: Prediction) -> dict[int, np.ndarray]:
    """Lengths of the errors of the forces on each element in meV/Å, the most frequent one first."""
    wrong, numbers = _lengths(data, prediction), data.structures.numbers
    return {} if wrong is None else {z: wrong[(numbers == z).numpy()] for z in by_frequency(numbers)}


def group_errors(data: Dataset, prediction: Prediction, errors: Compared) -> dict[str, dict[str, np.ndarray]]:
    """Errors of each group, by a label with their unit, then by name; of the largest groups, if there are many."""
    owner, groups, n = data.structures.structure_of_atom.numpy(), _groups(data), len(data)
    largest = sorted(groups, key=lambda name: -int(groups[name].sum()))[:MOST_GROUPS]
    kept = {name: own for name, own in groups.items() if name in largest}
    found = {"|energy error| (meV/atom)": (1e3 * np.abs(errors.energy), np.arange(n))}
    if (wrong := _lengths(data, prediction)) is not None:
        found["length of the force error (meV/Å)"] = wrong, owner
    found["mean |stress error| (GPa)"] = SCALES["stress"] * errors.stress, np.arange(n)
    return {
        label: {name: values[own[of]] for name, own in kept.items()}
        for label, (values, of) in found.items()
        if kept and np.isfinite(values).any()
    }


def _lengths(data: Dataset, prediction: Prediction) -> np.ndarray | None:
    """Length of the error of each force, meV/Å; None if there are none."""
    if data.labels.forces is None or prediction.forces is None:
        return None
    return 1e3 * (prediction.forces - data.labels.forces).norm(dim=1).numpy()  # type: ignore[no-any-return]


def _groups(data: Dataset) -> dict[str, np.ndarray]:
    """Structures of each group, by name, as masks; empty if there are not several groups."""
    if data.groups is None or len(set(data.groups.tolist())) < 2:
        return {}
    return {str(name) or "(none)": data.groups == name for name in sorted(set(data.groups.tolist()))}
