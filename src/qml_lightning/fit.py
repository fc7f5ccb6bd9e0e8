"""The method on one screen: reference energies, axes, features, equations, one linear solve."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, overload

import numpy as np
import torch

from .baseline import fit_baseline, given_baseline
from .basis import draw, make_basis
from .datasets.dataset import Dataset
from .errors import InputError
from .exact import ExactPotential, ExactRecipe, exact_potential
from .kernels import kernels_for
from .neighbours import check_distances
from .potential import Potential
from .recipes import DEFAULT, Recipe
from .structures import Labels, checked
from .training import Problem, Progress, direct_weights, iterative_weights


@overload
def fit(
    data: Dataset,
    recipe: Recipe = ...,
    *,
    targets: Sequence[str] | None = ...,
    reference_energies: Mapping[int, float] | None = ...,
    device: torch.device | str = ...,
    kernels: str | None = ...,
    progress: Progress | None = ...,
) -> Potential: ...


@overload
def fit(
    data: Dataset,
    recipe: ExactRecipe,
    *,
    targets: Sequence[str] | None = ...,
    reference_energies: Mapping[int, float] | None = ...,
    device: torch.device | str = ...,
    kernels: str | None = ...,
    progress: Progress | None = ...,
) -> ExactPotential: ...


def fit(
    data: Dataset,
    recipe: Recipe | ExactRecipe = DEFAULT,
    *,
    targets: Sequence[str] | None = None,
    reference_energies: Mapping[int, float] | None = None,
    device: torch.device | str = "cpu",
    kernels: str | None = None,
    progress: Progress | None = None,
) -> Potential | ExactPotential:
    """The potential that minimises the weighted squared error of the labels plus ridge · |weights|².

    `recipe`: random features, or explicit kernels (`exact.OQML`, `exact.GPR`).
    `targets`: which labels to learn from, some of "energies", "forces", "stress"; by default all that there are.
    `reference_energies`: eV by atomic number; by default from least squares.
    """
    started = time.perf_counter()
    recipe.check()
    tell = progress or (lambda what, done, of: None)
    structures = checked(data.structures, data.labels)
    check_distances(structures)
    labels = _chosen(data.labels, targets)
    if reference_energies is None:
        baseline = fit_baseline(structures, labels.energies, structures.elements)
    else:
        baseline = given_baseline(reference_energies, structures.elements)
    problem = Problem(structures, labels, baseline)
    potential: Potential | ExactPotential
    if isinstance(recipe, ExactRecipe):
        potential, report = exact_potential(problem, recipe, device=device, kernels=kernels, tell=tell)
    else:
        potential, report = _with_features(problem, recipe, device, kernels, tell)
    return replace(
        potential,
        provenance={
            "data": data.source.as_dict(),
            "targets": report.pop("rows"),
            "solution": report,
            "structures": len(structures),
            "atoms": structures.n_atoms,
            "seconds": round(time.perf_counter() - started, 3),
            "threads": torch.get_num_threads(),
            "kernels": kernels_for(device, recipe.dtype, kernels).NAME,
            "device": str(device),
            "versions": {"qml-lightning": version("qml-lightning"), "torch": torch.__version__},
        },
    )


def _with_features(
    problem: Problem, recipe: Recipe, device: torch.device | str, kernels: str | None, tell: Progress
) -> tuple[Potential, dict[str, Any]]:
    elements = problem.structures.elements
    projection, maps = draw(problem.structures, recipe, np.random.default_rng(recipe.seed))
    if recipe.solver.method == "iterative":
        # float64: the preconditioner divides by the ridge, and so would magnify the rounding of float32
        basis = make_basis(elements, replace(recipe, precision="float64"), projection, maps, device, kernels)
        weights, report = iterative_weights(basis, problem, recipe, tell)
    else:
        basis = make_basis(elements, recipe, projection, maps, device, kernels)
        weights, report = direct_weights(basis, problem, recipe, tell)
    return Potential(elements, recipe, projection, maps, weights.cpu(), problem.baseline), report


def _chosen(labels: Labels, targets: Sequence[str] | None) -> Labels:
    """Only the wanted labels, which must be there."""
    wanted = labels.kinds if targets is None else tuple(targets)
    missing = [kind for kind in wanted if kind not in labels.kinds]
    if missing or not wanted:
        have = ", ".join(labels.kinds) or "none"
        raise InputError(f"Wanted to train on {', '.join(wanted) or 'something'}; the labels that there are: {have}.")
    if "stress" in wanted and len(wanted) == 1:
        raise InputError("Stress alone does not determine a potential. Train on energies or forces as well.")
    return Labels(**{kind: getattr(labels, kind) for kind in wanted})
