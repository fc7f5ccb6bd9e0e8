"""SORF, ORF and RFF with the same number of features: rMD17 ethanol and aspirin, over several seeds."""

from __future__ import annotations

from typing import Any

from ..harness.benchmark import Benchmark, Cell, Entry, Options
from ..harness.entries import grouped, mean_and_error, percent, percent_less
from ..harness.models import ENERGY, FORCE, fitted, load, mae, recipe_for, rmd17_files
from ..harness.tables import table

METHODS = ("sorf", "rff", "orf")
# Molecule, structures, features, seeds.
FULL = (("ethanol", 300, 2048, 12), ("ethanol", 1000, 4096, 8), ("ethanol", 1000, 8192, 4), ("aspirin", 400, 8192, 4))
QUICK = (("ethanol", 40, 256, 2),)


def cells(options: Options) -> list[Cell]:
    return [
        {"molecule": molecule, "n_train": n, "n_features": n_features, "method": method, "seed": seed}
        for molecule, n, n_features, seeds in (QUICK if options.quick else FULL)
        for seed in range(seeds)
        for method in METHODS
    ]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    name = f"rmd17_{cell['molecule']}"
    train, test = load(f"{name}:train_01").subsample(cell["n_train"], seed=0), load(f"{name}:test_01")
    if options.quick:
        train, test = load(f"{name}:train_01").split((cell["n_train"], 60), seed=0)
    potential, _ = fitted(train, recipe_for("default", cell["n_features"], seed=cell["seed"], method=cell["method"]))
    return mae(potential, test)


def tables(entries: list[Entry]) -> str:
    rows = []
    for case, members in grouped(entries, "molecule", "n_train", "n_features").items():
        what = "{}, {} structures, {} features".format(*case)
        for (method,), there in grouped(members, "method").items():
            row = [what, method, str(len(there))]
            for name in (ENERGY, FORCE):
                off = None if method == "rff" else percent_less(members, name, "method", method, "rff")
                row += [mean_and_error(there, name, 3), percent(off)]
            rows.append(row)
            what = ""
    return table(["", "map", "seeds", "energy MAE / meV", "less RFF's", "force MAE / meV/Å", "less RFF's"], rows)


FEATURE_MAPS = Benchmark(
    "feature_maps",
    "SORF, ORF and RFF with the same number of features: rMD17",
    "A seed draws the environments behind the projection and the map. Differences are taken seed by seed, so that what "
    "two maps share does not blur them; ± is the standard error of the mean.",
    cells, measure, tables,
    needs=rmd17_files("ethanol", "aspirin"),
)  # fmt: skip
