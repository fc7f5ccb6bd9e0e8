"""Weights by an iteration that a small direct model guides, for one ridge or several from one small Gram matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import SolveError
from ...linear.krylov import WINDOW, State, Stopping, least_residuals
from ...linear.normal_equations import Gram
from ...linear.preconditioner import GuidedBySmallModel
from ...linear.ridge import compared, next_ridge
from ...model.basis import Basis
from ...model.recipe import Recipe
from ..problem import Problem, Progress, counts_of
from ..row_operator import MatrixFreeRows, matrix_free
from ..rows import labelled_rows

Report = dict[str, Any]

# An iteration is planned with so many steps, each with so many operations, in the time of a matrix product, for each
# feature of an atom: sine and cosine, transforms there and back, in a product and a transposed one.
STEPS, STEP_OPERATIONS = 100, 180.0
# It is taken where it saves this factor of the operations: their number is known only roughly. Ethanol with 16384
# features: a factor of 1.9, and 52 instead of 81 s.
SAVES = 1.5


@dataclass(frozen=True)
class Iterative:
    """The equations as products, the small model, and the structures that tell when to stop."""

    rows: MatrixFreeRows
    targets: Tensor  # (rows,)
    guided: GuidedBySmallModel
    held_out: Callable[[Tensor], float] | None  # error of weights on structures that are not learnt from
    recipe: Recipe
    report: Report
    tell: Progress

    def solve(
        self,
        ridge: float,
        state: State | None = None,
        keep: Callable[[State], None] | None = None,
        least: float | None = None,
    ) -> tuple[Tensor, float, Report]:
        """Weights, their ridge, and how it went; goes on from `state` if one is given.

        With `least` the ridge is free, though not to be below that: other ones are tried downhill in the error on
        held-out structures.
        """
        settings = self.recipe.solver

        def after(state: State) -> None:
            self.tell("iterations", state.number, settings.most_iterations)
            if keep is not None:
                keep(state)

        def iterated(state: State) -> State:
            stopping = Stopping(settings.tolerance, settings.most_iterations)
            return least_residuals(self.guided.step, self.targets, state, stopping, held_out=self.held_out, tell=after)

        window = min(WINDOW, settings.most_iterations)
        state = iterated(state or State.start(ridge, self.targets, self.guided.n_columns, window))
        while least is not None and (other := next_ridge(state.ended, least)) is not None:
            state = iterated(state.with_ridge(other, self.targets))
        best = state.best_ridge
        steps = [step for step in state.history if step.ridge == best]
        exact = steps[-1].residual <= settings.tolerance
        if len(steps) >= settings.most_iterations and not exact:
            raise SolveError(
                f"The iteration has not converged after {len(steps)} steps (residual {steps[-1].residual:.1e}). Use a "
                "larger ridge, more preconditioner features or iterations, or the direct solver."
            )
        return state.of_best, best, {
            **self.report,
            "converged": "residual below the tolerance" if exact else "held-out error fell no more",
            "ridges": compared(state.ended),
            "history": [asdict(step) for step in state.history],
        }  # fmt: skip


def iteration_operations(problem: Problem, recipe: Recipe, n_weights: int) -> float:
    """Multiply-adds of an iterative solution, or what takes as long."""
    rows, n_features = sum(counts_of(problem.targets).values()), recipe.features.n_features
    n_small = min(recipe.solver.preconditioner_features, n_features) * n_weights // n_features
    steps = STEPS * STEP_OPERATIONS * problem.structures.n_atoms * n_features
    return float(rows) * n_small**2 + n_small**3 / 3 + steps


def iteration_is_cheaper(problem: Problem, recipe: Recipe, n_weights: int) -> bool:
    """Whether an iteration takes clearly fewer operations than a direct solution."""
    rows = sum(counts_of(problem.targets).values())
    smaller = min(rows, n_weights)
    direct = float(rows) * n_weights * smaller + smaller**3 / 3
    return SAVES * iteration_operations(problem, recipe, n_weights) < direct


def prepared(basis: Basis, problem: Problem, recipe: Recipe, tell: Progress) -> Iterative:
    """All that does not depend on the ridge; a few structures are held out, to tell when to stop."""
    settings = recipe.solver
    n_small = min(settings.preconditioner_features, basis.maps[0].n_features)
    n = len(problem.structures)
    n_held = min(n - 1, round(settings.held_out * n))
    order = torch.from_numpy(np.random.default_rng(recipe.seed).permutation(n))
    learn, held = problem.select(order[n_held:].sort().values), problem.select(order[:n_held].sort().values)
    rows, targets = matrix_free(basis, learn.structures, learn.targets, recipe)
    gram = _small_gram(basis.part(0, n_small), learn, recipe, tell)
    guided = GuidedBySmallModel(rows.parted(n_small), gram, 2 * recipe.ridge)
    report = {
        "solver": "iterative",
        "rows": counts_of(learn.targets),
        "held_out_structures": n_held,
        "preconditioner_features": n_small,
        "shift": guided.shift,
    }
    error = _held_out_error(basis, held, recipe) if n_held else None
    return Iterative(rows, targets, guided, error, recipe, report, tell)


def iterative_path(
    basis: Basis, problem: Problem, recipe: Recipe, ridges: Sequence[float], tell: Progress
) -> list[tuple[Tensor, Report]]:
    """Weights and report for each ridge: one small Gram matrix for all."""
    work = prepared(basis, problem, recipe, tell)
    return [(weights, report) for weights, _, report in map(work.solve, ridges)]


def _small_gram(basis: Basis, problem: Problem, recipe: Recipe, tell: Progress) -> Tensor:
    """Lower triangle of Z_sᵀ Z_s with the weights of the rows."""
    gram = Gram(basis.n_weights, basis.device)
    tell("preconditioner", 0, len(problem.structures))
    for _, _, y, done in labelled_rows(
        basis,
        problem.structures,
        problem.targets,
        recipe.size_exponent,
        lambda _, n: gram.room(n),
        weight_of=recipe.weight_of,
        wide=True,  # its rows must be those of the products, or the preconditioner magnifies the difference
    ):
        gram.take(y)
        tell("preconditioner", done, len(problem.structures))
    gram.flush()
    return gram.gram


def _held_out_error(basis: Basis, held: Problem, recipe: Recipe) -> Callable[[Tensor], float]:
    rows, y = matrix_free(basis, held.structures, held.targets, recipe)
    return lambda weights: float((rows.times(weights) - y).square().mean().sqrt())
