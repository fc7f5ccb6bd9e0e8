"""Another ridge than the one chosen beforehand, by what solutions leave of rows that they were not found from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Ridges that are tried: a larger one always, and a smaller one where the next larger one is worse by more than this
# part, so that the bottom of the valley seems to lie below. Uracil of MD17, 700 structures, 32768 features, errors on
# held-out structures from 3.5e-10 on: 15.6, 14.5, 14.3, 14.8, 16.0 meV/Å.
APART, STEEP = 10**0.5, 0.03
# What another one must gain: few structures can err by so much. Aspirin of MD17, 700 structures: 21 of them found a
# ridge 0.5 % better whose forces are 3 % worse.
WORTH = 0.02


def least_ridge(choice: Mapping[str, Any] | None) -> float | None:
    """Below which a ridge that was chosen is not to be (files of earlier versions have no such bound); None where it
    was given, and is taken as it is."""
    return None if choice is None or "ridge" not in choice["chosen"] else float(choice.get("least_ridge", 0.0))


def compared(errors: Mapping[float, float]) -> list[dict[str, float]]:
    """What is told of ridges that were tried, in the order in which they were."""
    return [{"ridge": ridge, "left_out": error} for ridge, error in errors.items()]


def best_of(errors: Mapping[float, float]) -> float:
    """The first one, unless a later one is worth it."""
    best, *others = errors
    for ridge in others:
        if errors[ridge] < (1 - WORTH) * errors[best]:
            best = ridge
    return best


def next_ridge(errors: Mapping[float, float], least: float) -> float | None:
    """A ridge, not below `least`, that may be better than those with these errors, in the order in which they were
    tried; None where there is none, or no errors are known."""
    if not errors:
        return None
    best = best_of(errors)
    larger = min((ridge for ridge in errors if ridge > best), default=None)
    if larger is None:
        return float(f"{best * APART:.2g}")
    smaller = float(f"{best / APART:.2g}")
    steep = errors[larger] > (1 + STEEP) * errors[best]
    return smaller if steep and smaller >= least and best == min(errors) else None
