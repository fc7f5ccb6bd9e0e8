"""Plan of the trials: as large as a share of the operations of the fit, and half of the memory, allow."""

from __future__ import annotations

from dataclasses import dataclass

from ...machine.memory import Memory
from ...model.recipe import Recipe
from ..costs import MeanStructure, iteration_operations, representation_operations, trial_memory
from ..problem import Problem
from . import rules
from .trials import Size, ValidationSet


@dataclass(frozen=True)
class TrialPlan:
    """Size of the trials and of their validation set, and how much larger the fit is."""

    size: Size
    validation: ValidationSet  # empty if there is one structure
    growth: float  # limiting features of the fit over those of a trial
    rounding_growth: float  # ridge lost in rounding in the fit over that in a trial; 0: none is lost in the fit


def plan_trials(problem: Problem, recipe: Recipe, memory: Memory, iterates: bool = False) -> TrialPlan:
    """Plan of the trials for a fit of `recipe`. `iterates`: the fit will form no Gram matrix."""
    mean, full = MeanStructure.of(problem, recipe), Size(len(problem.structures), recipe.features.n_features)
    n, n_weights = full.structures, full.n_features * mean.weights
    fit = iteration_operations(problem, recipe) if iterates else mean.fit_operations(n, n_weights)
    budget = max(rules.ALWAYS_ALLOWED, rules.SHARE_OF_FIT * fit)

    def affordable(part: int, vectors: float) -> int:
        """Number of held-out structures whose representations cost 1 / `part` of the budget."""
        return int(budget / part / rules.PLANNED_REPRESENTATIONS / representation_operations(vectors))

    held_out = min(
        max(1, n // rules.HELD_OUT_PART, min(n // 3, rules.FEWEST_HELD_OUT)),
        n - 1,
        rules.MOST_HELD_OUT,
        max(1, int(rules.MOST_HELD_OUT_ROWS / max(1.0, mean.rows))),
        max(rules.FEWEST_HELD_OUT, affordable(rules.PART_FOR_HELD_OUT, mean.vectors)),
    )
    size = _largest_size(recipe, mean, full, held_out, budget, memory)
    more = 0
    if len(problem.targets) > 1 and problem.labels.energies is not None:
        more = min(rules.MOST_MORE_ENERGIES, affordable(rules.PART_FOR_MORE_ENERGIES, mean.energy_vectors))
    return TrialPlan(
        size,
        ValidationSet(held_out, min(more, n - held_out - size.structures)),
        _limiting_features(mean, full) / _limiting_features(mean, size),
        0.0 if iterates else n / size.structures * full.n_features / size.n_features,
    )


def _largest_size(
    recipe: Recipe, mean: MeanStructure, full: Size, held_out: int, budget: float, memory: Memory
) -> Size:
    """Largest size within budget and memory that has as many rows for each feature as the fit.

    If even the fewest features cost too much, they are taken with fewer structures, but not with too few.
    """
    most, limiting = full.structures - held_out, _limiting_features(mean, full)
    planned = rules.PLANNED_PASSES, rules.PLANNED_REPRESENTATIONS, rules.PLANNED_SOLUTIONS
    step = max(2 * recipe.features.unit(recipe.rank), 128)  # twice: half of the features must be possible, too
    size = Size(most, full.n_features)
    for n_features in range(min(full.n_features, rules.MOST_FEATURES) // step * step, 0, -step):
        size = Size(max(1, min(most, round(full.structures * n_features / limiting))), n_features)
        n_weights = n_features * mean.weights
        if mean.fit_operations(size.structures, n_weights, held_out, *planned) > budget:
            continue
        held_out_rows = round(mean.rows * held_out)
        if 2 * trial_memory(round(mean.rows * size.structures), n_weights, held_out_rows) < memory.left:
            return size
    enough = max(rules.ENOUGH_STRUCTURES, round(rules.ENOUGH_ROWS * size.n_features * mean.weights / mean.rows))
    return Size(min(size.structures, enough), size.n_features)


def _limiting_features(mean: MeanStructure, size: Size) -> float:
    """Number of features that limits the accuracy: all of them, but no more than give one weight for each row.

    With more the fit is that of the kernel itself, whose best ridge does not depend on their number. Aspirin, 100
    structures: 3e-5, 1.5e-5, 5e-6 and 4e-6 with 0.32, 0.64, 1.28 and 2.56 features for each row.
    """
    return min(size.n_features, mean.rows * size.structures / mean.weights)
