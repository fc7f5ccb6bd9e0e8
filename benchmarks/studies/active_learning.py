"""Labels that a choice by `select` needs, beside random choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qml_lightning import Dataset, recipes
from qml_lightning.datasets import concatenate

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.entries import grouped
from ..harness.internals import Basis, equations_of, extended, select, solution
from ..harness.models import ENERGY, FORCE, load, mae, rmd17_files, with_features
from ..harness.tables import table

N_FEATURES = 1024
CHOICES = ("select", "random")


@dataclass(frozen=True)
class Case:
    """Structures to choose from, those to be judged on, and how many are labelled at the start and at a time."""

    pool: str
    test: str
    ridge: float
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
    "ethanol": Case("rmd17_ethanol:train_01@0:300", "rmd17_ethanol:test_01@0:200", 1e-6, 20, 20, 4),
    "aspirin": Case("rmd17_aspirin:train_01@0:200", "rmd17_aspirin:test_01@0:100", 1e-6, 20, 20, 4),
    "silicon": Case("zuo2020_Si:train", "zuo2020_Si:test", 1e-5, 10, 10, 4),
    # few frames of the pool are unlike the start: three quarters of it are at 300 K, the others up to 1200 K
    "3BPA, begun at 300 K": Case("3bpa:train_300K@0:300", "3bpa:test_mixedT", 1e-6, 20, 20, 4, shared=True),
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
    recipe = replace(with_features(recipes.DEFAULT, 256 if options.quick else N_FEATURES, sigma=8.0), ridge=case.ridge)
    recipe = replace(recipe, seed=cell["seed"])
    # axes need no labels
    basis = Basis.draw(pool.structures, recipe)
    order = np.random.default_rng(cell["seed"]).permutation(len(pool))
    known = order[order < n_first][: case.start]
    rest = order[~np.isin(order, known)]
    equations = equations_of(pool.select(known), recipe, basis=basis)
    counts, found = list[int](), list[dict[str, float]]()
    for number in range(case.rounds + 1):
        counts.append(len(known))
        found.append(mae(solution(equations, recipe, recipe.ridge), test))
        if number == case.rounds:
            break
        if cell["choice"] == "random":
            taken = np.arange(case.at_once)
        else:
            taken = np.array(select(equations, pool.structures.select(rest), case.at_once).index)
        equations = extended(equations, pool.select(rest[taken]))
        known, rest = np.concatenate([known, rest[taken]]), np.delete(rest, taken)
    return {"labels": counts, **{name: [one[name] for one in found] for name in (ENERGY, FORCE)}}


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
        seeds = sorted({seed for choice, seed in by if choice == "random" and ("select", seed) in by})
        if not seeds:
            continue
        some = by["random", seeds[0]]
        last = {choice: float(np.mean([by[choice, s][FORCE][-1] for s in seeds])) for choice in CHOICES}
        energy = {choice: float(np.mean([by[choice, s][ENERGY][-1] for s in seeds])) for choice in CHOICES}
        parts = [labels_needed(by["select", s], by["random", s][FORCE][-1]) / some["labels"][-1] for s in seeds]
        told = [f"{part:.2f}" if np.isfinite(part) else "more than 1" for part in parts]
        rows.append([
            name, f"{some['labels'][0]} to {some['labels'][-1]}", f"{last['random']:.1f}", f"{last['select']:.1f}",
            f"{energy['random']:.2f}", f"{energy['select']:.2f}", ", ".join(told),
        ])  # fmt: skip
    head = ["", "labels", "force MAE meV/Å, random", "select", "energy MAE meV, random", "select",
            "labels for the force MAE of random choice, as a part of it"]  # fmt: skip
    return table(head, rows)


ACTIVE_LEARNING = Benchmark(
    "active_learning",
    "Labels that select needs, beside random choice",
    f"{N_FEATURES} features, the same structures at the start, axes from the whole pool, which need no labels. Errors "
    "are means over three seeds; the part of the labels is that of each seed.",
    cells, measure, tables, needs=("3bpa/3bpa.npz", "zuo2020/Si.npz", *rmd17_files("ethanol", "aspirin")),
)  # fmt: skip
