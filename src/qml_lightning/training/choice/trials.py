"""Trials: fits with some of the structures and features, and their errors on structures that are held out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ...atoms.structures import Labels
from ...errors import SolveError
from ...linear.direct import dual_rows, inner_products, ridge_path
from ...linear.normal_equations import Part, Rows, as_gram
from ...machine.compute import Compute
from ...machine.progress import Progress, silent
from ...model.basis import Basis, ReadyBasis, draw_representation, sample_directions
from ...model.features import draw_maps
from ...model.projection import Directions, principal_axes
from ...model.recipe import Recipe
from ...model.representations import PRESETS, Representation
from ..environments import EnvironmentCache
from ..equations import Equations, empty, gather
from ..problem import VOIGT, Problem
from ..rows import Pass, write_rows
from . import rules
from .order import order_of_trials


@dataclass(frozen=True)
class Size:
    """Size of a fit."""

    structures: int
    n_features: int


@dataclass(frozen=True)
class ValidationSet:
    """Number of held-out structures, and of further ones of which only the energies are used."""

    structures: int
    more_energies: int = 0  # a structure has one energy and many forces

    @property
    def energies(self) -> int:
        return self.structures + self.more_energies


@dataclass(frozen=True)
class Trial:
    """Settings of a trial, and its mean absolute errors on the validation set."""

    size: Size
    representation: str  # name of a preset, or "own"
    rank: int
    sigma: float
    energy_weight: float
    ridge: float
    errors: dict[str, float]  # by kind of label, in eV, eV/Å and eV/Å³
    uncertainties: dict[str, float]  # standard errors of these, from their spread over structures
    score: float  # mean logarithm of the errors of the rows: energies and forces are both to be good
    class_spread: float = 0.0


@dataclass
class TrialData:
    """Data of the trials: the problem, a random order of its structures, and directions of all environments."""

    problem: Problem
    seed: int
    known: dict[Representation, list[Directions]] = field(default_factory=dict)
    tensors: dict[Representation, dict[str, Tensor]] = field(default_factory=dict)

    @cached_property
    def order(self) -> Tensor:
        """Random order of the structures: the first ones are held out, trials train on the last ones."""
        return torch.from_numpy(order_of_trials(len(self.problem.structures), self.problem.groups, self.seed))

    def training(self, structures: int) -> Problem:
        """The problem of the last structures."""
        return self.problem.select(self.order.flip(0)[:structures].sort().values)

    def held_out(self, validation: ValidationSet) -> list[Problem]:
        """The problem of the first structures, with all labels, and that of the next, with energies alone."""
        first, more, _ = self.order.tensor_split((validation.structures, validation.energies))
        held_out = [self.problem.select(first.sort().values)]
        if len(more):
            whole = self.problem.select(more.sort().values)
            held_out.append(replace(whole, labels=Labels(energies=whole.labels.energies)))
        return held_out

    def drawn(self, recipe: Recipe) -> dict[str, Tensor]:
        """Random tensors of the representation, the very ones that the fit will draw."""
        if recipe.representation not in self.tensors:
            self.tensors[recipe.representation] = draw_representation(self.problem.structures, recipe)
        return self.tensors[recipe.representation]

    def directions(self, recipe: Recipe) -> list[Directions]:
        """Principal directions of each element, the very ones that the fit will find. They depend on no label."""
        if recipe.representation not in self.known:
            random = np.random.default_rng(recipe.seed)
            found = sample_directions(self.problem.structures, recipe, self.drawn(recipe), random)
            self.known[recipe.representation] = found
        return self.known[recipe.representation]


@dataclass(frozen=True)
class _Pass:
    """Equations and validation rows from one pass over the data, for any ridge and energy weight."""

    equations: Equations
    inner: Tensor | None  # products of the rows with each other, if the dual form suits them
    validation: dict[str, Rows]  # by kind of label


@dataclass
class Trials:
    """Trials of recipes: none is made twice, and a ridge or an energy weight needs no other pass over the data."""

    data: TrialData
    validation: ValidationSet
    compute: Compute
    at_once: int | None = None  # numbers in the rows of a batch, if memory is short
    tell: Progress = silent
    done: dict[tuple[Size, Recipe], Trial] = field(default_factory=dict)
    passes: int = 0  # over the data

    def __post_init__(self) -> None:
        self.held_out = self.data.held_out(self.validation)
        self.cache = EnvironmentCache(min(self.compute.memory.left // 8, rules.MOST_REMEMBERED))
        self._last: dict[tuple[object, ...], _Pass] = {}
        self._traces: dict[tuple[object, ...], dict[str, float]] = {}  # of the Gram matrix of each kind, by pass

    def trial(self, size: Size, recipe: Recipe) -> Trial:
        """The trial of `recipe` with so many structures and features; its errors are infinite if it has no solution."""
        if (size, recipe) not in self.done:
            residuals = self._residuals(size, recipe)
            factors = {kind: self._error_factors(kind, recipe.size_exponent) for kind in residuals}
            errors = {kind: row.abs().cpu() * factors[kind] for kind, row in residuals.items()}
            self.done[size, recipe] = Trial(
                size,
                next((name for name, preset in PRESETS.items() if preset == recipe.representation), "own"),
                recipe.rank,
                recipe.features.sigma,
                recipe.energy_weight,
                recipe.ridge,
                {kind: float(error.mean()) for kind, error in errors.items()},
                {kind: standard_error(error, self._owners(kind)) for kind, error in errors.items()},
                _score(residuals.values()),
                recipe.class_spread,
            )
        return self.done[size, recipe]

    def least_ridge(self, size: Size, recipe: Recipe) -> float:
        """Smallest ridge that is not lost in rounding."""
        n_weights = size.n_features * recipe.features.weights_of_each(len(self.data.problem.elements))
        return rules.LOST_IN_ROUNDING * n_weights * self.trace(size, recipe)

    def trace(self, size: Size, recipe: Recipe) -> float:
        """Trace of the Gram matrix of all rows. A ridge that is larger makes all weights nearly zero."""
        key = _pass_key(size, recipe)
        if key not in self._traces:
            parts = self._pass(size, recipe).equations.parts
            self._traces[key] = {kind: _trace(part) for kind, part in parts.items()}
        return sum(recipe.weight_of(kind) ** 2 * trace for kind, trace in self._traces[key].items())

    def _residuals(self, size: Size, recipe: Recipe) -> dict[str, Tensor]:
        """Predictions minus targets of the validation rows; infinite if the ridge is too small for a solution."""
        gathered = self._pass(size, recipe)
        equations, rows_of = gathered.equations, gathered.validation.items()
        if recipe.ridge >= self.least_ridge(size, recipe):
            try:
                terms = equations.terms(recipe, equations.references.origin)
                weights = ridge_path(terms, [recipe.ridge], inner=gathered.inner)[0]
                return {kind: rows.rows @ weights - rows.targets[:, 0] for kind, rows in rows_of}
            except SolveError:
                pass  # the matrix is not positive definite in float64
        return {kind: torch.full((rows.n,), math.inf) for kind, rows in rows_of}

    def _pass(self, size: Size, recipe: Recipe) -> _Pass:
        key = _pass_key(size, recipe)
        if key not in self._last:
            self._last.clear()  # one at a time: they are large
            self._last[key] = self._gathered(size, recipe)
            self.passes += 1
            self.tell("choosing", min(self.passes, rules.PLANNED_PASSES), rules.PLANNED_PASSES + 1)
        return self._last[key]

    def _gathered(self, size: Size, recipe: Recipe) -> _Pass:
        """Equations of the training structures and rows of the validation set."""
        recipe = replace(recipe, features=replace(recipe.features, n_features=size.n_features))
        elements = self.data.problem.elements
        maps = draw_maps(recipe.features, len(elements), recipe.rank, np.random.default_rng(recipe.seed))
        axes = principal_axes(self.data.directions(recipe), recipe.rank, recipe.class_spread)
        basis = Basis(elements, recipe, axes, maps, self.data.drawn(recipe))
        ready, training = basis.ready(self.compute), self.data.training(size.structures)
        equations = empty(training, basis, device=self.compute.device)
        cached = self.cache.of("training", size, *_axes_key(recipe))
        gather(equations, ready, training, how=Pass(most=self.at_once, environments=cached))
        inner = None
        if (rows := dual_rows(list(equations.parts.values()))) is not None:
            inner = inner_products(rows)  # made once for many solutions
        else:
            for kind, part in equations.parts.items():
                if part.n > basis.n_weights // rules.WEIGHTS_FOR_EACH_ROW:
                    equations.parts[kind] = as_gram(part)
        return _Pass(equations, inner, self._validation_rows(ready, recipe))

    def _validation_rows(self, basis: ReadyBasis, recipe: Recipe) -> dict[str, Rows]:
        total = {kind: sum(part.rows.get(kind, 0) for part in self.held_out) for kind in self.held_out[0].rows}
        rows = {kind: Rows(basis.n_weights, n, self.compute.device) for kind, n in total.items()}
        for number, part in enumerate(self.held_out):
            cached = self.cache.of(f"held out {number}", *_axes_key(recipe))
            for _ in write_rows(basis, part, recipe, rows.__getitem__, Pass(most=self.at_once, environments=cached)):
                pass
        return {kind: part for kind, part in rows.items() if part.n}

    def _error_factors(self, kind: str, size_exponent: float) -> Tensor | float:
        """Factors from errors of validation rows to errors of energies, forces or stress."""
        if kind == "forces":
            return 1.0
        factors = []
        for part in (part for part in self.held_out if kind in part.targets):
            factor = part.structures.counts.double() ** size_exponent
            if kind == "stress":
                factor = (factor / part.structures.volumes)[:, None].expand(-1, len(VOIGT))
            factors.append(factor[part.targets[kind].isfinite()])
        return torch.cat(factors)

    def _owners(self, kind: str) -> Tensor:
        """Structure of each validation row of a kind."""
        owners, first = [], 0
        for part in (part for part in self.held_out if kind in part.targets):
            names, counts = list(part.rows), list(part.rows.values())
            owners.append(first + part.structure_of_rows.split(counts)[names.index(kind)])
            first += len(part.structures)
        return torch.cat(owners)


def standard_error(errors: Tensor, owners: Tensor) -> float:
    """Standard error of the mean of `errors`, of which those with the same owner belong together; 0 for one owner."""
    _, which = torch.unique(owners, return_inverse=True)
    n = int(which.max()) + 1 if len(which) else 0
    if n < 2 or not bool(errors.isfinite().all()):
        return 0.0
    # a ratio estimator: owners have different numbers of errors
    count = torch.bincount(which, minlength=n).double()
    deviation = torch.zeros(n, dtype=errors.dtype).index_add_(0, which, errors - errors.mean())
    return float((deviation.square().sum() * n / (n - 1)).sqrt() / count.sum())


def _pass_key(size: Size, recipe: Recipe) -> tuple[object, ...]:
    """Settings for which the data must be passed again."""
    return size, *_axes_key(recipe), recipe.features.sigma


def _axes_key(recipe: Recipe) -> tuple[object, ...]:
    """Settings for which environments must be projected again."""
    return recipe.representation, recipe.rank, recipe.class_spread


def _score(residuals: Iterable[Tensor]) -> float:
    """Mean logarithm of the mean absolute errors; a kind with few rows counts less."""
    total = weights = 0.0
    for residual in residuals:
        error, weight = float(residual.abs().mean()), len(residual) / (len(residual) + rules.HALF_TRUSTED_ROWS)
        if not math.isfinite(error):
            return math.inf
        total, weights = total + weight * math.log(max(error, 1e-300)), weights + weight
    return total / weights if weights else 0.0


def _trace(part: Part) -> float:
    """Trace of the Gram matrix."""
    return float(part.filled()[0].square().sum() if isinstance(part, Rows) else part.gram.diagonal().sum())
