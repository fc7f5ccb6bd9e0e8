"""Curves of a report as numbers: errors against ridges and against training structures, for pages and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..model.metrics import SCALES, UNITS, WORDS
from .card import settings_of


@dataclass(frozen=True)
class Curves:
    """Points (x, y) of several series and the words around them."""

    series: dict[str, tuple[np.ndarray, np.ndarray]]  # by name
    across: str
    up: str
    caption: str = ""
    identity: bool = False  # with the line y = x
    logarithmic: bool = True  # axes

    @property
    def drawable(self) -> bool:
        """Whether a series has two points."""
        return any(len(x) > 1 for x, _ in self.series.values())


def ridge_curves(provenance: dict[str, Any]) -> list[Curves]:
    """Errors with each ridge relative to the smallest: in the trials of the chosen settings, and in the fit itself."""
    made, choice = [], provenance.get("choice")
    if choice is not None:
        best = choice["best"]
        same = [t for t in choice["trials"] if t["size"] == best["size"] and settings_of(t) == settings_of(best)]
        by_ridge = {trial["ridge"]: trial["errors"] for trial in [*same, best] if trial["ridge"] > 0}
        series = {kind: {r: errors[kind] for r, errors in by_ridge.items()} for kind in best["errors"]}
        made.append(_relative(series, "MAE / smallest MAE", "Trials with the settings that were chosen."))
    tried = provenance.get("solution", {}).get("ridges", [])
    of_fit = {"all labels by their weights": {one["ridge"]: one["left_out"] for one in tried if one["ridge"] > 0}}
    made.append(_relative(of_fit, "RMSE / smallest RMSE", "The fit itself, on structures left out."))
    return [one for one in made if one.drawable]


def _relative(series: dict[str, dict[float, float]], up: str, caption: str) -> Curves:
    """Errors by ridge relative to the smallest of their kind; none of a single ridge."""
    found = {
        name: (np.array(list(errors)), np.array(list(errors.values())) / (min(errors.values()) or 1.0))
        for name, errors in series.items()
        if len(errors) > 1
    }
    return Curves(found, "ridge", up, caption)


def learning_curves(curve: dict[str, Any] | None) -> list[Curves]:
    """Errors against the number of structures, a line for each number of features; several seeds by their mean.

    `curve`: content of a file of `learning-curve`.
    """
    if curve is None:
        return []
    models, made = curve["models"], []
    many = sorted({one["features"] for one in models})
    sizes = sorted({one["structures"] for one in models})
    for quantity in ("energy", "energy_per_atom", "forces", "stress"):
        if models[0].get(f"{quantity}_mae") is None:
            continue
        series = {
            f"{features:,} features": (
                np.array(sizes, float),
                np.array([SCALES[quantity] * _mean(models, quantity, features, n) for n in sizes]),
            )
            for features in many
        }
        made.append(Curves(series, "training structures", f"{WORDS[quantity]} MAE ({UNITS[quantity]})"))
    return made


def _mean(models: list[dict[str, Any]], quantity: str, features: int, structures: int) -> float:
    own = [one[f"{quantity}_mae"] for one in models if (one["features"], one["structures"]) == (features, structures)]
    return float(np.mean(own)) if own else float("nan")
