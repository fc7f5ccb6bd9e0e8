"""Restart files: the state of an iteration on disk every few minutes, so that it can go on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..kernels import FeatureMap
from ..linear.krylov import WINDOW, Iteration, State
from ..machine.tensors import open_tensors, write_tensors
from ..model.projection import Projection
from ..model.recipe import Recipe
from .keeper import Keeper

NAME, VERSION = "qml_lightning_iteration", 3
# Of a state: what is one vector, and what has one for each step of the window.
VECTORS, WINDOWS = ("base", "residual", "left"), ("images", "products", "triangle")


@dataclass(frozen=True)
class Identity:
    """What makes two iterations the same: recipe, structures with their labels, what was drawn."""

    recipe: Recipe
    choice: dict[str, Any] | None  # what speaks for the recipe, for the model that comes of it
    data: str
    basis: str

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        choice: dict[str, Any] | None,
        structures: Tensor,
        projection: Projection,
        maps: Iterable[FeatureMap],
    ) -> Identity:
        """`structures`: their fingerprints."""
        tensors = (t for m in maps for t in (m.phases, m.signs, m.row_scale, m.matrix) if t is not None)
        return cls(recipe, choice, _digest([structures]), _digest([projection.matrices, *tensors]))

    def difference(self, header: Mapping[str, Any]) -> str:
        """What is another one in a file with this header, in words; empty: nothing."""
        recipe = Recipe.from_dict(header["recipe"])
        # where it ends does not change its steps
        solver, theirs = self.recipe.solver, recipe.solver
        solver = replace(solver, most_iterations=theirs.most_iterations, tolerance=theirs.tolerance)
        if recipe != replace(self.recipe, solver=solver):
            return "the recipe is another one"
        if header["data"] != self.data:
            return "the structures or their labels are others"
        return "" if header["basis"] == self.basis else "the basis is another one"


class Restart(Keeper):
    """The state of an iteration, written as it goes on."""

    def after(self, state: State, identity: Identity) -> None:
        """Write the state if it is time; a warning if it cannot be written."""
        if not self.due:
            return
        header = {
            "format_version": VERSION,
            **asdict(identity),
            "ridge": state.ridge,
            "number": state.number,
            "history": [asdict(step) for step in state.history],
        }
        tensors = {name: getattr(state, name) for name in VECTORS}
        tensors |= {name: getattr(state, name)[: state.steps] for name in WINDOWS}
        tensors |= {} if state.best is None else {"best": state.best}
        self.write(lambda: write_tensors(self.path, NAME, header, tensors, overwrite=True), f"step {state.number}")

    def chosen(self) -> tuple[Recipe, dict[str, Any] | None] | None:
        """The recipe that the fit began with, and what spoke for it; None where there is no file yet."""
        if not self.path.exists():
            return None
        with open_tensors(self.path, NAME, VERSION, "restart") as (header, _):
            return Recipe.from_dict(header["recipe"]), header["choice"]

    def read(self, identity: Identity, most_iterations: int, device: torch.device | str) -> State | None:
        """The state to go on from, or None where there is no file yet; it must be of the same fit."""
        if not self.path.exists():
            return None
        with open_tensors(self.path, NAME, VERSION, "restart") as (header, file):
            if why := identity.difference(header):
                raise self.refused(why)
            base, residual, left = (file.get_tensor(name).to(device) for name in VECTORS)
            best = file.get_tensor("best").to(device) if "best" in file.keys() else None  # noqa: SIM118
            windows = {name: file.get_tensor(name).to(device) for name in WINDOWS}
            history = [Iteration(**step) for step in header["history"]]
        k = len(windows["images"])
        state = State.start(header["ridge"], residual, len(base), max(k, min(WINDOW, most_iterations)))
        for name, rows in windows.items():
            room = getattr(state, name)[:k]
            room[:, : rows.shape[1]] = rows[:, : room.shape[1]]
        state.base, state.left, state.best = base, left, best
        state.steps, state.number, state.history = k, header["number"], history
        return state


def _digest(tensors: Iterable[Tensor]) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
