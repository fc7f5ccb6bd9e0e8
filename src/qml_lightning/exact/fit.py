"""Training of OQML and GPR: kernels between all environments, and one solve."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..atoms.structures import Structures
from ..errors import SolveError
from ..linear.cholesky import solve_positive
from ..machine.compute import Compute
from ..machine.memory import Memory
from ..machine.progress import Progress, silent
from ..model.basis import sample_environments
from ..model.projection import Projection, directions, principal_axes
from ..model.provenance import Provenance
from ..model.recipe import Recipe
from ..training.costs import explicit_memory
from ..training.environments import all_environments
from ..training.problem import Problem
from .covariance import covariance, operator_rows
from .groups import Group, RowPlan, gather, plan_rows
from .potential import ExactPotential, exact_basis, whole_representation
from .recipe import ExactRecipe


def fit(problem: Problem, recipe: ExactRecipe, compute: Compute, tell: Progress = silent) -> ExactPotential:
    """The potential of OQML or GPR: a weight for each training environment, and for GPR a direction."""
    started, structures = time.perf_counter(), problem.structures
    projection = _axes(structures, recipe)
    basis = exact_basis(structures.elements, recipe, projection, compute)
    plans = plan_rows(structures, problem.targets, recipe)
    _require_memory(structures, plans, basis.projections.shape[2], recipe)

    at = all_environments(basis, structures, ())
    values, element, order = at.rho, at.element, at.element.sort(stable=True).indices
    centred = values.clone()
    for e in range(len(structures.elements)):
        centred[element == e] -= values[element == e].mean(0)  # small numbers, small rounding
    groups = gather(basis, structures, centred, problem.targets, plans, recipe)
    y = torch.cat([group.targets.flatten() for group in groups])
    report: dict[str, Any] = {"solver": recipe.method, "equations": len(y)}
    tell("kernels", 0, len(structures))
    if recipe.method == "gpr":
        matrix = covariance(groups, partial(tell, "kernels"))
        tell("solving", 0, 1)
        weights, directions = _contracted(groups, solve_positive(matrix, y, recipe.ridge), values)
    else:
        bases = [centred[element == e] for e in range(len(structures.elements))]
        matrix = operator_rows(groups, bases, partial(tell, "kernels"))
        tell("solving", 0, 1)
        found, report["singular_values_kept"] = _least_squares(matrix, y, recipe.threshold)
        weights, directions = torch.empty_like(found).index_copy_(0, order, found), None
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
        structures.elements,
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
    """Principal axes of a sample of environments, or axes that leave the representation as it is."""
    n = len(structures.elements)
    if recipe.rank is None:
        return whole_representation(n, recipe)
    sampling = Recipe(recipe.representation, projection_samples=recipe.projection_samples, seed=recipe.seed)
    drawn = sampling.representation.draw(len(structures.elements), sampling.seed)
    samples = sample_environments(structures, sampling, drawn, np.random.default_rng(recipe.seed))
    return principal_axes(directions(samples), recipe.rank)


def _require_memory(structures: Structures, plans: Sequence[RowPlan], size: int, recipe: ExactRecipe) -> None:
    """Raise a ResourceError if matrix and tangents do not fit in memory. `size`: columns of an environment."""
    rows = sum(its.energy + its.combination.shape[1] for its in plans)
    tangents = sum(int(n) * its.combination.shape[1] for n, its in zip(structures.counts, plans, strict=True)) * size
    Memory().require(
        explicit_memory(rows, rows if recipe.method == "gpr" else structures.n_atoms, tangents),
        f"{recipe.method.upper()} with {rows} equations of {structures.n_atoms} environments",
        "Use fewer structures, a smaller rank, or random features (--method sorf).",
    )


def _contracted(groups: Sequence[Group], solution: Tensor, values: Tensor) -> tuple[Tensor, Tensor | None]:
    """Weight (atoms,) and direction (atoms, columns) of each training environment; no directions without tangents.

    The direction is the sum of the tangents of the environment times the solution: prediction then needs no tangents
    of the training set and no second derivative.
    """
    weights, directions = values.new_zeros(len(values)), torch.zeros_like(values)
    for group in groups:
        part = solution[group.rows(0, len(group))].view_as(group.targets)
        for atoms, tangents, columns in zip(group.atoms, group.tangents, group.columns, strict=True):
            if group.energy is not None:
                weights[atoms] = group.energy * part[:, :1].expand_as(atoms)
            if group.n_tangents:
                along = torch.einsum("st,stnc->snc", part[:, -group.n_tangents :], tangents)
                directions[atoms[..., None], columns] = along
    return weights, directions if any(group.n_tangents for group in groups) else None


def _least_squares(matrix: Tensor, y: Tensor, threshold: float) -> tuple[Tensor, int]:
    """Weights of smallest norm that minimise |matrix w − y|², and the number of singular values above the threshold."""
    try:
        # torch has gelsd of LAPACK on the CPU only
        found = torch.linalg.lstsq(matrix.cpu(), y.cpu()[:, None], rcond=threshold, driver="gelsd")
    except RuntimeError as problem:
        raise SolveError(
            f"The singular values of the OQML equations were not found ({problem}). Use a larger threshold, or GPR."
        ) from problem
    return found.solution[:, 0].to(matrix.device), int(found.rank)
