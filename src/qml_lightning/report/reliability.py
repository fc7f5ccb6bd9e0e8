"""Predicted uncertainties against errors: what a report says and draws about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..model.metrics import SCALES, UNITS, WORDS, shown
from ..study.calibration import Calibrated, calibrated_with, sparsified
from .drawing import curves
from .page import columns, details, paragraph, table
from .series import Curves

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..model.predictor import Prediction

BINS = 8  # of predicted uncertainties
FEWEST_JUDGED = 20  # errors: coverage and ranking of fewer say nothing
TITLES = {"forces": "Forces", "energy_per_atom": "Energies"}


@dataclass(frozen=True)
class Reliability:
    """Errors of one kind beside the standard deviations that were predicted for them."""

    quantity: str
    things: str  # what has one deviation: atoms, structures
    bins: Sequence[tuple[str, ...]]  # number, predicted, RMSE, errors within
    by_bin: Curves
    judged: Calibrated | None  # None of few errors
    ranking: Curves | None


def reliabilities(data: Dataset, prediction: Prediction) -> list[Reliability]:
    """Reliability of forces and of energies, as far as labels and uncertainties are known."""
    labels, n, found = data.labels, data.structures.counts.numpy(), []
    if prediction.force_uncertainty is not None and labels.forces is not None and prediction.forces is not None:
        wrong = (prediction.forces - labels.forces).numpy()
        found.append(_reliability("forces", "atoms", wrong, prediction.force_uncertainty.numpy()))
    if prediction.energy_uncertainty is not None and labels.energies is not None:
        wrong = (prediction.energies - labels.energies).numpy() / n
        told = prediction.energy_uncertainty.numpy() / n
        found.append(_reliability("energy_per_atom", "structures", wrong[:, None], told))
    return [one for one in found if one is not None]


def _reliability(quantity: str, things: str, wrong: np.ndarray, told: np.ndarray) -> Reliability | None:
    """RMSE in bins of equal size by deviation. `wrong` (n, components), `told` (n,)."""
    known = np.isfinite(wrong).all(1) & np.isfinite(told)
    order = np.flatnonzero(known)[np.argsort(told[known], kind="stable")]
    if len(order) == 0:
        return None
    rows, deviations, errors = [], [], []
    for part in np.array_split(order, min(BINS, len(order))):
        rmse, deviation = float(np.sqrt(np.square(wrong[part]).mean())), float(told[part].mean())
        deviations.append(SCALES[quantity] * deviation)
        errors.append(SCALES[quantity] * rmse)
        within = float((np.abs(wrong[part]) <= told[part, None]).mean())
        rows.append((f"{len(part):,}", shown(quantity, deviation), shown(quantity, rmse), f"{within:.0%}"))
    unit = UNITS[quantity]
    by_bin = Curves(
        {"": (np.array(deviations), np.array(errors))}, f"predicted ({unit})", f"{WORDS[quantity]} RMSE ({unit})",
        f"{things.capitalize()} in bins by their predicted standard deviation. Good: points near the dashed line, "
        "where predicted and actual errors are equal. Above it, uncertainties are too small.",
        identity=True,
    )  # fmt: skip
    judged, ranking = _judged(things, wrong[order], told[order]) if len(order) >= FEWEST_JUDGED else (None, None)
    return Reliability(quantity, things, rows, by_bin, judged, ranking)


def _judged(things: str, wrong: np.ndarray, told: np.ndarray) -> tuple[Calibrated | None, Curves | None]:
    """Coverage, miscalibration and likelihood, and the sparsification curve."""
    if not (told > 0).all() or not np.abs(wrong).max() > 0:
        return None, None
    kept = np.arange(1, 1 + len(told)) / len(told)
    shown_at = np.unique(np.linspace(len(told) // 20, len(told) - 1, 20).astype(int))
    names = ("by predicted uncertainty", "by error: the best ranking")
    lines = zip(names, sparsified(np.linalg.norm(wrong, axis=1), told), strict=True)
    ranking = Curves(
        {name: (kept[shown_at], line[shown_at]) for name, line in lines},
        f"part of the {things} that is kept", "mean error / that of all",
        "Sparsification: the most uncertain are left out first. Good: the line falls to the left, as that of the best "
        "ranking does. A flat line: the uncertainties do not tell which predictions are wrong.",
        logarithmic=False,
    )  # fmt: skip
    return calibrated_with(wrong, told), ranking


def in_words(judged: Calibrated) -> list[str]:
    """Sentences with the figures, what is good, and what to do if they are not."""
    gain = f"{abs(judged.likelihood_gain):.2f} {'higher' if judged.likelihood_gain >= 0 else 'lower'}"
    return [
        f"Coverage: {judged.within_1:.0%} of the errors lie within one predicted standard deviation and "
        f"{judged.within_2:.0%} within two. Good: about 68% and 95%. Fewer: the uncertainties are too small for these "
        "structures. Add some of them to the training set, or read the uncertainties as a ranking only. More: they are "
        "too large, which is safe.",
        f"Miscalibration: coverage is off by {100 * judged.miscalibration:.1f} percentage points, on average over "
        "intervals of all widths. Good: a few points.",
        f"Worth: the log-likelihood of an error is {gain} than with the same standard deviation for all. Good: higher. "
        "If it is lower, one number for all structures, the RMSE, tells as much.",
    ]


def uncertainty(data: Dataset, prediction: Prediction) -> str:
    """The part of the page; nothing if no uncertainties are known."""
    return "".join(map(_part, reliabilities(data, prediction)))


def _part(one: Reliability) -> str:
    unit = UNITS[one.quantity]
    drawn = [curves(**vars(found)) for found in (one.by_bin, one.ranking) if found is not None]
    heads = (one.things, f"predicted ({unit})", f"RMSE ({unit})", "errors within")
    words = "".join(map(paragraph, in_words(one.judged) if one.judged else []))
    bins = details("Numbers of the bins", table(heads, one.bins, right=range(4)))
    return f"<h3>{TITLES[one.quantity]}</h3>{words}{columns(*drawn)}{bins}"
