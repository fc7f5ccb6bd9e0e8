"""How the best ridge falls as a fit grows: the rule by which it is carried from smaller fits to the fit itself.

    python benchmarks/ridges.py              # minutes; benchmarks/results/ridges.json
    python benchmarks/ridges.py --quick      # seconds; writes nothing

Structures and features grow in the same proportion. The ridge of each size is the bottom of a parabola through the best
half decade and its neighbours, judged on structures of another split (02) than the one that the choice is tried on.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from common import SHARED_DATA, recipe_with, table, write

from qml_lightning import Dataset, Recipe, evaluate, load_dataset, representation
from qml_lightning.equations import equations_of, solved
from qml_lightning.errors import SolveError

# Width and the ridge to look near with 16384 features.
MOLECULES = {"ethanol": (8.0, 1e-9), "uracil": (8.0, 1e-9), "benzene": (4.0, 1e-9), "aspirin": (4.0, 1e-7)}
SIZES = ((32, 512), (64, 1024), (128, 2048), (256, 4096), (512, 8192))
QM9_SIZES = tuple((1000 * n // 64, features) for n, features in SIZES)
QM9_SIGMA, QM9_RIDGE = 4.0, 1e-8


def load(name: str) -> Dataset:
    return load_dataset(name, data_folder=SHARED_DATA, labels="required")


def best_ridge(errors: Callable[[float], list[float]], guess: float) -> tuple[float, list[float]]:
    """log₁₀ of the best ridge, and the errors at the best half decade."""
    known: dict[int, list[float]] = {}

    def score(k: int) -> float:
        if k not in known:
            known[k] = errors(10 ** (k / 2))
        return float(np.log(known[k]).mean())

    k = round(2 * math.log10(guess))
    for step in (1, -1):
        while score(k + step) < score(k):
            k += step
    left, middle, right = (score(k + step) for step in (-1, 0, 1))
    bottom = 0.5 * (left - right) / (left + right - 2 * middle) if math.isfinite(left) else 0.0
    return (k + bottom) / 2, known[k]


def judged(equations: Any, recipe: Recipe, test: Dataset, ridge: float) -> list[float]:
    """MAE of energies, meV, and of forces, meV/Å, if there are any; infinite where the ridge is lost in rounding."""
    try:
        found = evaluate(solved(equations, replace(recipe, ridge=ridge)), test)
    except SolveError:
        return [math.inf]
    return [1e3 * error.mae for error in (found.energy, found.forces) if error is not None]


def curve(train: Dataset, test: Dataset, recipe: Recipe, sizes: Any, guess: float) -> list[dict[str, float]]:
    """The best ridge at each size."""
    points = []
    for n, n_features in sizes:
        sized = replace(recipe, features=replace(recipe.features, n_features=n_features))
        equations = equations_of(train.subsample(n, seed=0), sized)
        near = guess * (16384 / n_features) ** 2.7
        ridge, errors = best_ridge(partial(judged, equations, sized, test), near)
        points.append({"structures": n, "features": n_features, "log10_ridge": ridge, "errors": errors})
        print(f"  {points[-1]}", flush=True)
    return points


def powers(points: list[dict[str, Any]]) -> dict[str, float]:
    """Slopes of the logarithm of the ridge against that of the number of features, and of the last error."""
    ridges = [point["log10_ridge"] for point in points]
    against = {
        "of features": [math.log10(point["features"]) for point in points],
        "of error": [math.log10(point["errors"][-1]) for point in points],
    }
    return {name: float(np.polyfit(values, ridges, 1)[0]) for name, values in against.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    results: dict[str, Any] = {}
    for name, (sigma, guess) in MOLECULES.items():
        print(name, flush=True)
        recipe = recipe_with(512)
        recipe = replace(recipe, features=replace(recipe.features, sigma=sigma))
        train, test = (
            load(f"rmd17_{name}:train_02"),
            load(f"rmd17_{name}:test_02").subsample(50 if quick else 300, seed=0),
        )
        points = curve(train, test, recipe, SIZES[: 2 if quick else None], guess)
        results[name] = {"sigma": sigma, "points": points, "power": powers(points)}
    if not quick:
        print("QM9, energies", flush=True)
        train, test = load("qm9:train_pool").split((16_000, 1000), seed=3)
        recipe = recipe_with(512, representation=representation.ENERGIES)
        recipe = replace(recipe, features=replace(recipe.features, sigma=QM9_SIGMA))
        points = curve(train, test, recipe, QM9_SIZES, QM9_RIDGE)
        results["QM9, energies"] = {"sigma": QM9_SIGMA, "points": points, "power": powers(points)}
    rows = [
        [name, f"{one['power']['of features']:.2f}", f"{one['power']['of error']:.2f}"] for name, one in results.items()
    ]
    print(table(["the ridge falls with", "a power of the number of features", "of the error"], rows))
    if not quick:
        print(write("ridges", results))


if __name__ == "__main__":
    main()
