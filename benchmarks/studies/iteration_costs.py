"""Costs beside a fit that iterates with a given ridge: ridges compared with it, and a committee drawn."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

from qml_lightning import recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.internals import begin_iteration, iterate
from ..harness.models import load, rmd17_files, with_features
from ..harness.tables import table

MEMBERS, ROUNDS = 8, 2
N_FEATURES, PRECONDITIONER = 16384, 4096
STRUCTURES = {"ethanol": 400, "aspirin": 200}  # about as many rows
# Good ridges of these fits, which a search would have carried from smaller ones.
RIDGES = {"ethanol": 1e-9, "aspirin": 1e-8}
STARTS = {"near the best ridge": 1.0, "ten times it": 10.0}
LEAST = 1e-3  # of the ridge: no comparison goes further down


def cells(options: Options) -> list[Cell]:
    return [{"molecule": molecule, "start": start} for molecule in RIDGES for start in STARTS]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    """Seconds of each part, the best of several rounds in turn."""
    sizes = (STRUCTURES[cell["molecule"]], N_FEATURES, PRECONDITIONER)
    n_train, n_features, few = (40, 1024, 256) if options.quick else sizes
    train = load(f"rmd17_{cell['molecule']}:train_01").subsample(n_train, seed=0)
    ridge = STARTS[cell["start"]] * (1e-4 if options.quick else RIDGES[cell["molecule"]])
    recipe = replace(with_features(recipes.DEFAULT, n_features, sigma=8.0), ridge=ridge)
    held_out = 0.25 if options.quick else recipe.solver.held_out
    solver = replace(recipe.solver, method="iterative", preconditioner_features=few, held_out=held_out)
    recipe, rounds, steps, tried = replace(recipe, solver=solver), list[dict[str, float]](), 0, 0
    for _ in range(1 if options.quick else ROUNDS):
        clock = [perf_counter()]
        work = begin_iteration(train, recipe)
        clock.append(perf_counter())
        given = iterate(work, ridge)
        clock.append(perf_counter())
        found = iterate(work, ridge, LEAST * ridge)
        clock.append(perf_counter())
        work.committee(MEMBERS, given)
        clock.append(perf_counter())
        names = ("prepare", "given", "compared", "committee")
        rounds.append({name: end - begin for name, begin, end in zip(names, clock[:-1], clock[1:], strict=True)})
        steps, tried = len(given.report["history"]), len(found.report["ridges"])
    best = {f"{name}_seconds": min(one[name] for one in rounds) for name in rounds[0]}
    whole = best["prepare_seconds"] + best["given_seconds"]
    return {
        **best,
        "steps": steps,
        "ridges": tried,
        "compared_ratio": (best["prepare_seconds"] + best["compared_seconds"]) / whole,
        "committee_ratio": (whole + best["committee_seconds"]) / whole,
    }


def tables(entries: list[Entry]) -> str:
    rows = [
        [f"{STRUCTURES[cell['molecule']]} structures of {cell['molecule']}, {cell['start']}",
         f"{entry['prepare_seconds'] + entry['given_seconds']:.0f}",
         f"{entry['steps']}", f"{entry['ridges']}", f"{entry['compared_ratio']:.2f}", f"{entry['committee_ratio']:.2f}"]
        for entry in succeeded(entries)
        for cell in (entry[CELL],)
    ]  # fmt: skip
    head = ["", "fit with a given ridge, s", "steps", "ridges compared", "times the fit", f"a committee of {MEMBERS}"]
    return table(head, rows)


ITERATION_COSTS = Benchmark(
    "iteration_costs",
    "Ridges compared and a committee, beside a fit with a given ridge",
    f"rMD17, {N_FEATURES} features, a preconditioner of {PRECONDITIONER}, the iterative solver. "
    "Each fit as a multiple of the one with a given ridge and no committee, in one run. The drawing of the basis, "
    "which is the same for all, is not counted.",
    cells, measure, tables, needs=rmd17_files(*RIDGES), timing=True,
)  # fmt: skip
