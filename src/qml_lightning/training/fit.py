"""Training in one call: reference energies, axes, features, equations, one linear solve."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import torch

from ..atoms.dataset import Dataset
from ..atoms.neighbours import check_distances, element_indices
from ..atoms.structures import Labels, Structures, checked
from ..errors import InputError
from ..exact import ExactPotential, ExactRecipe, exact_potential
from ..kernels import kernels_for
from ..machine.files import check_output
from ..machine.memory import Memory
from ..model.baseline import Baseline, fit_baseline, given_baseline
from ..model.basis import Drawn, recipe_difference
from ..model.potential import Potential
from ..model.recipe import AUTOMATIC, Automatic, Recipe
from .keeper import SECONDS, CheckpointWarning
from .plan import Work, about_model, special_way
from .problem import Problem, Progress
from .shared_gather import Ranks, on_first


@overload
def fit(
    data: Dataset,
    recipe: Recipe | Automatic = ...,
    *,
    targets: Sequence[str] | None = ...,
    reference_energies: Mapping[int, float] | None = ...,
    basis: Drawn | None = ...,
    equations: str | Path | None = ...,
    checkpoint: str | Path | None = ...,
    checkpoint_seconds: float = ...,
    resume: bool = ...,
    overwrite: bool = ...,
    device: torch.device | str = ...,
    kernels: str | None = ...,
    memory_limit: int | None = ...,
    scratch: str | Path | None = ...,
    ranks: Ranks | None = ...,
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
    recipe: Recipe | Automatic | ExactRecipe = AUTOMATIC,
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
    memory_limit: int | None = None,
    scratch: str | Path | None = None,
    ranks: Ranks | None = None,
    progress: Progress | None = None,
) -> Potential | ExactPotential:
    """The potential that minimises the weighted squared error of the labels plus ridge · |weights|².

    `recipe`: random features, of which width, ridge, energy weight and rank are chosen from the data (`AUTOMATIC`) or
    given (`DEFAULT`); or explicit kernels (`exact.OQML`, `exact.GPR`), which take no `basis`, keep no equations, and
    run in the memory of one process.
    `targets`: which labels to learn from, some of "energies", "forces", "stress"; by default all that there are.
    `reference_energies`: eV by atomic number; by default from least squares.
    `basis`: a potential whose axes and feature maps to use, so that the equations of both can be added.
    `equations`: file to keep the equations in (one that exists only with `overwrite`). `checkpoint`: file to write them
    to every `checkpoint_seconds` while they are gathered, and with `resume` to go on from; yours to delete at the end.
    `memory_limit`: bytes that the process may have in memory; equations that do not fit (without a limit: in the memory
    of the machine) are gathered on disk, in the folder `scratch`, and cannot be kept.
    `ranks`: the processes that share the work (`distributed.joined`), each of which is given the same data.
    """
    started = time.perf_counter()
    recipe.check()
    if isinstance(recipe, Automatic) and basis is not None:
        recipe = basis.recipe
    start = recipe.start if isinstance(recipe, Automatic) else recipe
    special_way(
        start, memory_limit is not None, ranks is not None,
        equations=equations is not None, checkpoint=checkpoint is not None, basis=basis is not None,
    )  # fmt: skip
    if equations is not None:
        on_first(ranks, lambda: check_output(equations, overwrite))
    structures = checked(data.structures, data.labels)
    check_distances(structures)
    labels = chosen_labels(data.labels, targets)
    elements = _elements(structures, start, basis)
    # by the first rank: others may have other processors, whose figures would differ in the last digits
    baseline = on_first(ranks, lambda: _baseline(structures, labels, elements, reference_energies))
    problem, source, tell = Problem(structures, labels, baseline), data.source.as_dict(), progress or (lambda *_: None)
    potential: Potential | ExactPotential
    if isinstance(start, ExactRecipe):
        potential = _with_kernels(problem, source, start, device, kernels, tell)
    else:
        memory = Memory(memory_limit, None if scratch is None else Path(scratch))
        work = Work(problem, source, start, basis, device, kernels, memory, ranks, tell)
        iterates = work.iterates(keeps=equations is not None)
        keeper = work.keeper(checkpoint, checkpoint_seconds, iterates=iterates, resume=resume)
        if isinstance(recipe, Automatic):
            work = work.settled(recipe, keeper, iterates=iterates)
        if iterates:
            potential = work.iteratively(keeper)
        elif not work.fits and equations is None and ranks is None:
            if checkpoint is not None:
                warnings.warn(CheckpointWarning("The equations are on disk, without checkpoints."), stacklevel=2)
            potential = work.on_disk()
        else:
            potential = work.in_memory(reference_energies is not None, keeper, equations, overwrite)
    seconds = round(time.perf_counter() - started, 3)
    return replace(potential, provenance={**potential.provenance, "seconds": seconds})


def _with_kernels(
    problem: Problem,
    source: dict[str, Any],
    recipe: ExactRecipe,
    device: torch.device | str,
    kernels: str | None,
    tell: Progress,
) -> ExactPotential:
    potential, report = exact_potential(problem, recipe, device=device, kernels=kernels, tell=tell)
    name = kernels_for(device, recipe.dtype, kernels).NAME
    return replace(potential, provenance=about_model(problem, source, report, name, device))


def _baseline(
    structures: Structures, labels: Labels, elements: tuple[int, ...], given: Mapping[int, float] | None
) -> Baseline:
    """The reference energies that are given, or those of least squares."""
    if given is not None:
        return given_baseline(given, elements)
    return fit_baseline(structures, labels.energies, elements)


def chosen_labels(labels: Labels, targets: Sequence[str] | None) -> Labels:
    """Only the wanted labels, which must be there."""
    wanted = labels.kinds if targets is None else tuple(targets)
    missing = [kind for kind in wanted if kind not in labels.kinds]
    if missing or not wanted:
        have = ", ".join(labels.kinds) or "none"
        raise InputError(f"Wanted to train on {', '.join(wanted) or 'something'}; the labels that there are: {have}.")
    if "stress" in wanted and len(wanted) == 1:
        raise InputError("Stress alone does not determine a potential. Train on energies or forces as well.")
    return Labels(**{kind: getattr(labels, kind) for kind in wanted})


def _elements(structures: Structures, recipe: Recipe | ExactRecipe, basis: Drawn | None) -> tuple[int, ...]:
    """Those of the structures, or of the basis if one is given, which must serve."""
    if basis is None or isinstance(recipe, ExactRecipe):
        return structures.elements
    element_indices(structures.numbers, basis.elements)
    if difference := recipe_difference(basis.recipe, recipe):
        raise InputError(
            f"The recipe does not go with the basis that is given: {difference}. Use the recipe of its model."
        )
    return basis.elements
