"""Checkpoints: the state of a fit on disk every few minutes, so that it can resume after a stop.

A checkpoint of the direct solver holds the equations gathered so far; one of the iterative solver (a restart file)
holds the vectors of its iteration.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, QMLError
from ..linear.krylov import WINDOW, Iteration, State
from ..machine.files import sweep_up
from ..machine.ranks import Ranks
from ..machine.tensors import open_tensors, write_tensors
from ..model.basis import Basis, tensors_of_map
from ..model.recipe import Recipe
from .chosen_recipe import Chosen
from .equations import Equations
from .equations_file import Position, load_state, read_equations_basis, read_equations_header, save_equations
from .outputs import SECONDS, Keep
from .plan import SolverName
from .problem import Problem

RESTART, RESTART_VERSION = "qml_lightning_iteration", 6
# Tensors of an iteration: single vectors, and those with one vector for each step of the window.
VECTORS, WINDOWS = ("base", "residual", "left"), ("directions", "images", "products", "triangle")


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written. The fit goes on."""


class Checkpoint:
    """A file with the state of a fit, written every few minutes."""

    def __init__(self, path: Path, seconds: float = SECONDS, ranks: Ranks | None = None) -> None:
        self.path, self.seconds = path, seconds
        self._last = time.monotonic()
        sweep_up(path)
        self.share = "" if ranks is None else f"rank {ranks.rank} of {ranks.size}"
        # ranks resume together or not at all
        self.found = path.exists() if ranks is None else ranks.all(path.exists())

    @property
    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() - self._last >= self.seconds

    def chosen(self) -> Chosen | None:
        """Recipe that the fit began with; None if there is no file yet."""
        return Chosen.from_header(self._header()) if self.found else None

    def basis(self) -> Basis | None:
        """Basis that the fit began with, if the file holds one."""
        return None

    def _header(self) -> dict[str, Any]:
        raise NotImplementedError

    def _write(self, write: Callable[[], None], where: str) -> None:
        """Call `write`; if it fails, warn and name the point that the fit has come to."""
        try:
            write()
        except (OSError, QMLError) as problem:
            kept = "The last good one is kept" if self.path.exists() else "There is none yet"
            text = f"The checkpoint at {where} failed: {problem} {kept}; the fit goes on."
            warnings.warn(CheckpointWarning(text), stacklevel=2)
        self._last = time.monotonic()

    def _refused(self, why: str) -> InputError:
        return InputError(
            f"The checkpoint {self.path} is not of this fit: {why}. Use the data and the options it was made with, "
            "or delete it to begin anew."
        )


class EquationsCheckpoint(Checkpoint):
    """Equations of a fit that is not finished."""

    def _header(self) -> dict[str, Any]:
        return read_equations_header(self.path)

    def basis(self) -> Basis | None:
        return read_equations_basis(self.path) if self.found else None

    def after(self, equations: Equations, done: int, of: int) -> None:
        """Write a checkpoint if it is time, and if no rows of the largest kind wait for their product."""
        longest = max(equations.grams, key=lambda part: part.n, default=None)
        if not self.due or (longest is not None and longest.waiting.n and done < of):
            return
        position = Position(done, of, self.share)
        self._write(
            lambda: save_equations(equations, self.path, overwrite=True, position=position),
            f"{done} of {of} structures",
        )

    def read(self, problem: Problem, basis: Basis, device: torch.device | str) -> tuple[Equations, int] | None:
        """Equations and the number of structures in them; None if there is no checkpoint yet.

        Data (fingerprints, kinds of labels), given reference energies and basis must be those of the checkpoint. Ridge
        and weights may be others: they do not enter the equations.
        """
        if not self.found:
            return None
        equations, position = load_state(self.path, device=device)
        if position is None:
            raise self._refused("it holds finished equations: use merge or update")
        why = _difference(equations, problem, basis)
        if not why and position.share != self.share:
            why = f"it is of {position.share or 'one process'}, not of {self.share or 'one process'}"
        if why:
            raise self._refused(why)
        return replace(equations, basis=equations.basis.with_recipe(basis.recipe)), position.done


def _difference(equations: Equations, problem: Problem, basis: Basis) -> str:
    """First difference between the fit of a checkpoint and this one, in words."""
    kinds, prints, mine, theirs = problem.labels.kinds, problem.fingerprints, basis.recipe, equations.recipe
    if not torch.equal(equations.structures, prints):
        same = int(torch.isin(prints, equations.structures).sum())
        return f"{same} of these {len(prints)} structures are among its {len(equations.structures)}, in some order"
    if tuple(equations.parts) != kinds:
        return f"it learns from {', '.join(equations.parts)}, not from {', '.join(kinds)}"
    if theirs.seed != mine.seed:
        return f"the seed is {theirs.seed} in one and {mine.seed} in the other"
    same_origin = torch.equal(problem.baseline.energies, equations.references.origin.energies)
    if equations.given != problem.given or (problem.given and not same_origin):
        return "the reference energies are others"
    return equations.basis.difference(basis)


def iteration_identity(basis: Basis, chosen: Chosen, fingerprints: Tensor) -> dict[str, Any]:
    """Header entries that tell one iteration from another: recipe, and digests of labelled structures and basis."""
    drawn = [*basis.drawn.values(), *(one for each in basis.maps for one in tensors_of_map(each).values())]
    digests = {
        "data": _digest([fingerprints]),
        "basis": _digest([basis.projection.matrices, *drawn]),
    }
    return chosen.header() | digests


def _iteration_difference(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """First difference between two iterations by their headers, in words; empty if there is none."""
    before, now = Recipe.from_dict(theirs["recipe"]), Recipe.from_dict(mine["recipe"])
    # the point where it ends does not change its steps
    ends = before.solver
    solver = replace(now.solver, most_iterations=ends.most_iterations, tolerance=ends.tolerance)
    if before != replace(now, solver=solver):
        return "the recipe is another one"
    if theirs["data"] != mine["data"]:
        return "the structures or their labels are others"
    if theirs["held_out_structures"] != mine["held_out_structures"]:
        return "other structures are held out, as only one of the two has a committee"
    return "" if theirs["basis"] == mine["basis"] else "the basis is another one"


class Restart(Checkpoint):
    """Vectors of an iteration that is not finished."""

    def _header(self) -> dict[str, Any]:
        with open_tensors(self.path, RESTART, RESTART_VERSION, "restart", checked=False) as (header, _):
            return header

    def after(self, state: State, identity: Mapping[str, Any]) -> None:
        """Write the state if it is time."""
        if not self.due:
            return
        header = {
            **identity,
            "format_version": RESTART_VERSION,
            "ridge": state.ridge,
            "number": state.number,
            "history": [asdict(step) for step in state.history],
        }
        tensors = {name: getattr(state, name) for name in VECTORS}
        tensors |= {name: getattr(state, name)[: state.steps] for name in WINDOWS}
        tensors |= {} if state.best is None else {"best": state.best}
        self._write(lambda: write_tensors(self.path, RESTART, header, tensors, overwrite=True), f"step {state.number}")

    def read(self, identity: Mapping[str, Any], most_iterations: int, device: torch.device | str) -> State | None:
        """State to resume from, of the same fit; None if there is no file yet."""
        if not self.found:
            return None
        with open_tensors(self.path, RESTART, RESTART_VERSION, "restart") as (header, file):
            why = _iteration_difference(header, identity)
            base, residual, left = (file.get_tensor(name).to(device) for name in VECTORS)
            best = file.get_tensor("best").to(device) if "best" in file.keys() else None  # noqa: SIM118
            kept = [name for name in WINDOWS if name in file.keys()]  # noqa: SIM118
            windows = {name: file.get_tensor(name).to(device) for name in kept}
            history = [Iteration(**step) for step in header["history"]]
        if why:
            raise self._refused(why)
        k = len(windows["images"])
        state = State.start(header["ridge"], residual, len(base), max(k, min(WINDOW, most_iterations)))
        for name, rows in windows.items():
            room = getattr(state, name)[:k]
            room[:, : rows.shape[1]] = rows[:, : room.shape[1]]
        state.base, state.left, state.best = base, left, best
        state.steps, state.number, state.history = k, header["number"], history
        if "directions" not in windows:  # a file of an older version: its weights serve, another ridge needs directions
            state.begin_window()
        return state


def checkpoint_for(solver: SolverName, keep: Keep, ranks: Ranks | None = None) -> EquationsCheckpoint | Restart | None:
    """Checkpoint of a solver, if one is wanted and the solver writes any."""
    kinds: dict[str, type[EquationsCheckpoint | Restart]] = {"direct": EquationsCheckpoint, "iterative": Restart}
    if keep.checkpoint is None or solver not in kinds:
        return None
    return kinds[solver](keep.checkpoint, keep.seconds, ranks)


def _digest(tensors: Iterable[Tensor]) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
