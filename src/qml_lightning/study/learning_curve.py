"""Learning curves by measurement: the equations of a smaller training set grow into those of a larger one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TypedDict, Unpack

import torch

from ..atoms.dataset import Dataset
from ..atoms.neighbours import element_indices
from ..errors import InputError, SolveError
from ..machine.compute import Compute
from ..machine.progress import Progress, silent
from ..model.basis import Basis
from ..model.metrics import Metrics, evaluate
from ..model.recipe import DEFAULT, Recipe
from ..training.costs import matrix_memory
from ..training.equations import Equations, extended
from ..training.problem import Learn, chosen_labels
from ..training.solvers.direct import solved
from ..training.sweep import equations_of
from .trends import Entry, LearningCurve

# Number of sizes by default: each is half of the next.
HALVINGS = 5
# Structures held out by default, at most.
MOST_HELD_OUT = 1000
# Validation structures that choose the ridge of a size: those that follow it in the draw.
FEWEST_NEXT, MOST_NEXT = 10, 200


class CurveOptions(TypedDict, total=False):
    """Keywords of `learning_curve`."""

    test: Dataset | None  # test set; None: structures of the data that are held out
    held_out: int | None  # how many of the data; None: what the largest size leaves, at most 1000
    seeds: int  # draws of structures and features; 1 by default
    ridges: Sequence[float]  # each size takes the best of them; by default the ridge of the recipe
    targets: Sequence[str] | None  # this and the rest: as in `fit`
    reference_energies: Mapping[int, float] | None
    device: torch.device | str
    kernels: str | None


def learning_curve(
    data: Dataset,
    sizes: Sequence[int] | None = None,
    features: Sequence[int] | None = None,
    *,
    recipe: Recipe = DEFAULT,
    progress: Progress = silent,
    **options: Unpack[CurveOptions],
) -> LearningCurve:
    """Errors of models of `sizes` structures of `data` with each number of `features`, on a test set.

    Each number of features and each seed needs one pass over the largest training set: the smaller sets are its first
    structures. All sizes use the axes of the largest set, which depend on geometries and not on labels.

    `sizes`, `features`: by default five sizes, each half of the next; a quarter of the recipe's features, and all.
    `test`: structures to measure the errors on; without it `held_out` structures of `data`, by default as many as the
    largest size leaves, at most 1000. `seeds`: number of draws of structures and features.
    `ridges`: each size takes the best of these on the structures that follow in the draw; if too few follow, the ridge
    of the size before. Without them the curve has a peak where rows are about as many as weights.
    `targets`, `reference_energies`, `device`, `kernels`, `progress`: as in `fit`.
    """
    if unknown := set(options) - CurveOptions.__annotations__.keys():
        known = ", ".join(CurveOptions.__annotations__)
        raise TypeError(f"learning_curve has no option {', '.join(sorted(unknown))}. It has {known}.")
    learn = Learn(options.get("targets"), options.get("reference_energies"))
    compute = Compute(options.get("device", "cpu"), options.get("kernels"))
    ridges = sorted(options.get("ridges", ()))
    recipes = _recipes(recipe, features, options.get("seeds", 1), ridges)
    data = replace(data, labels=chosen_labels(data.labels, learn.targets))
    ascending, pool, test = _parts(data, sizes, options.get("test"), options.get("held_out"), recipe.seed)
    measure = _Measurement(ascending, pool, test, ridges, learn, compute, progress)
    entries = tuple(entry for each in recipes for entry in measure.models(each))
    return LearningCurve(_quantities(test), entries, recipe, data.source.as_dict(), test.source.as_dict())


def _recipes(recipe: Recipe, features: Sequence[int] | None, seeds: int, ridges: list[float]) -> list[Recipe]:
    """`recipe` with each number of features and each seed; an InputError if one cannot be used."""
    if recipe.solver.method == "iterative":
        raise InputError('A learning curve solves the same equations again and again: use the solver "direct".')
    most = recipe.features.n_features
    numbers = sorted(set((most // 4, most) if features is None else features))
    if not numbers or seeds < 1:
        raise InputError(f"Wanted at least one number of features and at least one seed, got {numbers} and {seeds}.")
    recipes = [
        replace(recipe, features=replace(recipe.features, n_features=n), seed=recipe.seed + draw)
        for n in numbers
        for draw in range(seeds)
    ]
    for each in (*recipes, *(replace(recipe, ridge=ridge) for ridge in ridges)):
        each.check()
    return recipes


def _parts(
    data: Dataset, sizes: Sequence[int] | None, test: Dataset | None, held_out: int | None, seed: int
) -> tuple[tuple[int, ...], Dataset, Dataset]:
    """Sizes, ascending; structures to draw training sets from; test set."""
    if test is not None and held_out is not None:
        raise InputError("Errors are measured on a test set or on structures held out. Give one of the two.")
    n, held_out = len(data), 0 if test is not None else held_out
    if sizes is None:
        left = n - (min(MOST_HELD_OUT, n // 5) if held_out is None else held_out)
        sizes = [size for halving in range(HALVINGS) if (size := left // 2**halving) > 0]
    sizes = tuple(sorted(set(sizes)))
    if not sizes or sizes[0] < 1:
        raise InputError(f"Wanted sizes of training sets such as 100, 200, 500, got {list(sizes)}.")
    if held_out is None:
        held_out = max(1, min(MOST_HELD_OUT, n - sizes[-1]))
    if sizes[-1] + held_out > n:
        raise InputError(
            f"Wanted {sizes[-1]} structures to learn from and {held_out} to hold out, {data.source.name} has {n}. "
            "Give smaller sizes."
        )
    return (sizes, data, test) if test is not None else (sizes, *data.split((n - held_out, held_out), seed))


@dataclass(frozen=True)
class _Measurement:
    """Everything that the models of a learning curve share."""

    sizes: tuple[int, ...]  # ascending
    pool: Dataset  # training sets are drawn from it
    test: Dataset
    ridges: list[float]  # ascending
    learn: Learn
    compute: Compute
    tell: Progress

    def models(self, recipe: Recipe) -> Iterator[Entry]:
        """Errors of the models of all sizes with the features and the seed of `recipe`."""
        drawn = self.pool.subsample(min(len(self.pool), self.sizes[-1] + MOST_NEXT), recipe.seed)
        learnt = drawn.select(range(self.sizes[-1]))
        # a rare element may be missing from the draw: fail before any work
        element_indices(self.test.structures.numbers, learnt.structures.elements)
        near = self.ridges
        for n, equations in self._growing(learnt, recipe):
            following = range(n, min(n + MOST_NEXT, len(drawn)))
            if near and len(following) >= FEWEST_NEXT:
                recipe = self._with_best_ridge(equations, recipe, near, drawn.select(following))
                at = self.ridges.index(recipe.ridge)
                near = self.ridges[max(0, at - 1) : at + 2]  # the best ridge of the next size is not far
            metrics = self._errors(equations, recipe, self.test, use_up=n == self.sizes[-1])
            yield Entry(recipe.features.n_features, n, recipe.seed, recipe.ridge, metrics)

    def _errors(self, equations: Equations, recipe: Recipe, data: Dataset, *, use_up: bool = False) -> Metrics:
        potential = solved(equations, recipe, use_up=use_up)
        return evaluate(potential.on(self.compute.device, kernels=self.compute.kernels), data)

    def _with_best_ridge(self, equations: Equations, recipe: Recipe, ridges: list[float], data: Dataset) -> Recipe:
        """`recipe` with the ridge that gives the least error of forces (else energies) on `data`."""
        errors = {}
        for ridge in ridges:
            with suppress(SolveError):
                metrics = self._errors(equations, replace(recipe, ridge=ridge), data)
                error = metrics.forces or metrics.energy_per_atom
                assert error is not None
                errors[ridge] = error.mae
        if not errors:
            raise SolveError(f"The equations cannot be solved with any of the ridges {ridges}. Try larger ones.")
        return replace(recipe, ridge=min(errors, key=lambda ridge: errors[ridge]))

    def _growing(self, data: Dataset, recipe: Recipe) -> Iterator[tuple[int, Equations]]:
        """Each size, and the equations of that many of the first structures of `data`."""
        n_weights = recipe.features.n_weights(len(data.structures.elements))
        self.compute.memory.require(
            2 * matrix_memory(n_weights),
            f"A learning curve with {n_weights} weights keeps its equations beside their solution and",
            "Use fewer features.",
        )
        basis, equations = Basis.draw(data.structures, recipe), None
        for before, n in pairwise((0, *self.sizes)):
            part, tell = data.select(range(before, n)), partial(self._tell, recipe, before)
            if equations is None:
                equations = equations_of(part, recipe, basis=basis, learn=self.learn, compute=self.compute, tell=tell)
            else:
                equations = extended(equations, part, self.compute, repeated=True, tell=tell)
            yield n, equations

    def _tell(self, recipe: Recipe, before: int, what: str, done: int, of: int, remark: str = "", /) -> None:
        run = f"{recipe.features.n_features} features, seed {recipe.seed}"
        self.tell(run, before + done, self.sizes[-1], remark)


def _quantities(data: Dataset) -> tuple[str, ...]:
    """Errors to report: energies of whole structures only if all structures have the same number of atoms."""
    one_size = bool((data.structures.counts == data.structures.counts[0]).all())
    names = {"energies": "energy" if one_size else "energy_per_atom", "forces": "forces", "stress": "stress"}
    return tuple(names[kind] for kind in data.labels.kinds)
