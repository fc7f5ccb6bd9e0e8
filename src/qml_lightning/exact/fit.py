"""From labelled structures to the weights of explicit kernels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..atoms.neighbours import element_indices
from ..atoms.structures import Structures, batches
from ..errors import SolveError
from ..linear.cholesky import solve_positive
from ..machine.compute import Compute
from ..machine.memory import Memory
from ..machine.progress import Progress, silent
from ..model.basis import ATOMS_AT_ONCE, sample_environments
from ..model.projection import Projection, directions, principal_axes
from ..model.provenance import Provenance
from ..model.recipe import Recipe
from ..training.environments import environments
from ..training.problem import Problem
from .covariance import covariance, operator_rows
from .groups import Alike, Plan, gather, plan
from .potential import ExactPotential, exact_basis, whole_representation
from .recipe import ExactRecipe


def fit(problem: Problem, recipe: ExactRecipe, compute: Compute, tell: Progress = silent) -> ExactPotential:
    """The potential that OQML or GPR gives."""
    started = time.perf_counter()
    structures, targets = problem.structures, problem.targets
    elements = structures.elements
    projection = _axes(structures, recipe)
    basis = exact_basis(elements, recipe, projection, compute)
    plans = plan(structures, targets, recipe)
    _room(structures, plans, basis.projections.shape[2], recipe)

    values = torch.cat(
        [environments(basis, structures.select(run)).rho for run in batches(structures.counts, ATOMS_AT_ONCE)]
    )
    element = element_indices(structures.numbers, elements).to(basis.device)
    order = element.sort(stable=True).indices
    centred = values.clone()
    for e in range(len(elements)):
        centred[element == e] -= values[element == e].mean(0)  # small numbers, small rounding
    groups = gather(basis, structures, centred, targets, plans, recipe)
    y = torch.cat([group.targets.flatten() for group in groups])
    tell("kernels", 0, len(structures))
    report: dict[str, Any] = {"solver": recipe.method, "equations": len(y)}
    if recipe.method == "gpr":
        matrix = covariance(groups, lambda done, of: tell("kernels", done, of))
        tell("solving", 0, 1)
        weights, directions = _contracted(groups, solve_positive(matrix, y, recipe.ridge), values)
    else:
        bases = [centred[element == e] for e in range(len(elements))]
        matrix = operator_rows(groups, bases, lambda done, of: tell("kernels", done, of))
        tell("solving", 0, 1)
        found, rank = _least_squares(matrix, y, recipe.threshold)
        weights, directions = torch.empty_like(found).index_copy_(0, order, found), None
        report["singular_values_kept"] = rank
    tell("solving", 1, 1)
    provenance = Provenance.here(
        data=problem.source,
        targets=problem.rows,
        solution=report,
        structures=len(structures),
        atoms=structures.n_atoms,
        kernels=basis.kernels.NAME,
        device=str(compute.device),
        seconds=round(time.perf_counter() - started, 3),
    )
    return ExactPotential(
        elements,
        recipe,
        projection,
        element[order].cpu(),
        values[order].cpu(),
        weights[order].cpu(),
        None if directions is None else directions[order].cpu(),
        problem.baseline,
        provenance,
    )


def _axes(structures: Structures, recipe: ExactRecipe) -> Projection:
    """Principal axes of a sample, or the representation as it is."""
    n = len(structures.elements)
    if recipe.rank is None:
        return whole_representation(n, recipe)
    sampling = Recipe(representation=recipe.representation, projection_samples=recipe.projection_samples)
    samples = sample_environments(structures, sampling, np.random.default_rng(recipe.seed))
    return principal_axes(directions(samples), recipe.rank)


def _room(structures: Structures, plans: Sequence[Plan], size: int, recipe: ExactRecipe) -> None:
    """Nothing, or an error before anything is allocated."""
    rows = sum(its.energy + its.combination.shape[1] for its in plans)
    tangents = sum(int(n) * its.combination.shape[1] for n, its in zip(structures.counts, plans, strict=True)) * size
    # the solvers copy their matrix once; so do tangents when idle columns are left out
    matrix = rows * (rows if recipe.method == "gpr" else structures.n_atoms)
    Memory().require(
        8 * 2 * (matrix + tangents),
        f"{recipe.method.upper()} with {rows} equations of {structures.n_atoms} environments",
        "Use fewer structures, a smaller rank, or random features (--method sorf).",
    )


def _contracted(groups: Sequence[Alike], solution: Tensor, values: Tensor) -> tuple[Tensor, Tensor | None]:
    """What each training environment adds to a prediction, (atoms,) and (atoms, columns).

    The weights of all tangents of an environment act along their weighted sum: prediction needs no second derivative.
    """
    weights, directions = values.new_zeros(len(values)), torch.zeros_like(values)
    for group in groups:
        part = solution[group.start : group.start + group.targets.numel()].view_as(group.targets)
        for atoms, tangents, columns in zip(group.atoms, group.tangents, group.columns, strict=True):
            if group.energy is not None:
                weights[atoms] = group.energy * part[:, :1].expand_as(atoms)
            if group.n_tangents:
                along = torch.einsum("st,stnc->snc", part[:, -group.n_tangents :], tangents)
                directions[atoms[..., None], columns] = along
    return weights, directions if any(group.n_tangents for group in groups) else None


def _least_squares(matrix: Tensor, y: Tensor, threshold: float) -> tuple[Tensor, int]:
    """Weights of smallest norm that minimise |matrix w − y|², and how many singular values were large enough."""
    try:
        # LAPACK's gelsd is on the CPU only
        found = torch.linalg.lstsq(matrix.cpu(), y.cpu()[:, None], rcond=threshold, driver="gelsd")
    except RuntimeError as problem:
        raise SolveError(
            f"The singular values of the OQML equations were not found ({problem}). Use a larger threshold, or GPR."
        ) from problem
    return found.solution[:, 0].to(matrix.device), int(found.rank)
