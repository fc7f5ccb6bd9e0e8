"""The learning curve in the report of a model, from the file that `learning-curve -o` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import InputError
from .drawing import curves
from .page import columns, paragraph
from .series import learning_curves


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
    """Errors against the number of structures, with the advice; nothing if unknown."""
    if curve is None:
        return ""
    name = curve.get("data", {}).get("name", "")
    told = paragraph(f"Models of {name} with other numbers of structures and features, on structures held out.", "soft")
    drawn = columns(*(curves(**vars(one)) for one in learning_curves(curve)))
    return told + drawn + paragraph(str(curve.get("advice", "")))
