"""Errors with one change of a recipe at a time, on parts of training sets: of FCHL19's, and of the density's."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from qml_lightning import Dataset, Recipe, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options
from ..harness.entries import grouped
from ..harness.internals import SHORT_DENSITY, Equations, equations_of, solutions
from ..harness.models import ENERGY, FORCE, fchl19_recipe, load, mae, rmd17_files, with_features
from ..harness.tables import table
from .recipe_changes import CHANGES, DEFAULT, DENSITY_CHANGES, KERNEL_CHANGES, SIZE_EXPONENTS, Change, MakeBasis

SEVERAL = "small_mols"  # molecules of several compositions, for which the weight of energies by size matters
SMOOTH = (1e-10, 1e-9, 1e-8)  # ridges


@dataclass(frozen=True)
class Sizes:
    """Features of a model, and structures of a training set that are learnt and that tell the error."""

    n_features: int
    learnt: int
    tried: int


@dataclass(frozen=True)
class Ablation:
    """A recipe, its changes for each molecule, and the ridges of which the best is taken."""

    start: Callable[[int], Recipe]  # from the number of features
    changes: Mapping[str, tuple[Change, ...]]  # by molecule
    ridges: Mapping[str, tuple[float, ...]]
    sizes: Sizes
    seeds: int

    @property
    def by_name(self) -> dict[tuple[str, str], Change]:
        return {(change.group, change.name): change for some in self.changes.values() for change in some}

    def cells(self, options: Options) -> list[Cell]:
        """Everything with one seed before anything with another."""
        first = next(iter(self.changes.values()))
        few = {"ethanol": (*first[:2], *[change for change in first if change.basis][:3])}
        return [
            {"molecule": molecule, "seed": seed, "group": change.group, "name": change.name}
            for seed in range(1 if options.quick else self.seeds)
            for molecule, changes in (few if options.quick else self.changes).items()
            for change in changes
        ]

    def measure(self, cell: Cell, options: Options) -> dict[str, Any]:
        """Errors with the best ridge, by the force error, and the processor time of the equations."""
        change, molecule = self.by_name[cell["group"], cell["name"]], cell["molecule"]
        sizes, ridges = Sizes(1024, 40, 40) if options.quick else self.sizes, self.ridges.get(molecule, SMOOTH)
        recipe = change.recipe(replace(self.start(sizes.n_features), seed=cell["seed"]))
        train, valid = _data(molecule, sizes)
        # other energy weights need no other equations; a basis may come from a first fit, which depends on them
        unweighted = recipe if change.basis else replace(recipe, energy_weight=1.0)
        equations, seconds = _gathered(molecule, sizes, unweighted, change.basis)
        best: dict[str, Any] = {FORCE: math.inf}
        for ridge, potential in solutions(equations, recipe, ridges):
            found = mae(potential, valid)
            if found[FORCE] < best[FORCE]:
                best = {**found, "ridge": ridge}
        told = {"n_features": sizes.n_features, "n_train": len(train), "n_valid": len(valid)}
        return {**best, **told, "ridges": list(ridges), "processor_seconds": round(seconds, 2)}

    def tables(self, entries: list[Entry]) -> str:
        """Ratios to the recipe without a change and with the same seed, mean over seeds, for each molecule."""
        there = {molecule: members for (molecule,), members in grouped(entries, "molecule").items()}
        rows = []
        for change in self.by_name.values():
            row = [_compared(members, change) for members in there.values()]
            if set(row) != {"–"}:
                rows.append([f"{change.group}: {change.name}" if change.group else change.name, *row])
        return table(["change of the recipe", *(f"{molecule}: energy, force" for molecule in there)], rows)


def _data(molecule: str, sizes: Sizes) -> tuple[Dataset, Dataset]:
    name = "small_mols:train" if molecule == SEVERAL else f"rmd17_{molecule}:train_01"
    train, valid = load(name).split((sizes.learnt, sizes.tried), seed=0)
    return train, valid


@lru_cache(maxsize=1)
def _gathered(molecule: str, sizes: Sizes, recipe: Recipe, make_basis: MakeBasis | None) -> tuple[Equations, float]:
    """Equations of the training structures, and the processor time that they took."""
    train, started = _data(molecule, sizes)[0], time.process_time()
    equations = equations_of(train, recipe, basis=None if make_basis is None else make_basis(train, recipe))
    return equations, time.process_time() - started


def _compared(entries: list[Entry], change: Change) -> str:
    """Energy and force error of a change as ratios to the recipe without it, or of that recipe itself."""
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


def _told(sizes: Sizes, ridges: int) -> str:
    return (
        f"{sizes.n_features} features. {sizes.learnt} structures of train_01 are learnt and {sizes.tried} others of it "
        f"tell the error: no test set is looked at. Each model has the best of {ridges} ridges, all from one pass over "
        "the data. The figure of a change is the ratio of its error to that of the recipe without it and with the same "
        "seed."
    )


def _short_density(n_features: int) -> Recipe:
    drawn = replace(SHORT_DENSITY, n_channels=64, n_candidates=0)  # all channels that are drawn are kept
    return replace(with_features(recipes.DEFAULT, n_features), representation=drawn, rank=256)


_OF_FCHL19 = Ablation(
    fchl19_recipe,
    {**dict.fromkeys(("aspirin", "ethanol", "malonaldehyde"), CHANGES), SEVERAL: (DEFAULT, *SIZE_EXPONENTS)},
    {SEVERAL: (1e-6, 1e-5, 1e-4)},  # it is less smooth
    Sizes(4096, 400, 300), seeds=2,
)  # fmt: skip
_ROUGH = (1e-7, 1e-6, 1e-5, 1e-4)  # ridges: few structures and many features
_OF_DENSITY = Ablation(
    _short_density,
    {
        **dict.fromkeys(("aspirin", "toluene"), DENSITY_CHANGES),
        **dict.fromkeys(("ethanol", "malonaldehyde", "salicylic"), (DEFAULT, *KERNEL_CHANGES)),
    },
    dict.fromkeys(("aspirin", "toluene", "ethanol", "malonaldehyde", "salicylic"), _ROUGH),
    Sizes(4096, 100, 100), seeds=1,
)  # fmt: skip
ABLATION = Benchmark(
    "ablation", "Errors with one change of the recipe of FCHL19 at a time", _told(_OF_FCHL19.sizes, len(SMOOTH)),
    _OF_FCHL19.cells, _OF_FCHL19.measure, _OF_FCHL19.tables,
    needs=(*rmd17_files("aspirin", "ethanol", "malonaldehyde"), "small_mols/small_mols.npz"),
    threads=1,  # processor time is told
)  # fmt: skip
DENSITY_ABLATION = Benchmark(
    "density_ablation", "Errors with one change of the density at a time",
    "Density of 5 Å, 64 channels drawn at random, 256 axes. "
    + _told(_OF_DENSITY.sizes, len(_ROUGH)) + " One seed: differences of 0.02 are chance.",
    _OF_DENSITY.cells, _OF_DENSITY.measure, _OF_DENSITY.tables,
    needs=rmd17_files("aspirin", "toluene", "ethanol"),
    threads=1,
)  # fmt: skip
