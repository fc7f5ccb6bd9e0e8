"""Ridge regression by iteration: no matrix of rows is formed. Knows no atoms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from .errors import SolveError
from .preconditioner import Operator

# Steps whose vectors are kept before the iteration starts anew from where it is: each keeps a row and its weights.
WINDOW = 300
# Errors on held-out rows that differ by less than this, relative, are the same.
SETTLED = 0.001


@dataclass(frozen=True)
class Iteration:
    """One step of the solver, as it is told to the caller."""

    number: int
    residual: float  # |y − (Z Zᵀ + ridge) β| / |y|
    held_out: float | None  # root mean square error on rows that were not learnt from; None where it was not looked at
    seconds: float  # since the start


@dataclass
class State:
    """All that the iteration needs to go on: a restart file holds this."""

    base: Tensor  # (columns,) weights before the present window
    residual: Tensor  # (rows,) what these leave
    vectors: Tensor  # (WINDOW + 1, rows) orthonormal
    images: Tensor  # (WINDOW, columns) Zᵀ P⁻¹ v of each
    hessenberg: Tensor  # (WINDOW + 1, WINDOW)
    steps: int = 0  # of the present window
    number: int = 0
    history: list[Iteration] = field(default_factory=list)
    known: Tensor | None = None  # the coefficients of this step, once they were asked for

    @property
    def coefficients(self) -> Tensor:
        """Of the vectors, so that the residual is as small as can be, (steps,)."""
        if self.known is None or len(self.known) != self.steps:
            matrix = self.hessenberg[: self.steps + 1, : self.steps]
            first = torch.zeros(self.steps + 1, 1, dtype=matrix.dtype, device=matrix.device)
            first[0] = self.residual.norm()
            self.known = torch.linalg.lstsq(matrix, first).solution[:, 0]
        return self.known

    @property
    def weights(self) -> Tensor:
        return self.base + self.coefficients @ self.images[: self.steps]

    @property
    def error(self) -> float:
        """Norm of the residual."""
        left = -(self.hessenberg[: self.steps + 1, : self.steps] @ self.coefficients)
        left[0] += self.residual.norm()
        return float(left.norm())

    @property
    def left(self) -> Tensor:
        """The residual, (rows,)."""
        taken = (self.hessenberg[: self.steps + 1, : self.steps] @ self.coefficients) @ self.vectors[: self.steps + 1]
        return self.residual - taken

    def start_anew(self) -> None:
        """An empty window, from the weights found so far."""
        self.base, self.residual = self.weights, self.left
        self.vectors[0] = self.residual / self.residual.norm()
        self.hessenberg.zero_()
        self.steps, self.known = 0, None


class Preconditioned(Protocol):
    """The equations (Z Zᵀ + ridge) P⁻¹ v = y, whose P the iteration need not know."""

    @property
    def n_columns(self) -> int: ...

    def image_and_product(self, v: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
        """Zᵀ P⁻¹ v, (columns,), and (Z Zᵀ + ridge) P⁻¹ v, (rows,)."""
        ...


def least_residuals(
    equations: Preconditioned,
    targets: Tensor,
    ridge: float,
    *,
    tolerance: float = 1e-6,
    most_iterations: int = 500,
    held_out: Callable[[Tensor], float] | None = None,
    look_every: int = 5,
    patience: int = 4,
    state: State | None = None,
    tell: Callable[[State], None] | None = None,
) -> State:
    """Weights w = Zᵀ β with (Z Zᵀ + ridge) β = targets.

    Each step makes the residual as small as can be (GMRES, preconditioned on the right). Conjugate gradients, whose
    vectors need not be kept, make another norm small, in which a residual may grow a hundredfold on the way.
    Ends when the residual falls below `tolerance`, or when the error on held-out rows, looked at every `look_every`
    iterations, is below that of no model at all and has not fallen by a thousandth in `patience` looks (at first it may
    rise), or stays within `SETTLED` over three looks. Goes on from `state` where one is given.
    """
    started = time.perf_counter() - (state.history[-1].seconds if state and state.history else 0.0)
    scale = float(targets.norm())
    if state is None:
        nothing = torch.zeros(equations.n_columns, dtype=torch.float64, device=targets.device)
        state = rooms(nothing, targets.clone(), min(WINDOW, most_iterations))
    # the error of no model at all: until it is beaten, patience is not tried
    best, looks = (math.inf if held_out is None else held_out(torch.zeros_like(state.base))), 0
    for past in state.history:
        best, looks = _seen(best, looks, past.held_out)
    while (
        state.number < most_iterations
        and state.error > tolerance * scale
        and looks <= patience
        and not (looks and _settled(state.history))
    ):
        if state.steps == len(state.images):
            state.start_anew()
        _step(equations, ridge, state)
        look = held_out is not None and state.number % look_every == 0
        error = held_out(state.weights) if look and held_out is not None else None
        best, looks = _seen(best, looks, error)
        seconds = time.perf_counter() - started
        state.history.append(Iteration(state.number, state.error / scale, error, seconds))
        if tell is not None:
            tell(state)
    return state


def rooms(base: Tensor, residual: Tensor, window: int) -> State:
    """A state with an empty window of that many steps."""

    def room(*shape: int) -> Tensor:
        return torch.empty(*shape, dtype=torch.float64, device=residual.device)

    vectors = room(window + 1, len(residual))
    vectors[0] = residual / residual.norm()
    return State(base, residual, vectors, room(window, len(base)), room(window + 1, window).zero_())


def with_ridge(state: State, z: Operator, targets: Tensor, ridge: float, other: float) -> State:
    """The state to go on from with another ridge: the weights found so far, and what they leave with that one."""
    weights, left = state.weights, state.left
    dual = (targets - z.times(weights) - left) / ridge
    return rooms(weights, left + (ridge - other) * dual, len(state.images))


def _step(equations: Preconditioned, ridge: float, state: State) -> None:
    """One more vector: (Z Zᵀ + ridge) P⁻¹ times the last, made orthogonal to all before (twice, for rounding)."""
    k = state.steps
    state.images[k], new = equations.image_and_product(state.vectors[k], ridge)
    before = state.vectors[: k + 1]
    for _ in range(2):
        along = before @ new
        state.hessenberg[: k + 1, k] += along
        new = new - along @ before
    size = float(new.norm())
    if not math.isfinite(size):
        raise SolveError(
            f"The iteration broke down after {state.number} steps: its vectors are not finite. "
            "Use a larger ridge or more features in the preconditioner."
        )
    state.hessenberg[k + 1, k] = size
    state.vectors[k + 1] = new / size if size else new
    state.steps += 1
    state.number += 1


def _seen(best: float, looks: int, error: float | None) -> tuple[float, int]:
    """The best error so far, and how many looks ago it was last improved by a thousandth; 0 before the first time."""
    if error is None:
        return best, looks
    if error < 0.999 * best:
        return error, 1
    return best, looks + (looks > 0)


def _settled(history: list[Iteration]) -> bool:
    """Whether the last three errors on held-out rows are the same but for a little."""
    errors = [step.held_out for step in history if step.held_out is not None][-3:]
    return len(errors) == 3 and max(errors) < (1 + SETTLED) * min(errors)
