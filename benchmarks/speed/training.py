"""Time of a fit beside its floor, half a matrix product and a Cholesky factorisation at the rates of the same run."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from qml_lightning import fit

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Headline, Options, succeeded
from ..harness.internals import facts, gram_rate
from ..harness.models import ENERGY, FORCE, fchl19_recipe, mae, rmd17, rmd17_files
from ..harness.processes import apart
from ..harness.tables import digits, table
from ..harness.timing import FLOOR_OF_FIT, GIB, Stages, floor_of_fit, memory, rates

SIZES = (("aspirin", 8192), ("aspirin", 16384), ("ethanol", 16384))  # molecule, features


def cells(options: Options) -> list[Cell]:
    if options.quick:
        return [{"molecule": "ethanol", "n_train": 40, "n_features": 512}]
    return [{"molecule": molecule, "n_train": 1000, "n_features": n} for molecule, n in SIZES]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    n_features = cell["n_features"]
    before = rates(n_features)
    # in a process of its own, so that the peak of memory is that of the fit
    found = one_fit(cell, True) if options.quick else apart(one_fit, cell, False)
    after = rates(n_features)
    rate = {name: max(before[name], after[name]) for name in before}
    floor = floor_of_fit(sum(found["rows"].values()), n_features, rate)
    ratio = found["fit_seconds"] / floor
    gram = gram_rate(n_features, 64 if options.quick else 4096)
    return {**found, "rates_gflops": rate, "gram_gflops": gram, "floor_seconds": floor, "ratio": ratio}


def one_fit(cell: Cell, quick: bool) -> dict[str, Any]:
    """Time of a fit by stages, its peak of memory and its errors."""
    train, test = rmd17(cell["molecule"], cell["n_train"], quick=quick)
    recipe = fchl19_recipe(cell["n_features"])
    recipe = replace(recipe, solver=replace(recipe.solver, method="direct"))
    stages, start = Stages(), time.perf_counter()
    potential = fit(train, recipe, progress=stages.tell)
    seconds = time.perf_counter() - start
    return {
        "recipe": recipe.as_dict(),
        "rows": facts(potential)["targets"],
        "fit_seconds": seconds,
        "stages_seconds": stages.end(),
        "peak_resident_gib": memory("VmHWM") / GIB,
        **mae(potential, test),
    }


def tables(entries: list[Entry]) -> str:
    rows = [
        ["{n_train} {molecule}, {n_features} features".format(**entry[CELL]), f"{entry['fit_seconds']:.1f}",
         f"{entry['floor_seconds']:.1f}", f"{entry['ratio']:.2f}",
         ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in entry["stages_seconds"].items()),
         digits(entry["gram_gflops"]), f"{entry['peak_resident_gib']:.1f}", f"{entry[ENERGY]:.2f}",
         f"{entry[FORCE]:.2f}"]
        for entry in succeeded(entries)
    ]  # fmt: skip
    head = ["", "fit s", "floor s", "ratio", "stages s", "Gram GFLOP/s", "peak GiB"]
    return table([*head, "energy MAE meV", "force MAE meV/Å"], rows)


def headline(entries: list[Entry]) -> list[Headline]:
    return [
        Headline(
            "fit of {n_train} {molecule} structures, {n_features} features, on {threads} threads".format(
                **entry[CELL], threads=entry["run"]["threads"]
            ),
            f"{entry['fit_seconds']:.0f} s",
            f"{entry['ratio']:.2f} × {FLOOR_OF_FIT}",
            timing=True,
        )
        for entry in succeeded(entries)
    ]


TRAINING = Benchmark(
    "training",
    "Time of a fit beside its floor",
    "The first structures of rMD17's train_01, direct solver. Stages are those that the fit tells of; the rate of the "
    "Gram products is that of random rows by themselves.",
    cells, measure, tables, headline=headline,
    needs=rmd17_files("aspirin", "ethanol"), timing=True,
)  # fmt: skip
