"""The method on one screen: reference energies, axes, features, equations, one linear solve."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from .baseline import Baseline, fit_baseline, given_baseline
from .basis import Basis, Drawn, draw, make_basis, recipe_difference
from .checkpoint import SECONDS, Checkpoint, CheckpointWarning
from .datasets.dataset import Dataset
from .distributed import Ranks, gather_by_ranks, on_first
from .equations import empty, fingerprints, gather, provenance, solved
from .equationsfile import save_equations
from .errors import InputError
from .exact import ExactPotential, ExactRecipe, exact_potential
from .files import check_output
from .kernels import FeatureMap, kernels_for
from .neighbours import check_distances, element_indices
from .potential import Potential
from .projection import Projection
from .recipes import DEFAULT, Recipe
from .resources import Memory
from .solve import memory_for_fit
from .structures import Labels, Structures, checked
from .training import (
    BYTES_IN_FLIGHT,
    Problem,
    Progress,
    batch_numbers,
    counts_of,
    iterative_weights,
    out_of_core_weights,
)


@overload
def fit(
    data: Dataset,
    recipe: Recipe = ...,
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
    recipe: Recipe | ExactRecipe = DEFAULT,
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

    `recipe`: random features, or explicit kernels (`exact.OQML`, `exact.GPR`), which take no `basis`,
    keep no equations, and run in the memory of one process.
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
    special_way(
        recipe, memory_limit is not None, ranks is not None,
        equations=equations is not None, checkpoint=checkpoint is not None, basis=basis is not None,
    )  # fmt: skip
    if equations is not None:
        on_first(ranks, lambda: check_output(equations, overwrite))
    structures = checked(data.structures, data.labels)
    check_distances(structures)
    labels = _chosen(data.labels, targets)
    elements = _elements(structures, recipe, basis)
    # by the first rank: others may have other processors, whose figures would differ in the last digits
    baseline = on_first(ranks, lambda: _baseline(structures, labels, elements, reference_energies))
    problem, source, tell = Problem(structures, labels, baseline), data.source.as_dict(), progress or (lambda *_: None)
    potential: Potential | ExactPotential
    if isinstance(recipe, ExactRecipe):
        potential = _with_kernels(problem, source, recipe, device, kernels, tell)
    else:
        memory = Memory(memory_limit, None if scratch is None else Path(scratch))
        work = _Work(problem, source, recipe, basis, device, kernels, memory, ranks, tell)
        if recipe.solver.method == "iterative":
            potential = work.iteratively()
        elif not work.fits and equations is None and ranks is None:
            if checkpoint is not None:
                warnings.warn(CheckpointWarning("The equations are on disk, without checkpoints."), stacklevel=2)
            potential = work.on_disk()
        else:
            keeper = None if checkpoint is None else Checkpoint(checkpoint, checkpoint_seconds, resume=resume)
            potential = work.in_memory(reference_energies is not None, keeper, equations, overwrite)
    seconds = round(time.perf_counter() - started, 3)
    return replace(potential, provenance={**potential.provenance, "seconds": seconds})


@dataclass(frozen=True)
class _Work:
    """What is to be done and with what, and the three ways to do it."""

    problem: Problem
    source: dict[str, Any]
    recipe: Recipe
    basis: Drawn | None
    device: torch.device | str
    kernels: str | None
    memory: Memory
    ranks: Ranks | None
    tell: Progress

    @property
    def n_weights(self) -> int:
        return self.recipe.features.n_weights(len(self.problem.baseline.elements))

    @property
    def most(self) -> int | None:
        """Numbers at once, in rows and in features of atoms; None: as many as run fastest."""
        if self.memory.limit is None:
            return None
        return batch_numbers(self.n_weights, self.problem, self.memory.left)

    @property
    def needed(self) -> int:
        """Bytes to gather and solve the equations in memory."""
        processes = 1 if self.ranks is None else self.ranks.local_size
        counts = counts_of(self.problem.targets).values()
        return memory_for_fit(self.n_weights, list(counts), processes) + BYTES_IN_FLIGHT * (self.most or 0)

    @property
    def fits(self) -> bool:
        return self.needed <= self.memory.left

    def drawn(self) -> tuple[Projection, tuple[FeatureMap, ...]]:
        """Axes and feature maps: those of the basis, or new ones."""
        if self.basis is not None:
            return self.basis.projection, self.basis.maps
        random = np.random.default_rng(self.recipe.seed)
        return on_first(self.ranks, lambda: draw(self.problem.structures, self.recipe, random))

    def in_memory(
        self, given: bool, keeper: Checkpoint | None, equations: str | Path | None, overwrite: bool
    ) -> Potential:
        """The equations gathered, by one process or several, kept if that is wanted, and solved."""
        problem, recipe, ranks, tell, most = self.problem, self.recipe, self.ranks, self.tell, self.most
        self.memory.require(
            self.needed,
            f"Training {self.n_weights} weights",
            f"Use fewer features (now {recipe.features.n_features}) or structures"
            + (", or do not keep the equations: they can then be on disk." if ranks is None else ", or fewer ranks."),
        )
        prints = fingerprints(problem.structures, problem.labels)
        kept = None if keeper is None else keeper.read(recipe, problem, prints, given, self.basis, self.device)
        if kept is None:
            made = empty(problem, prints, self.source, recipe, self.drawn(), given=given, device=self.device)
            gathered, done = made, 0
        else:
            gathered, done = kept
            problem = replace(problem, baseline=gathered.references.origin)
        ready = make_basis(gathered.elements, recipe, gathered.projection, gathered.maps, self.device, self.kernels)
        solution: dict[str, Any] = {"solver": "direct"}
        if ranks is None:
            after = None if keeper is None else keeper.after
            gather(gathered, ready, problem, tell, first=done, most=most, after=after)
        else:
            solution["ranks"] = gather_by_ranks(gathered, ready, problem, tell, ranks)

        def finish() -> Potential:
            if equations is not None:
                save_equations(gathered, equations, overwrite=overwrite)
            about: dict[str, Any] = {"solution": solution, "kernels": ready.kernels.NAME, "device": str(self.device)}
            return solved(gathered, recipe, use_up=True, **about)

        tell("solving", 0, 1)
        potential = on_first(ranks, finish)
        tell("solving", 1, 1)
        return potential

    def on_disk(self) -> Potential:
        """From equations that memory does not hold."""
        drawn = self.drawn()
        basis = make_basis(self.problem.baseline.elements, self.recipe, *drawn, self.device, self.kernels)
        return self._potential(
            basis, drawn, *out_of_core_weights(basis, self.problem, self.recipe, self.tell, self.memory)
        )

    def iteratively(self) -> Potential:
        """From equations that are never formed."""
        drawn = self.drawn()
        # float64: the preconditioner divides by the ridge, and so would magnify the rounding of float32
        recipe = replace(self.recipe, precision="float64")
        basis = make_basis(self.problem.baseline.elements, recipe, *drawn, self.device, self.kernels)
        return self._potential(basis, drawn, *iterative_weights(basis, self.problem, self.recipe, self.tell))

    def _potential(
        self,
        basis: Basis,
        drawn: tuple[Projection, tuple[FeatureMap, ...]],
        weights: Tensor,
        report: dict[str, Any],
    ) -> Potential:
        about = _about(self.problem, self.source, report, basis.kernels.NAME, self.device)
        baseline = self.problem.baseline
        return Potential(baseline.elements, self.recipe, *drawn, weights.cpu(), baseline, about)


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
    return replace(potential, provenance=_about(problem, source, report, name, device))


def _about(
    problem: Problem, source: dict[str, Any], report: dict[str, Any], kernels: str, device: torch.device | str
) -> dict[str, Any]:
    """The provenance of a model whose equations are not kept."""
    rows, structures = report.pop("rows"), problem.structures
    about = provenance(source, rows, report, len(structures), structures.n_atoms)
    return about | {"kernels": kernels, "device": str(device)}


def special_way(
    recipe: Recipe | ExactRecipe, limited: bool, several: bool, *, equations: bool, checkpoint: bool, basis: bool
) -> str | None:
    """The way other than in memory by one process, if one is asked for; an InputError if two are, or what it lacks."""
    ways = {
        "explicit kernels": isinstance(recipe, ExactRecipe),
        "the iterative solver": isinstance(recipe, Recipe) and recipe.solver.method == "iterative",
        "a limit of memory": limited,
        "several ranks": several,
    }
    chosen = [name for name, asked in ways.items() if asked]
    if len(chosen) > 1:
        text = " and ".join(chosen)
        raise InputError(f"{text[0].upper()}{text[1:]} exclude each other. Choose one.")
    if chosen and equations and not several:
        raise InputError(
            f"With {chosen[0]} no equations are formed in memory that could be kept. Leave out one of both."
        )
    if chosen and checkpoint:
        raise InputError(f"With {chosen[0]} there are no checkpoints to write or resume. Leave out one of both.")
    if isinstance(recipe, ExactRecipe) and basis:
        raise InputError("Explicit kernels have no random features to take from another model. Leave out the basis.")
    return chosen[0] if chosen else None


def _baseline(
    structures: Structures, labels: Labels, elements: tuple[int, ...], given: Mapping[int, float] | None
) -> Baseline:
    """The reference energies that are given, or those of least squares."""
    if given is not None:
        return given_baseline(given, elements)
    return fit_baseline(structures, labels.energies, elements)


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
