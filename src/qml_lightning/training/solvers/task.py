"""The task of a solver, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...linear.ridge import Ridge
from ...linear.solution import Solution
from ...machine.compute import Compute
from ...machine.progress import Progress, silent
from ...model.baseline import Baseline
from ...model.basis import Basis
from ...model.committee import Committee
from ...model.potential import Potential
from ...model.provenance import Provenance
from ...model.recipe import Recipe
from ..checkpoint import EquationsCheckpoint, Restart
from ..chosen_recipe import Chosen
from ..outputs import Keep
from ..problem import Problem


@dataclass(frozen=True)
class Task:
    """A problem, a basis and a ridge; the machine to solve it with, and the files to keep."""

    problem: Problem
    basis: Basis
    chosen: Chosen
    compute: Compute = field(default_factory=Compute)
    keep: Keep = field(default_factory=Keep)
    checkpoint: EquationsCheckpoint | Restart | None = None
    tell: Progress = silent
    on_host: bool = False  # the host keeps the equations that a device makes

    @property
    def recipe(self) -> Recipe:
        return self.chosen.recipe

    @property
    def ridge(self) -> Ridge:
        return self.chosen.ridge


@dataclass(frozen=True)
class Fitted:
    """A solution with the reference energies and the number of rows that belong to it."""

    solution: Solution
    baseline: Baseline
    rows: dict[str, int]  # by kind of label
    committee: Committee | None = None  # if one is wanted

    def potential(self, basis: Basis, provenance: Provenance) -> Potential:
        """The potential with these weights, and the ridge that was used in its recipe."""
        recipe = replace(basis.recipe, ridge=self.solution.ridge)
        about = replace(provenance, targets=self.rows, solution=self.solution.report)
        return Potential(
            basis.with_recipe(recipe), self.solution.weights.cpu(), self.baseline, about, committee=self.committee
        )
