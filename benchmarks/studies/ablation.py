"""Errors with one change of the default recipe at a time, at equal cost, on parts of training sets."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import replace
from functools import lru_cache
from typing import Any

from qml_lightning import Dataset, Recipe

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options
from ..harness.entries import grouped
from ..harness.internals import Equations, equations_of, solutions
from ..harness.models import ENERGY, FORCE, fchl19_recipe, load, mae, rmd17_files
from ..harness.tables import table
from .recipe_changes import CHANGES, DEFAULT, SIZE_EXPONENTS, Change, MakeBasis

N_FEATURES, LEARNT, TRIED = 4096, 400, 300
SEVERAL = "small_mols"  # molecules of several compositions, for which the weight of energies by size matters
MOLECULES = ("aspirin", "ethanol", "malonaldehyde", SEVERAL)
RIDGES = dict.fromkeys(MOLECULES, (1e-10, 1e-9, 1e-8)) | {SEVERAL: (1e-6, 1e-5, 1e-4)}  # it is less smooth
BY_NAME = {(change.group, change.name): change for change in (*CHANGES, *SIZE_EXPONENTS)}


def cells(options: Options) -> list[Cell]:
    """Everything with one seed before anything with another."""
    few = (*CHANGES[:2], *[change for change in CHANGES if change.basis][:3])
    return [
        {"molecule": molecule, "seed": seed, "group": change.group, "name": change.name}
        for seed in range(1 if options.quick else 2)
        for molecule in (("ethanol",) if options.quick else MOLECULES)
        for change in (few if options.quick else (DEFAULT, *SIZE_EXPONENTS) if molecule == SEVERAL else CHANGES)
    ]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    """Errors with the best ridge, by the force error, and the processor time of the equations."""
    change, molecule = BY_NAME[cell["group"], cell["name"]], cell["molecule"]
    n_features = 512 if options.quick else N_FEATURES
    recipe = change.recipe(fchl19_recipe(n_features, seed=cell["seed"]))
    train, valid = _data(molecule, options.quick)
    # other energy weights need no other equations; a basis may come from a first fit, which depends on them
    unweighted = recipe if change.basis else replace(recipe, energy_weight=1.0)
    equations, seconds = _gathered(molecule, options.quick, unweighted, change.basis)
    best: dict[str, Any] = {FORCE: math.inf}
    for ridge, potential in solutions(equations, recipe, RIDGES[molecule]):
        found = mae(potential, valid)
        if found[FORCE] < best[FORCE]:
            best = {**found, "ridge": ridge}
    sizes = {"n_features": n_features, "n_train": len(train), "n_valid": len(valid)}
    return {**best, **sizes, "ridges": list(RIDGES[molecule]), "processor_seconds": round(seconds, 2)}


def _data(molecule: str, quick: bool) -> tuple[Dataset, Dataset]:
    name = "small_mols:train" if molecule == SEVERAL else f"rmd17_{molecule}:train_01"
    train, valid = load(name).split((40, 40) if quick else (LEARNT, TRIED), seed=0)
    return train, valid


@lru_cache(maxsize=1)
def _gathered(molecule: str, quick: bool, recipe: Recipe, make_basis: MakeBasis | None) -> tuple[Equations, float]:
    """Equations of the training structures, and the processor time that they took."""
    train, started = _data(molecule, quick)[0], time.process_time()
    equations = equations_of(train, recipe, basis=None if make_basis is None else make_basis(train, recipe))
    return equations, time.process_time() - started


def tables(entries: list[Entry]) -> str:
    """Ratios to the default recipe with the same seed, mean over seeds, for each molecule."""
    there = {molecule: members for (molecule,), members in grouped(entries, "molecule").items()}
    rows = []
    for change in BY_NAME.values():
        row = [_compared(members, change) for members in there.values()]
        if set(row) != {"–"}:
            rows.append([f"{change.group}: {change.name}" if change.group else change.name, *row])
    return table(["change of the default recipe", *(f"{molecule}: energy, force" for molecule in there)], rows)


def _compared(entries: list[Entry], change: Change) -> str:
    """Energy and force error of a change as ratios to the default, or of the default itself."""
    by_change = grouped(entries, "group", "name")
    mine = by_change.get((change.group, change.name), [])
    if not mine:
        return "–"
    if change is DEFAULT:
        units = {ENERGY: "meV", FORCE: "meV/Å"}
        return ", ".join(f"{statistics.fmean(e[name] for e in mine):.3g} {unit}" for name, unit in units.items())
    base = {entry[CELL]["seed"]: entry for entry in by_change[DEFAULT.group, DEFAULT.name]}
    ratios = [statistics.fmean(e[name] / base[e[CELL]["seed"]][name] for e in mine) for name in (ENERGY, FORCE)]
    return ", ".join(f"{ratio:.2f}" for ratio in ratios)


ABLATION = Benchmark(
    "ablation",
    "Errors with one change of the default recipe at a time",
    f"{N_FEATURES} features. {LEARNT} structures of train_01 are learnt and {TRIED} others of it tell the error: no "
    "test set is looked at. Each model has the best of three ridges, all from one pass over the data. The figure of a "
    "change is the ratio of its error to that of the default recipe with the same seed.",
    cells, measure, tables,
    needs=(*rmd17_files("aspirin", "ethanol", "malonaldehyde"), "small_mols/small_mols.npz"),
    threads=1,  # processor time is told
)  # fmt: skip
