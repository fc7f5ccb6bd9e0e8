"""Checkpoints: the equations of a fit that is not finished, on disk every few minutes, so that a fit can go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..linear.normal_equations import Gram
from ..model.basis import Drawn, basis_difference, recipe_difference
from ..model.recipe import Recipe
from .equations import Equations
from .equations_file import Position, load_state, read_equations_header, save_equations
from .keeper import Keeper
from .problem import Problem


class Checkpoint(Keeper):
    """The equations of a fit, written while it gathers them."""

    def after(self, equations: Equations, done: int, of: int) -> None:
        """Write a checkpoint if it is time and next to no rows wait; a warning if it cannot be written."""
        grams = [part for part in equations.parts.values() if isinstance(part, Gram)]
        longest = max(grams, key=lambda part: part.n, default=None)
        if not self.due or (longest is not None and longest.waiting.n and done < of):
            return
        position = Position(done, of)
        self.write(
            lambda: save_equations(equations, self.path, overwrite=True, position=position),
            f"{done} of {of} structures",
        )

    def chosen(self) -> tuple[Recipe, dict[str, Any] | None] | None:
        """The recipe that the fit began with, and what spoke for it; None where there is no checkpoint yet."""
        if not self.path.exists():
            return None
        header = read_equations_header(self.path)
        return Recipe.from_dict(header["recipe"]), header.get("choice")

    def read(
        self,
        recipe: Recipe,
        problem: Problem,
        structures: Tensor,
        given: bool,
        basis: Drawn | None,
        device: torch.device | str,
    ) -> tuple[Equations, int] | None:
        """Equations and how many structures are in them, or None where there is no checkpoint yet.

        The data (fingerprints, kinds of labels), the recipe, given reference energies and a given basis must be those
        of the checkpoint. The ridge and the weights may be others: they do not enter the equations.
        """
        if not self.path.exists():
            return None
        equations, position = load_state(self.path, device=device)
        kinds, given_energies = problem.labels.kinds, problem.baseline.energies
        why = ""
        if position is None:
            why = "it holds finished equations: use merge or update"
        elif not torch.equal(equations.structures, structures):
            same = int(torch.isin(structures, equations.structures).sum())
            why = (
                f"{same} of these {len(structures)} structures are among its {len(equations.structures)}, in some order"
            )
        elif tuple(equations.parts) != kinds:
            why = f"it learns from {', '.join(equations.parts)}, not from {', '.join(kinds)}"
        elif recipe_difference(equations.recipe, recipe) or equations.recipe.seed != recipe.seed:
            why = recipe_difference(equations.recipe, recipe) or (
                f"the seed is {equations.recipe.seed} in one and {recipe.seed} in the other"
            )
        elif equations.given != given or (
            given and not torch.equal(given_energies, equations.references.origin.energies)
        ):
            why = "the reference energies are others"
        elif basis is not None:
            why = basis_difference(equations, basis)
        if why or position is None:
            raise self.refused(why)
        return replace(equations, recipe=recipe), position.done
