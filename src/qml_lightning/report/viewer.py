"""Structures for the 3D view of a report, and its script: that of chemiscope."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..atoms.dataset import Dataset
from ..model.predictor import Prediction
from .points import Compared

# Atoms of all structures in the 3D view: about 25 bytes each in the file.
MOST_ATOMS = 200_000
# Atoms up to which the page holds their forces, for arrows: about 35 bytes each.
MOST_ARROWS = 50_000
# Text in the source of chemiscope → what replaces it: calls of static/view.js. By itself it shows the middle half of a
# structure, or of 10 Å if that is more, so that most molecules are cut and the smallest are tiny; and it marks an atom
# only where all others become grey and the properties of the structure are hidden.
CALLS = {
    "this._viewer.zoomTo(),this._viewer.zoom(2),": "qmlView.fitted(this._viewer,this._current),",
    'this._options.axes.changed("JS"),this.resize(),': 'this._options.axes.changed("JS"),this.resize(),'
    "qmlView.loaded(this._viewer,this._current),",
}


def viewer_script() -> str | None:
    """Source of chemiscope's viewer, from its package, with the calls of ours in it; None if not installed."""
    spec = find_spec("chemiscope")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "sphinx" / "static" / "chemiscope.min.js"
    if not path.is_file():
        return None
    source = path.read_text(encoding="utf-8")
    for told, instead in CALLS.items():
        source = source.replace(told, instead)
    return source


def viewed(data: Dataset, first: Sequence[int]) -> list[int]:
    """Structures for the 3D view in order: all of them, or as many as the file may hold, `first` among them."""
    counts = data.structures.counts.numpy()
    order = [*dict.fromkeys(first), *(s for s in range(len(data)) if s not in set(first))]
    inside = np.cumsum(counts[order]) <= MOST_ATOMS
    return sorted(int(s) for s, kept in zip(order, inside) if kept)


def _flat(positions: np.ndarray) -> np.ndarray:
    """Rotation (3, 3) that lays a molecule on the screen, its longest axis across."""
    centred = positions - positions.mean(0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    # of the two directions of an axis the one towards more distant atoms, so that frames of one molecule look alike
    turn = axes * np.where(((centred @ axes) ** 3).sum(0) < 0, -1.0, 1.0)
    turn[:, 2] *= np.linalg.det(turn)  # no mirror image
    return turn


def _longest_across(cell: np.ndarray) -> np.ndarray:
    """Rotation (3, 3) by whole axes that puts the longest edge of a cell across the screen."""
    longest = int(np.abs(cell).max(0).argmax())
    return np.roll(np.eye(3), -longest, axis=0).T


def _turn(data: Dataset, s: int) -> np.ndarray:
    """Rotation (3, 3) of a structure for the view."""
    structures, own = data.structures, slice(int(data.structures.offsets[s]), int(data.structures.offsets[s + 1]))
    if bool(structures.periodic[s].any()):
        return _longest_across(structures.cells[s].numpy())
    return _flat(structures.positions[own].numpy())


def arrows(data: Dataset, prediction: Prediction, which: Sequence[int]) -> dict[str, list[list[int]]] | None:
    """Forces of the structures in the view, turned as they are, in meV/Å; None without them or for too many atoms."""
    reference, predicted, offsets = data.labels.forces, prediction.forces, data.structures.offsets.tolist()
    if reference is None or predicted is None or sum(offsets[s + 1] - offsets[s] for s in which) > MOST_ARROWS:
        return None
    turns = [(slice(offsets[s], offsets[s + 1]), _turn(data, s)) for s in which]
    return {
        name: [
            np.rint(1e3 * np.nan_to_num(forces[own].numpy()) @ turn).astype(int).ravel().tolist() for own, turn in turns
        ]
        for name, forces in (("reference", reference), ("predicted", predicted))
    }


def viewer_dataset(data: Dataset, errors: Compared, which: Sequence[int], name: str) -> dict[str, Any]:
    """Structures and their errors in the format of chemiscope."""
    from ase.data import chemical_symbols

    structures, listed = data.structures, []
    for s in which:
        own = slice(int(structures.offsets[s]), int(structures.offsets[s + 1]))
        positions, cell = structures.positions[own].numpy(), structures.cells[s].numpy()
        periodic, turn = bool(structures.periodic[s].any()), _turn(data, s)
        x, y, z = (positions @ turn).round(3).T.tolist()
        symbols = [chemical_symbols[n] for n in structures.numbers[own].tolist()]
        one: dict[str, Any] = {"size": len(symbols), "names": symbols, "x": x, "y": y, "z": z}
        if periodic:
            one["cell"] = (cell @ turn).round(4).ravel().tolist()
        listed.append(one)
    values = {"energy error": (errors.energy, "meV/atom"), "force MAE": (errors.force, "meV/Å")}
    properties = {
        key: {"target": "structure", "values": [round(1e3 * float(v), 3) for v in numbers[list(which)]], "units": unit}
        for key, (numbers, unit) in values.items()
        if np.isfinite(numbers[list(which)]).all()
    }
    properties["structure"] = {"target": "structure", "values": list(which)}
    return {
        "meta": {"name": name},
        "structures": listed,
        "properties": properties,
        "settings": {"target": "structure", "structure": [{"bonds": True, "spaceFilling": False, "unitCell": True}]},
    }
