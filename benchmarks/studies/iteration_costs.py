"""Costs beside a fit that iterates with a given ridge: ridges compared with it, and a committee drawn."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter, process_time
from typing import Any

import numpy as np

from qml_lightning import recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.internals import begin_iteration, iterate
from ..harness.models import load, rmd17_files, with_features
from ..harness.tables import table

MEMBERS = 8
N_FEATURES, PRECONDITIONER = 16384, 4096
STRUCTURES = {"ethanol": 400, "aspirin": 200}  # about as many rows
# Good ridges of these fits, which a search would have carried from smaller ones.
RIDGES = {"ethanol": 1e-9, "aspirin": 1e-8}
STARTS = {"near the best ridge": 1.0, "ten times it": 10.0}
PARTS = ("prepare", "given", "compared", "committee")
LEAST = 1e-3  # of the ridge: no comparison goes further down


def cells(options: Options) -> list[Cell]:
    return [{"molecule": molecule, "start": start} for molecule in RIDGES for start in STARTS]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    """Seconds of each part by the clock and of the processors."""
    sizes = (STRUCTURES[cell["molecule"]], N_FEATURES, PRECONDITIONER)
    n_train, n_features, few = (40, 1024, 256) if options.quick else sizes
    train = load(f"rmd17_{cell['molecule']}:train_01").subsample(n_train, seed=0)
    ridge = STARTS[cell["start"]] * (1e-4 if options.quick else RIDGES[cell["molecule"]])
    recipe = replace(with_features(recipes.DEFAULT, n_features, sigma=8.0), ridge=ridge)
    held_out = 0.25 if options.quick else recipe.solver.held_out
    solver = replace(recipe.solver, method="iterative", preconditioner_features=few, held_out=held_out)
    recipe = replace(recipe, solver=solver)
    clock = [_now()]
    work = begin_iteration(train, recipe, MEMBERS)
    clock.append(_now())
    given = iterate(work, ridge)
    clock.append(_now())
    found = iterate(work, ridge, LEAST * ridge)
    clock.append(_now())
    work.committee(MEMBERS, given)
    clock.append(_now())
    spent = np.diff(clock, axis=0)
    prepared, fitted, compared, drawn = spent
    clock_ratio, ratio = (prepared + compared) / (prepared + fitted)
    clock_more, more = 1 + drawn / (prepared + fitted)
    return {
        **{f"{name}_seconds": float(part[0]) for name, part in zip(PARTS, spent, strict=True)},
        **{f"{name}_processor_seconds": float(part[1]) for name, part in zip(PARTS, spent, strict=True)},
        "steps": len(given.report["history"]),
        "ridges": len(found.report["ridges"]),
        "compared_ratio": float(clock_ratio),
        "compared_processor_ratio": float(ratio),
        "committee_ratio": float(clock_more),
        "committee_processor_ratio": float(more),
    }


def _now() -> tuple[float, float]:
    """Seconds by the clock, and of the processors, which other programs on the machine do not lengthen."""
    return perf_counter(), process_time()


def tables(entries: list[Entry]) -> str:
    rows = [
        [f"{STRUCTURES[cell['molecule']]} structures of {cell['molecule']}, {cell['start']}",
         f"{entry['prepare_processor_seconds'] + entry['given_processor_seconds']:.0f}",
         f"{entry['steps']}", f"{entry['ridges']}",
         *(f"{entry[f'{part}_processor_ratio']:.2f}" for part in ("compared", "committee"))]
        for entry in succeeded(entries)
        for cell in (entry[CELL],)
    ]  # fmt: skip
    head = ["", "fit with a given ridge, s of the processors", "steps", "ridges compared", "times the fit",
            f"with a committee of {MEMBERS}"]  # fmt: skip
    return table(head, rows)


ITERATION_COSTS = Benchmark(
    "iteration_costs",
    "Ridges compared and a committee, beside a fit with a given ridge",
    f"rMD17, {N_FEATURES} features, a preconditioner of {PRECONDITIONER}, the iterative solver. "
    "Each fit as a multiple of the one with a given ridge and no committee, in one run, by times of the processors. "
    "The drawing of the basis, which is the same for all, is not counted.",
    cells, measure, tables, needs=rmd17_files(*RIDGES), timing=True,
)  # fmt: skip
