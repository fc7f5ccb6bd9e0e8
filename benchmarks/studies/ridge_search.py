"""The best ridge of given equations, by walking downhill in half decades."""

from __future__ import annotations

import math

import numpy as np

from qml_lightning import Dataset, Recipe

from ..harness.internals import Equations, SolveError, solution
from ..harness.models import mae


def best_ridge(equations: Equations, recipe: Recipe, valid: Dataset, guess: float) -> tuple[float, dict[str, float]]:
    """log₁₀ of the best ridge near `guess`, and the mean absolute errors at the best half decade.

    The ridge is the bottom of a parabola through the mean logarithm of the errors there and at its two neighbours.
    """
    known: dict[int, dict[str, float]] = {}

    def score(k: int) -> float:
        if k not in known:
            try:
                known[k] = mae(solution(equations, recipe, 10 ** (k / 2)), valid)
            except SolveError:  # lost in rounding
                known[k] = {"error": math.inf}
        return float(np.log(list(known[k].values())).mean())

    k = round(2 * math.log10(guess))
    for step in (1, -1):
        while score(k + step) < score(k):
            k += step
    left, middle, right = (score(k + step) for step in (-1, 0, 1))
    bottom = 0.5 * (left - right) / (left + right - 2 * middle) if math.isfinite(left) else 0.0
    return (k + bottom) / 2, known[k]
