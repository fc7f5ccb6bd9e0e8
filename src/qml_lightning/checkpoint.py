"""Checkpoints: the equations of a fit that is not finished, on disk every few minutes, so that a fit can go on."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .basis import Drawn, basis_difference, recipe_difference
from .equations import Equations
from .equationsfile import Position, load_state, read_equations_header, save_equations
from .errors import InputError, QMLError
from .files import check_output, sweep_up
from .normal import Gram
from .recipes import Recipe
from .training import Problem

# Between two checkpoints: at most so much work is lost, and writing takes little of it.
SECONDS = 180.0


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written. The fit goes on."""


def checked_path(path: str | Path, *, resume: bool) -> Path:
    """The path to write checkpoints to; an InputError if one is there that is not to be resumed."""
    path = check_output(path, overwrite=True)
    if path.exists() and not resume:
        raise InputError(
            f"There is a checkpoint {path} of a fit that did not end. Go on from it with --resume (resume=True), or "
            "delete it to begin anew."
        )
    return path


class Checkpoint:
    """Where and how often the equations of a fit are written while it gathers them."""

    def __init__(self, path: str | Path, seconds: float = SECONDS, *, resume: bool = False) -> None:
        self.path = checked_path(path, resume=resume)
        self.seconds = seconds
        self._last = time.monotonic()
        sweep_up(self.path)

    def after(self, equations: Equations, done: int, of: int) -> None:
        """Write a checkpoint if it is time and next to no rows wait; a warning if it cannot be written."""
        grams = [part for part in equations.parts.values() if isinstance(part, Gram)]
        longest = max(grams, key=lambda part: part.n, default=None)
        if time.monotonic() - self._last < self.seconds or (longest is not None and longest.waiting.n and done < of):
            return
        try:
            save_equations(equations, self.path, overwrite=True, position=Position(done, of))
        except (OSError, QMLError) as problem:
            kept = "The last good one is kept" if self.path.exists() else "There is none yet"
            text = f"The checkpoint at {done} of {of} structures failed: {problem} {kept}; the fit goes on."
            warnings.warn(CheckpointWarning(text), stacklevel=2)
        self._last = time.monotonic()

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
            raise InputError(
                f"The checkpoint {self.path} is not of this fit: {why}. Use the data and the options it was made with, "
                "or delete it to begin anew."
            )
        return replace(equations, recipe=recipe), position.done
