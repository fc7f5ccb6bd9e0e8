"""A ridge, and its refinement by the error on left-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .cholesky import BLOCK

# Factors by which a chosen ridge is made larger where it is lost in rounding.
LARGER = (3.0, 10.0, 30.0, 100.0)
# Ridges tried beside a chosen one lie apart by this factor. A larger one is always tried. A smaller one is tried where
# the next larger one is worse by more than this part: the minimum then seems to lie below. Uracil of MD17, 700
# structures, 32768 features, errors on held-out structures from 3.5e-10 on: 15.6, 14.5, 14.3, 14.8, 16.0 meV/Å.
APART, STEEP = 10**0.5, 0.03
# Relative gain that another ridge must bring: the error on few structures is uncertain by as much. Aspirin of MD17, 700
# structures: 21 of them found a ridge 0.5 % better whose forces are 3 % worse.
WORTH = 0.02


@dataclass(frozen=True)
class Ridge:
    """A ridge that was given, and is used as it is, or one that was chosen from data and may be refined."""

    value: float
    least: float | None = None  # a refinement takes no smaller value; None: the ridge was given

    @property
    def chosen(self) -> bool:
        return self.least is not None

    @property
    def attempts(self) -> tuple[float, ...]:
        """The value, then larger ones for a chosen ridge: the first that is not lost in rounding is used."""
        return (self.value, *(factor * self.value for factor in LARGER if self.chosen))


def compared(errors: Mapping[float, float]) -> list[dict[str, float]]:
    """Report of the ridges that were tried, in the order of trial."""
    return [{"ridge": ridge, "left_out": error} for ridge, error in errors.items()]


def best_of(errors: Mapping[float, float]) -> float:
    """The ridge that was tried first, unless the error with a later one is smaller by the part `WORTH`."""
    best, *others = errors
    for ridge in others:
        if errors[ridge] < (1 - WORTH) * errors[best]:
            best = ridge
    return best


def next_ridge(errors: Mapping[float, float], least: float) -> float | None:
    """Ridge to try next, not below `least`; None where no other one promises a gain, or no errors are known.

    `errors` belong to the ridges tried so far, in the order of trial.
    """
    if not errors:
        return None
    best = best_of(errors)
    larger = min((ridge for ridge in errors if ridge > best), default=None)
    if larger is None:
        return float(f"{best * APART:.2g}")
    smaller = float(f"{best / APART:.2g}")
    steep = errors[larger] > (1 + STEEP) * errors[best]
    return smaller if steep and smaller >= least and best == min(errors) else None


def left_out(factor: Tensor, dual: Tensor, groups: Sequence[Tensor]) -> Tensor:
    """Residuals on the rows of each group, by the solution without these rows; one group after the other.

    With the matrix of all rows K = UᵀU (U in the upper triangle of `factor`) and β = K⁻¹ y (`dual`), they are
    ((K⁻¹)_gg)⁻¹ β_g. That takes a substitution for each row, and no factorisation.
    """
    groups = [group.to(factor.device) for group in groups]
    at_once, left = max(1, BLOCK // max(map(len, groups))), []
    for k in range(0, len(groups), at_once):
        some = groups[k : k + at_once]
        rows = torch.cat(some)
        unit = torch.zeros(len(factor), len(rows), dtype=factor.dtype, device=factor.device)
        unit[rows, torch.arange(len(rows), device=factor.device)] = 1.0
        halves = torch.linalg.solve_triangular(factor.T, unit, upper=False).split([len(group) for group in some], 1)
        left += [torch.linalg.solve(half.T @ half, dual[group]) for half, group in zip(halves, some, strict=True)]
    return torch.cat(left)
