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

from ..atoms.dataset import Dataset
from ..atoms.neighbours import element_indices
from ..errors import InputError, SolveError
from ..machine.compute import Compute
from ..machine.files import write_atomically
from ..machine.memory import Memory
from ..machine.processes import as_done, jobs_for
from ..machine.progress import Progress
from ..model.basis import recipe_difference
from ..model.metrics import evaluate
from ..model.recipe import DEFAULT, Recipe
from ..model.recipe_file import with_fields
from ..training.costs import direct_memory
from ..training.equations import Equations
from ..training.problem import Learn, chosen_labels, fingerprints
from ..training.solvers.direct import equations_of, solved

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
    jobs: int | None = 1,
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
    `jobs`: passes at once, each in a process of its own; None: as many as memory and threads allow. A script that asks
    for several must be one that can be imported: its work under `if __name__ == "__main__":`.
    """
    data = replace(data, labels=chosen_labels(data.labels, targets))
    recipes = [(values, with_fields(recipe, values)) for values in combinations(space, most, recipe.seed)]
    for _, one in recipes:
        one.check()
    parts = list(_folds(data, folds, held_out, recipe.seed))
    kept = _Journal(journal, _identity(data, recipe, folds, held_out, reference_energies))
    passes = [_Pass(fold, group) for group in _groups(recipes) for fold in range(len(parts))]
    missing = [rest for one in passes if (rest := kept.missing(one)).recipes]
    search = _Search(parts, reference_energies, device, kernels)
    if jobs is None:  # on one graphics processor several would be in each other's way
        at_most = len(missing) if torch.device(device).type == "cpu" else 1
        jobs = jobs_for(at_most, max(map(search.memory, missing), default=0), Memory().left)
    tell, already = progress or (lambda *_: None), len(passes) - len(missing)
    tell("passes", already, len(passes))
    for at, (done, errors) in enumerate(as_done(search.errors, missing, jobs), already + 1):
        kept.add(done, errors)
        tell("passes", at, len(passes))
    tried = kept.tried(recipes, len(parts))
    if not any(math.isfinite(one.score) for one in tried):
        raise SolveError(f"None of the {len(tried)} recipes has equations that can be solved. Try larger ridges.")
    return Tuning(recipe, {name: list(values) for name, values in space.items()}, tried)


@dataclass(frozen=True)
class _Pass:
    """Recipes that share the equations of one fold."""

    fold: int
    recipes: list[tuple[dict[str, Any], Recipe]]


@dataclass(frozen=True)
class _Search:
    """What all passes have in common."""

    parts: list[tuple[Dataset, Dataset]]
    reference_energies: Mapping[int, float] | None
    device: torch.device | str
    kernels: str | None

    def errors(self, one: _Pass) -> list[dict[str, float]]:
        """Of each recipe, by kind; none where there is no solution."""
        learn, judge = self.parts[one.fold]
        first = one.recipes[0][1]
        equations = equations_of(
            learn,
            first,
            learn=Learn(reference_energies=self.reference_energies),
            compute=Compute(self.device, self.kernels),
        )
        return [self._judged(equations, recipe, judge) for _, recipe in one.recipes]

    def _judged(self, equations: Equations, recipe: Recipe, judge: Dataset) -> dict[str, float]:
        try:
            found = evaluate(solved(equations, recipe).on(self.device, None, self.kernels), judge)
        except SolveError:
            return {}
        errors = {"energy": found.energy_per_atom, "forces": found.forces, "stress": found.stress}
        return {kind: error.mae for kind, error in errors.items() if error is not None}

    def memory(self, one: _Pass) -> int:
        """Bytes that a pass takes, at most."""
        learn, recipe = self.parts[one.fold][0], one.recipes[0][1]
        labels = [learn.labels.energies, learn.labels.forces, learn.labels.stress]
        counts = [part.numel() for part in labels if part is not None]
        n_weights = recipe.features.n_weights(len(learn.structures.elements))
        return direct_memory(counts, n_weights) + 8 * n_weights**2  # solved more than once: beside what is gathered


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

    def missing(self, one: _Pass) -> _Pass:
        """What of it was not tried."""
        return replace(one, recipes=[entry for entry in one.recipes if _key(entry[0], one.fold) not in self.known])

    def add(self, one: _Pass, found: list[dict[str, float]]) -> None:
        """Note a pass, and write all."""
        for (values, _), errors in zip(one.recipes, found, strict=True):
            self.known[_key(values, one.fold)] = errors
            self.content["tried"].append({"values": values, "fold": one.fold, "errors": errors})
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
