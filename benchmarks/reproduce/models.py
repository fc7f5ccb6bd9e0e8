"""What the benchmarks of errors share: recipes by name, one fit with its errors, means over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from common import SHARED_DATA, digits, table
from runner import WHAT, Entry

from qml_lightning import Dataset, Potential, Recipe, evaluate, fit, load_dataset, recipes
from qml_lightning.recipes import Automatic

AUTO = "auto"  # σ, ridge, energy weight and rank chosen from the training structures, as `fit` does by itself
RECIPES = {
    "default": recipes.DEFAULT,
    AUTO: recipes.DEFAULT,
    "paper": recipes.PAPER,
    "angular-pair": recipes.ANGULAR_PAIR,
}
ENERGY, FORCE = "energy_mae_mev", "force_mae_mev_per_angstrom"


@lru_cache(maxsize=4)
def load(name: str) -> Dataset:
    """A public set from the folder beside the repository."""
    return load_dataset(name, data_folder=SHARED_DATA, labels="required")


def recipe_for(
    name: str, n_features: int, *, seed: int = 0, instead: Mapping[str, Recipe] | None = None, **features: Any
) -> Recipe | Automatic:
    """The recipe of that name with so many features.

    `instead`: what a name stands for where the usual recipe is not meant for the data.
    """
    if name not in RECIPES:
        raise SystemExit(f"Unknown recipe {name!r}. Known are {', '.join(RECIPES)}.")
    start = {**RECIPES, **(instead or {})}[name]
    recipe = replace(start, features=replace(start.features, n_features=n_features, **features), seed=seed)
    return Automatic(recipe) if name == AUTO else recipe


def errors(potential: Potential, test: Dataset) -> dict[str, float]:
    """Mean absolute and root mean square errors in meV and meV/Å."""
    told = evaluate(potential, test)
    out = {}
    for kind, unit, error in (("energy", "mev", told.energy), ("force", "mev_per_angstrom", told.forces)):
        if error is not None:
            out |= {f"{kind}_mae_{unit}": error.mae * 1e3, f"{kind}_rmse_{unit}": error.rmse * 1e3}
    return out


def fitted(train: Dataset, recipe: Recipe | Automatic) -> tuple[Potential, dict[str, Any]]:
    """A fit, and what there is to say about it."""
    potential = fit(train, recipe)
    about: dict[str, Any] = {
        "n_train": len(train),
        "recipe": potential.recipe.as_dict(),
        "fit_seconds": potential.provenance["seconds"],
    }
    if "choice" in potential.provenance:
        choice = potential.provenance["choice"]
        about |= {"predicted": choice["predicted"], "choice_seconds": choice["seconds"]}
    solution = potential.provenance["solution"]
    if solution["solver"] == "iterative":
        about |= {"steps": len(solution["history"]), "converged": solution["converged"]}
    return potential, about


def grouped(entries: Sequence[Entry], *names: str) -> dict[tuple[Any, ...], list[Entry]]:
    """Entries that did not fail, by what their cells say under these names, in the order in which they come."""
    out: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in entries:
        if "failed" not in entry:
            out.setdefault(tuple(entry[WHAT].get(name) for name in names), []).append(entry)
    return out


def of_first_recipe(entries: Sequence[Entry]) -> list[Entry]:
    """For a picture that would be crowded by others."""
    return next(iter(grouped(entries, "recipe").values()), [])


def mean(entries: Sequence[Entry], name: str) -> float:
    """Over seeds or splits."""
    return statistics.fmean(entry[name] for entry in entries)


def spread(entries: Sequence[Entry], name: str) -> float:
    """Standard error of that mean; 0 of a single value."""
    values = [entry[name] for entry in entries]
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def told(entries: Sequence[Entry], name: str, digits: int) -> str:
    """Mean, with its standard error where there is one."""
    error = spread(entries, name)
    return f"{mean(entries, name):.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")


def recipe_words(name: str) -> str:
    """What is added to the name of a model whose recipe was not chosen from the data."""
    return "" if name == AUTO else f", {name} recipe"


class Work(NamedTuple):
    """A time here and in the paper, and what the machines can do in a second."""

    what: str
    here: float
    rate: float
    paper: float
    paper_rate: float


def possible_work(unit: str, rows: Sequence[Work], scale: float) -> str:
    """A table of what each machine could have multiplied in the time that it took: a slow machine may do well."""
    if not rows:
        return ""
    told = [
        [one.what, digits(one.here * one.rate * scale), digits(one.paper * one.paper_rate * scale),
         f"{one.rate:.0f}", f"{one.paper_rate:.0f}"]
        for one in rows
    ]  # fmt: skip
    head = [f"what could have been multiplied in that time: {unit}", "here", "paper", "GFLOP/s here", "paper's machine"]
    return "\n\n" + table(head, told)
