"""Ridge regression by preconditioned conjugate gradients: the matrix of rows is never formed. Knows no atoms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from .errors import SolveError
from .solve import cholesky


class Operator(Protocol):
    """A matrix Z known by its products, in float64."""

    @property
    def n_rows(self) -> int: ...

    @property
    def n_columns(self) -> int: ...

    def times(self, weights: Tensor) -> Tensor:
        """Z w, (rows,)."""
        ...

    def transposed_times(self, residual: Tensor) -> Tensor:
        """Zᵀ v, (columns,)."""
        ...


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

    beta: Tensor  # (rows,) the dual solution
    weights: Tensor  # (columns,) Zᵀ β
    residual: Tensor  # (rows,)
    direction: Tensor  # (rows,)
    product: float  # residualᵀ P⁻¹ residual
    number: int = 0
    history: list[Iteration] = field(default_factory=list)


class SmallModelPreconditioner:
    """The direct solution with few features preconditions that with many.

    P⁻¹ v = (v − Z_s (Z_sᵀ Z_s + shift)⁻¹ Z_sᵀ v) / shift, the inverse of Z_s Z_sᵀ + shift (Woodbury).
    """

    def __init__(self, small: Operator, gram: Tensor, shift: float) -> None:
        """`gram` is the lower triangle of Z_sᵀ Z_s, overwritten by its factor."""
        self.small = small
        self.shift = shift
        self.factor = cholesky(gram, shift)

    def __call__(self, v: Tensor) -> Tensor:
        inner = torch.cholesky_solve(self.small.transposed_times(v)[:, None], self.factor, upper=True)[:, 0]
        return (v - self.small.times(inner)) / self.shift


def conjugate_gradients(
    z: Operator,
    targets: Tensor,
    ridge: float,
    precondition: Callable[[Tensor], Tensor],
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

    Ends when the residual falls below `tolerance`, or when the error on held-out rows, looked at every `look_every`
    iterations, is below that of no model at all and has not fallen by a thousandth in `patience` looks (at first it may
    rise). Goes on from `state` where one is given.
    """
    started = time.perf_counter() - (state.history[-1].seconds if state and state.history else 0.0)
    scale = float(targets.norm())
    if state is None:
        state = _start(z, targets, precondition)
    # the error of no model at all: until it is beaten, patience is not tried
    best, looks = (math.inf if held_out is None else held_out(torch.zeros_like(state.weights))), 0
    for past in state.history:
        best, looks = _seen(best, looks, past.held_out)
    while state.number < most_iterations and float(state.residual.norm()) > tolerance * scale and looks <= patience:
        along = z.transposed_times(state.direction)
        image = z.times(along) + ridge * state.direction
        curvature = float(state.direction @ image)
        if not curvature > 0:
            raise SolveError(
                f"The iteration broke down after {state.number} steps (curvature {curvature:g}). "
                "Use a larger ridge, more features in the preconditioner, or float64."
            )
        step = state.product / curvature
        state.beta += step * state.direction
        state.weights += step * along
        state.residual -= step * image
        preconditioned = precondition(state.residual)
        product = float(state.residual @ preconditioned)
        state.direction = preconditioned + (product / state.product) * state.direction
        state.product = product
        state.number += 1
        look = held_out is not None and state.number % look_every == 0
        error = held_out(state.weights) if look and held_out is not None else None
        best, looks = _seen(best, looks, error)
        seconds = time.perf_counter() - started
        state.history.append(Iteration(state.number, float(state.residual.norm()) / scale, error, seconds))
        if tell is not None:
            tell(state)
    return state


def _start(z: Operator, targets: Tensor, precondition: Callable[[Tensor], Tensor]) -> State:
    direction = precondition(targets)
    return State(
        torch.zeros_like(targets),
        torch.zeros(z.n_columns, dtype=torch.float64, device=targets.device),
        targets.clone(),
        direction,
        float(targets @ direction),
    )


def _seen(best: float, looks: int, error: float | None) -> tuple[float, int]:
    """The best error so far, and how many looks ago it was last improved by a thousandth; 0 before the first time."""
    if error is None:
        return best, looks
    if error < 0.999 * best:
        return error, 1
    return best, looks + (looks > 0)
