"""Direct solver: equations gathered in memory, by one process or several, and one Cholesky factorisation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError, ResourceError
from ...linear.direct import ridge_path
from ...linear.direct import solve as solve_terms
from ...linear.ridge import Ridge
from ...linear.solution import Solution
from ...machine.files import write_or_rescue
from ...model.committee import Committee
from ...model.potential import Potential
from ...model.provenance import Provenance
from ...model.recipe import Recipe
from ...model.repulsion import Repulsion
from ..checkpoint import CheckpointWarning, EquationsCheckpoint
from ..choice.rules import FEWEST_LEFT_OUT_STRUCTURES, LEFT_OUT_PART, MOST_LEFT_OUT_ROWS
from ..costs import batch_limit
from ..equations import Equations, empty, gather
from ..equations_file import save_equations
from ..problem import Problem
from ..rows import Pass
from ..shared_gather import gather_by_ranks
from ..uncertainty import committee_again, committee_of_direct
from .task import Fitted, Task

# Part of the free memory of a device in which rows wait for a product, if the host keeps the Gram matrix.
WAITING_PART = 2


def solve(task: Task) -> Fitted:
    """Gather the equations, keep them if that is wanted, and solve them."""
    equations, report = _gathered(task)

    def finish() -> Fitted:
        _keep(equations, task)
        # rows of several ranks are in another order, and a ridge that was given is not refined
        refine = task.ridge.chosen and task.compute.ranks is None
        groups = left_out_groups(task.problem, task.recipe.seed) if refine else ()
        n = task.keep.committee
        options: dict[str, Any] = {"groups": groups, "report": report, "keep_factor": n > 0}
        fitted = solve_equations(equations, task.recipe, task.ridge, **options)
        fitted = fitted if n == 0 else _with_committee(fitted, task, equations)
        # the other ranks have devices of their own
        return replace(fitted, solution=replace(fitted.solution, weights=fitted.solution.weights.cpu()))

    task.tell("solving", 0, 1)
    fitted = task.compute.on_first(finish)
    task.tell("solving", 1, 1)
    return fitted


def _with_committee(fitted: Fitted, task: Task, equations: Equations) -> Fitted:
    """The solution with its committee, and without the factor."""
    solution = fitted.solution
    recipe = replace(task.recipe, ridge=solution.ridge)
    problem = replace(task.problem, baseline=fitted.baseline)
    terms = equations.terms(recipe, fitted.baseline) if solution.dual is not None else []
    ready = task.basis.ready(task.compute)
    committee = committee_of_direct(task.keep.committee, ready, problem, recipe, solution, terms)
    return replace(fitted, solution=replace(solution, factor=None, dual=None), committee=committee)


def _keep(equations: Equations, task: Task) -> None:
    """Write the equations if that is wanted; if they cannot be written there, warn and say where they are."""
    keep = task.keep
    if keep.equations is None:
        return
    structures, cutoff = task.problem.structures, equations.recipe.representation.cutoff
    equations = replace(equations, bounds=Repulsion.around(structures, equations.elements, cutoff))
    try:
        write_or_rescue(keep.equations, lambda path: save_equations(equations, path, overwrite=keep.overwrite))
    except (OSError, InputError, ResourceError) as problem:
        warnings.warn(CheckpointWarning(f"The equations: {problem} The fit goes on."), stacklevel=2)


def _gathered(task: Task) -> tuple[Equations, dict[str, Any]]:
    """Equations of the whole problem, gathered from the start or from a checkpoint, and a report."""
    problem, compute, checkpoint = task.problem, task.compute, task.checkpoint
    assert checkpoint is None or isinstance(checkpoint, EquationsCheckpoint)
    most = batch_limit(task.basis.n_weights, problem, compute)
    home = "cpu" if task.on_host else compute.device
    kept = None if checkpoint is None else checkpoint.read(problem, task.basis, home)
    if kept is None:
        equations, done = empty(problem, task.basis, task.chosen, device=home), 0
    else:
        equations, done = kept
        problem = replace(problem, baseline=equations.references.origin)
    if task.on_host:
        for gram in equations.grams:
            gram.multiply_on(compute.device, compute.room // WAITING_PART // len(equations.grams))
    ready, how, report = task.basis.ready(compute), Pass(first=done, most=most), dict[str, Any](solver="direct")
    after = None if checkpoint is None else checkpoint.after
    if compute.ranks is None:
        gather(equations, ready, problem, task.tell, how, after)
    else:
        report["ranks"] = gather_by_ranks(equations, ready, problem, compute.ranks, task.tell, how, after)
    if equations.grams:
        report["accumulation"] = equations.grams[0].accumulation
    return equations, report


def left_out_groups(problem: Problem, seed: int) -> list[Tensor]:
    """Row numbers of each of a few structures, on which a ridge is compared with others by leaving them out."""
    of_rows = problem.structure_of_rows
    n, rows = len(problem.structures), torch.bincount(of_rows, minlength=len(problem.structures))
    order = torch.from_numpy(np.random.default_rng(seed).permutation(n))
    most = min(LEFT_OUT_PART * len(of_rows), MOST_LEFT_OUT_ROWS)
    few = max(FEWEST_LEFT_OUT_STRUCTURES, int((rows[order].cumsum(0) <= most).sum()))
    return [(of_rows == s).nonzero()[:, 0] for s in order[:few].tolist() if rows[s]]


def solve_equations(
    equations: Equations,
    recipe: Recipe,
    ridge: Ridge,
    *,
    groups: Sequence[Tensor] = (),
    report: dict[str, Any] | None = None,
    reference_energies: Mapping[int, float] | None = None,
    use_up: bool = True,
    keep_factor: bool = False,
) -> Fitted:
    """Solution of the equations with this ridge and the weights of `recipe`.

    `use_up`: solve in the memory of the equations, which are worth nothing afterwards. Only then a chosen ridge is
    refined: made larger if it is lost in rounding, and compared with others by leaving out `groups` of rows.
    """
    baseline = equations.baseline(reference_energies)
    terms = equations.terms(recipe, baseline)
    if use_up:
        solution = solve_terms(terms, ridge, groups=groups, keep_factor=keep_factor)
    else:
        solution = Solution(ridge_path(terms, [ridge.value])[0], ridge.value, ridge.chosen)
    about = {**(report or {"solver": "direct"}), **solution.report}
    return Fitted(replace(solution, report=about), baseline, equations.rows)


def solved(
    equations: Equations,
    recipe: Recipe | None = None,
    ridge: Ridge | None = None,
    *,
    committee: Committee | None = None,
    **options: Any,
) -> Potential:
    """The potential of these equations, with the ridge and weights of `recipe`; options as in `solve_equations`.

    `committee`: that of an earlier solution, to be drawn anew; the equations are then used up.
    """
    recipe = equations.recipe if recipe is None else recipe
    ridge = Ridge(recipe.ridge, equations.chosen.ridge.refinement) if ridge is None else ridge
    options = {"use_up": False, **options}
    if committee is None:
        return potential_of(equations, recipe, solve_equations(equations, recipe, ridge, **options))
    fitted = solve_equations(equations, recipe, ridge, **options | {"use_up": True, "keep_factor": True})
    solution = fitted.solution
    terms = equations.terms(recipe, fitted.baseline) if solution.dual is not None else []
    again = committee_again(committee, equations.basis, recipe, solution, terms)
    fitted = replace(fitted, solution=replace(solution, factor=None, dual=None), committee=again)
    return potential_of(equations, recipe, fitted)


def potential_of(equations: Equations, recipe: Recipe, fitted: Fitted) -> Potential:
    """The potential of a solution of these equations."""
    n, evidence = len(equations.structures), equations.chosen.evidence
    about = Provenance.here(data=equations.data, structures=n, atoms=equations.atoms, choice=evidence)
    return fitted.potential(equations.basis.with_recipe(recipe), about)
