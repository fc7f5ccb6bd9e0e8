"""The thorough search: every combination of some fields of a recipe, judged by structures that are held out."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .basis import recipe_difference
from .datasets.dataset import Dataset
from .equations import Equations, equations_of, fingerprints, solved
from .errors import InputError, SolveError
from .files import write_atomically
from .fit import chosen_labels
from .metrics import evaluate
from .neighbours import element_indices
from .recipefile import with_fields
from .recipes import DEFAULT, Recipe
from .training import Progress

FORMAT = "qml-lightning-tune"


@dataclass(frozen=True)
class Tried:
    """A recipe that was tried, and its mean absolute errors on structures held out, of each fold."""

    values: dict[str, Any]  # of the fields that are tried
    energy: list[float]  # eV per atom; empty where there are no such labels
    forces: list[float]  # eV/Å
    stress: list[float]  # eV/Å³

    @property
    def score(self) -> float:
        """Mean over kinds and folds of the logarithm of the error; infinite where there was no solution."""
        errors = [error for kind in (self.energy, self.forces, self.stress) for error in kind]
        return statistics.fmean(math.log(max(error, 1e-300)) for error in errors) if errors else math.inf


@dataclass(frozen=True)
class Tuning:
    """All that was tried, in the order of the search."""

    recipe: Recipe  # which the fields are of
    space: dict[str, list[Any]]
    tried: list[Tried]

    @property
    def ranking(self) -> list[Tried]:
        """The best first."""
        return sorted(self.tried, key=lambda one: one.score)

    @property
    def best(self) -> Recipe:
        """The recipe with the best values."""
        return with_fields(self.recipe, self.ranking[0].values)


def tune(
    data: Dataset,
    space: Mapping[str, Sequence[Any]],
    recipe: Recipe = DEFAULT,
    *,
    folds: int = 1,
    held_out: float = 0.2,
    most: int | None = None,
    journal: str | Path | None = None,
    targets: Sequence[str] | None = None,
    reference_energies: Mapping[int, float] | None = None,
    device: torch.device | str = "cpu",
    kernels: str | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Errors of `recipe` with every combination of the values in `space`, such as {"features.sigma": [4, 8, 16]}.

    One pass over the data for each fold and each combination of fields that changes rows; ridges and weights share it.
    `folds`: with 1, `held_out` of the structures judge; with more, each structure judges once.
    `most`: try no more than so many combinations, drawn by the seed.
    `journal`: file that is written after each pass; what is in it already is not done again.
    """
    data = replace(data, labels=chosen_labels(data.labels, targets))
    recipes = [(values, with_fields(recipe, values)) for values in combinations(space, most, recipe.seed)]
    for _, one in recipes:
        one.check()
    parts = list(_folds(data, folds, held_out, recipe.seed))
    kept = _Journal(journal, _identity(data, recipe, folds, held_out, reference_energies))
    groups = _groups(recipes)
    tell, options = progress or (lambda *_: None), {"device": device, "kernels": kernels}
    tell("passes", 0, len(groups) * len(parts))
    for at, (group, (fold, (learn, judge))) in enumerate(product(groups, enumerate(parts)), 1):
        missing = [(values, one) for values, one in group if not kept.has(values, fold)]
        if missing:
            equations = equations_of(learn, missing[0][1], reference_energies=reference_energies, **options)  # type: ignore[arg-type]
            for values, one in missing:
                kept.add(values, fold, _errors(equations, one, judge, device, kernels))
            kept.write()
        tell("passes", at, len(groups) * len(parts))
    tried = kept.tried(recipes, len(parts))
    if not any(math.isfinite(one.score) for one in tried):
        raise SolveError(f"None of the {len(tried)} recipes has equations that can be solved. Try larger ridges.")
    return Tuning(recipe, {name: list(values) for name, values in space.items()}, tried)


def combinations(space: Mapping[str, Sequence[Any]], most: int | None, seed: int) -> list[dict[str, Any]]:
    """Every one, or as many as are wanted, drawn by the seed."""
    if not space or not all(space.values()):
        raise InputError(
            'There is nothing to try. Give at least one field with values, such as {"ridge": [1e-9, 1e-8]}.'
        )
    every = [dict(zip(space, values)) for values in product(*space.values())]
    if most is None or most >= len(every):
        return every
    drawn = np.random.RandomState(seed).permutation(len(every))[:most]
    return [every[k] for k in sorted(drawn)]


def _groups(recipes: list[tuple[dict[str, Any], Recipe]]) -> list[list[tuple[dict[str, Any], Recipe]]]:
    """Those together that have the same rows."""
    groups: list[list[tuple[dict[str, Any], Recipe]]] = []
    for entry in recipes:
        for group in groups:
            same_draw = ("seed", "projection_samples")
            first = group[0][1]
            if not recipe_difference(first, entry[1]) and all(
                getattr(first, name) == getattr(entry[1], name) for name in same_draw
            ):
                group.append(entry)
                break
        else:
            groups.append([entry])
    return groups


def _folds(data: Dataset, folds: int, held_out: float, seed: int) -> Iterator[tuple[Dataset, Dataset]]:
    """Structures to learn from and to judge by."""
    n = len(data)
    order = np.random.RandomState(seed).permutation(n)
    if folds < 1 or n < max(2, folds) or not 0 < held_out < 1:
        raise InputError(
            f"Wanted {folds} folds of {n} structures, {held_out:g} of them held out. Give at least one fold, as many "
            "structures, and a part between 0 and 1."
        )
    judges = np.array_split(order, folds) if folds > 1 else [order[: min(n - 1, max(1, round(held_out * n)))]]
    for judge in judges:
        learn, judged = data.select(np.setdiff1d(order, judge)), data.select(np.sort(judge))
        element_indices(judged.structures.numbers, learn.structures.elements)
        yield learn, judged


def _errors(
    equations: Equations, recipe: Recipe, judge: Dataset, device: torch.device | str, kernels: str | None
) -> dict[str, float]:
    """By kind; none where there is no solution."""
    try:
        found = evaluate(solved(equations, recipe).on(device, None, kernels), judge)
    except SolveError:
        return {}
    errors = {"energy": found.energy_per_atom, "forces": found.forces, "stress": found.stress}
    return {kind: error.mae for kind, error in errors.items() if error is not None}


def _identity(
    data: Dataset, recipe: Recipe, folds: int, held_out: float, reference_energies: Mapping[int, float] | None
) -> dict[str, Any]:
    """What a journal must agree in to be gone on with."""
    prints = hashlib.sha256(fingerprints(data.structures, data.labels).numpy().tobytes()).hexdigest()
    references = None if reference_energies is None else {str(z): energy for z, energy in reference_energies.items()}
    split = {"folds": folds, "held_out": held_out if folds == 1 else None, "references": references}
    return {"format": FORMAT, "data": prints, "recipe": recipe.as_dict(), **split}


class _Journal:
    """What was tried, in memory and on disk."""

    def __init__(self, path: str | Path | None, identity: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.content: dict[str, Any] = {**identity, "tried": []}
        if self.path is not None and self.path.exists():
            try:
                there = json.loads(self.path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as problem:
                raise InputError(
                    f"The journal {self.path} cannot be read: {problem}. Delete it to begin anew."
                ) from problem
            plain = json.loads(json.dumps(identity))
            if different := [name for name in plain if there.get(name) != plain[name]]:
                raise InputError(
                    f"The journal {self.path} is of another search: {', '.join(different)} differ. Use the data and "
                    "the options it was made with, or delete it to begin anew."
                )
            self.content = there
        self.known = {_key(entry["values"], entry["fold"]): entry["errors"] for entry in self.content["tried"]}

    def has(self, values: dict[str, Any], fold: int) -> bool:
        return _key(values, fold) in self.known

    def add(self, values: dict[str, Any], fold: int, errors: dict[str, float]) -> None:
        self.known[_key(values, fold)] = errors
        self.content["tried"].append({"values": values, "fold": fold, "errors": errors})

    def write(self) -> None:
        if self.path is not None:
            write_atomically(self.path, (json.dumps(self.content, indent=1) + "\n").encode(), overwrite=True)

    def tried(self, recipes: list[tuple[dict[str, Any], Recipe]], folds: int) -> list[Tried]:
        """Without a solution in one fold, there is none."""
        found = []
        for values, _ in recipes:
            errors = [self.known[_key(values, fold)] for fold in range(folds)]
            kinds = ("energy", "forces", "stress") if all(errors) else ()
            by_kind = {kind: [one[kind] for one in errors if kind in one] for kind in kinds}
            found.append(Tried(values, *(by_kind.get(kind, []) for kind in ("energy", "forces", "stress"))))
        return found


def _key(values: dict[str, Any], fold: int) -> str:
    return json.dumps([values, fold], sort_keys=True)


def as_dict(tuning: Tuning) -> dict[str, Any]:
    """For JSON."""
    tried = [asdict(one) | {"score": one.score} for one in tuning.ranking]
    return {"space": tuning.space, "tried": tried, "best": tuning.best.as_dict()}
