"""Parameters of FCHL19 by greedy Monte Carlo, as in the paper, on distorted small organic molecules."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from qml_lightning import Dataset, Labels, Prediction, Recipe

from ..harness.benchmark import Benchmark, Cell, Entry, Options, earlier
from ..harness.entries import grouped
from ..harness.internals import ENERGY_IN_EV, Representation, equations_of, representations, solutions
from ..harness.models import fchl19_recipe, load, with_features
from ..harness.tables import table

KCAL_PER_MOL = ENERGY_IN_EV["kcal/mol"]
VARIANCE, CHANCE = 0.05, 0.4
LEARNT, TRIED = 384, 192  # structures
PORTION, TRIALS = 50, 300  # trials of one cell, and of a whole search
ENERGY_WEIGHT = 3.0  # the loss itself weighs energies as 0.1 · atoms would, about 1; the default is for better energies
RIDGES = (1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3)
REAL = ("eta2", "eta3", "decay2", "decay3", "weight3")
WHOLE = ("n_radial2", "n_radial3")


@dataclass(frozen=True)
class Search:
    """Start of a search, and the labels that it learns from."""

    start: Representation
    targets: tuple[str, ...]
    sigma: float = 8.0
    n_features: int = 1024


BOTH = ("energies", "forces")
ENERGIES_SERIES = replace(representations.ENERGIES, angular="series", n_angular=4, weight3=0.9)
SEARCHES = {
    "forces-series": Search(representations.COSINE_SERIES, BOTH),
    "energies-pair": Search(representations.ENERGIES, ("energies",)),
    "energies-series": Search(ENERGIES_SERIES, ("energies",)),
    "forces-pair": Search(representations.ENERGIES_AND_FORCES, BOTH),
}


@dataclass(frozen=True)
class Point:
    """Parameters with their best ridge, and the loss of the model that they make."""

    representation: Representation
    sigma: float
    ridge: float = 0.0
    loss: float = float("inf")

    def recipe(self, n_features: int, seed: int = 0) -> Recipe:
        changes = {"representation": self.representation, "ridge": self.ridge, "energy_weight": ENERGY_WEIGHT}
        return with_features(fchl19_recipe(n_features, seed=seed, **changes), sigma=self.sigma)

    def as_dict(self) -> dict[str, Any]:
        return {"sigma": self.sigma, "ridge": self.ridge, "loss": self.loss, **asdict(self.representation)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Point:
        own = {name: values[name] for name in ("sigma", "ridge", "loss")}
        return cls(Representation(**{name: value for name, value in values.items() if name not in own}), **own)


def cells(options: Options) -> list[Cell]:
    """A search goes on from its cell before, `trials` trials in all."""
    if options.quick:
        return [{"search": "forces-pair", "trials": n} for n in (1, 2)]
    return [{"search": name, "trials": n} for name in SEARCHES for n in range(PORTION, TRIALS + 1, PORTION)]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    name, last = cell["search"], cell["trials"]
    search = replace(SEARCHES[name], n_features=256) if options.quick else SEARCHES[name]
    train, valid = parts("small_mols:train", search.targets, (24, 12) if options.quick else (LEARNT, TRIED), seed=0)
    portion = 1 if options.quick else PORTION
    best, first = Point(search.start, search.sigma), 0
    if last > portion:
        before = earlier(MONTE_CARLO.name, options, search=name, trials=last - portion)
        best, first = Point.from_dict(before["best"]), last - portion + 1
    history = []
    for number in range(first, last + 1):
        started = time.perf_counter()
        # its own generator for each trial: a search that was interrupted goes on as if it had not been
        trial = best if number == 0 else moved(best, np.random.default_rng((7, number)))
        trial = judged(trial, train, valid, search.n_features)
        kept = number == 0 or trial.loss < best.loss
        best = trial if kept else best
        seconds = round(time.perf_counter() - started, 2)
        history.append({"loss": trial.loss, "kept": kept, "seconds": seconds, "point": trial.as_dict()})
    return {
        "start": asdict(search),
        "data": [part.source.as_dict() for part in (train, valid)],
        "variance": VARIANCE,
        "chance": CHANCE,
        "ridges": RIDGES,
        "best": best.as_dict(),
        "history": history,
    }


def parts(name: str, targets: tuple[str, ...], sizes: tuple[int, int], seed: int) -> tuple[Dataset, Dataset]:
    """Two disjoint draws from a set, with only the labels that are learnt."""
    return tuple(  # type: ignore[return-value]
        replace(part, labels=Labels(**{kind: getattr(part.labels, kind) for kind in targets}))
        for part in load(name).split(sizes, seed)
    )


def loss(data: Dataset, prediction: Prediction) -> float:
    """The paper's loss in (kcal/mol)² and (kcal/mol/Å)²: 0.01 Σ (U − U_ref)² + Σ |F − F_ref|² / atoms."""
    total = 0.0
    if data.labels.energies is not None:
        total += 0.01 * float((prediction.energies - data.labels.energies).square().sum())
    if data.labels.forces is not None:
        squares = (prediction.forces - data.labels.forces).square().sum(1)
        total += float((squares / data.structures.counts[data.structures.structure_of_atom]).sum())
    return total / KCAL_PER_MOL**2


def judged(point: Point, train: Dataset, valid: Dataset, n_features: int) -> Point:
    """The point with the best ridge and its loss; infinite if the equations cannot be solved."""
    recipe, best = point.recipe(n_features), replace(point, loss=float("inf"))
    for ridge, potential in solutions(equations_of(train, recipe), recipe, RIDGES):
        found = loss(valid, potential.predict(valid.structures, forces=valid.labels.forces is not None))
        if found < best.loss:
            best = replace(point, ridge=ridge, loss=found)
    return best


def moved(point: Point, random: np.random.Generator) -> Point:
    """A trial near the point: some parameters multiplied by a random factor, or moved up or down by one."""
    chosen: list[str] = []
    while not chosen:
        chosen = [name for name in (*REAL, *WHOLE, "sigma") if random.random() < CHANCE]
    changes: dict[str, Any] = {}
    for name in chosen:
        if name in WHOLE:
            changes[name] = max(2, getattr(point.representation, name) + int(random.choice((-1, 1))))
        else:
            old = point.sigma if name == "sigma" else getattr(point.representation, name)
            changes[name] = old * max(0.1, random.normal(1.0, VARIANCE**0.5))
    sigma = changes.pop("sigma", point.sigma)
    return Point(replace(point.representation, **changes), sigma)


def tables(entries: list[Entry]) -> str:
    rows = []
    for (name,), there in grouped(entries, "search").items():
        trials = sum(len(entry["history"]) for entry in there) - 1
        kept = sum(trial["kept"] for entry in there for trial in entry["history"]) - 1
        before, after = there[0]["history"][0]["loss"], there[-1]["best"]["loss"]
        rows.append([name, str(trials), str(kept), f"{before:.2f}", f"{after:.2f}"])
    return table(["search", "trials", "kept", "loss before", "loss found"], rows)


MONTE_CARLO = Benchmark(
    "monte_carlo",
    "Parameters of FCHL19 by greedy Monte Carlo",
    "A trial changes some parameters, each with a chance of 0.4: real ones are multiplied by a factor from a normal "
    "distribution of mean 1 and variance 0.05, whole ones go up or down by one. It is kept if the loss of a model of "
    "384 structures on 192 others falls. The width of the kernel is a real parameter beside those of the "
    "representation, and the ridge is the best of six: otherwise the search would find the representation that suits "
    "one width and one ridge.",
    cells, measure, tables,
    needs=("small_mols/small_mols.npz",), threads=1,
)  # fmt: skip
