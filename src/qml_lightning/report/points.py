"""Points of the plots of a report, and errors of each structure, ready for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..atoms.dataset import Dataset
from ..atoms.fingerprints import geometry_fingerprints, shared_with
from ..atoms.structures import VOIGT
from ..atoms.units import GPA
from ..model.baseline import Baseline
from ..model.metrics import SCALES, UNITS, with_unit
from ..model.potential import Model
from ..model.predictor import Prediction
from .card import symbol
from .drawing import COLOURS

# At most this many points in one plot: more would only make the file larger. The worst ones are always among them.
MOST_POINTS = 20_000
# Names of the components in a row of forces and of stress.
COMPONENTS = {"forces": ("x", "y", "z"), "stress": tuple("xyz"[a] + "xyz"[b] for a, b in VOIGT)}


@dataclass(frozen=True)
class Compared:
    """Errors of each structure. NaN where a label is missing."""

    energy: np.ndarray  # (structures,) eV per atom, prediction − reference
    force: np.ndarray  # (structures,) mean absolute error of the components, eV/Å
    stress: np.ndarray  # (structures,) mean absolute error of the components, eV/Å³
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
    stress = np.full(n, np.nan)
    if labels.stress is not None and prediction.stress is not None:
        stress = voigt(prediction.stress - labels.stress).abs().mean(1).numpy()
    return Compared(energy, force, stress, largest, atom)


def voigt(tensors: Tensor) -> Tensor:
    """Components of symmetric tensors, (n, 6)."""
    return torch.stack([tensors[:, a, b] for a, b in VOIGT], 1)


def origin(potential: Model, data: Dataset) -> str:
    """Number of structures, and whether the model was trained on them, as far as fingerprints tell."""
    n, things = f"{len(data):,}", "structure" if len(data) == 1 else "structures"
    if potential.trained_on is None:
        return f"{n} {things}"
    seen = len(shared_with(geometry_fingerprints(data.structures), potential.trained_on))
    if seen == len(data):
        return f"{n} training {things}"
    return f"{n} {things}, {seen:,} of them training structures" if seen else f"{n} {things} not seen in training"


def plots(
    data: Dataset, prediction: Prediction, most: int = MOST_POINTS, *, baseline: Baseline | None = None
) -> list[dict[str, Any]]:
    """Plots of predictions against references: energies, forces by element, stress; those that have labels.

    Each has at most `most` points; its mean absolute error is that of all values. Of structures with various
    compositions, energies are shown past `baseline`: else their differences of 1000 eV would hide all errors.
    """
    structures, labels = data.structures, data.labels
    owner = structures.structure_of_atom.numpy()
    made: list[dict[str, Any]] = []
    if labels.energies is not None:
        varied = bool((structures.counts != structures.counts[0]).any())
        scale = structures.counts.double() if varied else torch.ones(len(data), dtype=torch.float64)
        zero, less = zero_of(data, baseline, scale)
        x, y = ((energies / scale - zero).numpy() for energies in (labels.energies, prediction.energies))
        words = f"{'energy per atom' if varied else 'energy'} − {less}"
        units = ("eV/atom", "meV/atom", 1e3) if varied else ("eV", "meV", 1e3)
        made.append(_plot("energy", words, units, (x, y), np.arange(len(data)), None, _groups(data), most))
    if labels.forces is not None and prediction.forces is not None:
        x, y = labels.forces.numpy().ravel(), prediction.forces.numpy().ravel()
        atoms = np.arange(structures.n_atoms) - structures.offsets[:-1].numpy()[owner]
        made.append(
            _plot("forces", "force component", ("eV/Å", "meV/Å", 1e3), (x, y), np.repeat(owner, 3),
                  np.repeat(atoms, 3), _elements(structures.numbers), most)
        )  # fmt: skip
    if labels.stress is not None and prediction.stress is not None:
        x, y = (voigt(t).numpy().ravel() / GPA for t in (labels.stress, prediction.stress))
        each = np.repeat(np.arange(len(data)), len(VOIGT))
        made.append(
            _plot("stress", "stress component", ("GPa", "GPa", 1.0), (x, y), each, None, _groups(data, 6), most)
        )
    return made


def zero_of(data: Dataset, baseline: Baseline | None, scale: Tensor) -> tuple[Tensor, str]:
    """Zero of the energies that are shown, which is arbitrary, for each structure; and its name."""
    if baseline is not None:
        zero = baseline.total(data.structures) / scale
        if float(zero.max() - zero.min()) > 1e-6:  # compositions differ
            return zero, "elements"
    assert data.labels.energies is not None
    return (data.labels.energies / scale).nanmedian().expand(len(data)), "median"


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


def by_frequency(numbers: Tensor) -> list[int]:
    """Elements, most frequent first: the order of their colours."""
    found, counts = numbers.unique(return_counts=True)
    return [int(z) for z in found[counts.argsort(descending=True, stable=True)]]


def _elements(numbers: Tensor) -> tuple[list[str], np.ndarray]:
    """Symbols of elements, most frequent first, and the number of the symbol of each force component."""
    order = by_frequency(numbers)
    place = {z: at for at, z in enumerate(order)}
    return [symbol(z) for z in order], np.repeat([place[z] for z in numbers.tolist()], 3)


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
    axes = COMPONENTS.get(name, ())
    quantity = next(one for one, unit in UNITS.items() if unit == units[1])
    return {
        "name": name,
        "words": words,
        "unit": units[0],
        "errorUnit": units[1],
        "scale": units[2],
        "total": total,
        "mae": mae,
        "told": with_unit(quantity, units[2] * mae / SCALES[quantity]),
        "x": [round(float(v), 5) for v in x[kept]],
        "y": [round(float(v), 5) for v in y[kept]],
        "structure": owner[kept].tolist(),
        "atom": None if atom is None else atom[kept].tolist(),
        "axes": list(axes),
        "axis": (kept % len(axes)).tolist() if axes else None,
        "kind": kind[kept].tolist(),
        "kinds": [{"name": one, "colour": COLOURS[at % len(COLOURS)]} for at, one in enumerate(names)],
    }
