"""Data sets and fits that benchmarks of errors share: recipes by name, one fit with its errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from qml_lightning import Dataset, Potential, Recipe, evaluate, fit, load_dataset, recipes

from .internals import facts
from .places import SHARED_DATA

# FCHL19, the paper's representation, with σ, ridge, energy weight and rank chosen from the training structures; and the
# default of the package, with the representation chosen as well, as `fit` does by itself.
AUTO, DENSITY = "auto", "density"
RECIPES = {
    "default": recipes.FCHL19,
    AUTO: recipes.FCHL19,
    DENSITY: recipes.DEFAULT,
    "paper": recipes.PAPER,
    "angular-pair": recipes.ANGULAR_PAIR,
}
ENERGY, FORCE = "energy_mae_mev", "force_mae_mev_per_angstrom"
RMD17_MOLECULES = (
    "aspirin", "benzene", "ethanol", "malonaldehyde", "naphthalene", "salicylic", "toluene", "uracil",
)  # fmt: skip


@lru_cache(maxsize=4)
def load(name: str) -> Dataset:
    """A public data set from the folder of shared data."""
    return load_dataset(name, data_folder=SHARED_DATA, labels="required")


def rmd17_files(*molecules: str) -> tuple[str, ...]:
    """Files of these molecules in the folder of shared data."""
    return tuple(f"rmd17/rmd17_{molecule}.npz" for molecule in molecules)


def rmd17(molecule: str, n_train: int, *, quick: bool = False) -> tuple[Dataset, Dataset]:
    """The first `n_train` structures of train_01, and test_01; quick: 50 others of train_01 instead."""
    if quick:
        train, test = load(f"rmd17_{molecule}:train_01").split((n_train, 50), seed=0)
        return train, test
    return load(f"rmd17_{molecule}:train_01@0:{n_train}"), load(f"rmd17_{molecule}:test_01")


def with_features(recipe: Recipe, n_features: int | None = None, **changes: Any) -> Recipe:
    """`recipe` with so many features, and other changes of its features."""
    if n_features is not None:
        changes["n_features"] = n_features
    return replace(recipe, features=replace(recipe.features, **changes))


def fchl19_recipe(n_features: int, **changes: Any) -> Recipe:
    """The recipe of FCHL19 with so many features, and these changes of its fields."""
    return replace(with_features(recipes.FCHL19, n_features), **changes)


def recipe_for(
    name: str, n_features: int, *, seed: int = 0, instead: Mapping[str, Recipe] | None = None, **features: Any
) -> Recipe | recipes.Automatic:
    """The recipe of that name with so many features.

    `instead`: recipes for names whose usual one is not meant for the data.
    """
    if name not in RECIPES:
        raise SystemExit(f"Unknown recipe {name!r}. Known are {', '.join(RECIPES)}.")
    start = {**RECIPES, **(instead or {})}[name]
    recipe = replace(with_features(start, n_features, **features), seed=seed)
    free = {AUTO: tuple(name for name in recipes.CHOOSABLE if name != "representation"), DENSITY: recipes.CHOOSABLE}
    return recipes.Automatic(recipe, free[name]) if name in free and name not in (instead or {}) else recipe


def recipe_words(name: str) -> str:
    """Addition to the name of a model: its representation, or the recipe if it was not chosen from the data."""
    return {AUTO: ", FCHL19", DENSITY: ", density"}.get(name, f", {name} recipe")


def errors(potential: Potential, test: Dataset) -> dict[str, float]:
    """Mean absolute and root mean square errors in meV and meV/Å."""
    found = evaluate(potential, test)
    out = {}
    for kind, unit, error in (("energy", "mev", found.energy), ("force", "mev_per_angstrom", found.forces)):
        if error is not None:
            out |= {f"{kind}_mae_{unit}": error.mae * 1e3, f"{kind}_rmse_{unit}": error.rmse * 1e3}
    return out


def mae(potential: Potential, test: Dataset) -> dict[str, float]:
    """Mean absolute errors only."""
    return {name: error for name, error in errors(potential, test).items() if name in (ENERGY, FORCE)}


def fitted(train: Dataset, recipe: Recipe | recipes.Automatic) -> tuple[Potential, dict[str, Any]]:
    """A fit, and facts about it for the result file."""
    potential = fit(train, recipe)
    known = facts(potential)
    about: dict[str, Any] = {
        "n_train": len(train),
        "recipe": potential.recipe.as_dict(),
        "fit_seconds": known["seconds"],
    }
    if "choice" in known:
        about |= {"predicted": known["choice"]["predicted"], "choice_seconds": known["choice"]["seconds"]}
    solution = known["solution"]
    if solution["solver"] == "iterative":
        about |= {"steps": len(solution["history"]), "converged": solution["converged"]}
    return potential, about
