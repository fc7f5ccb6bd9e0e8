"""What is to be learnt, and the way to the weights that never forms a Gram matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from .baseline import Baseline
from .basis import Basis
from .conjugate import SmallModelPreconditioner, conjugate_gradients
from .design import labelled_rows, targets_of
from .errors import SolveError
from .matrixfree import matrix_free
from .normal import Gram
from .recipes import Recipe
from .structures import Labels, Structures


class Progress(Protocol):
    """Called as the work goes on: `print` will do."""

    def __call__(self, what: str, done: int, of: int, remark: str = "", /) -> None:
        """`done` steps of `of` of `what`; the remark is for people, such as a rate."""


@dataclass(frozen=True)
class Problem:
    """What is to be learnt: labelled structures, past the reference energies."""

    structures: Structures
    labels: Labels
    baseline: Baseline

    @property
    def targets(self) -> dict[str, Tensor]:
        return targets_of(self.structures, self.labels, self.baseline)

    def select(self, index: Tensor) -> Problem:
        """The same for the structures at `index`."""
        labels = self.labels.select(index, self.structures.offsets)
        return Problem(self.structures.select(index), labels, self.baseline)


def iterative_weights(basis: Basis, problem: Problem, recipe: Recipe, tell: Progress) -> tuple[Tensor, dict[str, Any]]:
    """Weights by conjugate gradients, preconditioned by a direct fit with fewer features, and a report.

    A few structures are held out: the iteration ends when their error falls no more.
    """
    settings = recipe.solver
    n_small = min(settings.preconditioner_features, basis.maps[0].n_features)
    n = len(problem.structures)
    n_held = min(n - 1, round(settings.held_out * n))
    order = torch.from_numpy(np.random.default_rng(recipe.seed).permutation(n))
    learn, held = problem.select(order[n_held:].sort().values), problem.select(order[:n_held].sort().values)

    rows, y = matrix_free(basis, learn.structures, learn.targets, recipe)
    small = rows.with_first(n_small)
    gram = _small_gram(small.basis, learn, recipe, tell)
    precondition = SmallModelPreconditioner(small, gram, settings.shift * recipe.ridge)
    state = conjugate_gradients(
        rows,
        y,
        recipe.ridge,
        precondition,
        tolerance=settings.tolerance,
        most_iterations=settings.most_iterations,
        held_out=_held_out_error(basis, held, recipe) if n_held else None,
        tell=lambda state: tell("iterations", state.number, settings.most_iterations),
    )
    if state.number >= settings.most_iterations and state.history[-1].residual > settings.tolerance:
        raise SolveError(
            f"The iteration has not converged after {state.number} steps (residual {state.history[-1].residual:.1e}). "
            "Use a ridge of 1e-8 or more, more preconditioner features or iterations, or the direct solver."
        )
    return state.weights, {
        "solver": "iterative",
        "rows": {kind: int(target.isfinite().sum()) for kind, target in learn.targets.items()},
        "held_out_structures": n_held,
        "preconditioner_features": n_small,
        "converged": "residual below the tolerance"
        if state.history[-1].residual <= settings.tolerance
        else "held-out error fell no more",
        "history": [asdict(step) for step in state.history],
    }


def _small_gram(basis: Basis, problem: Problem, recipe: Recipe, tell: Progress) -> Tensor:
    """Lower triangle of Z_sᵀ Z_s with the weights of the rows."""
    gram = Gram(basis.n_weights, basis.device)
    tell("preconditioner", 0, len(problem.structures))
    for kind, rows, y, done in labelled_rows(basis, problem.structures, problem.targets, recipe.size_exponent):
        gram.add(rows * recipe.weight_of(kind), y)
        tell("preconditioner", done, len(problem.structures))
    gram.flush()
    return gram.gram


def _held_out_error(basis: Basis, held: Problem, recipe: Recipe) -> Callable[[Tensor], float]:
    rows, y = matrix_free(basis, held.structures, held.targets, recipe)
    return lambda weights: float((rows.times(weights) - y).square().mean().sqrt())
