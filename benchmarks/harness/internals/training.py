"""Equations, solutions and searches from inside the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from qml_lightning import Dataset, Potential, Recipe
from qml_lightning.errors import SolveError
from qml_lightning.linear.normal_equations import Gram, Rows, append
from qml_lightning.linear.ridge import Ridge
from qml_lightning.linear.solution import Solution
from qml_lightning.machine.compute import Compute
from qml_lightning.machine.progress import silent
from qml_lightning.machine.ranks import Ranks, joined
from qml_lightning.model.basis import Basis
from qml_lightning.model.potential import Model
from qml_lightning.training.choice.rules import refinement
from qml_lightning.training.equations import Equations, empty, gather
from qml_lightning.training.equations import extended as extended_on
from qml_lightning.training.outputs import Keep
from qml_lightning.training.problem import Problem
from qml_lightning.training.screening.judgement import Outliers
from qml_lightning.training.screening.search import OutlierSearch, named
from qml_lightning.training.solvers.direct import solved
from qml_lightning.training.solvers.iterative import Iterative, prepared


def facts(potential: Model) -> dict[str, Any]:
    """Provenance of a model: `targets` by kind, `seconds`, `solution`, and `choice` if the recipe was chosen."""
    known: dict[str, Any] = potential.provenance.as_dict()
    return known


def ranks_of_torchrun() -> AbstractContextManager[Ranks | None]:
    """The processes that torchrun started, connected; None where there is only one."""
    return joined(torch.device("cpu"))


def find_outliers(
    data: Dataset, search: OutlierSearch | None = None, frame: int | None = None
) -> tuple[Outliers, float | None]:
    """Structures of `data` whose labels contradict a fit to the others, and by how much a frame leads all others.

    `search`: made for the same structures.
    """
    problem = Problem.of(data)
    search = OutlierSearch.of(problem, Compute()) if search is None else search.with_labels(problem)
    judgements = search.judgements()
    return named(judgements), None if frame is None else max(judged.lead(frame) for judged in judgements)


def outlier_search(data: Dataset) -> OutlierSearch:
    """A search that serves for any labels of the structures of `data`."""
    return OutlierSearch.of(Problem.of(data), Compute())


def solution(equations: Equations, recipe: Recipe, ridge: float) -> Potential:
    """The potential with this ridge; a SolveError if it is lost in rounding."""
    return solved(equations, replace(recipe, ridge=ridge))


def solutions(equations: Equations, recipe: Recipe, ridges: Sequence[float]) -> Iterator[tuple[float, Potential]]:
    """The potential for each ridge; those that are lost in rounding are left out."""
    for ridge in ridges:
        with suppress(SolveError):
            yield ridge, solution(equations, recipe, ridge)


def extended(equations: Equations, data: Dataset) -> Equations:
    """The equations with the structures of `data` added; the old ones are used up."""
    return extended_on(equations, data, Compute())


def rows_of(data: Dataset, recipe: Recipe) -> Equations:
    """Equations of `data` that keep all of their rows, however many there are, and form no Gram matrix."""
    problem, basis = Problem.of(data), Basis.draw(data.structures, recipe)
    equations = empty(problem, basis)
    equations.parts = {
        kind: Rows(part.n_columns, problem.rows[kind], n_targets=part.n_targets)
        for kind, part in equations.parts.items()
    }
    gather(equations, basis.ready(Compute()), problem)
    return equations


def with_products(
    equations: Equations, kind: str, product: Callable[[Tensor, Tensor, float], None], n_at_once: int
) -> tuple[Equations, Tensor]:
    """Equations of `rows_of` with the Gram matrix of one kind instead of its rows, and that matrix.

    `product(gram, rows, weight)` adds the products of `n_at_once` rows at a time.
    """
    rows = equations.parts[kind]
    assert isinstance(rows, Rows)
    part = Gram(rows.n_columns, n_targets=rows.n_targets, n=rows.n)
    for some in rows.filled()[0].split(n_at_once):
        product(part.gram, some, 1.0)
    part.moment, part.square = rows.moments(), rows.squares()
    return replace(equations, parts={**equations.parts, kind: part}), part.gram


def kept_rows(equations: Equations, kind: str) -> Tensor:
    """The rows of one kind of equations of `rows_of`, (rows, weights)."""
    part = equations.parts[kind]
    assert isinstance(part, Rows)
    return part.filled()[0]


def gram_rate(n_features: int, n_rows: int) -> float:
    """GFLOP/s of the Gram products of the package by themselves, as if each were half a matrix product."""
    gram = Gram(n_features)
    append(gram, torch.randn(n_rows, n_features, dtype=torch.float64), torch.zeros(n_rows, dtype=torch.float64))
    gram.close()
    return gram.flops / gram.seconds / 1e9


def begin_iteration(data: Dataset, recipe: Recipe, committee: int = 0) -> Iterative:
    """Everything that an iterative fit makes before its first step; the basis is drawn before."""
    basis = Basis.draw(data.structures, recipe).ready(Compute())
    return prepared(basis, Problem.of(data), recipe, silent, Keep(committee=committee))


def iterate(work: Iterative, ridge: float, least: float | None = None) -> Solution:
    """Solution with this ridge; with others compared to it, not below `least`, if that is given."""
    return work.solve(Ridge(ridge, refinement(least)))
