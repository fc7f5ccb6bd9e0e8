"""What moves the error at equal cost: one change of the default recipe at a time, on parts of training sets.

    python benchmarks/ablation.py               # goes on with benchmarks/results/ablation.json
    python benchmarks/ablation.py --quick       # small, a few changes; writes nothing
    python benchmarks/docs_tables.py            # put the table of the result file into docs/accuracy.md

Structures of `train_01` are learnt and others of it tell the error: no test set is looked at. Each model has the best
of three ridges, all from one pass over the data (`equations.sweep`). The figure of a change is the ratio of its error
to that of the default recipe with the same seed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from common import SHARED_DATA, read, table, write
from torch import Tensor

from qml_lightning import Dataset, evaluate, load_dataset, recipes
from qml_lightning.basis import Drawn, draw
from qml_lightning.design import environments
from qml_lightning.equations import Equations, equations_of, solved, sweep
from qml_lightning.errors import QMLError
from qml_lightning.potential import Potential
from qml_lightning.recipes import Recipe
from qml_lightning.representation import ENERGIES_AND_FORCES

N_FEATURES, LEARNT, TRIED = 4096, 400, 300
RIDGES = (1e-10, 1e-9, 1e-8)
# of several compositions, where the weight of energies of different size matters; ridges for what is less smooth
SEVERAL, SEVERAL_RIDGES = "small_mols", (1e-6, 1e-5, 1e-4)


@dataclass(frozen=True)
class Change:
    """A recipe that differs from the default in one thing, or a projection that does."""

    group: str
    name: str
    recipe: Callable[[Recipe], Recipe] = lambda recipe: recipe
    basis: Callable[[Dataset, Recipe], Drawn] | None = None


def fchl19(**changes: Any) -> Callable[[Recipe], Recipe]:
    return lambda recipe: replace(recipe, representation=replace(recipe.representation, **changes))


def features(**changes: Any) -> Callable[[Recipe], Recipe]:
    return lambda recipe: replace(recipe, features=replace(recipe.features, **changes))


def fields(**changes: Any) -> Callable[[Recipe], Recipe]:
    return lambda recipe: replace(recipe, **changes)


def blocks(recipe: Recipe) -> Recipe:
    """Weights of their own for each element, as many in all as the default has (three elements)."""
    unit = 2 * recipe.rank
    return features(blocks=True, n_features=max(unit, recipe.features.n_features // 3 // unit * unit))(recipe)


# ---- other projections -----------------------------------------------------------------------------------------------


def _projected(data: Dataset, recipe: Recipe, change: Callable[[int, Tensor, Tensor], Tensor]) -> Drawn:
    """The basis with `change(element, axes, rho)` in the place of each element's axes; ρ keeps its length."""
    projection, maps = draw(data.structures, recipe, np.random.default_rng(recipe.seed))
    drawn = SimpleNamespace(elements=data.structures.elements, recipe=recipe, projection=projection, maps=maps)
    at = environments(_ready(drawn, recipe), data.structures.select(torch.arange(min(100, len(data)))))
    matrices = projection.matrices.clone()
    for e in range(len(drawn.elements)):
        rho = at.rho[at.element == e].double()
        axes = change(e, projection.matrices[e], rho)
        # the axes drawn are orthonormal: oldᵀ · new is what the change does to ρ
        after = rho @ (projection.matrices[e].T @ axes)
        matrices[e] = axes * (rho.square().sum() / after.square().sum()).sqrt()
    drawn.projection = replace(projection, matrices=matrices)
    return drawn


def _ready(drawn: Any, recipe: Recipe) -> Any:
    from qml_lightning.basis import make_basis

    return make_basis(drawn.elements, recipe, drawn.projection, drawn.maps, "cpu", None)


def whitened(power: float) -> Callable[[Dataset, Recipe], Drawn]:
    """Every axis divided by the spread of the environments along it, to a power."""

    def change(e: int, axes: Tensor, rho: Tensor) -> Tensor:
        spread = rho.square().mean(0).sqrt().clamp_min(1e-12)
        return axes * (spread / spread[0]).clamp_min(1e-4) ** -power

    return lambda data, recipe: _projected(data, recipe, change)


def informed(power: float, n_features: int = 1024) -> Callable[[Dataset, Recipe], Drawn]:
    """Axes stretched by how much the energy of a first, small model changes along them.

    The stretch is the average outer product of its gradients, to a power.
    """

    def basis(data: Dataset, recipe: Recipe) -> Drawn:
        first = replace(recipe, features=replace(recipe.features, n_features=n_features), ridge=1e-9)
        potential = solved(equations_of(data, first), use_up=True)
        products = gradient_products(potential, data)

        def change(e: int, axes: Tensor, rho: Tensor) -> Tensor:
            values, vectors = torch.linalg.eigh(products[e])
            stretch = vectors * values.clamp_min(1e-12 * float(values[-1])) ** power
            return axes @ (stretch @ vectors.T)

        return _projected(data, recipe, change)

    return basis


def gradient_products(potential: Potential, data: Dataset) -> list[Tensor]:
    """Mean of g gᵀ over the environments of each element, g the gradient of an atom's energy by ρ, (rank, rank)."""
    predictor = potential.on(precision="float64")
    at = environments(predictor.basis, data.structures)
    weights, products = potential.weights, []
    for e, feature_map in enumerate(predictor.basis.maps):
        rho = at.rho[at.element == e].contiguous()
        _, slope = predictor.basis.kernels.energy_and_slope(feature_map, rho, weights[predictor.basis.columns(e)])
        products.append(slope.T.double() @ slope.double() / len(slope))
    return products


CHANGES = (
    Change("", "default recipe"),
    Change("energy weight", "3", fields(energy_weight=3.0)),
    Change("energy weight", "10", fields(energy_weight=10.0)),
    Change("energy weight", "100", fields(energy_weight=100.0)),
    Change("angular series", "2 functions", fchl19(n_angular=2)),
    Change("angular series", "3", fchl19(n_angular=3)),
    Change("angular series", "5", fchl19(n_angular=5)),
    Change("angular series", "6", fchl19(n_angular=6)),
    Change("angular series", "the paper's cos θ and sin θ", fields(representation=ENERGIES_AND_FORCES)),
    Change("three-body weight c3", "0.1", fchl19(weight3=0.1)),
    Change("three-body weight c3", "0.4", fchl19(weight3=0.4)),
    Change("three-body width η3", "1.5", fchl19(eta3=1.5)),
    Change("three-body width η3", "4.5", fchl19(eta3=4.5)),
    Change("cutoff", "5 Å", fchl19(cutoff=5.0)),
    Change("cutoff", "7 Å", fchl19(cutoff=7.0)),
    Change("rank", "64", fields(rank=64)),
    Change("rank", "256", fields(rank=256)),
    Change("rank", "512", fields(rank=512)),
    Change("features", "phases instead of pairs", features(paired=False)),
    Change("features", "χ-scaled SORF", features(chi_scaled=True)),
    Change("features", "three Hadamard transforms", features(n_transforms=3)),
    Change("features", "own weights for each element, as many in all", blocks),
    Change("kernel width σ", "4", features(sigma=4.0)),
    Change("kernel width σ", "16", features(sigma=16.0)),
    Change("projection", "whitened", basis=whitened(1.0)),
    Change("projection", "whitened to the power 1/4", basis=whitened(0.25)),
    Change("projection", "by gradients of a first fit, power 1/4", basis=informed(0.25)),
    Change("projection", "by gradients of a first fit, power 1/2", basis=informed(0.5)),
)
# of one composition all energies have the same weight, whatever the exponent; for molecules of 16 atoms here, too
SIZES = (
    Change("", "default recipe"),
    Change("size exponent", "0", fields(size_exponent=0.0, energy_weight=7.5)),
    Change("size exponent", "1", fields(size_exponent=1.0, energy_weight=120.0)),
)


def gathered(train: Dataset, recipe: Recipe, change: Change) -> tuple[Equations, float]:
    """The equations and the processor time that they took; other energy weights need no new ones."""
    key = (train.source.name, replace(recipe, energy_weight=1.0), change.basis)
    if key not in _LAST:
        _LAST.clear()
        started = time.process_time()
        basis = None if change.basis is None else change.basis(train, recipe)
        _LAST[key] = equations_of(train, recipe, basis=basis), time.process_time() - started
    return _LAST[key]


_LAST: dict[tuple[Any, ...], tuple[Equations, float]] = {}


def measured(train: Dataset, valid: Dataset, recipe: Recipe, change: Change, ridges: tuple[float, ...]) -> dict:
    """Errors with the best ridge, by the force error, and the processor time of the equations."""
    recipe = change.recipe(recipe)
    equations, seconds = gathered(train, recipe, change)
    best: dict[str, Any] = {"forces_mev_per_angstrom": math.inf}
    for ridge in ridges:
        try:
            (point,) = sweep(equations, [recipe.energy_weight], [ridge], recipe=recipe)
        except QMLError:
            continue
        metrics = evaluate(point.potential, valid)
        assert metrics.energy is not None
        assert metrics.forces is not None
        if metrics.forces.mae * 1e3 < best["forces_mev_per_angstrom"]:
            energy, forces = metrics.energy.mae * 1e3, metrics.forces.mae * 1e3
            best = {"energy_mev": energy, "forces_mev_per_angstrom": forces, "ridge": ridge}
    return best | {"processor_seconds": round(seconds, 2)}


def load(molecule: str, quick: bool) -> tuple[Dataset, Dataset]:
    name = "small_mols:train" if molecule == SEVERAL else f"rmd17_{molecule}:train_01"
    data = load_dataset(name, data_folder=SHARED_DATA, labels="required")
    return data.split((40, 40) if quick else (LEARNT, TRIED), seed=0)


def runs(molecules: list[str], groups: list[str], seeds: int, quick: bool) -> Iterator[tuple[str, int, Change]]:
    """Everything once before anything twice; some groups first, if any are named."""
    for seed in range(seeds):
        for molecule in molecules:
            chosen = SIZES if molecule == SEVERAL else CHANGES
            chosen = tuple(sorted(chosen, key=lambda change: change.group not in ("", *groups)))
            for change in (*chosen[:2], *chosen[24:27]) if quick else chosen:
                yield molecule, seed, change


def told(results: dict[str, Any]) -> str:
    """The table: ratios to the default recipe, mean over seeds, for each molecule."""
    done = results["runs"]
    molecules = list(dict.fromkeys(run["molecule"] for run in done))
    head = ["change of the default recipe", *(f"{molecule}: energy, force" for molecule in molecules)]

    def cell(molecule: str, change: Change) -> str:
        of = [run for run in done if run["molecule"] == molecule]
        base = {run["seed"]: run for run in of if not run["group"]}
        mine = [run for run in of if (run["group"], run["name"]) == (change.group, change.name)]
        if not mine:
            return "–"
        kinds = {"energy_mev": "meV", "forces_mev_per_angstrom": "meV/Å"}
        if not change.group:
            return ", ".join(
                f"{statistics.fmean(run[kind] for run in mine):.3g} {unit}" for kind, unit in kinds.items()
            )
        ratios = [statistics.fmean(run[kind] / base[run["seed"]][kind] for run in mine) for kind in kinds]
        return ", ".join(f"{ratio:.2f}" for ratio in ratios)

    rows = []
    for change in (*CHANGES, *SIZES[1:]):
        name = f"{change.group}: {change.name}" if change.group else change.name
        row = [name, *(cell(molecule, change) for molecule in molecules)]
        if set(row[1:]) != {"–"}:
            rows.append(row)
    return table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecules", default=f"ethanol,aspirin,{SEVERAL},malonaldehyde")
    parser.add_argument("--first", default="", help="groups of changes to begin with, with commas")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small sizes, a few changes; nothing is written")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    n_features = 512 if given.quick else N_FEATURES
    done = [] if given.quick else recorded()["runs"]
    known = {key(run) for run in done}
    for molecule, seed, change in runs(given.molecules.split(","), given.first.split(","), given.seeds, given.quick):
        about = {"molecule": molecule, "seed": seed, "group": change.group, "name": change.name}
        if key(about) in known:
            continue
        train, valid = load(molecule, given.quick)
        recipe = replace(features(n_features=n_features)(recipes.DEFAULT), seed=seed)
        found = measured(train, valid, recipe, change, SEVERAL_RIDGES if molecule == SEVERAL else RIDGES)
        print(about | found, flush=True)
        # another process may be at work on other molecules: nothing of what it wrote is lost
        done = [*(done if given.quick else recorded()["runs"]), about | found]
        if not given.quick:
            sizes = {"n_features": n_features, "learnt": LEARNT, "tried": TRIED, "ridges": RIDGES}
            write("ablation", {**sizes, "runs": sorted(done, key=key)})
    print(told({"runs": done}))


def key(run: dict[str, Any]) -> tuple[Any, ...]:
    """What tells a run from others, in the order of the table."""
    names = [(change.group, change.name) for change in (*CHANGES, *SIZES[1:])]
    return run["molecule"], run["seed"], names.index((run["group"], run["name"]))


def recorded() -> dict[str, Any]:
    """The results so far."""
    before = read("ablation")
    return {"runs": []} if before is None else before["results"]


if __name__ == "__main__":
    main()
