"""Outliers of a data set in words, and the decision about them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ...atoms.dataset import Dataset
from ...errors import InputError
from ...machine.compute import Compute
from ...machine.progress import Progress, silent
from ..problem import Learn, Problem
from .judgement import Outlier, Outliers
from .search import FEWEST, find_outliers

# "keep": do not look for outliers. "tell": name them, and stop where they would ruin the fit. "drop": name them and
# train without them. "stop": do not train if there is one.
OnOutliers = Literal["keep", "tell", "drop", "stop"]
CHOICES: tuple[OnOutliers, ...] = ("keep", "tell", "drop", "stop")

NAMED = 10  # at most
STRESS = ("xx", "yy", "zz", "yz", "xz", "xy")
ADVICE = (
    "Look at {them}. Train without {them} with --outliers drop, or on all frames with --outliers keep "
    '(in Python fit(..., outliers="drop") or "keep").'
)


class OutlierWarning(UserWarning):
    """Frames whose labels contradict all the others."""


@dataclass(frozen=True)
class Screened:
    """A data set after the search for outliers."""

    data: Dataset  # without those that were dropped
    healthy: Dataset  # without any
    outliers: Outliers
    lines: tuple[str, ...]  # a sentence for each outlier
    how: OnOutliers

    @property
    def dropped(self) -> bool:
        """Whether outliers were left out."""
        return self.how == "drop" and bool(self.lines)

    @property
    def text(self) -> str:
        """All findings for a person; empty if there are none."""
        if not self.lines:
            return self.unchecked
        n = len(self.lines)
        frames = f"{n} of {self.outliers.checked:,} frames contradict" if n > 1 else "One frame contradicts"
        they, were, them = ("They", "were", "them") if n > 1 else ("It", "was", "it")
        done = f"{they} {were} left out." if self.dropped else ADVICE.format(them=them)
        more = [f"… and {n - NAMED} more."] if n > NAMED else []
        return "\n".join([f"{frames} what all the others say (counted from 0):", *self.lines[:NAMED], *more, done])

    @property
    def unchecked(self) -> str:
        """A sentence if outliers were to be left out and could not be looked for; else empty."""
        if self.how == "tell" or self.outliers.checked:
            return ""
        return f"Outliers were not looked for: {len(self.data)} structures are too few, at least {FEWEST} are needed."

    def as_dict(self) -> dict[str, Any]:
        """Entries for JSON."""
        return {
            "checked": self.outliers.checked,
            "share_of_squared_error": self.outliers.share,
            "dropped": self.dropped,
            "found": list(self.lines),
        }


def screened(
    data: Dataset, how: OnOutliers, learn: Learn | None = None, compute: Compute | None = None, tell: Progress = silent
) -> Screened:
    """The data set after the search for outliers, without them if they are to be dropped.

    An InputError names them if `how` is "stop", or if it is "tell" and they would ruin the fit.
    """
    compute = compute or Compute()
    problem = Problem.of(data, learn, compute=compute)
    found = compute.on_first(lambda: find_outliers(problem, Compute(compute.device, compute.kernels), tell))
    lines = tuple(sentence(data, one) for one in found.found)
    healthy = data
    if lines:
        keep = torch.ones(len(data), dtype=torch.bool)
        keep[found.structures] = False
        healthy = data.select(keep)
    result = Screened(healthy if how == "drop" else data, healthy, found, lines, how)
    if lines and (how == "stop" or (how == "tell" and found.ruinous)):
        why = (
            f"\n{found.share:.0%} of all squared errors would come from there: a fit would follow them."
            if how == "tell"
            else ""
        )
        raise InputError(f"{data.source.name}: {result.text}{why}")
    return result


def warn(result: Screened) -> None:
    """Warn of the outliers, if there are any."""
    if result.text:
        warnings.warn(OutlierWarning(f"{result.data.source.name}: {result.text}"), stacklevel=3)


def sentence(data: Dataset, one: Outlier) -> str:
    """The finding about one frame."""
    return f"{data.name_of(one.structure)}: {_finding(data, one)} ({one.sigma:,.3g} σ)"


def _finding(data: Dataset, one: Outlier) -> str:
    if one.finding == "unlike":
        where = "its atoms have" if one.atom is None else f"atom {one.atom} ({_symbol(data, one)}) has"
        return f"{where} surroundings unlike those in all other frames"
    if one.finding == "scale":
        return f"all {one.kind} are {one.value:.3g} times as large as expected"
    if one.finding == "net":
        return f"the forces add up to {one.value:.4g} eV/Å instead of 0"
    if one.kind == "energies":
        return f"the energy is {one.value:.6f} eV, {one.value - one.expected:+.4g} eV from what is expected"
    if one.kind == "stress":
        name = STRESS[one.component or 0]
        return f"the stress {name} is {one.value:.4g} eV/Å³, expected is {one.expected:.4g}"
    where = f"the force {'xyz'[one.component or 0]} on atom {one.atom} ({_symbol(data, one)})"
    return f"{where} is {one.value:.4g} eV/Å, expected is {one.expected:.4g}"


def _symbol(data: Dataset, one: Outlier) -> str:
    from ase.data import chemical_symbols

    atom = int(data.structures.offsets[one.structure]) + (one.atom or 0)
    return str(chemical_symbols[int(data.structures.numbers[atom])])
