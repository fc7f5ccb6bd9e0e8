"""Judgement on structures by their residuals: which of them are outliers, and what is wrong with each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ...linear.robust_deviation import deviation_by_median
from ...model.baseline import Baseline
from ..problem import VOIGT, Problem
from .rows import RECIPE, Sample

# A structure is an outlier where a statistic x of its residuals exceeds q (q / m)^STEPS, with the median m and the
# quantile q of all structures, but at most MOST_TAIL q: a tail that grows by a factor from the 50th to the 95th in a
# hundred may go on for two more such steps. Public data sets reach 1.9 steps, and 6.9 q (studies/outliers.py).
STEPS, MOST_TAIL = 2.0, 10.0
# Energies and stress by the second fit: clean sets reach 1.1 steps, and 3.9 q.
SHORT_STEPS, SHORT_TAIL = 1.5, 5.0
STEPS_OF_UNLIKE = 3.0  # for atoms unlike all others, which rare structures have by right; public sets reach 2.1
QUANTILE = 0.95
LEAST_TAIL = 1.6  # q / m, at least
ZERO = 1e-3  # part of the quantile: residuals below it are zero by symmetry, and tell nothing about the others
# In one round structures go that are at least this part of the worst: it may hide or smear the others.
TOGETHER = 0.3
RUINED = 0.5  # part of the squared residuals that is due to outliers, from which a fit is ruined
# Part of the structures that must have one composition for atoms unlike all others to be a finding. In frames of one
# system an element was exchanged, or atoms were swapped; a set of many systems has rare ones by right (InP: 497 times
# the median).
ALIKE = 0.9
# Factor of all thresholds for sets whose structures are not nearly all of one stoichiometry: defects, and the ends of
# series, are rare by right there. InP, drawn three times, reaches 1.9 thresholds without it.
OF_MANY = 2.5
# Robust standard deviations of the labels: smaller residuals are no finding. Labels of a pair potential are met so
# exactly that the tail of their residuals is that of rounding, which says nothing.
LEAST = 0.01
MANY = 100  # structures: of fewer the tail of the surroundings is hardly known
NET_FORCE = 3.0  # standard deviations of the forces: a smaller net force is no finding
MOST_VALUES = 100_000  # by which a quantile is found
FEWEST_VALUES = 12  # that are not zero: fewer do not tell their tail


@dataclass(frozen=True)
class Outlier:
    """A structure whose labels do not fit the rest, and its worst label."""

    structure: int  # its number in the problem
    kind: str  # "energies", "forces" or "stress"; "atoms": not the labels, but the atoms
    finding: str  # "value", "scale" or "net": what is wrong with the labels of this kind; "unlike": with the atoms
    atom: int | None  # number in the structure
    component: int | None  # of the force (0 to 2), or of the stress in Voigt's order
    value: float  # of the label, or its ratio to the expected one ("scale"); eV, eV/Å, eV/Å³
    expected: float  # by the fit without this structure
    sigma: float  # size of the residual, in robust standard deviations of all residuals of this kind
    excess: float  # the statistic over its threshold


@dataclass(frozen=True)
class Outliers:
    """Outliers of a problem, the worst first."""

    found: tuple[Outlier, ...]
    checked: int  # structures; 0: too few to judge
    share: float = 0.0  # part of all squared residuals that is due to them

    @property
    def structures(self) -> list[int]:
        return [one.structure for one in self.found]

    @property
    def ruinous(self) -> bool:
        """Whether a fit would follow these few structures more than all the others together."""
        return self.share > RUINED

    def joined(self, more: Outliers) -> Outliers:
        """Outliers of this fit and of a second one, each structure once."""
        others = tuple(one for one in more.found if one.structure not in self.structures)
        return Outliers((*self.found, *others), self.checked, max(self.share, more.share))


def _summed(x: Tensor, owner: Tensor, n: int) -> Tensor:
    return x.new_zeros(n).index_add_(0, owner, x)


def rms(x: Tensor, owner: Tensor, n: int) -> Tensor:
    return (_summed(x.square(), owner, n) / torch.bincount(owner, minlength=n).clamp(min=1)).sqrt()


@dataclass(frozen=True)
class Judged:
    """Residuals of some structures, and the statistics that are compared."""

    problem: Problem
    index: Tensor  # (structures,) their numbers in the problem
    kind: Tensor  # (rows,)
    owner: Tensor  # (rows,)
    residual: Tensor  # (rows,) by a fit without their structure
    factor: Tensor  # (rows,) of their variance
    target: Tensor  # (rows,)
    gone: tuple[int, ...] = ()  # structures that the fit was made without
    energy_weight: float = RECIPE.energy_weight  # larger in the second fit, by which energies and stress are judged

    @classmethod
    def of(
        cls,
        problem: Problem,
        index: Tensor,
        sample: Sample,
        residual: Tensor,
        factor: Tensor,
        *,
        gone: tuple[int, ...] = (),
    ) -> Judged:
        known = factor.isfinite() & residual.isfinite()
        residual, factor = torch.where(known, residual, 0.0), torch.where(known, factor.clamp(min=1.0), 1.0)
        rows = (sample.kind, sample.owner, residual, factor, sample.targets)
        return cls(problem, index, *rows, gone, sample.energy_weight)

    def joined(self, others: Iterator[Judged]) -> Judged:
        """One judgement on the structures of all parts."""
        parts = [self, *others]
        first = np.cumsum([0, *(len(part.index) for part in parts)])
        joined = {
            name: torch.cat([getattr(part, name) for part in parts])
            for name in ("index", "kind", "residual", "factor", "target")
        }
        owner = torch.cat([part.owner + int(start) for part, start in zip(parts, first)])
        return Judged(self.problem, owner=owner, gone=self.gone, energy_weight=self.energy_weight, **joined)

    @property
    def second(self) -> bool:
        return self.energy_weight != RECIPE.energy_weight

    @property
    def sized(self) -> Tensor:
        """Residuals on one scale: each over the square root of the factor of its variance, (rows,)."""
        return self.residual / self.factor.sqrt()

    @cached_property
    def sigma(self) -> list[float]:
        """Robust standard deviation of the sized residuals of each kind."""
        out = []
        for k in range(len(self.problem.targets)):
            x = self.sized[self.kind == k].abs()
            some = x[:: 1 + len(x) // MOST_VALUES]  # spread over all structures, and the same ones every time
            large = x[x > ZERO * torch.quantile(some, QUANTILE)] if len(x) else x
            out.append(float(deviation_by_median(large)) if len(large) else 0.0)
        return out

    @cached_property
    def least(self) -> dict[tuple[str, str], float]:
        """The smallest finding by each statistic of labels."""
        out: dict[tuple[str, str], float] = {}
        for k, name in enumerate(self.problem.targets):
            own = self.kind == k
            least = LEAST * float(deviation_by_median(self.target[own].abs())) if bool(own.any()) else 0.0
            out[name, "value"] = out[name, "all"] = least
            out[name, "scale"] = least * math.sqrt(float(own.sum()) / len(self.index))
        return out

    @cached_property
    def statistics(self) -> dict[tuple[str, str], Tensor]:
        """Each statistic of each kind of label, (structures,)."""
        n, out = len(self.index), {}
        for k, name in enumerate(self.problem.targets):
            own = self.kind == k
            x, owner = self.sized[own], self.owner[own]
            out[name, "value"] = x.new_zeros(n).scatter_reduce_(0, owner, x.abs(), "amax")
            if name != "energies":
                out[name, "all"] = rms(x, owner, n)
                p = self.target[own] - self.residual[own]
                along = _summed(x * p, owner, n).abs()
                out[name, "scale"] = along / _summed(p.square(), owner, n).sqrt().clamp(min=1e-12)
        if "forces" in self.problem.targets:
            out["forces", "net"] = self._net_force.norm(dim=1)
        unlike = torch.zeros(n, dtype=torch.float64)
        unlike.scatter_reduce_(0, self.owner, (self.factor - 1.0).sqrt(), "amax")
        out["atoms", "unlike"] = torch.where(self._common, unlike, 0.0)
        return out

    @cached_property
    def _common(self) -> Tensor:
        """Whether a structure has the composition that nearly all of them share, (structures,)."""
        counts = Baseline.composition(self.problem.structures, self.problem.elements)[self.index]
        _, which, number = torch.unique(counts, dim=0, return_inverse=True, return_counts=True)
        common: Tensor = number[which] >= ALIKE * len(which)
        return common

    @cached_property
    def _patience(self) -> float:
        """Factor of all thresholds: larger where structures are of many stoichiometries."""
        counts = Baseline.composition(self.problem.structures, self.problem.elements).double()
        fractions = (counts / counts.sum(1, keepdim=True)).round(decimals=6)
        most = torch.unique(fractions, dim=0, return_counts=True)[1].max()
        return 1.0 if int(most) >= ALIKE * len(fractions) else OF_MANY

    @cached_property
    def _net_force(self) -> Tensor:
        structures, forces = self.problem.structures, self.problem.targets["forces"].nan_to_num(0.0)
        total = forces.new_zeros(len(structures), 3).index_add_(0, structures.structure_of_atom, forces)
        return total[self.index]

    @cached_property
    def excess(self) -> dict[tuple[str, str], Tensor]:
        """Each statistic over its threshold, (structures,)."""
        usual = (SHORT_STEPS, SHORT_TAIL) if self.second else (STEPS, MOST_TAIL)
        limits = {"unlike": (STEPS_OF_UNLIKE, math.inf)}
        there = torch.ones(len(self.index), dtype=torch.bool)
        there[list(self.gone)] = False
        out = {
            key: max(self._patience * _threshold(x[there], *limits.get(key[1], usual)), self.least.get(key, 0.0))
            for key, x in self.statistics.items()
            if not self.second or key[0] in ("energies", "stress")
        }
        if ("forces", "net") in out:
            sigma = self.sigma[list(self.problem.targets).index("forces")]
            least = NET_FORCE * max(sigma, self.least["forces", "all"])
            out["forces", "net"] = max(least, out["forces", "net"])
        if ("atoms", "unlike") in out:
            out["atoms", "unlike"] *= max(1.0, MANY / len(self.index)) ** 2
        return {key: self.statistics[key] / threshold for key, threshold in out.items()}

    def lead(self, structure: int) -> float:
        """How far a structure stands out: its largest statistic divided by the largest of all other structures.

        `structure` is its number in the problem. If the lead is below 1, every threshold that catches this structure
        also catches another one.
        """
        own = self.index == structure
        judged = [self.statistics[key] for key in self.excess]
        return max(float(x[own].max() / x[~own].max().clamp(min=1e-300)) for x in judged)

    def worst(self) -> list[int]:
        """Structures beyond a threshold that are nearly as bad as the worst one, and still in the fit."""
        most = torch.stack(list(self.excess.values())).amax(0)
        most[list(self.gone)] = 0.0
        limit = max(1.0, TOGETHER * float(most.max()))
        return (most > limit).nonzero()[:, 0].tolist()

    def outliers(self) -> Outliers:
        """All structures beyond a threshold, with their worst labels."""
        keys, table = list(self.excess), torch.stack(list(self.excess.values()))
        most, which = table.max(0)
        found = [self._outlier(s, *keys[int(which[s])], table[:, s]) for s in (most > 1.0).nonzero()[:, 0].tolist()]
        squares = torch.zeros(len(self.index), dtype=torch.float64)
        for k, sigma in enumerate(self.sigma):
            own = self.kind == k
            squares += _summed((self.sized[own] / max(sigma, 1e-300)).square(), self.owner[own], len(self.index))
        share = float(squares[most > 1.0].sum() / squares.sum().clamp(min=1e-300))
        found.sort(key=lambda one: -one.excess)
        return Outliers(tuple(found), len(self.index), share)

    def _outlier(self, s: int, name: str, finding: str, excess: Tensor) -> Outlier:
        number = int(self.index[s])
        if finding == "unlike":
            unlike = self.statistics[name, finding]
            size = float(unlike[s] / unlike[unlike > 0].median())
            return Outlier(number, name, finding, self._unlike_atom(s), None, size, 1.0, size, float(excess.max()))
        k = list(self.problem.targets).index(name)
        own = ((self.owner == s) & (self.kind == k)).nonzero()[:, 0]
        x, residual, target = self.sized[own], self.residual[own], self.target[own]
        worst, sigma = int(x.abs().argmax()), max(self.sigma[k], 1e-300)
        atom = component = None
        ratio = float(target @ (target - residual) / (target - residual).square().sum().clamp(min=1e-300))
        if name != "energies" and _explained(target, residual, ratio):
            return Outlier(number, name, "scale", None, None, ratio, 1.0, float(x.norm()) / sigma, float(excess.max()))
        if finding == "net":
            net = float(self._net_force[s].norm())
            return Outlier(number, name, "net", None, None, net, 0.0, net / sigma, float(excess.max()))
        structures = self.problem.structures
        unit = float(structures.counts[number]) ** RECIPE.size_exponent  # of a row, in eV
        if name == "forces":
            place = self._place_of_force(s, worst)
            atom, component, unit = place // 3, place % 3, 1.0
        elif name == "stress":
            component, unit = worst, unit / float(structures.volumes[number])
        value, expected = float(target[worst]) * unit, float(target[worst] - residual[worst]) * unit
        if name == "energies":
            value, expected = value / self.energy_weight, expected / self.energy_weight
            zero = float(self.problem.baseline.total(structures.select(torch.tensor([number])))[0])
            value, expected = value + zero, expected + zero
        return Outlier(number, name, "value", atom, component, value, expected,
                       float(x[worst].abs()) / sigma, float(excess.max()))  # fmt: skip

    def _place_of_force(self, s: int, row: int) -> int:
        """Place of a row among all force components of a structure: components without a label have no row."""
        number, offsets = int(self.index[s]), self.problem.structures.offsets
        forces = self.problem.targets["forces"][int(offsets[number]) : int(offsets[number + 1])]
        return int(forces.flatten().isfinite().nonzero()[row, 0])

    def _unlike_atom(self, s: int) -> int | None:
        """Atom of a structure whose surroundings are least like those of others; None if there are no forces."""
        if "forces" not in self.problem.targets:
            return None
        own = (self.owner == s) & (self.kind == list(self.problem.targets).index("forces"))
        return self._place_of_force(s, int(self.factor[own].argmax())) // 3 if bool(own.any()) else None


def _explained(target: Tensor, residual: Tensor, ratio: float) -> bool:
    """Whether the labels are nearly the prediction times `ratio`."""
    prediction = target - residual
    rest = target - ratio * prediction
    return len(target) >= len(VOIGT) and abs(ratio - 1) > 0.05 and bool(rest.norm() < 0.3 * residual.norm())


def _threshold(x: Tensor, steps: float, most: float) -> float:
    """Largest value that the tail of these would reach without an outlier."""
    large = x[x > ZERO * torch.quantile(x, QUANTILE)]
    if len(large) < FEWEST_VALUES:  # nearly all are zero
        return max(float(x.median()), 1e-300)
    median, high = (float(torch.quantile(large, q)) for q in (0.5, QUANTILE))
    tail = max(LEAST_TAIL, high / median)
    return float(median * tail * min(tail**steps, most))
