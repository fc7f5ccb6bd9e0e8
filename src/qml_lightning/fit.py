"""The method on one screen: reference energies, axes, features, equations, one linear solve."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from .baseline import fit_baseline, given_baseline
from .basis import Drawn, draw, make_basis, recipe_difference
from .checkpoint import SECONDS, Checkpoint
from .datasets.dataset import Dataset
from .equations import empty, fingerprints, gather, provenance, solved
from .equationsfile import save_equations
from .errors import InputError
from .files import check_output
from .kernels import FeatureMap
from .neighbours import check_distances, element_indices
from .potential import Potential
from .projection import Projection
from .recipes import DEFAULT, Recipe
from .structures import Labels, Structures, checked
from .training import Problem, Progress, iterative_weights


def fit(
    data: Dataset,
    recipe: Recipe = DEFAULT,
    *,
    targets: Sequence[str] | None = None,
    reference_energies: Mapping[int, float] | None = None,
    basis: Drawn | None = None,
    equations: str | Path | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = SECONDS,
    resume: bool = False,
    overwrite: bool = False,
    device: torch.device | str = "cpu",
    kernels: str | None = None,
    progress: Progress | None = None,
) -> Potential:
    """The potential that minimises the weighted squared error of the labels plus ridge · |weights|².

    `targets`: which labels to learn from, some of "energies", "forces", "stress"; by default all that there are.
    `reference_energies`: eV by atomic number; by default from least squares.
    `basis`: a potential whose axes and feature maps to use, so that the equations of both can be added.
    `equations`: file to keep the equations in (one that exists only with `overwrite`). `checkpoint`: file to write them
    to every `checkpoint_seconds` while they are gathered, and with `resume` to go on from; yours to delete at the end.
    """
    started = time.perf_counter()
    recipe.check()
    tell = progress or (lambda *_: None)
    if equations is not None:
        check_output(equations, overwrite)
    structures = checked(data.structures, data.labels)
    check_distances(structures)
    labels = _chosen(data.labels, targets)
    elements = _elements(structures, recipe, basis)
    if reference_energies is None:
        baseline = fit_baseline(structures, labels.energies, elements)
    else:
        baseline = given_baseline(reference_energies, elements)
    problem, source = Problem(structures, labels, baseline), data.source.as_dict()

    if recipe.solver.method == "iterative":
        if equations is not None or checkpoint is not None:
            raise InputError("The iterative solver forms no equations to keep. Use the direct one, or leave these out.")
        potential = _iterative(problem, source, recipe, _drawn(structures, recipe, basis), device, kernels, tell)
    else:
        given = reference_energies is not None
        keeper = None if checkpoint is None else Checkpoint(checkpoint, checkpoint_seconds, resume=resume)
        prints = fingerprints(structures, labels)
        kept = None if keeper is None else keeper.read(recipe, problem, prints, given, basis, device)
        if kept is None:
            drawn = _drawn(structures, recipe, basis)
            gathered, done = empty(problem, prints, source, recipe, drawn, given=given, device=device), 0
        else:
            gathered, done = kept
            problem = replace(problem, baseline=gathered.references.origin)
        ready = make_basis(elements, recipe, gathered.projection, gathered.maps, device, kernels)
        gather(gathered, ready, problem, tell, first=done, after=None if keeper is None else keeper.after)
        if equations is not None:
            save_equations(gathered, equations, overwrite=overwrite)
        tell("solving", 0, 1)
        potential = solved(gathered, recipe, use_up=True, kernels=ready.kernels.NAME, device=str(device))
        tell("solving", 1, 1)
    seconds = round(time.perf_counter() - started, 3)
    return replace(potential, provenance={**potential.provenance, "seconds": seconds})


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


def _elements(structures: Structures, recipe: Recipe, basis: Drawn | None) -> tuple[int, ...]:
    """Those of the structures, or of the basis if one is given, which must serve."""
    if basis is None:
        return structures.elements
    element_indices(structures.numbers, basis.elements)
    if difference := recipe_difference(basis.recipe, recipe):
        raise InputError(
            f"The recipe does not go with the basis that is given: {difference}. Use the recipe of its model."
        )
    return basis.elements


def _drawn(structures: Structures, recipe: Recipe, basis: Drawn | None) -> tuple[Projection, tuple[FeatureMap, ...]]:
    """Axes and feature maps: those of the basis, or new ones."""
    if basis is not None:
        return basis.projection, basis.maps
    return draw(structures, recipe, np.random.default_rng(recipe.seed))


def _iterative(
    problem: Problem,
    source: dict[str, object],
    recipe: Recipe,
    drawn: tuple[Projection, tuple[FeatureMap, ...]],
    device: torch.device | str,
    kernels: str | None,
    tell: Progress,
) -> Potential:
    elements, structures = problem.baseline.elements, problem.structures
    # float64: the preconditioner divides by the ridge, and so would magnify the rounding of float32
    basis = make_basis(elements, replace(recipe, precision="float64"), *drawn, device, kernels)
    weights, report = iterative_weights(basis, problem, recipe, tell)
    about = provenance(source, report.pop("rows"), report, len(structures), structures.n_atoms)
    about |= {"kernels": basis.kernels.NAME, "device": str(device)}
    return Potential(elements, recipe, *drawn, weights.cpu(), problem.baseline, about)
