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
# A step that leaves more than this part of the residual says too little of where to go next.
STALLED = 0.9


@dataclass(frozen=True)
class Stopping:
    """When an iteration ends: the residual is small, or the error on held-out rows falls no more (`_settled`)."""

    tolerance: float = 1e-6  # of the residual, relative to the targets
    most_iterations: int = 500
    look_every: int = 5  # steps from one look at the held-out rows to the next
    patience: int = 4  # looks without a gain


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
    images: Tensor  # (window, columns) Zᵀ d of the directions d that make up β
    products: Tensor  # (window, rows) orthonormal: (Z Zᵀ + ridge) d of all directions is triangleᵀ · products
    triangle: Tensor  # (window, window)
    steps: int = 0  # in the present window
    number: int = 0  # of steps with this ridge
    history: list[Iteration] = field(default_factory=list)  # with all ridges
    best: Tensor | None = None  # (columns,) weights of the best ridge before this one, where there is one

    @classmethod
    def start(cls, ridge: float, targets: Tensor, n_columns: int, window: int = WINDOW) -> State:
        """Zero weights, and memory for `window` steps."""
        images, products = targets.new_empty(window, n_columns), targets.new_empty(window, len(targets))
        triangle = targets.new_zeros(window, window)
        return cls(ridge, targets.new_zeros(n_columns), targets, targets, images, products, triangle)

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
        """Start for another ridge, in the same memory and with zero weights.

        Starting from the weights of the last ridge takes as many steps, and the first ones change so little that the
        error on held-out rows seems to have settled.
        """
        return replace(
            self, ridge=ridge, base=torch.zeros_like(self.base), residual=targets, left=targets,
            steps=0, number=0, best=self.of_best,
        )  # fmt: skip

    @property
    def looks(self) -> list[float]:
        """Errors on held-out rows with the present ridge."""
        return [step.held_out for step in self.history if step.ridge == self.ridge and step.held_out is not None]

    @property
    def ended(self) -> dict[float, float]:
        """Last error on held-out rows with each ridge, in the order of trial."""
        return {step.ridge: step.held_out for step in self.history if step.held_out is not None}

    @property
    def best_ridge(self) -> float:
        """Ridge with the best last error on held-out rows; the present one where there are no held-out rows."""
        return best_of(self.ended) if self.ended else self.ridge

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
        and not _settled(state.looks, of_zero, stopping.patience)
    ):
        if state.steps == len(state.images):
            state.base, state.residual, state.steps = state.weights, state.left, 0
        _take(step, state)
        look = state.number % stopping.look_every == 0 or state.error <= stopping.tolerance * scale
        error = held_out(state.weights) if look and held_out is not None else None
        seconds = time.perf_counter() - started
        state.history.append(Iteration(state.number, state.ridge, state.error / scale, error, seconds))
        if tell is not None:
            tell(state)
    return state


def _take(step: Step, state: State) -> None:
    """Add one direction: P⁻¹ times the residual, or times the last product where that took little of the residual.

    Its own product is made orthogonal to all before it (twice, for rounding).
    """
    k, error = state.steps, state.error
    stalled = k > 0 and error > STALLED * math.hypot(error, float(state.products[k - 1] @ state.residual))
    direction, state.images[k], new = step(state.products[k - 1] if stalled else state.left / error)
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


def _settled(looks: Sequence[float], of_zero: float, patience: int) -> bool:
    """Whether the errors on held-out rows fall no more.

    They must have fallen below `of_zero`, the error of zero weights: at first they may rise. Then they settle when the
    last three are equal, or when the best one has not been improved in `patience` looks.
    """
    best, since = of_zero, 0  # looks since the last gain; 0 before the first one
    for error in looks:
        if error < (1 - SETTLED) * best:
            best, since = error, 1
        else:
            since += since > 0
    last = looks[-3:]
    equal = len(last) == 3 and max(last) < (1 + SETTLED) * min(last)
    return since > patience or (since > 0 and equal)
