"""The automatic choice of a recipe against a full grid, on the eight molecules of rMD17 and on silicon."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from qml_lightning import Dataset, fit, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options
from ..harness.entries import grouped
from ..harness.internals import equations_of, facts, solutions
from ..harness.models import ENERGY, FORCE, RMD17_MOLECULES, fchl19_recipe, load, mae, rmd17_files, with_features
from ..harness.tables import table

SIGMAS, WEIGHTS = (4.0, 8.0, 16.0), (3.0, 10.0, 30.0)
# Ridges by σ: where the best ones of the smaller fits lie, and far to both sides of it.
RIDGES = {4.0: (1e-8, 1e-7, 1e-6, 1e-5), 8.0: (1e-10, 1e-9, 1e-8, 1e-7), 16.0: (1e-10, 1e-9, 1e-8)}
STAGES = ("choice", "default", "grid")
SILICON = "silicon"


def cells(options: Options) -> list[Cell]:
    # as many rows for each feature as 1000 structures have with 16384
    names, n_train, n_features = (("ethanol",), 60, 512) if options.quick else ((*RMD17_MOLECULES, SILICON), 250, 4096)
    return [
        {"data": name, "n_train": n_train, "n_features": n_features, "stage": stage}
        for name in names
        for stage in STAGES
    ]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    train, test = _data(cell["data"], cell["n_train"], options.quick)
    recipe = fchl19_recipe(cell["n_features"])
    if cell["stage"] == "grid":
        return {"grid": _grid(train, test, cell["n_features"])}
    if cell["stage"] == "default":
        return mae(fit(train, recipe), test)
    started = time.perf_counter()
    potential = fit(train, recipes.Automatic(recipe))
    seconds, choice, settings = time.perf_counter() - started, facts(potential)["choice"], potential.recipe
    return {
        **mae(potential, test),
        "chosen": {"sigma": settings.features.sigma, "ridge": settings.ridge, "rank": settings.rank,
                   "energy_weight": settings.energy_weight},
        "predicted": {kind: error * 1e3 for kind, error in choice["predicted"].items()},
        "seconds": {"choice": choice["seconds"], "fit": round(seconds - choice["seconds"], 3)},
        "choice": choice,
    }  # fmt: skip


def _data(name: str, n_train: int, quick: bool) -> tuple[Dataset, Dataset]:
    data, split = ("zuo2020_Si", "") if name == SILICON else (f"rmd17_{name}", "_01")
    train, test = load(f"{data}:train{split}"), load(f"{data}:test{split}")
    if quick:
        train, test = train.split((n_train, 50), seed=0)
    elif n_train < len(train):
        train = train.subsample(n_train, seed=0)
    return train, test


def _grid(train: Dataset, test: Dataset, n_features: int) -> list[dict[str, float]]:
    """Errors at each point; one pass over the data for each width. Ridges that are lost in rounding are left out."""
    points = []
    for sigma in SIGMAS:
        recipe = with_features(fchl19_recipe(n_features), sigma=sigma)
        equations = equations_of(train, recipe)
        for weight in WEIGHTS:
            weighted = replace(recipe, energy_weight=weight)
            for ridge, potential in solutions(equations, weighted, RIDGES[sigma]):
                points.append({"sigma": sigma, "energy_weight": weight, "ridge": ridge, **mae(potential, test)})
    return points


def tables(entries: list[Entry]) -> str:
    rows = []
    for (name,), there in grouped(entries, "data").items():
        by_stage = {entry[CELL]["stage"]: entry for entry in there}
        if {"choice", "grid"} <= by_stage.keys():
            rows.append([name, *_row(by_stage["choice"], by_stage["grid"]["grid"])])
    head = ["", "σ, ridge, weight, rank", "MAE meV / meV/Å", "best of the grid", "ratio", "predicted", "choice / fit"]
    return table(head, rows)


def _row(found: Entry, grid: list[dict[str, float]]) -> list[str]:
    """The choice of one data set beside the best of the grid, energy and force each at a point of its own."""
    chosen, seconds = found["chosen"], found["seconds"]
    best = {kind: min(point[kind] for point in grid) for kind in (ENERGY, FORCE)}
    settings = f"{chosen['sigma']:g}, {chosen['ridge']:.1e}, {chosen['energy_weight']:g}, {chosen['rank']}"
    pairs = ([found[kind] for kind in best], best.values(), [found[kind] / best[kind] for kind in best],
             found["predicted"].values())  # fmt: skip
    errors, grid_errors, ratio, predicted = (" / ".join(f"{value:.2f}" for value in pair) for pair in pairs)
    return [settings, errors, grid_errors, ratio, predicted, f"{seconds['choice'] / seconds['fit']:.2f}"]


CHOICE = Benchmark(
    "choice",
    "The automatic choice against a full grid",
    "The choice sees the training set only. The grid is judged on the test set, as the choice is: nobody who chooses "
    "can know it. It is the best that these features can give there, energy and force each at a point of its own.",
    cells, measure, tables,
    needs=(*rmd17_files(*RMD17_MOLECULES), "zuo2020/Si.npz"),
)  # fmt: skip
