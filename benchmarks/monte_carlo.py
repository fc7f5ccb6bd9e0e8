"""Parameters of FCHL19 by greedy Monte Carlo, as in the paper, on distorted small organic molecules.

    python benchmarks/monte_carlo.py search forces-pair forces-series energies-pair energies-series
    python benchmarks/monte_carlo.py compare     # what was found beside what was there, on data the search has not seen
    python benchmarks/monte_carlo.py search forces-pair --quick     # a few trials; writes nothing

A trial changes some parameters, each with a chance of 0.4: real ones are multiplied by a factor from a normal
distribution of mean 1 and variance 0.05, whole ones go up or down by one. It is kept if the loss of a model of 384
structures on 192 others falls:

    0.01 Σ (U − U_ref)² + Σ |F − F_ref|² / atoms          in (kcal/mol)² and (kcal/mol/Å)², over the 192 structures

The width of the kernel is a real parameter beside those of the representation, and the ridge is the best of RIDGES:
otherwise what is found would be the representation that suits one width and one ridge. The history of a search is in
its result file, and a search that is started again goes on from there.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from common import SHARED_DATA, read, table, write

from qml_lightning import Dataset, Labels, evaluate, load_dataset, recipes
from qml_lightning.equations import equations_of, sweep
from qml_lightning.errors import QMLError
from qml_lightning.potential import Prediction
from qml_lightning.recipes import Recipe
from qml_lightning.representation import COSINE_SERIES, ENERGIES, ENERGIES_AND_FORCES, FCHL19
from qml_lightning.units import ENERGY_IN_EV

KCAL_PER_MOL = ENERGY_IN_EV["kcal/mol"]
VARIANCE, CHANCE = 0.05, 0.4
LEARNT, TRIED = 384, 192  # structures
ENERGY_WEIGHT = 3.0  # the loss itself weighs energies as 0.1 · atoms would, about 1; the default is for better energies
RIDGES = (1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3)
REAL = ("eta2", "eta3", "decay2", "decay3", "weight3")
WHOLE = ("n_radial2", "n_radial3")


@dataclass(frozen=True)
class Search:
    """Where a search starts and what it learns from."""

    start: FCHL19
    targets: tuple[str, ...]
    sigma: float = 8.0
    n_features: int = 1024


BOTH = ("energies", "forces")
SEARCHES = {
    "forces-pair": Search(ENERGIES_AND_FORCES, BOTH),
    "forces-series": Search(COSINE_SERIES, BOTH),
    "energies-pair": Search(ENERGIES, ("energies",)),
    "energies-series": Search(replace(ENERGIES, angular="series", n_angular=4, weight3=0.9), ("energies",)),
}


@dataclass(frozen=True)
class Point:
    """Parameters, and how good a model they make."""

    representation: FCHL19
    sigma: float
    ridge: float = 0.0
    loss: float = float("inf")

    def recipe(self, n_features: int, seed: int = 0) -> Recipe:
        features = replace(recipes.DEFAULT.features, n_features=n_features, sigma=self.sigma)
        return replace(
            recipes.DEFAULT,
            representation=self.representation,
            features=features,
            ridge=self.ridge,
            energy_weight=ENERGY_WEIGHT,
            seed=seed,
        )

    def as_dict(self) -> dict[str, Any]:
        return {"sigma": self.sigma, "ridge": self.ridge, "loss": self.loss, **asdict(self.representation)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Point:
        own = {name: values[name] for name in ("sigma", "ridge", "loss")}
        return cls(FCHL19(**{name: value for name, value in values.items() if name not in own}), **own)


def parts(name: str, targets: tuple[str, ...], sizes: tuple[int, int], seed: int) -> tuple[Dataset, Dataset]:
    """Two disjoint draws from a set, with only the labels that are learnt."""
    data = load_dataset(name, data_folder=SHARED_DATA, labels="required")
    return tuple(  # type: ignore[return-value]
        replace(part, labels=Labels(**{kind: getattr(part.labels, kind) for kind in targets}))
        for part in data.split(sizes, seed)
    )


def loss(data: Dataset, prediction: Prediction) -> float:
    """The paper's, in (kcal/mol)² and (kcal/mol/Å)²."""
    total = 0.0
    if data.labels.energies is not None:
        total += 0.01 * float((prediction.energies - data.labels.energies).square().sum())
    if data.labels.forces is not None:
        squares = (prediction.forces - data.labels.forces).square().sum(1)
        total += float((squares / data.structures.counts[data.structures.structure_of_atom]).sum())
    return total / KCAL_PER_MOL**2


def judged(point: Point, train: Dataset, valid: Dataset, n_features: int, seed: int = 0) -> Point:
    """The point with the best ridge and its loss; infinite if the equations cannot be solved."""
    recipe = point.recipe(n_features, seed)
    forces = valid.labels.forces is not None
    best = replace(point, loss=float("inf"))
    equations = equations_of(train, recipe)
    for ridge in RIDGES:
        try:
            (made,) = sweep(equations, [recipe.energy_weight], [ridge])
        except QMLError:
            continue
        found = loss(valid, made.potential.predict(valid.structures, forces=forces))
        if found < best.loss:
            best = replace(point, ridge=ridge, loss=found)
    return best


def moved(point: Point, random: np.random.Generator) -> Point:
    """A trial near the point."""
    names = (*REAL, *WHOLE, "sigma")
    chosen: list[str] = []
    while not chosen:
        chosen = [name for name in names if random.random() < CHANCE]
    changes: dict[str, Any] = {}
    for name in chosen:
        if name in WHOLE:
            changes[name] = max(2, getattr(point.representation, name) + int(random.choice((-1, 1))))
        else:
            old = point.sigma if name == "sigma" else getattr(point.representation, name)
            changes[name] = old * max(0.1, random.normal(1.0, VARIANCE**0.5))
    sigma = changes.pop("sigma", point.sigma)
    return Point(replace(point.representation, **changes), sigma)


def searched(name: str, trials: int, quick: bool) -> None:
    """Go on with a search to that many trials, or begin it."""
    search = SEARCHES[name]
    if quick:
        search = replace(search, n_features=256)
    sizes = (24, 12) if quick else (LEARNT, TRIED)
    train, valid = parts("small_mols:train", search.targets, sizes, seed=0)
    before = None if quick else read(f"monte_carlo_{name}")
    history = [] if before is None else before["results"]["history"]
    best = min(history, key=lambda trial: trial["loss"]) if history else None
    best_point = Point(search.start, search.sigma) if best is None else Point.from_dict(best["point"])
    for number in range(len(history), trials + 1):
        started = time.perf_counter()
        # its own generator for each trial: a search that was interrupted goes on as if it had not been
        trial = best_point if number == 0 else moved(best_point, np.random.default_rng((7, number)))
        trial = judged(trial, train, valid, search.n_features)
        kept = number == 0 or trial.loss < best_point.loss
        best_point = trial if kept else best_point
        seconds = round(time.perf_counter() - started, 2)
        history.append({"loss": trial.loss, "kept": kept, "seconds": seconds, "point": trial.as_dict()})
        if kept:
            print(f"{name} {number}: loss {trial.loss:.2f}, {seconds} s, {trial}", flush=True)
        if not quick and (number == trials or number % 10 == 0):
            results = {
                "search": asdict(search),
                "data": [part.source.as_dict() for part in (train, valid)],
                "variance": VARIANCE,
                "chance": CHANCE,
                "ridges": RIDGES,
                "first": history[0]["point"],
                "best": best_point.as_dict(),
                "history": history,
            }
            write(f"monte_carlo_{name}", results)
    print(f"{name}: loss {history[0]['loss']:.2f} → {best_point.loss:.2f} after {len(history) - 1} trials")


@dataclass(frozen=True)
class Case:
    """Data that no search has seen, from training sets only."""

    data: str
    targets: tuple[str, ...]
    sizes: tuple[int, int]
    n_features: int
    ridges: tuple[float, ...]
    seeds: tuple[int, ...] = (1,)


CASES = (
    Case("small_mols:valid", BOTH, (LEARNT, TRIED), 1024, RIDGES[2:]),
    Case("rmd17_ethanol:train_01", BOTH, (300, 200), 4096, (1e-10, 1e-9, 1e-8)),
    Case("rmd17_aspirin:train_01", BOTH, (300, 200), 4096, (1e-9, 1e-8, 1e-7)),
    Case("small_mols:valid", ("energies",), (LEARNT, TRIED), 1024, RIDGES[:4]),
    Case("qm9:train_pool", ("energies",), (2000, 1000), 4096, RIDGES[:4]),
)


def errors(case: Case, point: Point) -> dict[str, float]:
    """MAE in meV and meV/Å with the width of the point and the best ridge, mean over the seeds."""
    train, valid = parts(case.data, case.targets, case.sizes, seed=1)
    found: dict[float, list[list[float]]] = {}
    for seed in case.seeds:
        recipe = point.recipe(case.n_features, seed)
        equations = equations_of(train, recipe)
        for ridge in case.ridges:
            try:
                (made,) = sweep(equations, [recipe.energy_weight], [ridge])
            except QMLError:
                continue
            metrics = evaluate(made.potential, valid)
            told = [error.mae * 1e3 for error in (metrics.forces, metrics.energy) if error is not None]
            found.setdefault(ridge, []).append(told)
    means = {ridge: np.mean(runs, axis=0) for ridge, runs in found.items() if len(runs) == len(case.seeds)}
    best = min(means, key=lambda ridge: float(means[ridge][0]))  # by forces, where they are learnt
    names = ("forces_mev_per_angstrom", "energy_mev") if len(case.targets) > 1 else ("energy_mev",)
    return dict(zip(names, map(float, means[best]))) | {"ridge": best}


def compared() -> None:
    """What each search began with and what it found, on other data."""
    before = read("monte_carlo")
    results: dict[str, Any] = {} if before is None else before["results"]
    for name, search in SEARCHES.items():
        record = read(f"monte_carlo_{name}")
        if record is None:
            continue
        points = {which: Point.from_dict(record["results"][which]) for which in ("first", "best")}
        for case in (case for case in CASES if case.targets == search.targets):
            of = results.setdefault(name, {}).setdefault(case.data, {"case": vars(case)})
            for which, point in points.items():
                if of.get(which, {}).get("point") != point.as_dict():
                    of[which] = errors(case, point) | {"point": point.as_dict()}
                    print(name, case.data, which, of[which], flush=True)
                    write("monte_carlo", results)
    print(told(results))


def told(results: dict[str, Any]) -> str:
    """The tables: parameters, and errors, before and after."""
    return f"{_parameters(results)}\n\n{_errors(results)}"


def _parameters(results: dict[str, Any]) -> str:
    names = {"n_radial2": "radial 2", "n_radial3": "radial 3", "eta2": "η2", "eta3": "η3", "decay2": "decay 2",
             "decay3": "decay 3", "weight3": "c3", "sigma": "σ"}  # fmt: skip
    rows = []
    for search, cases in results.items():
        of = next(iter(cases.values()))
        for which in ("first", "best"):
            point = of[which]["point"]
            values = [str(point[name]) if name in WHOLE else f"{point[name]:.3g}" for name in names]
            rows.append([f"{search}, {'before' if which == 'first' else 'found'}", f"{point['loss']:.4g}", *values])
    return table(["search", "loss", *names.values()], rows)


def _errors(results: dict[str, Any]) -> str:
    rows = []
    for name, cases in results.items():
        for data, of in cases.items():
            if "best" in of and of["best"]["point"] != of["first"]["point"]:  # something was found
                kinds = [kind for kind in ("energy_mev", "forces_mev_per_angstrom") if kind in of["best"]]
                cells = [" / ".join(f"{of[which][kind]:.3g}" for kind in kinds) for which in ("first", "best")]
                rows.append([name, data, f"{of['case']['sizes'][0]}", f"{of['case']['n_features']}", *cells])
    head = ["search", "data", "structures", "features", "before: energy / meV, force / meV/Å", "after"]
    return table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("search", "compare"))
    parser.add_argument("searches", nargs="*", metavar="SEARCH", help="which searches; by default all")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="few structures and trials; nothing is written")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.what == "compare":
        compared()
        return
    for name in given.searches or SEARCHES:
        searched(name, 4 if given.quick else given.trials, given.quick)


if __name__ == "__main__":
    main()
