"""Own weights for each element beside shared ones, in a fit that iterates: errors, and time of the fit."""

from __future__ import annotations

from typing import Any

from qml_lightning import recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.models import ENERGY, FORCE, fitted, load, mae, rmd17_files, with_features
from ..harness.tables import table

MOLECULES = ("aspirin", "ethanol")
WEIGHTS = {"shared": False, "own": True}
N_TRAIN, N_VALID, N_FEATURES = 400, 200, 8192


def cells(options: Options) -> list[Cell]:
    return [
        {"molecule": molecule, "weights": weights, "n_features": 512 if options.quick else N_FEATURES}
        for molecule in MOLECULES
        for weights in WEIGHTS
    ]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    sizes = (30, 20) if options.quick else (N_TRAIN, N_VALID)
    train, valid = load(f"rmd17_{cell['molecule']}:train_01").split(sizes, seed=0)
    start = with_features(recipes.DEFAULT, cell["n_features"], blocks=WEIGHTS[cell["weights"]])
    free = tuple(name for name in recipes.CHOOSABLE if name != "blocks")
    search = recipes.Automatic(start, free).changed({"solver": "iterative"})
    potential, about = fitted(train, search)
    return {**mae(potential, valid), **about, "n_weights": len(potential.weights)}


def tables(entries: list[Entry]) -> str:
    rows = [
        [cell["molecule"], cell["weights"], f"{entry['n_weights']:,}", f"{entry[ENERGY]:.2f}", f"{entry[FORCE]:.2f}",
         f"{entry['steps']}", f"{entry['fit_seconds']:.0f}"]
        for entry in succeeded(entries)
        for cell in (entry[CELL],)
    ]  # fmt: skip
    head = ["", "weights of each element", "weights", "energy MAE meV", "force MAE meV/Å", "steps", "fit and choice, s"]
    return table(head, rows)


OWN_WEIGHTS = Benchmark(
    "own_weights",
    "Own weights for each element",
    f"rMD17, {N_TRAIN} structures of train_01 learnt, {N_VALID} others of it predicted, {N_FEATURES} features, by the "
    "iterative solver, everything else chosen from the data. A prediction computes the same features either way.",
    cells, measure, tables, needs=rmd17_files(*MOLECULES), timing=True,
)  # fmt: skip
