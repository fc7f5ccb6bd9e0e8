"""Ridge regression by iteration: no matrix of rows is formed. Knows no atoms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..errors import SolveError
from .ridge import best_of

# Products of the preconditioned equations with v, (rows,): d = P⁻¹ v, (rows,), Zᵀ d, (columns,), and Z Zᵀ d, (rows,).
Step = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]

# Steps whose vectors are kept before the iteration restarts from where it is: each keeps a vector of rows and one of
# weights.
WINDOW = 300
# Errors on held-out rows that differ by less than this, relative, count as equal.
SETTLED = 0.001
# Another ridge goes on with the weights that the directions of the first one give, and needs few steps more: it ends
# where so many looks have brought less than this part. Ethanol, 400 structures, 16384 features: after 110 steps with
# the first ridge, 20 with another one bring nothing.
LATER_PATIENCE, LATER_GAIN = 2, 0.01
# A step that leaves more than this part of the residual says too little of where to go next.
STALLED = 0.9


@dataclass(frozen=True)
class Stopping:
    """When an iteration ends: the residual is small, or the error on held-out rows falls no more (`_settled`)."""

    tolerance: float = 1e-6  # of the residual, relative to the targets
    most_iterations: int = 500
    look_every: int = 5  # steps from one look at the held-out rows to the next
    patience: int = 4  # looks without a gain
    gain: float = SETTLED  # relative, of the error: what counts as one


@dataclass(frozen=True)
class Iteration:
    """One step, as it is reported to the caller."""

    number: int
    ridge: float
    residual: float  # |y − (Z Zᵀ + ridge) β| / |y|
    held_out: float | None  # root mean square error on held-out rows; None where they were not looked at
    seconds: float  # since the start


@dataclass
class State:
    """State of the iteration for (Z Zᵀ + ridge) β = y, whose weights are Zᵀ β. A restart file holds it."""

    ridge: float
    base: Tensor  # (columns,) weights before the present window
    residual: Tensor  # (rows,) residual of `base`
    left: Tensor  # (rows,) residual now
    directions: Tensor  # (window, rows) d, of which β is made
    images: Tensor  # (window, columns) Zᵀ d of each direction
    products: Tensor  # (window, rows) orthonormal: (Z Zᵀ + ridge) d of all directions is triangleᵀ · products
    triangle: Tensor  # (window, window)
    steps: int = 0  # in the present window
    number: int = 0  # of steps with this ridge
    history: list[Iteration] = field(default_factory=list)  # with all ridges
    best: Tensor | None = None  # (columns,) weights of the best ridge before this one, where there is one
    worth: float = 0.0  # relative gain by which another ridge must be better than the first

    @classmethod
    def start(cls, ridge: float, targets: Tensor, n_columns: int, window: int = WINDOW) -> State:
        """Zero weights, and memory for `window` steps."""
        directions, products = (targets.new_empty(window, len(targets)) for _ in range(2))
        images, triangle = targets.new_empty(window, n_columns), targets.new_zeros(window, window)
        zero = targets.new_zeros(n_columns)
        return cls(ridge, zero, targets, targets, directions, images, products, triangle)

    @property
    def coefficients(self) -> Tensor:
        """Coefficients of the directions that make the residual smallest, (steps,)."""
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

    def with_ridge(self, ridge: float, targets: Tensor) -> State:
        """State for another ridge, with the best weights that the directions found so far can give.

        It overwrites the memory of this state. Z Zᵀ times each direction is known, hence also (Z Zᵀ + ridge) times it,
        for every ridge: only the orthogonal basis of these products is computed again, which takes about as long as one
        step. Directions of earlier windows are lost; without them another ridge is rarely found better. Call
        `begin_window` before further steps: mixed with directions of another ridge, their coefficients would grow
        without bound.
        """
        other = replace(
            self, ridge=ridge, base=torch.zeros_like(self.base), residual=targets, left=targets,
            steps=0, number=0, best=self.of_best,
        )  # fmt: skip
        for k in reversed(range(self.steps)):  # the last first: each needs those before it
            self.products[k] = self.triangle[: k + 1, k] @ self.products[: k + 1]
        for k in range(self.steps):
            other.add(self.products[k] + (ridge - self.ridge) * self.directions[k])
        return other

    def add(self, product: Tensor) -> None:
        """Take the next direction of the window into account, whose `product` with Z Zᵀ + ridge is given.

        The product is made orthogonal to all before it (twice, for rounding).
        """
        k, new = self.steps, product
        before = self.products[:k]
        self.triangle[: k + 1, k] = 0.0
        for _ in range(2):
            along = before @ new
            self.triangle[:k, k] += along
            new = new - along @ before
        size = float(new.norm())
        if not 0 < size < math.inf:
            raise SolveError(
                f"The iteration broke down after {self.number} steps: its vectors are not finite, or say nothing new. "
                "Use a larger ridge or more features in the preconditioner."
            )
        self.triangle[k, k] = size
        self.products[k] = new / size
        self.left = self.left - (self.products[k] @ self.left) * self.products[k]
        self.steps += 1

    def begin_window(self) -> None:
        """Continue from the present weights, and forget the directions that led to them."""
        self.base, self.residual, self.steps = self.weights, self.left, 0

    @property
    def looks(self) -> list[float]:
        """Errors on held-out rows with the present ridge."""
        return [step.held_out for step in self.history if step.ridge == self.ridge and step.held_out is not None]

    @property
    def compared(self) -> dict[float, float]:
        """Error on held-out rows by which each ridge is compared, in the order of trial.

        For the first ridge it is the last error. For any other ridge it is the first error, that of the weights in the
        directions which the first ridge had found.
        """
        of_first = {step.ridge: step.held_out for step in self.history[:1]}
        errors: dict[float, float] = {}
        for step in self.history:
            if step.held_out is not None and (step.ridge in of_first or step.ridge not in errors):
                errors[step.ridge] = step.held_out
        return errors

    @property
    def best_ridge(self) -> float:
        """Ridge with the best error on held-out rows; the present one where there are no held-out rows."""
        return best_of(self.compared, self.worth) if self.compared else self.ridge

    @property
    def of_best(self) -> Tensor:
        """Weights of the best ridge."""
        return self.weights if self.best is None or self.ridge == self.best_ridge else self.best


def least_residuals(
    step: Step,
    targets: Tensor,
    state: State,
    stopping: Stopping,
    *,
    held_out: Callable[[Tensor], float] | None = None,
    tell: Callable[[State], None] | None = None,
) -> State:
    """Weights w = Zᵀ β with (Z Zᵀ + ridge) β = targets, as the last state of the iteration from `state` on.

    Generalised conjugate residuals, preconditioned on the right: each step makes the residual as small as can be.
    Conjugate gradients need not keep their vectors, but they make another norm small, in which a residual may grow a
    hundredfold on the way. `held_out` gives the error of weights on held-out rows. `tell` is called after each step.
    """
    started = time.perf_counter() - (state.history[-1].seconds if state.history else 0.0)
    scale = float(targets.norm())
    of_zero = math.inf if held_out is None else held_out(torch.zeros_like(state.base))
    while (
        state.number < stopping.most_iterations
        and state.error > stopping.tolerance * scale
        and not _settled(state.looks, of_zero, stopping)
    ):
        if state.steps == len(state.images):
            state.begin_window()
        _take(step, state)
        look = state.number % stopping.look_every == 0 or state.error <= stopping.tolerance * scale
        error = held_out(state.weights) if look and held_out is not None else None
        seconds = time.perf_counter() - started
        state.history.append(Iteration(state.number, state.ridge, state.error / scale, error, seconds))
        if tell is not None:
            tell(state)
    return state


def look_at(
    state: State, targets: Tensor, held_out: Callable[[Tensor], float], tell: Callable[[State], None] | None = None
) -> None:
    """Note the error on held-out rows with a ridge that has just been taken (`State.with_ridge`), before any step."""
    residual, seconds = state.error / float(targets.norm()), state.history[-1].seconds
    state.history.append(Iteration(state.number, state.ridge, residual, held_out(state.weights), seconds))
    if tell is not None:
        tell(state)


def _take(step: Step, state: State) -> None:
    """Add one direction: P⁻¹ times the residual, or times the last product where that took little of the residual."""
    k, error = state.steps, state.error
    stalled = k > 0 and error > STALLED * math.hypot(error, float(state.products[k - 1] @ state.residual))
    direction, state.images[k], new = step(state.products[k - 1] if stalled else state.left / error)
    state.directions[k] = direction
    state.add(new + state.ridge * direction)
    state.number += 1


def _settled(looks: Sequence[float], of_zero: float, stopping: Stopping) -> bool:
    """Whether the errors on held-out rows fall no more.

    They must have fallen below `of_zero`, the error of zero weights: at first they may rise. Then they settle when the
    last three are equal, or when the best one has not been improved by the part `gain` in `patience` looks.
    """
    best, since = of_zero, 0  # looks since the last gain; 0 before the first one
    for error in looks:
        if error < (1 - stopping.gain) * best:
            best, since = error, 1
        else:
            since += since > 0
    last = looks[-3:]
    equal = len(last) == 3 and max(last) < (1 + SETTLED) * min(last)
    return since > stopping.patience or (since > 0 and equal)
