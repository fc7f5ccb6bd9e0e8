"""Learning curves measured: the equations of a smaller training set are the beginning of a larger one's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import torch

from ..atoms.dataset import Dataset
from ..atoms.neighbours import element_indices
from ..errors import InputError, SolveError
from ..machine.compute import Compute
from ..machine.memory import Memory
from ..machine.progress import Progress
from ..model.basis import Basis
from ..model.metrics import evaluate
from ..model.recipe import DEFAULT, Recipe
from ..training.equations import Equations, extended
from ..training.problem import Learn, chosen_labels
from ..training.solvers.direct import equations_of, solved, sweep
from .trends import Entry, LearningCurve

# Without sizes: that many, each half of the next, the largest four fifths of the data.
HALVINGS = 5
# Structures held out at most when nothing is said.
MOST_HELD_OUT = 1000
# Structures that choose the ridge.
FEWEST_NEXT, MOST_NEXT = 10, 200


def learning_curve(
    data: Dataset,
    sizes: Sequence[int] | None = None,
    features: Sequence[int] | None = None,
    *,
    recipe: Recipe = DEFAULT,
    test: Dataset | None = None,
    held_out: int | None = None,
    seeds: int = 1,
    ridges: Sequence[float] = (),
    targets: Sequence[str] | None = None,
    reference_energies: Mapping[int, float] | None = None,
    device: torch.device | str = "cpu",
    kernels: str | None = None,
    progress: Progress | None = None,
) -> LearningCurve:
    """Errors of models of `sizes` structures of `data` with each number of `features`, on structures unseen by them.

    One pass over the largest set for each number of features and each seed: a larger set is a smaller one and more, and
    only what is new makes rows. The axes of the projection are those of the largest set: geometries, not labels.

    `sizes`, `features`: by default five sizes, each half of the next; a quarter of the recipe's features and all.
    `test`: structures that tell the errors; without it `held_out` structures of `data`, by default what the largest
    size leaves, at most 1000. `seeds`: how many times to draw structures and features anew.
    `ridges`: take the best of them for each size, told by the structures that come next and not by the test; where none
    come, that of the size before. Without it the recipe's, which makes a peak where rows are about as many as weights.
    `targets`, `reference_energies`, `device`, `kernels`, `progress`: as of `fit`.
    """
    if recipe.solver.method == "iterative":
        raise InputError('A learning curve solves the same equations again and again: use the solver "direct".')
    if seeds < 1:
        raise InputError(f"Wanted at least one seed, got {seeds}.")
    many = _recipes(recipe, features)
    data = replace(data, labels=chosen_labels(data.labels, targets))
    sizes, pool, unseen = _parts(data, sizes, test, held_out, recipe.seed)
    tell, entries = progress or (lambda *_: None), []
    for each in many:
        for seed in range(recipe.seed, recipe.seed + seeds):
            drawn = pool.subsample(min(len(pool), sizes[-1] + MOST_NEXT), seed)
            learnt = drawn.select(range(sizes[-1]))
            # what is rare may be in none of those drawn: told before the work
            element_indices(unseen.structures.numbers, learnt.structures.elements)
            chosen, near = replace(each, seed=seed), sorted(ridges)
            for n, equations in _growing(
                learnt, sizes, chosen, reference_energies, device=device, kernels=kernels, tell=tell
            ):
                following = range(n, min(n + MOST_NEXT, len(drawn)))
                if ridges and len(following) >= FEWEST_NEXT:
                    chosen = replace(chosen, ridge=_best_ridge(equations, near, drawn.select(following)))
                    near = _beside(sorted(ridges), chosen.ridge)  # of the next size: it does not jump
                potential = solved(equations, chosen, use_up=n == sizes[-1])
                metrics = evaluate(potential.on(device, None, kernels), unseen)
                entries.append(Entry(each.features.n_features, n, seed, chosen.ridge, metrics))
    return LearningCurve(_quantities(unseen), tuple(entries), recipe, data.source.as_dict(), unseen.source.as_dict())


def _best_ridge(equations: Equations, ridges: Sequence[float], following: Dataset) -> float:
    """The ridge with the least error of forces (else energies) on structures that are not in the equations."""
    found = {}
    for ridge in ridges:
        try:
            (point,) = sweep(equations, [equations.recipe.energy_weight], [ridge])
        except SolveError as problem:
            failure = problem
            continue
        metrics = evaluate(point.potential, following)
        error = metrics.forces or metrics.energy_per_atom
        assert error is not None
        found[ridge] = error.mae
    if not found:
        raise failure
    return min(found, key=lambda ridge: found[ridge])


def _beside(ridges: list[float], ridge: float) -> list[float]:
    """That ridge and its neighbours."""
    at = ridges.index(ridge)
    return ridges[max(0, at - 1) : at + 2]


def _growing(
    data: Dataset,
    sizes: Sequence[int],
    recipe: Recipe,
    reference_energies: Mapping[int, float] | None,
    *,
    device: torch.device | str,
    kernels: str | None,
    tell: Progress,
) -> Iterator[tuple[int, Equations]]:
    """The equations of the first structures of `data`, for each size."""
    elements = data.structures.elements
    n_weights = recipe.features.n_weights(len(elements))
    Memory().require(
        2 * 8 * n_weights**2,
        f"A learning curve with {n_weights} weights keeps its equations beside their solution and",
        "Use fewer features.",
    )
    basis, compute = Basis.draw(data.structures, recipe), Compute(device, kernels)
    equations: Equations | None = None
    for before, n in pairwise((0, *sizes)):

        def here(_: str, done: int, __: int, remark: str = "", /, before: int = before) -> None:
            tell(f"{recipe.features.n_features} features, seed {recipe.seed}", before + done, sizes[-1], remark)

        part = data.select(range(before, n))
        if equations is None:
            equations = equations_of(
                part,
                recipe,
                basis=basis,
                learn=Learn(reference_energies=reference_energies),
                compute=compute,
                tell=here,
            )
        else:
            equations = extended(equations, part, compute, repeated=True, tell=here)
        yield n, equations


def _recipes(recipe: Recipe, features: Sequence[int] | None) -> list[Recipe]:
    """The recipe with each number of features, checked."""
    most = recipe.features.n_features
    many = [
        replace(recipe, features=replace(recipe.features, n_features=n))
        for n in sorted(set((most // 4, most) if features is None else features))
    ]
    if not many:
        raise InputError("Wanted at least one number of features, got none.")
    for each in many:
        each.check()
    return many


def _parts(
    data: Dataset, sizes: Sequence[int] | None, test: Dataset | None, held_out: int | None, seed: int
) -> tuple[tuple[int, ...], Dataset, Dataset]:
    """The sizes, what is learnt from, and what tells the errors."""
    if test is not None and held_out is not None:
        raise InputError("Errors are told by a test set or by what is held out. Give one of the two.")
    if sizes is None:
        left = len(data) if test is not None else len(data) - (held_out or min(MOST_HELD_OUT, len(data) // 5))
        sizes = [n for halving in range(HALVINGS) if (n := left // 2**halving) > 0]
    sizes = tuple(sorted(set(sizes)))
    if not sizes or sizes[0] < 1:
        raise InputError(f"Wanted sizes of training sets such as 100, 200, 500, got {list(sizes)}.")
    if test is not None:
        if sizes[-1] > len(data):
            raise InputError(f"Wanted {sizes[-1]} structures, {data.source.name} has {len(data)}. Ask for fewer.")
        return sizes, data, test
    held_out = min(MOST_HELD_OUT, len(data) - sizes[-1]) if held_out is None else held_out
    if held_out < 1 or sizes[-1] + held_out > len(data):
        raise InputError(
            f"{sizes[-1]} structures to learn from and {max(held_out, 1)} to tell the errors are wanted, "
            f"{data.source.name} has {len(data)}. Give smaller sizes, or a test set."
        )
    return sizes, *data.split((len(data) - held_out, held_out), seed)


def _quantities(data: Dataset) -> tuple[str, ...]:
    """What errors are told of: energies of whole structures only if all are of one size."""
    one_size = bool((data.structures.counts == data.structures.counts[0]).all())
    names = {"energies": "energy" if one_size else "energy_per_atom", "forces": "forces", "stress": "stress"}
    return tuple(names[kind] for kind in data.labels.kinds)
