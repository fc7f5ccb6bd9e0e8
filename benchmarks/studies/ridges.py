"""Best ridge as a fit grows: the rule by which it is carried from smaller fits to the fit itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from qml_lightning import Dataset

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options
from ..harness.entries import grouped
from ..harness.internals import equations_of, representations
from ..harness.models import ENERGY, FORCE, fchl19_recipe, load, rmd17_files, with_features
from ..harness.tables import table
from .ridge_search import best_ridge

QM9 = "QM9, energies"
SIZES = ((32, 512), (64, 1024), (128, 2048), (256, 4096), (512, 8192))  # structures, features
LARGEST = 16384  # features of the guesses below


@dataclass(frozen=True)
class Case:
    """A data set with its width, and the ridge to look near with 16384 features."""

    sigma: float
    guess: float


CASES = {
    "ethanol": Case(8.0, 1e-9),
    "uracil": Case(8.0, 1e-9),
    "benzene": Case(4.0, 1e-9),
    "aspirin": Case(4.0, 1e-7),
    QM9: Case(4.0, 1e-8),
}


def cells(options: Options) -> list[Cell]:
    names = ("ethanol",) if options.quick else CASES
    return [
        {"data": name, "n_train": 1000 * n // 64 if name == QM9 else n, "n_features": n_features}
        for name in names
        for n, n_features in SIZES[: 2 if options.quick else None]
    ]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    case = CASES[cell["data"]]
    train, valid = _data(cell["data"], options)
    changes = {"representation": representations.ENERGIES} if cell["data"] == QM9 else {}
    recipe = with_features(fchl19_recipe(cell["n_features"], **changes), sigma=case.sigma)
    equations = equations_of(train.subsample(cell["n_train"], seed=0), recipe)
    near = case.guess * (LARGEST / cell["n_features"]) ** 2.7
    ridge, found = best_ridge(equations, recipe, valid, near)
    return {"log10_ridge": ridge, **found, "sigma": case.sigma}


def _data(name: str, options: Options) -> tuple[Dataset, Dataset]:
    """Training and validation structures, of another split (02) than the one that the choice is tried on."""
    if name == QM9:
        train, valid = load("qm9:train_pool").split((16_000, 1000), seed=3)
        return train, valid
    valid = load(f"rmd17_{name}:test_02").subsample(50 if options.quick else 300, seed=0)
    return load(f"rmd17_{name}:train_02"), valid


def powers(entries: list[Entry]) -> dict[str, float]:
    """Slopes of log(ridge) against log(features), and against log(error): of the forces, or else of the energies."""
    ridges = [entry["log10_ridge"] for entry in entries]
    against = {
        "of features": [math.log10(entry[CELL]["n_features"]) for entry in entries],
        "of error": [math.log10(entry.get(FORCE, entry[ENERGY])) for entry in entries],
    }
    return {name: float(np.polyfit(values, ridges, 1)[0]) for name, values in against.items()}


def tables(entries: list[Entry]) -> str:
    rows = []
    for (name,), there in grouped(entries, "data").items():
        if len(there) > 1:
            rows.append([name, *(f"{power:.2f}" for power in powers(there).values())])
    return table(["the ridge falls with", "a power of the number of features", "of the error"], rows)


RIDGES = Benchmark(
    "ridges",
    "Best ridge as a fit grows",
    "Structures and features grow in the same proportion. The ridge of each size is the bottom of a parabola through "
    "the best half decade and its neighbours, judged on structures of another split (02) than the one that the choice "
    "is tried on.",
    cells, measure, tables,
    needs=(*rmd17_files(*(name for name in CASES if name != QM9)), "qm9/qm9.npz"),
)  # fmt: skip
