"""Search through every combination of some fields of a recipe, by the errors on held-out structures."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..atoms.dataset import Dataset
from ..atoms.neighbours import element_indices
from ..errors import InputError, SolveError
from ..machine.compute import Compute
from ..machine.files import write_atomically
from ..machine.processes import as_done, jobs_for
from ..machine.progress import Progress, silent
from ..model.basis import BASIS_FIELDS
from ..model.metrics import evaluate
from ..model.recipe import DEFAULT, Recipe
from ..model.recipe_file import with_fields
from ..training.costs import repeated_memory
from ..training.equations import Equations
from ..training.problem import Learn, chosen_labels, fingerprints
from ..training.solvers.direct import solved
from ..training.sweep import equations_of

FORMAT = "qml-lightning-tune"
KINDS = ("energy", "forces", "stress")
# Recipes that agree in these fields have the same rows: one pass over the data serves all of them.
ROW_FIELDS = (*BASIS_FIELDS, "seed", "projection_samples")
Values = dict[str, Any]  # by the name of a field, such as {"features.sigma": 8.0}


@dataclass(frozen=True)
class Search:
    """Recipes to try, and the split into training and validation sets."""

    space: Mapping[str, Sequence[Any]]  # values of each field, such as {"features.sigma": [4, 8, 16]}
    folds: int = 1  # with more than one, each structure is in one validation set
    held_out: float = 0.2  # part of the structures in the validation set of one fold
    most: int | None = None  # combinations to try, drawn by the seed; None: all

    def combinations(self, seed: int) -> list[Values]:
        """Combinations of values to try."""
        if not self.space or not all(self.space.values()):
            raise InputError(
                'There is nothing to try. Give at least one field with values, such as {"ridge": [1e-9, 1e-8]}.'
            )
        every = [dict(zip(self.space, values)) for values in product(*self.space.values())]
        if self.most is None or self.most >= len(every):
            return every
        drawn = np.random.RandomState(seed).permutation(len(every))[: self.most]
        return [every[k] for k in sorted(drawn)]

    def splits(self, data: Dataset, seed: int) -> Iterator[tuple[Dataset, Dataset]]:
        """Training set and validation set of each fold."""
        n = len(data)
        if self.folds < 1 or n < max(2, self.folds) or not 0 < self.held_out < 1:
            raise InputError(
                f"Wanted {self.folds} folds of {n} structures, {self.held_out:g} of them held out. Give at least one "
                "fold, as many structures, and a part between 0 and 1."
            )
        order = np.random.RandomState(seed).permutation(n)
        one_fold = order[: min(n - 1, max(1, round(self.held_out * n)))]
        for held_out in [one_fold] if self.folds == 1 else np.array_split(order, self.folds):
            training, validation = data.select(np.setdiff1d(order, held_out)), data.select(np.sort(held_out))
            element_indices(validation.structures.numbers, training.structures.elements)
            yield training, validation


@dataclass(frozen=True)
class Trial:
    """Mean absolute errors of one recipe on the validation sets, one for each fold; empty without such labels."""

    values: Values
    energy: list[float]  # eV per atom
    forces: list[float]  # eV/Å
    stress: list[float]  # eV/Å³

    @property
    def score(self) -> float:
        """Mean over kinds and folds of the logarithm of the error; infinite where there was no solution."""
        errors = [error for kind in KINDS for error in getattr(self, kind)]
        return statistics.fmean(math.log(max(error, 1e-300)) for error in errors) if errors else math.inf


@dataclass(frozen=True)
class Tuning:
    """Result of a search."""

    recipe: Recipe  # starting point
    space: dict[str, list[Any]]
    trials: list[Trial]  # in the order of the search

    @property
    def ranking(self) -> list[Trial]:
        """Trials, the best first."""
        return sorted(self.trials, key=lambda trial: trial.score)

    @property
    def best(self) -> Recipe:
        """Recipe with the best values."""
        return with_fields(self.recipe, self.ranking[0].values)

    def as_dict(self) -> dict[str, Any]:
        """Content for JSON."""
        tried = [asdict(trial) | {"score": trial.score} for trial in self.ranking]
        return {"space": self.space, "tried": tried, "best": self.best.as_dict()}


def tune(
    data: Dataset,
    search: Search,
    recipe: Recipe = DEFAULT,
    *,
    journal: str | Path | None = None,
    jobs: int | None = 1,
    learn: Learn | None = None,
    compute: Compute | None = None,
    progress: Progress = silent,
) -> Tuning:
    """Errors of `recipe` with every combination of values in `search`.

    Each fold and each combination of fields that change rows needs one pass over the data; ridges and weights share it.
    `journal`: file that is written after each pass; combinations that it holds already are not tried again.
    `jobs`: passes at once, each in a process of its own; None: as many as memory and threads allow. A script that asks
    for several must be one that can be imported: its work under `if __name__ == "__main__":`.
    """
    learn, compute = learn or Learn(), compute or Compute()
    data = replace(data, labels=chosen_labels(data.labels, learn.targets))
    combinations = search.combinations(recipe.seed)
    for values in combinations:
        with_fields(recipe, values).check()
    fits = _Fits(recipe, list(search.splits(data, recipe.seed)), learn, compute)
    kept = _Journal(journal, _identity(data, recipe, search, learn.reference_energies))
    passes = [_Pass(fold, group) for group in fits.groups(combinations) for fold in range(len(fits.splits))]
    missing = [rest for one in passes if (rest := kept.missing(one)).group]
    if jobs is None:  # several passes on one graphics processor would slow each other down
        at_most = len(missing) if torch.device(compute.device).type == "cpu" else 1
        jobs = jobs_for(at_most, max(map(fits.memory, missing), default=0), compute.memory.left)
    already = len(passes) - len(missing)
    progress("passes", already, len(passes))
    for at, (done, errors) in enumerate(as_done(fits.errors, missing, jobs), already + 1):
        kept.add(done, errors)
        progress("passes", at, len(passes))
    trials = [kept.trial(values, len(fits.splits)) for values in combinations]
    if not any(math.isfinite(trial.score) for trial in trials):
        raise SolveError(f"None of the {len(trials)} recipes has equations that can be solved. Try larger ridges.")
    return Tuning(recipe, {name: list(values) for name, values in search.space.items()}, trials)


class _Pass(NamedTuple):
    """Combinations that share the equations of one fold."""

    fold: int
    group: list[Values]


@dataclass(frozen=True)
class _Fits:
    """Fits of a search."""

    recipe: Recipe
    splits: list[tuple[Dataset, Dataset]]  # training set and validation set of each fold
    learn: Learn
    compute: Compute

    def groups(self, combinations: list[Values]) -> list[list[Values]]:
        """Combinations with the same rows together."""
        groups: dict[tuple[object, ...], list[Values]] = {}
        for values in combinations:
            recipe = with_fields(self.recipe, values)
            groups.setdefault(tuple(getattr(recipe, name) for name in ROW_FIELDS), []).append(values)
        return list(groups.values())

    def errors(self, one: _Pass) -> list[dict[str, float]]:
        """Mean absolute errors of each combination, by kind; empty where there is no solution."""
        training, validation = self.splits[one.fold]
        recipes = [with_fields(self.recipe, values) for values in one.group]
        equations = equations_of(training, recipes[0], learn=self.learn, compute=self.compute)
        return [self._errors(equations, recipe, validation) for recipe in recipes]

    def _errors(self, equations: Equations, recipe: Recipe, validation: Dataset) -> dict[str, float]:
        try:
            potential = solved(equations, recipe)
            found = evaluate(potential.on(self.compute.device, kernels=self.compute.kernels), validation)
        except SolveError:
            return {}
        errors = zip(KINDS, (found.energy_per_atom, found.forces, found.stress))
        return {kind: error.mae for kind, error in errors if error is not None}

    def memory(self, one: _Pass) -> int:
        """Bytes that a pass takes at most."""
        (training, _), recipe = self.splits[one.fold], with_fields(self.recipe, one.group[0])
        counts = [getattr(training.labels, kind).numel() for kind in training.labels.kinds]
        n_weights = recipe.features.n_weights(len(training.structures.elements))
        return repeated_memory(counts, n_weights)


def _identity(
    data: Dataset, recipe: Recipe, search: Search, reference_energies: Mapping[int, float] | None
) -> dict[str, Any]:
    """Facts that a journal must share with a search that continues it."""
    prints = hashlib.sha256(fingerprints(data.structures, data.labels).numpy().tobytes()).hexdigest()
    references = None if reference_energies is None else {str(z): energy for z, energy in reference_energies.items()}
    split = {"folds": search.folds, "held_out": search.held_out if search.folds == 1 else None}
    return {"format": FORMAT, "data": prints, "recipe": recipe.as_dict(), **split, "references": references}


class _Journal:
    """Errors of the combinations tried so far, in memory and on disk."""

    def __init__(self, path: str | Path | None, identity: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.content: dict[str, Any] = {**identity, "tried": []}
        if self.path is not None and self.path.exists():
            try:
                there = json.loads(self.path.read_text(encoding="utf-8"))
                there["recipe"] = Recipe.from_dict(there["recipe"]).as_dict()  # an older version may lack a field
            except (OSError, ValueError, KeyError, TypeError) as problem:
                text = f"The journal {self.path} cannot be read: {problem}. Delete it to begin anew."
                raise InputError(text) from problem
            plain = json.loads(json.dumps(identity))
            if different := [name for name in plain if there.get(name) != plain[name]]:
                raise InputError(
                    f"The journal {self.path} is of another search: {', '.join(different)} differ. Use the data and "
                    "the options it was made with, or delete it to begin anew."
                )
            self.content = there
        self.known = {_key(entry["values"], entry["fold"]): entry["errors"] for entry in self.content["tried"]}

    def missing(self, one: _Pass) -> _Pass:
        """The pass without the combinations that are known."""
        return _Pass(one.fold, [values for values in one.group if _key(values, one.fold) not in self.known])

    def add(self, one: _Pass, found: list[dict[str, float]]) -> None:
        """Add the errors of a pass, and write the file."""
        for values, errors in zip(one.group, found, strict=True):
            self.known[_key(values, one.fold)] = errors
            self.content["tried"].append({"values": values, "fold": one.fold, "errors": errors})
        if self.path is not None:
            write_atomically(self.path, (json.dumps(self.content, indent=1) + "\n").encode(), overwrite=True)

    def trial(self, values: Values, folds: int) -> Trial:
        """Errors of a combination in all folds; none if one fold has no solution."""
        errors = [self.known[_key(values, fold)] for fold in range(folds)]
        return Trial(values, *([one[kind] for one in errors if all(errors) and kind in one] for kind in KINDS))


def _key(values: Values, fold: int) -> str:
    return json.dumps([values, fold], sort_keys=True)
