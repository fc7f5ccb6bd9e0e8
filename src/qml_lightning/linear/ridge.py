"""A ridge, and its refinement by the error on left-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .cholesky import BLOCK


@dataclass(frozen=True)
class Refinement:
    """Rules by which a chosen ridge is refined. Who chooses it gives their values."""

    least: float  # no smaller ridge is taken
    larger: tuple[float, ...]  # factors by which it is made larger where it is lost in rounding
    apart: float  # factor between neighbouring ridges that are compared
    steep: float  # a smaller ridge is tried if the next larger one is worse by more than this part
    worth: float  # relative gain that another ridge must bring


@dataclass(frozen=True)
class Ridge:
    """A ridge that was given, and is used as it is, or one that was chosen from data and may be refined."""

    value: float
    refinement: Refinement | None = None  # None: the ridge was given

    @property
    def chosen(self) -> bool:
        return self.refinement is not None

    @property
    def least(self) -> float | None:
        """Smallest value that a refinement takes; None if the ridge was given."""
        return None if self.refinement is None else self.refinement.least

    @property
    def attempts(self) -> tuple[float, ...]:
        """The value, then larger ones for a chosen ridge: the first that is not lost in rounding is used."""
        larger = () if self.refinement is None else self.refinement.larger
        return (self.value, *(factor * self.value for factor in larger))


def compared(errors: Mapping[float, float]) -> list[dict[str, float]]:
    """Report of the ridges that were tried, in the order of trial."""
    return [{"ridge": ridge, "left_out": error} for ridge, error in errors.items()]


def best_of(errors: Mapping[float, float], worth: float) -> float:
    """The ridge that was tried first, unless the error with a later one is smaller by the part `worth`."""
    best, *others = errors
    for ridge in others:
        if errors[ridge] < (1 - worth) * errors[best]:
            best = ridge
    return best


def next_ridge(errors: Mapping[float, float], rules: Refinement) -> float | None:
    """Ridge to try next, not below the least one; None where no other one promises a gain, or no errors are known.

    `errors` belong to the ridges tried so far, in the order of trial.
    """
    if not errors:
        return None
    best = best_of(errors, rules.worth)
    larger = min((ridge for ridge in errors if ridge > best), default=None)
    if larger is None:
        return float(f"{best * rules.apart:.2g}")
    smaller = float(f"{best / rules.apart:.2g}")
    steep = errors[larger] > (1 + rules.steep) * errors[best]
    return smaller if steep and smaller >= rules.least and best == min(errors) else None


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
