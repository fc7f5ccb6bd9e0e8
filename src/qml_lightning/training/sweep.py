"""Equations in memory that are solved more than once: for each ridge and energy weight of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..atoms.dataset import Dataset
from ..linear.direct import EIGEN_FROM, ridge_path
from ..linear.solution import Solution
from ..machine.compute import Compute
from ..machine.progress import Progress, silent
from ..model.basis import Basis
from ..model.potential import Potential
from ..model.recipe import Recipe
from .costs import direct_memory, sweep_memory
from .equations import Equations, empty, gather
from .problem import Learn, Problem
from .solvers.direct import potential_of
from .solvers.task import Fitted


def equations_of(
    data: Dataset,
    recipe: Recipe,
    *,
    basis: Basis | None = None,
    learn: Learn | None = None,
    compute: Compute | None = None,
    tell: Progress = silent,
) -> Equations:
    """Equations of all labels of `data`, in memory: to be solved more than once, or to grow.

    `basis`: axes and feature maps to use; by default they are drawn from the structures.
    """
    recipe.check()
    compute = compute or Compute()
    problem = Problem.of(data, learn, elements=None if basis is None else basis.elements)
    compute.memory.require(
        direct_memory(list(problem.rows.values()), recipe.features.n_weights(len(problem.elements))),
        f"Equations of {recipe.features.n_features} features",
        "Use fewer features or structures.",
    )
    basis = Basis.draw(problem.structures, recipe) if basis is None else basis.with_recipe(recipe)
    equations = empty(problem, basis, device=compute.device)
    gather(equations, basis.ready(compute), problem, tell)
    return equations


@dataclass(frozen=True)
class Point:
    """One point of a sweep."""

    energy_weight: float
    ridge: float
    potential: Potential
    errors: dict[str, float]  # root mean square of Z w − y over the rows of each kind, without weights


def sweep(
    equations: Equations,
    energy_weights: Sequence[float],
    ridges: Sequence[float],
    *,
    recipe: Recipe | None = None,
    reference_energies: Mapping[int, float] | None = None,
) -> list[Point]:
    """The potential for each energy weight and each ridge, all from one pass over the data; ridges vary fastest.

    The equations stay as they are; a sweep needs a matrix beside them.
    """
    base = equations.recipe if recipe is None else recipe
    baseline = equations.baseline(reference_energies)
    n = min(equations.n_weights, sum(equations.rows.values()))
    Compute().memory.require(
        sweep_memory(n, len(ridges)),
        f"A sweep over {len(ridges)} ridges with {n} weights",
        f"Use fewer than {EIGEN_FROM} ridges at a time, or fewer features.",
    )
    points = []
    for energy_weight in energy_weights:
        weighted = replace(base, energy_weight=energy_weight)
        terms = equations.terms(weighted, baseline)
        for ridge, weights in zip(ridges, ridge_path(terms, ridges), strict=True):
            replace(weighted, ridge=ridge).check()
            fitted = Fitted(Solution(weights, ridge, False, {"solver": "direct"}), baseline, equations.rows)
            errors = {
                kind: (term.squared_error(weights) / term.part.n) ** 0.5
                for kind, term in zip(equations.parts, terms, strict=True)
                if term.part.n
            }
            points.append(Point(energy_weight, ridge, potential_of(equations, weighted, fitted), errors))
    return points
