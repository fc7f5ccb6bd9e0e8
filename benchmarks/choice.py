"""The automatic choice against a full grid, on the eight molecules of rMD17 and on crystals.

    python benchmarks/choice.py ethanol aspirin --features 4096   # adds these to benchmarks/results/choice_4096.json
    python benchmarks/choice.py ethanol --structures 250          # as many rows for each feature as 1000 with 16384
    python benchmarks/choice.py ethanol --keep-grid               # the choice anew, beside the grid that is there
    python benchmarks/choice.py ethanol --features 512 --quick    # small, on a part of the training set; writes nothing

The choice sees the training set only. The grid is judged on the test set, as the choice is: nobody who chooses can know
it. It is the best that these features can give there, energy and force each at a point of its own.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from common import SHARED_DATA, commit, read, table, write

from qml_lightning import Dataset, Recipe, evaluate, fit, load_dataset, recipes
from qml_lightning.baseline import fit_baseline
from qml_lightning.basis import draw, make_basis
from qml_lightning.equations import empty, fingerprints, gather, solved
from qml_lightning.errors import SolveError
from qml_lightning.recipes import Automatic
from qml_lightning.training import Problem

SIGMAS, WEIGHTS = (4.0, 8.0, 16.0), (3.0, 10.0, 30.0)
# By σ: where the best ridges of the smaller fits lie, and far to both sides of it.
RIDGES = {4.0: (1e-8, 1e-7, 1e-6, 1e-5), 8.0: (1e-10, 1e-9, 1e-8, 1e-7), 16.0: (1e-10, 1e-9, 1e-8)}
NAMES = {
    **{name: (f"rmd17_{name}:train_01", f"rmd17_{name}:test_01") for name in (
        "aspirin", "benzene", "ethanol", "malonaldehyde", "naphthalene", "salicylic", "toluene", "uracil")},
    "silicon": ("zuo2020_Si:train", "zuo2020_Si:test"),
}  # fmt: skip


def with_features(recipe: Recipe, **changes: Any) -> Recipe:
    """`recipe` with other features."""
    return replace(recipe, features=replace(recipe.features, **changes))


def errors_of(potential: Any, test: Dataset) -> dict[str, float]:
    """MAE of energy and force in meV and meV/Å."""
    metrics = evaluate(potential, test)
    return {"energy": metrics.energy.mae * 1e3, "forces": metrics.forces.mae * 1e3}


def grid(train: Dataset, test: Dataset, n_features: int) -> list[dict[str, float]]:
    """The errors at each point: one pass over the data for each width."""
    baseline = fit_baseline(train.structures, train.labels.energies, train.structures.elements)
    problem, prints = Problem(train.structures, train.labels, baseline), fingerprints(train.structures, train.labels)
    points = []
    for sigma in SIGMAS:
        recipe = with_features(recipes.DEFAULT, n_features=n_features, sigma=sigma)
        drawn = draw(train.structures, recipe, np.random.default_rng(recipe.seed))
        equations = empty(problem, prints, {}, recipe, drawn, given=False)
        gather(equations, make_basis(equations.elements, recipe, *drawn, "cpu", None), problem, lambda *_: None)
        for weight, ridge in product(WEIGHTS, RIDGES[sigma]):
            settings = replace(recipe, energy_weight=weight, ridge=ridge)
            try:
                found = errors_of(solved(equations, settings), test)
            except SolveError:
                continue  # lost in rounding
            points.append({"sigma": sigma, "energy_weight": weight, "ridge": ridge, **found})
    return points


def compared(
    name: str, n_features: int, n_structures: int | None, quick: bool, before: dict[str, Any] | None
) -> dict[str, Any]:
    """The automatic fit, and the grid beside it, or that of `before`."""
    train, test = (load_dataset(part, data_folder=SHARED_DATA, labels="required") for part in NAMES[name])
    if quick:
        train, test = train.split((100, 100), seed=0)
    elif n_structures is not None and n_structures < len(train):
        train = train.subsample(n_structures, seed=0)
    recipe = with_features(recipes.DEFAULT, n_features=n_features)
    started = time.perf_counter()
    potential = fit(train, Automatic(recipe))
    seconds = time.perf_counter() - started
    choice = potential.provenance["choice"]
    points = grid(train, test, n_features) if before is None else before["grid"]
    mine, settings = errors_of(potential, test), potential.recipe
    best = {kind: min(points, key=lambda point: point[kind]) for kind in mine}
    return {
        "measured_at": commit()["commit"],
        "chosen": {"sigma": settings.features.sigma, "ridge": settings.ridge, "rank": settings.rank,
                   "energy_weight": settings.energy_weight},
        "errors": mine,
        "predicted": {kind: error * 1e3 for kind, error in choice["predicted"].items()},
        "default": errors_of(fit(train, recipe), test) if before is None else before["default"],
        "best_of_grid": best,
        "ratio": {kind: mine[kind] / best[kind][kind] for kind in mine},
        "seconds": {"choice": choice["seconds"], "fit": round(seconds - choice["seconds"], 3)},
        "choice": choice,
        "grid": points,
    }  # fmt: skip


def row(name: str, found: dict[str, Any]) -> list[str]:
    """For the table on the screen."""
    chosen, ratio, seconds = found["chosen"], found["ratio"], found["seconds"]
    settings = f"{chosen['sigma']:g}, {chosen['ridge']:.1e}, {chosen['energy_weight']:g}, {chosen['rank']}"
    errors, best = (
        [f"{part['energy']:.2f}", f"{part['forces']:.2f}"]
        for part in (found["errors"], {kind: point[kind] for kind, point in found["best_of_grid"].items()})
    )
    predicted = " / ".join(f"{error:.2f}" for error in found["predicted"].values())
    share = f"{seconds['choice'] / seconds['fit']:.2f}"
    return [name, settings, " / ".join(errors), " / ".join(best), f"{ratio['energy']:.2f} / {ratio['forces']:.2f}",
            predicted, share]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=NAMES)
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--structures", type=int, help="of the training set; with fewer, each feature has fewer rows")
    parser.add_argument("--keep-grid", action="store_true", help="only the choice is made anew")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    file = f"choice_{options.features}" + (f"_{options.structures}" if options.structures else "")
    found: dict[str, Any] = {}
    for name in options.names:
        before = (read(file) or {"results": {}})["results"].get(name) if options.keep_grid else None
        entry = compared(name, options.features, options.structures, options.quick, before)
        known = None if options.quick else read(file)  # now: others may have been added meanwhile
        found = (found if known is None else known["results"]) | {name: entry}
        if not options.quick:
            write(file, found)
        head = [
            "",
            "σ, ridge, weight, rank",
            "MAE meV / meV/Å",
            "best of the grid",
            "ratio",
            "predicted",
            "choice / fit",
        ]
        print(table(head, [row(name, entry) for name, entry in found.items()]), flush=True)


if __name__ == "__main__":
    main()
