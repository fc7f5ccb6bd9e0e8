"""Iterative solver: equations that are never formed, preconditioned by a small direct model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import SolveError
from ...linear.krylov import LATER_GAIN, LATER_PATIENCE, WINDOW, State, Stopping, least_residuals, look_at
from ...linear.normal_equations import Gram
from ...linear.preconditioner import GuidedBySmallModel
from ...linear.ridge import Ridge, compared, next_ridge
from ...linear.solution import Solution
from ...machine.compute import Compute
from ...machine.progress import Progress
from ...model.basis import ReadyBasis
from ...model.committee import Committee
from ...model.recipe import Recipe
from ..checkpoint import Restart, iteration_identity
from ..outputs import Keep
from ..problem import Problem
from ..row_operator import MatrixFreeRows, matrix_free, summation
from ..rows import Pass, write_rows
from ..uncertainty import committee_of_iteration
from .task import Fitted, Task


def solve(task: Task) -> Fitted:
    """Iterate from the start, or from a restart file, until the error on held-out structures falls no more."""
    work = prepared(task.basis.ready(_machine(task)), task.problem, task.recipe, task.tell, task.keep)
    before, keep, restart = None, None, task.checkpoint
    if isinstance(restart, Restart):
        identity = iteration_identity(task.basis, task.chosen, task.problem.fingerprints)
        usual = Keep().held_out(len(task.problem.structures), task.recipe.solver.held_out)
        identity |= {"held_out_structures": work.report["held_out_structures"], "usually_held_out": usual}
        before = restart.read(identity, task.recipe.solver.most_iterations, task.compute.device)
        keep = lambda state: restart.after(state, identity)  # noqa: E731
    solution = work.solve(task.ridge, before, keep)
    committee = work.committee(task.keep.committee, solution) if task.keep.committee else None
    return Fitted(solution, task.problem.baseline, work.learn.rows, committee)


def _machine(task: Task) -> Compute:
    """The machine of a fit, with kernels that have sums in pairs if such are wanted.

    The native ones have none, and rows of the preconditioner must have the very cosines of the products.
    """
    compute = task.compute
    on_host = torch.device(compute.device).type == "cpu" and compute.kernels in (None, "native")
    pairs = summation(task.recipe, compute.device)[0] == "compensated"
    return replace(compute, kernels="reference") if pairs and on_host else compute


@dataclass(frozen=True)
class HeldOut:
    """Structures that are not learnt from, and their rows as products."""

    problem: Problem
    rows: MatrixFreeRows
    targets: Tensor  # (rows,)

    def residuals(self, weights: Tensor) -> Tensor:
        return self.rows.times(weights) - self.targets

    def error(self, weights: Tensor) -> float:
        """Root mean square of the residuals."""
        return float(self.residuals(weights).square().mean().sqrt())


@dataclass(frozen=True)
class Iterative:
    """The equations as products, their preconditioner, and the error on held-out structures."""

    learn: Problem  # without the structures that are held out
    targets: Tensor  # (rows,)
    guided: GuidedBySmallModel
    held: HeldOut | None  # structures that are not learnt from
    basis: ReadyBasis
    recipe: Recipe
    report: dict[str, Any]
    tell: Progress

    @property
    def held_out(self) -> Callable[[Tensor], float] | None:
        """Error of weights on structures that are not learnt from."""
        return None if self.held is None else self.held.error

    def committee(self, n: int, solution: Solution) -> Committee:
        """Committee of the small model, calibrated by the errors of the solution on the held-out structures."""
        assert self.held is not None, "Keep.held_out holds some out for a committee"
        recipe = replace(self.recipe, ridge=solution.ridge)
        errors = self.held.residuals(solution.weights)
        known = self.held.rows.factor != 0
        n_small = self.report["preconditioner_features"]
        factor = self.guided.factor
        return committee_of_iteration(n, factor, n_small, self.basis, recipe, self.held.problem, errors[known])

    def solve(self, ridge: Ridge, state: State | None = None, keep: Callable[[State], None] | None = None) -> Solution:
        """Solution with this ridge, from `state` if one is given.

        A chosen ridge is refined: others are tried with the directions that the first one found, while the error on
        held-out structures falls. Only the best of them takes further steps.
        """
        settings = self.recipe.solver

        def after(state: State) -> None:
            self.tell("iterations", state.number, settings.most_iterations)
            if keep is not None:
                keep(state)

        def iterated(state: State, stopping: Stopping) -> State:
            return least_residuals(self.guided.step, self.targets, state, stopping, held_out=self.held_out, tell=after)

        usual = Stopping(settings.tolerance, settings.most_iterations)
        window = min(WINDOW, settings.most_iterations)
        state = state or State.start(ridge.value, self.targets, self.guided.n_columns, window)
        state.worth = 0.0 if ridge.refinement is None else ridge.refinement.worth
        if not state.history or state.ridge == state.history[0].ridge:
            state = iterated(state, usual)
        while (rules := ridge.refinement) is not None and (other := next_ridge(state.compared, rules)) is not None:
            assert self.held_out is not None, "ridges are compared on held-out structures"
            state = state.with_ridge(other, self.targets)
            look_at(state, self.targets, self.held_out, after)
        if state.best_ridge != state.history[0].ridge:
            if state.ridge != state.best_ridge:
                state = state.with_ridge(state.best_ridge, self.targets)
            if state.number == 0:
                state.begin_window()
            state = iterated(state, replace(usual, patience=LATER_PATIENCE, gain=LATER_GAIN))
        best = state.best_ridge
        steps = [step for step in state.history if step.ridge == best]
        exact = steps[-1].residual <= settings.tolerance
        if len(steps) >= settings.most_iterations and not exact:
            raise SolveError(
                f"The iteration has not converged after {len(steps)} steps (residual {steps[-1].residual:.1e}). Use a "
                "larger ridge, more preconditioner features or iterations, or the direct solver."
            )
        report = {
            **self.report,
            "converged": "residual below the tolerance" if exact else "held-out error fell no more",
            "ridges": compared(state.compared),
            "history": [asdict(step) for step in state.history],
        }
        return Solution(state.of_best, best, ridge.chosen, report)


def prepared(
    basis: ReadyBasis, problem: Problem, recipe: Recipe, tell: Progress, keep: Keep | None = None
) -> Iterative:
    """Everything that does not depend on the ridge.

    A few structures are held out for early stopping, and to calibrate a committee if `keep` wants one.
    """
    settings = recipe.solver
    n_small = recipe.small_features(len(basis.elements))
    n = len(problem.structures)
    n_held = (keep or Keep()).held_out(n, settings.held_out)
    order = torch.from_numpy(np.random.default_rng(recipe.seed).permutation(n))
    learn, held = problem.select(order[n_held:].sort().values), problem.select(order[:n_held].sort().values)
    rows, targets = matrix_free(basis, learn, recipe)
    gram = _small_gram(basis.part(0, n_small), learn, recipe, tell)
    guided = GuidedBySmallModel(rows.parted(n_small), gram, 2 * recipe.ridge)
    report = {
        "solver": "iterative",
        "held_out_structures": n_held,
        "preconditioner_features": n_small,
        "accumulation": summation(recipe, basis.device)[0],
        "shift": guided.shift,
    }
    held_out = HeldOut(held, *matrix_free(basis, held, recipe)) if n_held else None
    return Iterative(learn, targets, guided, held_out, basis, recipe, report, tell)


def _small_gram(basis: ReadyBasis, problem: Problem, recipe: Recipe, tell: Progress) -> Tensor:
    """Lower triangle of Z_sᵀ Z_s with the weights of the rows, from products that suit the device."""
    gram = Gram(basis.n_weights, basis.device, accumulation=summation(recipe, basis.device)[0])
    tell("preconditioner", 0, len(problem.structures))
    # wide: its rows must be those of the products, or the preconditioner magnifies the difference
    for done in write_rows(basis, problem, recipe, lambda _: gram, Pass(weighted=True, wide=True)):
        tell("preconditioner", done, len(problem.structures))
    gram.flush()
    return gram.gram
