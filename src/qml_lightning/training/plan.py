"""The ways to a model of random features: equations in memory, on disk, or never formed; and what excludes what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..exact import ExactRecipe
from ..kernels import FeatureMap
from ..linear.direct import memory_for_fit
from ..linear.normal_equations import Gram
from ..machine.memory import Memory
from ..model.basis import Basis, Drawn, draw, make_basis
from ..model.potential import Potential
from ..model.projection import Projection
from ..model.recipe import Automatic, Recipe
from .checkpoint import Checkpoint
from .choice.search import choose
from .equations import empty, fingerprints, gather, least_ridge, provenance, solved
from .equations_file import save_equations
from .problem import (
    BYTES_IN_FLIGHT,
    Problem,
    Progress,
    batch_numbers,
    counts_of,
    out_of_core_weights,
)
from .restart import Identity, Restart
from .shared_gather import Ranks, gather_by_ranks, on_first
from .solvers.iterative import iteration_is_cheaper, prepared

# The one way besides that in memory which can be resumed.
ITERATION = "the iterative solver"
# Rows that judge a ridge, structure by structure, each met by the fit without it: this part of them and so many at
# most, but of so many structures where there are as many. Twelve are too few (ethanol, 100 structures: forces a tenth
# worse than with all of them).
JUDGES, MOST_JUDGES, FEWEST_JUDGES = 0.5, 3000, 20


@dataclass(frozen=True)
class Work:
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
    choice: dict[str, Any] | None = None  # what speaks for the recipe; None: it was given

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

    def iterates(self, *, keeps: bool) -> bool:
        """Whether the equations are never formed: that was asked for, or it is cheaper and nothing else was."""
        if self.recipe.solver.method != "automatic":
            return self.recipe.solver.method == "iterative"
        alone = self.ranks is None and self.memory.limit is None and not keeps
        accumulation = self.recipe.solver.accumulation in (None, "float64")
        return alone and accumulation and iteration_is_cheaper(self.problem, self.recipe, self.n_weights)

    def keeper(
        self, path: str | Path | None, seconds: float, *, iterates: bool, resume: bool
    ) -> Checkpoint | Restart | None:
        """What keeps the state of this work in a file, if one is wanted."""
        if path is None:
            return None
        return (Restart if iterates else Checkpoint)(path, seconds, resume=resume)

    def settled(self, automatic: Automatic, keeper: Checkpoint | Restart | None, *, iterates: bool) -> Work:
        """The same with the free fields of the recipe as the data want them.

        They are chosen once, by the first rank; a fit that goes on from a checkpoint has chosen already.
        """
        if keeper is not None and (kept := keeper.chosen()) is not None:
            return replace(self, recipe=automatic.settled_as(kept[0]), choice=kept[1])
        options: dict[str, Any] = {"device": self.device, "kernels": self.kernels, "memory": self.memory}
        options |= {"iterates": iterates, "tell": self.tell}
        choice = on_first(self.ranks, lambda: choose(self.problem, automatic, **options))
        return replace(self, recipe=choice.recipe, choice=None if choice.best is None else choice.as_dict())

    def drawn(self) -> tuple[Projection, tuple[FeatureMap, ...]]:
        """Axes and feature maps: those of the basis, or new ones."""
        if self.basis is not None:
            return self.basis.projection, self.basis.maps
        random = np.random.default_rng(self.recipe.seed)
        return on_first(self.ranks, lambda: draw(self.problem.structures, self.recipe, random))

    def in_memory(
        self, given: bool, keeper: Checkpoint | Restart | None, equations: str | Path | None, overwrite: bool
    ) -> Potential:
        """The equations gathered, by one process or several, kept if that is wanted, and solved."""
        problem, recipe, ranks, tell, most = self.problem, self.recipe, self.ranks, self.tell, self.most
        self.memory.require(
            self.needed,
            f"Training {self.n_weights} weights",
            f"Use fewer features (now {recipe.features.n_features}) or structures"
            + (", or do not keep the equations: they can then be on disk." if ranks is None else ", or fewer ranks."),
        )
        assert not isinstance(keeper, Restart), "what iterates has no equations"
        prints = fingerprints(problem.structures, problem.labels)
        kept = None if keeper is None else keeper.read(recipe, problem, prints, given, self.basis, self.device)
        if kept is None:
            made = empty(
                problem, prints, self.source, recipe, self.drawn(), given=given, device=self.device, choice=self.choice
            )
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
        if grams := [part for part in gathered.parts.values() if isinstance(part, Gram)]:
            solution["accumulation"] = grams[0].accumulation

        def finish() -> Potential:
            if equations is not None:
                save_equations(gathered, equations, overwrite=overwrite)
            about: dict[str, Any] = {"solution": solution, "kernels": ready.kernels.NAME, "device": str(self.device)}
            # rows of several ranks are in another order, and a ridge that was given needs none
            judges = [] if ranks is not None or least_ridge(self.choice) is None else self._judges()
            return solved(gathered, recipe, use_up=True, judges=judges, **about)

        tell("solving", 0, 1)
        potential = on_first(ranks, finish)
        tell("solving", 1, 1)
        return potential

    def _judges(self) -> list[Tensor]:
        """The rows of each of a few structures, as many as cost little beside the solution."""
        of_rows = self.problem.structure_of_rows
        n, rows = len(self.problem.structures), torch.bincount(of_rows, minlength=len(self.problem.structures))
        order = torch.from_numpy(np.random.default_rng(self.recipe.seed).permutation(n))
        few = max(FEWEST_JUDGES, int((rows[order].cumsum(0) <= min(JUDGES * len(of_rows), MOST_JUDGES)).sum()))
        return [(of_rows == s).nonzero()[:, 0] for s in order[:few].tolist() if rows[s]]

    def on_disk(self) -> Potential:
        """From equations that memory does not hold."""
        if self.recipe.solver.accumulation == "compensated":
            raise InputError(
                "The equations do not fit in memory, and on disk they are summed up in float64. Leave out the "
                "compensated accumulation, or use fewer features."
            )
        drawn = self.drawn()
        basis = make_basis(self.problem.baseline.elements, self.recipe, *drawn, self.device, self.kernels)
        return self._potential(
            basis, drawn, *out_of_core_weights(basis, self.problem, self.recipe, self.tell, self.memory)
        )

    def iteratively(self, keeper: Checkpoint | Restart | None = None) -> Potential:
        """From equations that are never formed."""
        drawn = projection, maps = self.drawn()
        basis = make_basis(self.problem.baseline.elements, self.recipe, *drawn, self.device, self.kernels)
        work = prepared(basis, self.problem, self.recipe, self.tell)
        before, keep = None, None
        if isinstance(keeper, Restart):
            identity = Identity.of(
                self.recipe, self.choice, fingerprints(self.problem.structures, self.problem.labels), projection, maps
            )
            before = keeper.read(identity, self.recipe.solver.most_iterations, self.device)
            keep = lambda state: keeper.after(state, identity)  # noqa: E731
        weights, ridge, report = work.solve(self.recipe.ridge, before, keep, least_ridge(self.choice))
        settled = replace(self, recipe=replace(self.recipe, ridge=ridge))
        return settled._potential(basis, drawn, weights, report)

    def _potential(
        self,
        basis: Basis,
        drawn: tuple[Projection, tuple[FeatureMap, ...]],
        weights: Tensor,
        report: dict[str, Any],
    ) -> Potential:
        about = about_model(self.problem, self.source, report, basis.kernels.NAME, self.device)
        if self.choice is not None:
            about["choice"] = self.choice
        baseline = self.problem.baseline
        return Potential(baseline.elements, self.recipe, *drawn, weights.cpu(), baseline, about)


def about_model(
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
        ITERATION: isinstance(recipe, Recipe) and recipe.solver.method == "iterative",
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
    if chosen and checkpoint and chosen != [ITERATION]:
        raise InputError(f"With {chosen[0]} there are no checkpoints to write or resume. Leave out one of both.")
    if isinstance(recipe, ExactRecipe) and basis:
        raise InputError("Explicit kernels have no random features to take from another model. Leave out the basis.")
    return chosen[0] if chosen else None
