"""Smaller fits: what a recipe would give, with fewer structures and features, on structures that are held out."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from ...atoms.structures import Labels, Structures
from ...errors import SolveError
from ...linear.direct import Term, dual_rows, inner_products, ridge_path
from ...linear.normal_equations import Part, Rows, as_gram
from ...machine.compute import Compute
from ...model.basis import Basis, ReadyBasis, sample_environments
from ...model.features import draw_maps
from ...model.projection import Directions, directions, principal_axes
from ...model.recipe import Recipe
from ...model.representations import PRESETS, Representation
from ..environments import Environing, Environments, environments
from ..equations import Equations, empty, gather
from ..problem import VOIGT, Problem
from ..rows import Pass, write_rows

# Below this part of the trace of the Gram matrix, for each of its columns, a ridge is lost in rounding: benzene, whose
# energies weigh most, at 5e-21 with 2048 and with 4096 features.
ROUNDING = 1e-20

# Rows of a kind are taken into a Gram matrix where there is one for each of so many columns: fewer cost little.
MANY = 16

# Bytes of environments that are remembered, at most.
MOST_REMEMBERED = 2 * 1024**3

# So many rows of a kind count half: the error of fewer is chance rather than merit.
DOUBT = 50


@dataclass(frozen=True)
class Size:
    """Of a fit."""

    structures: int
    n_features: int


@dataclass(frozen=True)
class Judges:
    """Structures that are held out: all their labels, and only the energies of some more, as energies are few."""

    structures: int
    more_energies: int = 0


@dataclass(frozen=True)
class Trial:
    """A smaller fit, and its mean absolute errors on the structures that were held out."""

    size: Size
    representation: str  # name of a preset, or "own"
    rank: int
    sigma: float
    energy_weight: float
    ridge: float
    errors: dict[str, float]  # by kind of label, in eV, eV/Å and eV/Å³
    score: float  # mean logarithm of the errors of the rows: both energies and forces are to be good


@dataclass(frozen=True)
class _Surface:
    """Equations from one pass over the data, and the rows that judge the solutions for any ridge and energy weight."""

    equations: Equations
    inner: Tensor | None  # products of the rows with each other, where the dual form suits them
    held: dict[str, Rows]


@dataclass
class _Remembered:
    """Environments of batches that come again: features of another width or number do not change them."""

    most: int  # bytes
    of: dict[str, object] = field(default_factory=dict)  # what those of each part of the data depend on
    known: dict[str, dict[tuple[int, int], Environments]] = field(default_factory=dict)  # by the structures of a batch

    def environed(self, whose: str, of: object) -> Environing:
        """What gives the environments of these structures, batch after batch; those that depend on something else are
        forgotten."""
        if self.of.get(whose) != of:
            self.of[whose], self.known[whose] = of, {}
        there, done = self.known[whose], 0

        def known(basis: ReadyBasis, part: Structures, kinds: Collection[str]) -> Environments:
            nonlocal done
            batch, done = (done, len(part)), done + len(part)
            if batch in there:
                return there[batch]
            at = environments(basis, part, kinds)
            if self.bytes + _bytes(at) < self.most:
                there[batch] = at
            return at

        return known

    @property
    def bytes(self) -> int:
        return sum(_bytes(at) for there in self.known.values() for at in there.values())


@dataclass
class Sampled:
    """Directions of the environments of all structures, found once for each representation."""

    structures: Structures
    known: dict[Representation, list[Directions]] = field(default_factory=dict)

    def of(self, recipe: Recipe) -> list[Directions]:
        """Those that the fit itself will find: nothing of the labels is in them."""
        if recipe.representation not in self.known:
            samples = sample_environments(self.structures, recipe, np.random.default_rng(recipe.seed))
            self.known[recipe.representation] = directions(samples)
        return self.known[recipe.representation]


class SmallerFits:
    """Trials of recipes, none of them made twice; the data are passed again only for another size, width or rank."""

    def __init__(
        self,
        problem: Problem,
        recipe: Recipe,
        judges: Judges,
        *,
        compute: Compute | None = None,
        most: int | None = None,
        remembers: int = MOST_REMEMBERED,
        sampled: Sampled | None = None,
        passed: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`most`: numbers at once, where memory is short. `remembers`: bytes of environments that are kept, at most.
        `passed` is told how often the data were passed."""
        self.problem, self.compute, self.most, self.passed = problem, compute or Compute(), most, passed
        order = torch.from_numpy(np.random.RandomState(recipe.seed).permutation(len(problem.structures)))
        held, more = order[: judges.structures], order[judges.structures :][: judges.more_energies]
        self.held = [problem.select(held.sort().values)]
        if len(more):
            whole = problem.select(more.sort().values)
            self.held.append(replace(whole, labels=Labels(energies=whole.labels.energies)))
        self.order = order.flip(0)  # learnt from in this one
        self.sampled = sampled or Sampled(problem.structures)
        self.trials: dict[tuple[object, ...], Trial] = {}
        self.passes = 0
        self.remembered = _Remembered(min(remembers, MOST_REMEMBERED))
        self._surfaces: dict[tuple[object, ...], _Surface] = {}
        self._traces: dict[tuple[object, ...], dict[str, float]] = {}  # of the Gram matrix of each kind

    def trial(self, size: Size, recipe: Recipe) -> Trial:
        """The errors that `recipe` has with so many structures and features; infinite where there is no solution."""
        key = (*_pass_key(size, recipe), recipe.energy_weight, recipe.ridge)
        if key not in self.trials:
            surface = self._surface(size, recipe)
            residuals = {kind: torch.full((rows.n,), math.inf) for kind, rows in surface.held.items()}
            if recipe.ridge >= self.rounding(size, recipe):
                try:
                    weights = ridge_path(_terms(surface, recipe), [recipe.ridge], inner=surface.inner)[0]
                    residuals = {kind: rows.rows @ weights - rows.targets[:, 0] for kind, rows in surface.held.items()}
                except SolveError:
                    pass  # too small a ridge
            errors = {kind: float((r.abs().cpu() * self._scale(kind, recipe)).mean()) for kind, r in residuals.items()}
            self.trials[key] = Trial(*key, errors, _score(residuals.values()))  # type: ignore[arg-type, call-arg]  # in that order
        return self.trials[key]

    def rounding(self, size: Size, recipe: Recipe) -> float:
        """The least ridge that is not lost in rounding."""
        key = _pass_key(size, recipe)
        if key not in self._traces:
            parts = self._surface(size, recipe).equations.parts
            self._traces[key] = {kind: _trace(part) for kind, part in parts.items()}
        n_weights = size.n_features * recipe.features.weights_of_each(len(self.problem.baseline.elements))
        return (
            ROUNDING * n_weights * sum(recipe.weight_of(kind) ** 2 * trace for kind, trace in self._traces[key].items())
        )

    def _surface(self, size: Size, recipe: Recipe) -> _Surface:
        key = _pass_key(size, recipe)
        if key not in self._surfaces:
            self._surfaces.clear()  # one at a time: they are large
            self._surfaces[key] = self._gathered(size, recipe)
            self.passes += 1
            self.passed(self.passes)
        return self._surfaces[key]

    def _gathered(self, size: Size, recipe: Recipe) -> _Surface:
        recipe = replace(recipe, features=replace(recipe.features, n_features=size.n_features))
        elements = self.problem.baseline.elements
        maps = draw_maps(recipe.features, len(elements), recipe.rank, np.random.default_rng(recipe.seed))
        drawn = Basis(elements, recipe, principal_axes(self.sampled.of(recipe), recipe.rank), maps)
        basis = drawn.ready(self.compute)
        learn = self.problem.select(self.order[: size.structures].sort().values)
        equations = empty(learn, drawn, device=self.compute.device)
        environed = self.remembered.environed("learnt", (size, recipe.rank, recipe.representation))
        gather(equations, basis, learn, how=Pass(most=self.most, environments=environed))
        # many solutions are wanted of them: their products are made once
        if (rows := dual_rows(list(equations.parts.values()))) is not None:
            return _Surface(equations, inner_products(rows), self._judges(basis, recipe))
        for kind, part in equations.parts.items():
            if part.n > basis.n_weights // MANY:
                equations.parts[kind] = as_gram(part)
        return _Surface(equations, None, self._judges(basis, recipe))

    def _judges(self, basis: ReadyBasis, recipe: Recipe) -> dict[str, Rows]:
        total = {kind: sum(held.rows.get(kind, 0) for held in self.held) for kind in self.held[0].rows}
        rows = {kind: Rows(basis.n_weights, n, self.compute.device) for kind, n in total.items()}
        for number, held in enumerate(self.held):
            known = self.remembered.environed(f"held {number}", (recipe.rank, recipe.representation))
            for _ in write_rows(basis, held, recipe, rows.__getitem__, Pass(most=self.most, environments=known)):
                pass
        return {kind: part for kind, part in rows.items() if part.n}

    def _scale(self, kind: str, recipe: Recipe) -> Tensor | float:
        """What turns the error of a row into that of an energy or a stress."""
        if kind == "forces":
            return 1.0
        scales = []
        for held in self.held:
            if kind in held.targets:
                scale = held.structures.counts.double() ** recipe.size_exponent
                if kind == "stress":
                    scale = (scale / held.structures.volumes)[:, None].expand(-1, len(VOIGT))
                scales.append(scale[held.targets[kind].isfinite()])
        return torch.cat(scales)


def _bytes(at: Environments) -> int:
    return sum(one.vector.nbytes + one.owner.nbytes + one.row.nbytes for one in at.tangents.values())


def _score(residuals: Iterable[Tensor]) -> float:
    """Mean logarithm of the error, of few rows with less weight."""
    total = weights = 0.0
    for residual in residuals:
        error, weight = float(residual.abs().mean()), len(residual) / (len(residual) + DOUBT)
        if not math.isfinite(error):
            return math.inf
        total, weights = total + weight * math.log(max(error, 1e-300)), weights + weight
    return total / weights if weights else 0.0


def _pass_key(size: Size, recipe: Recipe) -> tuple[object, ...]:
    """What another pass over the data is needed for."""
    names = {preset: name for name, preset in PRESETS.items()}
    return size, names.get(recipe.representation, "own"), recipe.rank, recipe.features.sigma


def _terms(surface: _Surface, recipe: Recipe) -> list[Term]:
    return surface.equations.terms(recipe, surface.equations.references.origin)


def _trace(part: Part) -> float:
    """Of the Gram matrix."""
    return float(part.filled()[0].square().sum() if isinstance(part, Rows) else part.gram.diagonal().sum())
