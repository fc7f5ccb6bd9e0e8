"""Points of the plots of a report, errors of each structure, and the structures for a 3D view, ready for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..atoms.dataset import Dataset
from ..atoms.fingerprints import geometry_fingerprints, shared_with
from ..atoms.structures import VOIGT
from ..atoms.units import GPA
from ..model.potential import Model
from ..model.predictor import Prediction

# At most this many points in one plot: more would only make the file larger. The worst ones are always among them.
MOST_POINTS = 20_000
# Atoms of all structures in the 3D view: about 25 bytes each in the file.
MOST_ATOMS = 200_000
# Colours of successive kinds of points, as names of the style of a page.
COLOURS = ("--one", "--two", "--three", "--four", "--five", "--six")


@dataclass(frozen=True)
class Compared:
    """Errors of each structure. NaN where a label is missing."""

    energy: np.ndarray  # (structures,) eV per atom, prediction − reference
    force: np.ndarray  # (structures,) mean absolute error of the components, eV/Å
    largest: np.ndarray  # (structures,) length of the largest error of a force, eV/Å
    atom: np.ndarray  # (structures,) atom with that error, counted in its structure; −1 if there is none

    def worst(self, kind: str, n: int) -> list[int]:
        """Structures with the largest errors of a kind, worst first."""
        values = np.abs(getattr(self, kind))
        order = np.argsort(-np.where(np.isfinite(values), values, -1.0), kind="stable")[:n]
        return [int(s) for s in order if np.isfinite(values[s])]


def compared(data: Dataset, prediction: Prediction) -> Compared:
    """Errors of each structure of `data`."""
    structures, labels, n = data.structures, data.labels, len(data)
    energy = np.full(n, np.nan)
    if labels.energies is not None:
        energy = ((prediction.energies - labels.energies) / structures.counts).numpy()
    force, largest, atom = np.full(n, np.nan), np.full(n, np.nan), np.full(n, -1)
    if labels.forces is not None and prediction.forces is not None:
        wrong = prediction.forces - labels.forces
        owner = structures.structure_of_atom
        total = torch.zeros(n, dtype=torch.float64).index_add_(0, owner, wrong.abs().mean(1))
        force = (total / structures.counts).numpy()
        length = wrong.norm(dim=1)
        for s, part in enumerate(length.split(structures.counts.tolist())):
            if bool(part.isfinite().all()):
                largest[s], atom[s] = float(part.max()), int(part.argmax())
    return Compared(energy, force, largest, atom)


def origin(potential: Model, data: Dataset) -> str:
    """Number of structures, and whether the model was trained on them, as far as fingerprints tell."""
    n = f"{len(data):,}"
    if potential.trained_on is None:
        return f"{n} structures"
    seen = len(shared_with(geometry_fingerprints(data.structures), potential.trained_on))
    if seen == len(data):
        return f"{n} training structures"
    return f"{n} structures, {seen:,} of them training structures" if seen else f"{n} structures not seen in training"


def plots(data: Dataset, prediction: Prediction, most: int = MOST_POINTS) -> list[dict[str, Any]]:
    """Plots of predictions against references: energies, forces by element, stress; those that have labels.

    Each has at most `most` points; its mean absolute error is that of all values.
    """
    structures, labels = data.structures, data.labels
    owner = structures.structure_of_atom.numpy()
    made: list[dict[str, Any]] = []
    if labels.energies is not None:
        varied = bool((structures.counts != structures.counts[0]).any())
        scale = structures.counts.double() if varied else torch.ones(len(data), dtype=torch.float64)
        x, y = (labels.energies / scale).numpy(), (prediction.energies / scale).numpy()
        zero = float(np.nanmedian(x))  # the zero of an energy is arbitrary: show only how it varies
        words = "energy per atom − median" if varied else "energy − median"
        units = ("eV/atom", "meV/atom", 1e3) if varied else ("eV", "meV", 1e3)
        made.append(
            _plot("energy", words, units, (x - zero, y - zero), np.arange(len(data)), None, _groups(data), most)
        )
    if labels.forces is not None and prediction.forces is not None:
        x, y = labels.forces.numpy().ravel(), prediction.forces.numpy().ravel()
        atoms = np.arange(structures.n_atoms) - structures.offsets[:-1].numpy()[owner]
        made.append(
            _plot("forces", "force component", ("eV/Å", "meV/Å", 1e3), (x, y), np.repeat(owner, 3),
                  np.repeat(atoms, 3), _elements(structures.numbers), most)
        )  # fmt: skip
    if labels.stress is not None and prediction.stress is not None:
        x, y = (
            torch.stack([t[:, a, b] for a, b in VOIGT], 1).numpy().ravel() / GPA
            for t in (labels.stress, prediction.stress)
        )
        each = np.repeat(np.arange(len(data)), len(VOIGT))
        made.append(
            _plot("stress", "stress component", ("GPa", "GPa", 1.0), (x, y), each, None, _groups(data, 6), most)
        )
    return made


def _groups(data: Dataset, times: int = 1) -> tuple[list[str], np.ndarray]:
    """Names of up to five groups and `other`, and the number of the name of each point."""
    if data.groups is None or not set(data.groups.tolist()) - {""}:
        return [""], np.zeros(len(data) * times, int)
    names, counts = np.unique(data.groups, return_counts=True)
    kept = [str(name) for name in names[np.argsort(-counts, kind="stable")][: len(COLOURS) - 1]]
    all_names = [*kept, "other"] if len(names) > len(kept) else kept
    place = {name: at for at, name in enumerate(kept)}
    return [name or "(none)" for name in all_names], np.repeat(
        [place.get(str(name), len(kept)) for name in data.groups], times
    )


def _elements(numbers: Tensor) -> tuple[list[str], np.ndarray]:
    """Symbols of elements, most frequent first, and the number of the symbol of each force component."""
    from ase.data import chemical_symbols

    found, counts = numbers.unique(return_counts=True)
    order = found[counts.argsort(descending=True, stable=True)].tolist()
    place = {z: at for at, z in enumerate(order)}
    return [chemical_symbols[z] for z in order], np.repeat([place[z] for z in numbers.tolist()], 3)


def _plot(
    name: str,
    words: str,
    units: tuple[str, str, float],
    values: tuple[np.ndarray, np.ndarray],
    owner: np.ndarray,
    atom: np.ndarray | None,
    kinds: tuple[Sequence[str], np.ndarray],
    most: int,
) -> dict[str, Any]:
    """Entries of one plot for JSON. `units`: of values, of errors, and the factor between them."""
    x, y = values
    kept = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    total = len(kept)
    mae = float(np.abs(y - x)[kept].mean()) if total else 0.0
    if total > most:
        worst = kept[np.argsort(-np.abs(y - x)[kept], kind="stable")[: most // 20]]
        rest = np.setdiff1d(kept, worst)
        drawn = np.random.default_rng(0).permutation(len(rest))[: most - len(worst)]
        kept = np.sort(np.concatenate([worst, rest[drawn]]))
    names, kind = kinds
    return {
        "name": name,
        "words": words,
        "unit": units[0],
        "errorUnit": units[1],
        "scale": units[2],
        "total": total,
        "mae": mae,
        "x": [round(float(v), 5) for v in x[kept]],
        "y": [round(float(v), 5) for v in y[kept]],
        "structure": owner[kept].tolist(),
        "atom": None if atom is None else atom[kept].tolist(),
        "kind": kind[kept].tolist(),
        "kinds": [{"name": one, "colour": COLOURS[at % len(COLOURS)]} for at, one in enumerate(names)],
    }


def viewer_script() -> str | None:
    """Source of chemiscope's viewer, from its package; None if that is not installed."""
    spec = find_spec("chemiscope")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "sphinx" / "static" / "chemiscope.min.js"
    return path.read_text(encoding="utf-8") if path.is_file() else None


def viewed(data: Dataset, first: Sequence[int]) -> list[int]:
    """Structures for the 3D view in order: all of them, or as many as the file may hold, `first` among them."""
    counts = data.structures.counts.numpy()
    order = [*dict.fromkeys(first), *(s for s in range(len(data)) if s not in set(first))]
    inside = np.cumsum(counts[order]) <= MOST_ATOMS
    return sorted(int(s) for s, kept in zip(order, inside) if kept)


def viewer_dataset(data: Dataset, errors: Compared, which: Sequence[int], name: str) -> dict[str, Any]:
    """Structures and their errors in the format of chemiscope."""
    from ase.data import chemical_symbols

    structures, listed = data.structures, []
    for s in which:
        own = slice(int(structures.offsets[s]), int(structures.offsets[s + 1]))
        x, y, z = structures.positions[own].numpy().round(3).T.tolist()
        symbols = [chemical_symbols[n] for n in structures.numbers[own].tolist()]
        one: dict[str, Any] = {"size": len(symbols), "names": symbols, "x": x, "y": y, "z": z}
        if bool(structures.periodic[s].any()):
            one["cell"] = structures.cells[s].numpy().round(4).ravel().tolist()
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
