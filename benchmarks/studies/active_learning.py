"""Labels that a choice by `select` needs, beside random choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qml_lightning import Dataset, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.entries import grouped
from ..harness.internals import Basis, concatenate, equations_of, extended, select, solution, solutions
from ..harness.models import ENERGY, FORCE, load, mae, rmd17_files, with_features
from ..harness.tables import table

N_FEATURES = 2048
RANDOM = "random"
CHOICES = (RANDOM, "variance", "determinant")
# Ridges of which each fit has the best for forces of half of the test structures; it is judged on the other half.
RIDGES = tuple(float(f"{10 ** (-half / 2):.2g}") for half in range(4, 21))
SELECTING = 1e-6  # ridge in the equations that `select` uses, the same for all


@dataclass(frozen=True)
class Case:
    """Structures to choose from, those to be judged on, and how many are labelled at the start and at a time."""

    pool: str
    test: str
    start: int
    at_once: int
    rounds: int
    shared: bool = False  # half of the test structures are put into the pool; the start is from the others

    def drawn(self) -> tuple[Dataset, Dataset, int]:
        """Pool, test structures, and the number of first structures of the pool that the start is drawn from."""
        pool, test = load(self.pool), load(self.test)
        if not self.shared:
            return pool, test, len(pool)
        other, test = test.split((len(test) // 2, len(test) // 2), seed=0)
        return concatenate([pool, other]), test, len(pool)


CASES = {
    "ethanol": Case("rmd17_ethanol:train_01@0:300", "rmd17_ethanol:test_01@0:200", 20, 40, 2),
    "aspirin": Case("rmd17_aspirin:train_01@0:200", "rmd17_aspirin:test_01@0:100", 20, 40, 2),
    "silicon": Case("zuo2020_Si:train", "zuo2020_Si:test", 10, 20, 2),
    # few frames of the pool are unlike the start: three quarters of it are at 300 K, the others up to 1200 K
    "3BPA, begun at 300 K": Case("3bpa:train_300K@0:300", "3bpa:test_mixedT", 20, 20, 4, shared=True),
}


def cells(options: Options) -> list[Cell]:
    seeds = range(1 if options.quick else 3)
    return [{"data": name, "choice": choice, "seed": seed} for name in CASES for seed in seeds for choice in CHOICES]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    """Errors after each round: labels of the chosen structures are added to the equations."""
    case = CASES[cell["data"]]
    pool, test, n_first = case.drawn()
    if options.quick:
        case, pool, test = replace(case, start=4, at_once=2, rounds=1), pool.subsample(12, 0), test.subsample(4, 0)
        n_first = len(pool)
    recipe = with_features(recipes.DEFAULT, 256 if options.quick else N_FEATURES, sigma=8.0)
    recipe = replace(recipe, ridge=SELECTING, seed=cell["seed"])
    choosing, judging = test.split((len(test) // 2, len(test) - len(test) // 2), seed=1)
    # axes need no labels
    basis = Basis.draw(pool.structures, recipe)
    order = np.random.default_rng(cell["seed"]).permutation(len(pool))
    known = order[order < n_first][: case.start]
    rest = order[~np.isin(order, known)]
    equations = equations_of(pool.select(known), recipe, basis=basis)
    counts, ridges, found = list[int](), list[float](), list[dict[str, float]]()
    for number in range(case.rounds + 1):
        counts.append(len(known))
        errors = {ridge: mae(one, choosing)[FORCE] for ridge, one in solutions(equations, recipe, RIDGES)}
        ridges.append(min(errors, key=errors.__getitem__))
        found.append(mae(solution(equations, recipe, ridges[-1]), judging))
        if number == case.rounds:
            break
        if cell["choice"] == RANDOM:
            taken = np.arange(case.at_once)
        else:
            found_now = select(equations, pool.structures.select(rest), case.at_once, criterion=cell["choice"])
            taken = np.array(found_now.index)
        equations = extended(equations, pool.select(rest[taken]))
        known, rest = np.concatenate([known, rest[taken]]), np.delete(rest, taken)
    return {"labels": counts, "ridges": ridges, **{name: [one[name] for one in found] for name in (ENERGY, FORCE)}}


def labels_needed(entry: Entry, error: float) -> float:
    """Labels at which the force error falls to `error`, between rounds by a power law; infinite if it never does."""
    labels, errors = entry["labels"], entry[FORCE]
    for k in range(1, len(labels)):
        if errors[k] <= error:
            part = np.log(errors[k - 1] / error) / np.log(errors[k - 1] / errors[k])
            return float(labels[k - 1] * (labels[k] / labels[k - 1]) ** max(0.0, part))
    return float("inf")


def tables(entries: list[Entry]) -> str:
    rows = []
    for (name,), there in grouped(succeeded(entries), "data").items():
        by = {(entry[CELL]["choice"], entry[CELL]["seed"]): entry for entry in there}
        for choice in CHOICES:
            seeds = sorted(seed for one, seed in by if one == choice and (RANDOM, seed) in by)
            if not seeds:
                continue
            mine, theirs = ([by[one, seed] for seed in seeds] for one in (choice, RANDOM))
            labels, last = mine[0]["labels"], [np.mean([one[key][-1] for one in mine]) for key in (FORCE, ENERGY)]
            parts = [labels_needed(a, b[FORCE][-1]) / labels[-1] for a, b in zip(mine, theirs, strict=True)]
            told = [f"{part:.2f}" if np.isfinite(part) else "more than 1" for part in parts]
            rows.append([
                name if choice == RANDOM else "", f"{labels[0]} to {labels[-1]}" if choice == RANDOM else "", choice,
                f"{last[0]:.1f}", f"{last[1]:.2f}", ", ".join(told) if choice != RANDOM else "",
            ])  # fmt: skip
    head = ["", "labels", "choice", "force MAE meV/Å", "energy MAE meV",
            "labels for the force MAE of random choice, as a part of it"]  # fmt: skip
    return table(head, rows)


ACTIVE_LEARNING = Benchmark(
    "active_learning",
    "Labels that select needs, beside random choice",
    f"{N_FEATURES} features, the same structures at the start, axes from the whole pool, which need no labels. Errors "
    "are means over seeds; the part of the labels is that of each seed. Choices: at random, or by the criteria of "
    "`select`. Each fit has the best ridge of half decades on half of the test structures; it is judged on the others.",
    cells, measure, tables, needs=("3bpa/3bpa.npz", "zuo2020/Si.npz", *rmd17_files("ethanol", "aspirin")),
)  # fmt: skip
