"""How errors are spread in the report of a model: by element, by group, and against predicted uncertainties."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from ..model.metrics import SCALES, UNITS, WORDS, heading, shown
from ..study.calibration import calibrated_with, sparsified
from .card import symbol
from .drawing import COLOURS, curves, histogram, ranges
from .page import columns, details, paragraph, table
from .points import Compared, by_frequency, voigt

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..model.predictor import Prediction

BINS = 8  # of predicted uncertainties
FEWEST_JUDGED = 20  # errors: coverage and ranking of fewer say nothing
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
    wrong = np.full(data.structures.n_atoms, np.nan)
    if data.labels.forces is not None and prediction.forces is not None:
        wrong = 1e3 * (prediction.forces - data.labels.forces).norm(dim=1).numpy()
        numbers = data.structures.numbers
        for z, colour in zip(by_frequency(numbers), cycle(COLOURS)):  # colours of the plot of forces
            words = f"length of the force error on {symbol(z)} (meV/Å)"
            parts.append(histogram(wrong[(numbers == z).numpy()], words, colour=colour, lengths=True))
    if data.labels.stress is not None and prediction.stress is not None:
        stress = voigt(prediction.stress - data.labels.stress).numpy().ravel()
        parts.append(histogram(SCALES["stress"] * stress, "error of a stress component (GPa)", colour="--soft"))
    owner, groups = data.structures.structure_of_atom.numpy(), _groups(data)
    shown_groups = dict(sorted(groups.items(), key=lambda one: -int(one[1].sum()))[:MOST_GROUPS])
    names = [name for name in groups if name in shown_groups]
    energies = ranges({name: 1e3 * np.abs(errors.energy[groups[name]]) for name in names}, "|energy error| (meV/atom)")
    forces = ranges({name: wrong[groups[name][owner]] for name in names}, "length of the force error (meV/Å)")
    grouped = columns(energies, forces)
    return columns(*parts) + (f"<h3>By group (config_type)</h3>{grouped}" if grouped else "")


def _groups(data: Dataset) -> dict[str, np.ndarray]:
    """Structures of each group, by name, as masks; empty if there are not several groups."""
    if data.groups is None or len(set(data.groups.tolist())) < 2:
        return {}
    return {str(name) or "(none)": data.groups == name for name in sorted(set(data.groups.tolist()))}


def uncertainty(data: Dataset, prediction: Prediction) -> str:
    """Errors of forces and energies in bins of equal size by their predicted standard deviation; nothing if unknown."""
    labels, n, parts = data.labels, data.structures.counts.numpy(), []
    if prediction.force_uncertainty is not None and labels.forces is not None and prediction.forces is not None:
        wrong = (prediction.forces - labels.forces).numpy()
        parts.append(_against("forces", "atoms", wrong, prediction.force_uncertainty.numpy()))
    if prediction.energy_uncertainty is not None and labels.energies is not None:
        wrong = (prediction.energies - labels.energies).numpy() / n
        told = prediction.energy_uncertainty.numpy() / n
        parts.append(_against("energy_per_atom", "structures", wrong[:, None], told))
    return "".join(parts)


def _against(quantity: str, things: str, wrong: np.ndarray, told: np.ndarray) -> str:
    """RMSE against predicted deviations, drawn and as a table. `wrong` (n, components), `told` (n,)."""
    known = np.isfinite(wrong).all(1) & np.isfinite(told)
    order = np.flatnonzero(known)[np.argsort(told[known], kind="stable")]
    if len(order) == 0:
        return ""
    rows, deviations, errors = [], [], []
    for part in np.array_split(order, min(BINS, len(order))):
        rmse, deviation = float(np.sqrt(np.square(wrong[part]).mean())), float(told[part].mean())
        deviations.append(SCALES[quantity] * deviation)
        errors.append(SCALES[quantity] * rmse)
        within = float((np.abs(wrong[part]) <= told[part, None]).mean())
        rows.append((f"{len(part):,}", shown(quantity, deviation), shown(quantity, rmse), f"{within:.0%}"))
    unit, title = UNITS[quantity], {"forces": "Forces", "energy_per_atom": "Energies"}[quantity]
    drawn = curves(
        {"": (np.array(deviations), np.array(errors))}, f"predicted ({unit})", f"{WORDS[quantity]} RMSE ({unit})",
        caption=f"{things.capitalize()} in bins by their predicted standard deviation. On the dashed line, predicted "
        "and actual errors are equal.",
        identity=True,
    )  # fmt: skip
    heads = (things, f"predicted ({unit})", f"RMSE ({unit})", "errors within")
    judged, ranked = _judged(things, wrong[order], told[order]) if len(order) >= FEWEST_JUDGED else ("", "")
    bins = details("Numbers of the bins", table(heads, rows, right=range(4)))
    return f"<h3>{title}</h3>{judged}{columns(drawn, ranked)}{bins}"


def _judged(things: str, wrong: np.ndarray, told: np.ndarray) -> tuple[str, str]:
    """Coverage, miscalibration and likelihood in words, and the sparsification curve."""
    if not (told > 0).all() or not np.abs(wrong).max() > 0:
        return "", ""
    found, kept = calibrated_with(wrong, told), np.arange(1, 1 + len(told)) / len(told)
    shown_at = np.unique(np.linspace(len(told) // 20, len(told) - 1, 20).astype(int))
    gain = f"{abs(found.likelihood_gain):.2f} {'higher' if found.likelihood_gain >= 0 else 'lower'}"
    names = ("by predicted uncertainty", "by error: the best ranking")
    lines = zip(names, sparsified(np.linalg.norm(wrong, axis=1), told), strict=True)
    text = (
        f"{found.within_1:.0%} of the errors lie within one predicted standard deviation and {found.within_2:.0%} "
        "within two; in a normal distribution it would be 68% and 95%. Over all intervals, coverage is off by "
        f"{100 * found.miscalibration:.1f} percentage points on average (miscalibration). "
        f"The log-likelihood of an error is {gain} than with the same standard deviation for all."
    )
    drawn = curves(
        {name: (kept[shown_at], line[shown_at]) for name, line in lines},
        f"part of the {things} that is kept", "mean error, as a part of that of all",
        caption="Sparsification: the most uncertain are left out first.", logarithmic=False,
    )  # fmt: skip
    return paragraph(text), drawn
