"""Size of the trials: the largest for which a part of the operations of the fit, and half of the memory, suffice."""

from __future__ import annotations

from ...machine.memory import Memory
from ...model.recipe import Recipe
from ..costs import BYTES_IN_FLIGHT, MeanStructure, direct_memory, iteration_operations
from ..problem import Problem
from ..rows import BATCH_NUMBERS
from . import rules
from .trials import Size, ValidationSet


def plan_trials(problem: Problem, recipe: Recipe, memory: Memory, iterates: bool = False) -> tuple[Size, ValidationSet]:
    """Size of the trials for a fit of `recipe`, and of the validation set, which is empty if there is one structure.

    `iterates`: the fit is solved by iteration, which decides what the trials may cost.
    """
    mean, n = MeanStructure.of(problem, recipe), len(problem.structures)
    n_weights = recipe.features.n_weights(len(problem.elements))
    fit = iteration_operations(problem, recipe) if iterates else mean.fit_operations(n, n_weights)
    budget = max(rules.ALWAYS_ALLOWED, rules.SHARE_OF_FIT * fit)

    def affordable(part: int, operations: float) -> int:
        """Held-out structures whose representations, with so many operations each, take one part of the budget."""
        return int(budget / part / rules.PLANNED_REPRESENTATIONS / operations)

    held_out = min(
        max(1, n // 5, min(n // 3, rules.FEWEST_HELD_OUT)),
        n - 1,
        rules.MOST_HELD_OUT,
        max(1, int(rules.MOST_HELD_OUT_ROWS / max(1.0, mean.rows))),
        max(rules.FEWEST_HELD_OUT, affordable(rules.PART_FOR_HELD_OUT, mean.representation_operations)),
    )
    size = _largest_size(problem, recipe, mean, budget, held_out, memory)
    more = 0
    if len(problem.targets) > 1 and problem.labels.energies is not None:
        more = min(rules.MOST_MORE_ENERGIES, affordable(rules.PART_FOR_MORE_ENERGIES, mean.energy_operations))
    return size, ValidationSet(held_out, min(more, n - held_out - size.structures))


def _largest_size(
    problem: Problem, recipe: Recipe, mean: MeanStructure, budget: float, held_out: int, memory: Memory
) -> Size:
    """Largest size within budget and memory that has as many rows for each feature as the fit.

    If even the fewest features cost too much: these, with fewer structures, but enough of them.
    """
    full = Size(len(problem.structures), recipe.features.n_features)
    limiting, of_each = limiting_features(problem, recipe, full), recipe.features.weights_of_each(len(problem.elements))
    step = max(2 * recipe.features.unit(recipe.rank), 128)  # twice: half of the features must be possible, too
    planned = rules.PLANNED_PASSES, rules.PLANNED_REPRESENTATIONS, rules.PLANNED_SOLUTIONS
    size = Size(full.structures - held_out, full.n_features)
    for n_features in range(min(full.n_features, rules.MOST_FEATURES) // step * step, 0, -step):
        structures, n_weights = round(full.structures * n_features / limiting), n_features * of_each
        size = Size(max(1, min(full.structures - held_out, structures)), n_features)
        if mean.fit_operations(size.structures, n_weights, held_out, *planned) > budget:
            continue
        validation_bytes = BYTES_IN_FLIGHT * BATCH_NUMBERS + 8 * n_weights * round(mean.rows * held_out)
        needed = direct_memory([round(mean.rows * size.structures)], n_weights) + validation_bytes
        if 2 * needed < memory.left:
            return size
    enough = max(rules.ENOUGH_STRUCTURES, round(rules.ENOUGH_ROWS * size.n_features * of_each / mean.rows))
    return Size(min(size.structures, enough), size.n_features)


def limiting_features(problem: Problem, recipe: Recipe, size: Size) -> float:
    """Features that limit a fit of this size: all of them, or as many as it has rows for each weight of a feature.

    More features than rows give the kernel itself, whose best ridge does not depend on their number. Aspirin, 100
    structures: 3e-5, 1.5e-5, 5e-6 and 4e-6 with 0.32, 0.64, 1.28 and 2.56 features for each row.
    """
    rows = problem.n_rows / len(problem.structures) * size.structures
    return min(size.n_features, rows / recipe.features.weights_of_each(len(problem.elements)))
