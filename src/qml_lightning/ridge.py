"""Another ridge than the one chosen beforehand, by what solutions leave of rows that they were not found from."""

from __future__ import annotations

from collections.abc import Mapping

# Ridges that are tried: a larger one always, and a smaller one where the next larger one is worse by more than this
# part, so that the bottom of the valley seems to lie below. Uracil of MD17, 700 structures, 32768 features, errors on
# held-out structures from 3.5e-10 on: 15.6, 14.5, 14.3, 14.8, 16.0 meV/Å.
APART, STEEP = 10**0.5, 0.03


def next_ridge(errors: Mapping[float, float], least: float) -> float | None:
    """A ridge, not below `least`, that may be better than those with these errors; None where there is none, or no
    errors are known."""
    if not errors:
        return None
    best = min(errors, key=errors.__getitem__)
    larger = min((ridge for ridge in errors if ridge > best), default=None)
    if larger is None:
        return float(f"{best * APART:.2g}")
    smaller = float(f"{best / APART:.2g}")
    steep = errors[larger] > (1 + STEEP) * errors[best]
    return smaller if steep and smaller >= least and best == min(errors) else None
