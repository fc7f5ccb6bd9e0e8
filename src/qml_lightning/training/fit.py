"""Training: problem, plan, recipe, basis, solver, potential. The method on one screen."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace

from ..errors import InputError
from ..machine.compute import Compute
from ..machine.progress import Progress, silent
from ..model.basis import Basis, recipe_difference
from ..model.potential import Potential
from ..model.provenance import Provenance
from ..model.recipe import Automatic, Recipe
from .checkpoint import CheckpointWarning, EquationsCheckpoint, Restart, checkpoint_for
from .choice.search import choose
from .chosen_recipe import Chosen
from .outputs import Keep
from .plan import Plan, plan_fit
from .problem import Problem
from .solvers import SOLVERS, Task


def fit(
    problem: Problem,
    recipe: Recipe | Automatic,
    *,
    basis: Basis | None = None,
    compute: Compute | None = None,
    keep: Keep | None = None,
    tell: Progress = silent,
) -> Potential:
    """The potential that minimises the weighted squared error of the labels plus ridge · |weights|².

    `basis`: axes and feature maps to use; by default they are drawn from the structures. `keep`: files whose paths
    were checked (`Keep.checked`).
    """
    started, compute, keep = time.perf_counter(), compute or Compute(), keep or Keep()
    recipe = _that_suits(recipe, basis)
    plan = compute.on_first(lambda: plan_fit(problem, recipe, compute, keep))
    checkpoint = checkpoint_for(plan.solver, keep, compute.ranks)
    if plan.remark:
        warnings.warn(CheckpointWarning(plan.remark), stacklevel=2)
    chosen = _chosen(recipe, problem, plan, compute, checkpoint, tell)
    basis = basis or _drawn(problem, chosen.recipe, compute, checkpoint)
    task = Task(problem, basis.with_recipe(chosen.recipe), chosen, compute, keep, checkpoint, tell, plan.on_host)
    fitted = SOLVERS[plan.solver](task)
    return fitted.potential(task.basis, _provenance(task, plan, started))


def _that_suits(recipe: Recipe | Automatic, basis: Basis | None) -> Recipe | Automatic:
    """The recipe, or that of a given basis if it is free; an InputError if the two make different rows."""
    if basis is None:
        return recipe
    if isinstance(recipe, Automatic):
        return basis.recipe
    if difference := recipe_difference(basis.recipe, recipe):
        raise InputError(
            f"The recipe does not go with the basis that is given: {difference}. Use the recipe of its model."
        )
    return recipe


def _chosen(
    recipe: Recipe | Automatic,
    problem: Problem,
    plan: Plan,
    compute: Compute,
    checkpoint: EquationsCheckpoint | Restart | None,
    tell: Progress,
) -> Chosen:
    """The recipe with its free fields chosen, once, by the first rank; or as a checkpoint holds it."""
    if not isinstance(recipe, Automatic):
        return Chosen.given(recipe)
    if checkpoint is not None and (kept := checkpoint.chosen()) is not None:
        settled = recipe.settled_as(kept.recipe)
        return Chosen(settled, replace(kept.ridge, value=settled.ridge), kept.evidence)
    iterates = plan.solver == "iterative"
    chosen = compute.on_first(lambda: choose(problem, recipe, compute=compute, iterates=iterates, tell=tell))
    return replace(chosen, recipe=chosen.recipe.with_own_weights()) if plan.own_weights else chosen


def _drawn(
    problem: Problem, recipe: Recipe, compute: Compute, checkpoint: EquationsCheckpoint | Restart | None
) -> Basis:
    """The basis of a checkpoint that holds one; else axes and feature maps drawn once, by the first rank."""
    kept = None if checkpoint is None else checkpoint.basis()
    return kept or compute.on_first(lambda: Basis.draw(problem.structures, recipe))


def _provenance(task: Task, plan: Plan, started: float) -> Provenance:
    """Where the model of this task comes from: data, machine, choice, plan, and seconds since `started`."""
    structures, compute = task.problem.structures, task.compute
    return Provenance.here(
        data=task.problem.source,
        structures=len(structures),
        atoms=structures.n_atoms,
        kernels=task.basis.ready(compute).kernels.NAME,
        device=str(compute.device),
        choice=task.chosen.evidence,
        plan=plan.as_dict(),
        seconds=round(time.perf_counter() - started, 3),
    )
