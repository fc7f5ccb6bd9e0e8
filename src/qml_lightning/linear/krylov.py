"""Ridge regression by iteration: no matrix of rows is formed. Knows no atoms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from ..errors import SolveError
from .ridge import best_of

# Steps whose vectors are kept before the iteration starts anew from where it is: each keeps one vector of
# rows and one of weights.
WINDOW = 300
# Errors on held-out rows that differ by less than this, relative, are the same.
SETTLED = 0.001
# A residual that a step leaves larger than this part of the last one says too little of where to go next.
STALLED = 0.9


@dataclass(frozen=True)
class Iteration:
    """One step of the solver, as it is told to the caller."""

    number: int
    ridge: float
    residual: float  # |y − (Z Zᵀ + ridge) β| / |y|
    held_out: float | None  # root mean square error on rows that were not learnt from; None where it was not looked at
    seconds: float  # since the start


@dataclass
class State:
    """All that the iteration needs to go on: a restart file holds this.

    The equations are (Z Zᵀ + ridge) β = y, the weights Zᵀ β.
    """

    ridge: float
    base: Tensor  # (columns,) weights before the present window
    residual: Tensor  # (rows,) what they leave
    left: Tensor  # (rows,) what the window leaves of that
    images: Tensor  # (WINDOW, columns) Zᵀ d of the directions d of which β is made
    products: Tensor  # (WINDOW, rows) orthonormal: (Z Zᵀ + ridge) d of all is triangleᵀ · products
    triangle: Tensor  # (WINDOW, WINDOW)
    steps: int = 0  # of the present window
    number: int = 0  # of steps with this ridge
    history: list[Iteration] = field(default_factory=list)  # of all ridges
    best: Tensor | None = None  # (columns,) weights of the best ridge before this one, where there is one

    @property
    def coefficients(self) -> Tensor:
        """Of the directions, so that the residual is as small as can be, (steps,)."""
        k = self.steps
        along = self.products[:k] @ self.residual
        found: Tensor = torch.linalg.solve_triangular(self.triangle[:k, :k], along[:, None], upper=True)
        return found[:, 0]

    @property
    def weights(self) -> Tensor:
        return self.base + self.coefficients @ self.images[: self.steps]

    @property
    def error(self) -> float:
        """Norm of the residual."""
        return float(self.left.norm())

    def start_anew(self) -> None:
        """An empty window, from the weights found so far."""
        self.base, self.residual, self.steps = self.weights, self.left, 0

    @property
    def ended(self) -> dict[float, float]:
        """The last error on held-out rows with each ridge, in the order in which they came."""
        return {step.ridge: step.held_out for step in self.history if step.held_out is not None}

    def with_ridge(self, ridge: float, targets: Tensor) -> State:
        """An empty one in the same room for another ridge, from no weights at all: from the last ones it takes as many
        steps, of which the first change so little that it seems to have settled."""
        return replace(
            self, ridge=ridge, base=torch.zeros_like(self.base), residual=targets, left=targets,
            steps=0, number=0, best=self.of_best,
        )  # fmt: skip

    @property
    def best_ridge(self) -> float:
        """That whose error on held-out rows ended as the best; its own where there were none."""
        return best_of(self.ended) if self.ended else self.ridge

    @property
    def of_best(self) -> Tensor:
        """Weights of the best ridge."""
        return self.weights if self.best is None or self.ridge == self.best_ridge else self.best


class Preconditioned(Protocol):
    """The equations Z Zᵀ P⁻¹ v, whose P the iteration need not know."""

    @property
    def n_columns(self) -> int: ...

    def step(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """d = P⁻¹ v, (rows,), Zᵀ d, (columns,), and Z Zᵀ d, (rows,)."""
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

    Each step makes the residual as small as can be (generalised conjugate residuals, preconditioned on the right).
    Conjugate gradients, whose vectors need not be kept, make another norm small, in which a residual may grow a
    hundredfold on the way.
    Ends when the residual falls below `tolerance`, or when the error on held-out rows, looked at every `look_every`
    iterations, is below that of no model at all and has not fallen by a thousandth in `patience` looks (at first it may
    rise), or stays within `SETTLED` over three looks. Goes on from `state`, with its ridge, where one is given.
    """
    started = time.perf_counter() - (state.history[-1].seconds if state and state.history else 0.0)
    scale = float(targets.norm())
    if state is None:
        nothing = torch.zeros(equations.n_columns, dtype=torch.float64, device=targets.device)
        state = rooms(ridge, nothing, targets.clone(), min(WINDOW, most_iterations))
    # the error of no model at all: until it is beaten, patience is not tried
    best, looks = (math.inf if held_out is None else held_out(torch.zeros_like(state.base))), 0
    for past in _looks(state):
        best, looks = _seen(best, looks, past)
    while (
        state.number < most_iterations
        and state.error > tolerance * scale
        and looks <= patience
        and not (looks and _settled(state))
    ):
        if state.steps == len(state.images):
            state.start_anew()
        _step(equations, state)
        look = state.number % look_every == 0 or state.error <= tolerance * scale
        error = held_out(state.weights) if look and held_out is not None else None
        best, looks = _seen(best, looks, error)
        seconds = time.perf_counter() - started
        state.history.append(Iteration(state.number, state.ridge, state.error / scale, error, seconds))
        if tell is not None:
            tell(state)
    return state


def rooms(ridge: float, base: Tensor, residual: Tensor, window: int) -> State:
    """A state with an empty window of that many steps."""

    def room(*shape: int) -> Tensor:
        return torch.empty(*shape, dtype=torch.float64, device=residual.device)

    wide = (room(window, len(base)), room(window, len(residual)))
    return State(ridge, base, residual, residual, *wide, room(window, window).zero_())


def _step(equations: Preconditioned, state: State) -> None:
    """One more direction: P⁻¹ times what is left, or times the last product where that took little of it; its own
    product made orthogonal to all before (twice, for rounding)."""
    k, error = state.steps, state.error
    stalled = k > 0 and error > STALLED * math.hypot(error, float(state.products[k - 1] @ state.residual))
    direction, state.images[k], new = equations.step(state.products[k - 1] if stalled else state.left / error)
    new = new + state.ridge * direction
    before = state.products[:k]
    state.triangle[: k + 1, k] = 0.0
    for _ in range(2):
        along = before @ new
        state.triangle[:k, k] += along
        new = new - along @ before
    size = float(new.norm())
    if not 0 < size < math.inf:
        raise SolveError(
            f"The iteration broke down after {state.number} steps: its vectors are not finite, or say nothing new. "
            "Use a larger ridge or more features in the preconditioner."
        )
    state.triangle[k, k] = size
    state.products[k] = new / size
    state.left = state.left - (state.products[k] @ state.left) * state.products[k]
    state.steps += 1
    state.number += 1


def _seen(best: float, looks: int, error: float | None) -> tuple[float, int]:
    """The best error so far, and how many looks ago it was last improved by a thousandth; 0 before the first time."""
    if error is None:
        return best, looks
    if error < 0.999 * best:
        return error, 1
    return best, looks + (looks > 0)


def _looks(state: State) -> list[float]:
    """Errors on held-out rows with its present ridge."""
    return [step.held_out for step in state.history if step.ridge == state.ridge and step.held_out is not None]


def _settled(state: State) -> bool:
    """Whether the last three errors on held-out rows are the same but for a little."""
    errors = _looks(state)[-3:]
    return len(errors) == 3 and max(errors) < (1 + SETTLED) * min(errors)
