"""Outliers: structures whose labels contradict what a small fit to all the others says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from ...linear.left_out import LeftOut
from ...machine.compute import Compute
from ...machine.progress import Progress, silent
from ...model.basis import Basis, ReadyBasis
from ..problem import Problem
from .judgement import Judged, Outliers, rms
from .rows import RECIPE, SECOND_ENERGY_WEIGHT, Sample, targets_of

FEWEST = 50  # structures: below this the tail of the residuals is not known
MOST_ROWS = 40_000  # of the small fit; structures beyond them are predicted by it
MOST_ROWS_FOR_RIDGE = 6_000  # of each half of the data by which its ridge is found
RIDGES = tuple(10.0**power for power in range(-9, 3))
CLOSE = 1.1  # errors within this factor are the same; the largest ridge of them is taken, which extrapolates least
MOST_ROUNDS = 20
MOST_PART = 0.05  # of the structures: more are no outliers


def find_outliers(problem: Problem, compute: Compute | None = None, tell: Progress = silent) -> Outliers:
    """Outliers of `problem`: found by a small fit, taken out of it, until none is left.

    Each structure is judged by the fit without it.
    """
    if len(problem.structures) < FEWEST:
        return Outliers((), 0)
    tell("outliers", 0, 2)
    search = OutlierSearch.of(problem, compute or Compute())
    tell("outliers", 1, 2)
    found = search.outliers()
    tell("outliers", 2, 2)
    return found


@dataclass(frozen=True)
class OutlierSearch:
    """Rows of the small fit to a problem: they serve for any labels of its structures."""

    problem: Problem
    basis: ReadyBasis
    inside: Tensor  # numbers of the structures in the fit
    outside: Tensor  # and of the others, which it predicts
    sample: Sample
    fit: LeftOut

    @classmethod
    def of(cls, problem: Problem, compute: Compute) -> OutlierSearch:
        basis = Basis.draw(problem.structures, RECIPE).ready(compute)
        inside, outside = _parts(problem)
        sample = Sample.of(problem, basis, inside)
        fit = LeftOut.of(sample.rows, sample.targets, sample.groups)
        return cls(problem, basis, inside, outside, sample, fit)

    def with_labels(self, problem: Problem) -> OutlierSearch:
        """The search in the same structures with other labels of the same kinds."""
        targets = targets_of(problem.select(self.inside))
        sample, fit = replace(self.sample, targets=targets), replace(self.fit, targets=targets)
        return replace(self, problem=problem, sample=sample, fit=fit)

    def outliers(self) -> Outliers:
        """Outliers by the fit, the worst first, then those by a second fit in which energies weigh more."""
        return named(self.judgements())

    def judgements(self) -> list[Judged]:
        """All structures judged by the fit, then by the second one where there are energies."""
        first, gone = self._judged(self.sample, self.fit)
        if self.sample.energies is None:
            return [first]
        sample = self.sample.with_energy_weight(SECOND_ENERGY_WEIGHT)
        fit = LeftOut.of(sample.rows, sample.targets, sample.groups)
        # its rows are already those of the eigenvectors of the first fit
        fit = replace(fit, vectors=self.fit.vectors @ fit.vectors)
        second, _ = self._judged(sample, fit.without(gone))
        return [first, second]

    def _judged(self, sample: Sample, fit: LeftOut) -> tuple[Judged, tuple[int, ...]]:
        """All structures judged by the fit without outliers, and the numbers of these in the fit."""
        problem, inside = self.problem, self.inside
        fit = fit.with_ridge(_ridge(sample, fit.gone))
        most = max(1, int(MOST_PART * len(inside)))
        for _ in range(MOST_ROUNDS):
            found = Judged.of(problem, inside, sample, *fit.residuals(), gone=fit.gone)
            worst = found.worst()[: most - len(fit.gone)]
            # an absurd frame spoils the choice of the ridge as well
            ridge = _ridge(sample, fit.gone) if fit.gone and not worst else fit.ridge
            if not worst and ridge == fit.ridge:
                break
            fit = fit.without([*fit.gone, *worst]).with_ridge(ridge)
        if len(self.outside):
            found = found.joined(_predicted(problem, self.basis, sample.energy_weight, fit, self.outside))
        return found, fit.gone


def named(judgements: Sequence[Judged]) -> Outliers:
    """Outliers by each of these judgements, without repetition."""
    found, *more = (judged.outliers() for judged in judgements)
    return reduce(Outliers.joined, more, found)


def _parts(problem: Problem) -> tuple[Tensor, Tensor]:
    """Indices of the structures of the small fit, and of the others."""
    order = torch.from_numpy(np.random.RandomState(0).permutation(len(problem.structures)))
    rows = torch.bincount(problem.structure_of_rows, minlength=len(order))[order]
    n = max(FEWEST, int((rows.cumsum(0) <= MOST_ROWS).sum()))
    return order[:n].sort().values, order[n:].sort().values


def _ridge(sample: Sample, gone: Sequence[int] = ()) -> float:
    """Ridge whose solution for the one half of the structures predicts the other half best.

    The error of a ridge is its 90th percentile over the structures: outliers do not count, extrapolation does.
    """
    counts = torch.bincount(sample.owner)
    n = len(counts)
    there = torch.tensor([s for s in range(n) if s not in gone])
    halves = []
    for some in (there[::2], there[1::2]):
        some = some[: max(FEWEST // 2, int((counts[some].cumsum(0) <= MOST_ROWS_FOR_RIDGE).sum()))]
        halves.append(torch.isin(sample.owner, some).nonzero()[:, 0])
    learn, judge = halves
    fit = LeftOut.of(sample.rows[learn], sample.targets[learn], [])
    z, owner, kind = sample.rows[judge] @ fit.vectors, sample.owner[judge], sample.kind[judge]
    scale = float(fit.values.mean())
    scores = []
    for ridge in RIDGES:
        weights, _ = fit.with_ridge(ridge * 1e-6 * scale).solution()
        residual = sample.targets[judge] - z @ weights
        score = 0.0
        for k in kind.unique().tolist():
            x = rms(residual[kind == k], owner[kind == k], n)
            score += float(torch.quantile(x[x > 0], 0.9).log()) if bool((x > 0).any()) else 0.0
        scores.append(score / len(kind.unique()))
    good = [at for at, score in enumerate(scores) if score < min(scores) + float(np.log(CLOSE))]
    return RIDGES[good[-1]] * 1e-6 * scale


def _predicted(
    problem: Problem, basis: ReadyBasis, energy_weight: float, fit: LeftOut, index: Tensor
) -> Iterator[Judged]:
    """Judgement on structures outside the fit, some at a time."""
    rows = torch.bincount(problem.structure_of_rows, minlength=len(problem.structures))[index]
    for some in index.split(max(1, int(MOST_ROWS / max(1.0, float(rows.double().mean()))))):
        sample = Sample.of(problem, basis, some).with_energy_weight(energy_weight)
        yield Judged.of(problem, some, sample, *fit.predicted(sample.rows, sample.targets))
