"""The learning curve in the report of a model, from the file that `learning-curve -o` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..model.metrics import SCALES, UNITS, WORDS
from .drawing import curves
from .page import paragraph


def read_curve(path: Path) -> dict[str, Any]:
    """Numbers of a learning curve from its .json; an InputError for any other file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = {"features", "structures"} <= set(found["models"][0])
    except (OSError, ValueError, LookupError, TypeError):
        known = False
    if not known:
        raise InputError(f"{path} has no learning curve. Make one: qml-lightning learning-curve DATA -o curve.json")
    return dict(found)


def learning_part(curve: dict[str, Any] | None) -> str:
    """Errors against the number of structures, a line for each number of features, and the advice; nothing if unknown.

    Several seeds are shown by their mean.
    """
    if curve is None:
        return ""
    models = curve["models"]
    many = sorted({one["features"] for one in models})
    sizes = sorted({one["structures"] for one in models})
    drawn = ""
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
        drawn += f"<div>{curves(series, 'training structures', f'{WORDS[quantity]} MAE ({UNITS[quantity]})')}</div>"
    name = curve.get("data", {}).get("name", "")
    told = paragraph(f"Models of {name} with other numbers of structures and features, on structures held out.", "soft")
    return told + f"<div class=columns>{drawn}</div>" + paragraph(str(curve.get("advice", "")))


def _mean(models: list[dict[str, Any]], quantity: str, features: int, structures: int) -> float:
    own = [one[f"{quantity}_mae"] for one in models if (one["features"], one["structures"]) == (features, structures)]
    return float(np.mean(own)) if own else float("nan")
