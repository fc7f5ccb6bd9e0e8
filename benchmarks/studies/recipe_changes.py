"""Changes of the default recipe, one at a time, and other axes of the projection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from qml_lightning import Dataset, Recipe, fit

from ..harness.internals import Basis, energy_gradients, projected_environments, representations, with_axes
from ..harness.models import with_features

MakeBasis = Callable[[Dataset, Recipe], Basis]  # for the equations of these data


@dataclass(frozen=True)
class Change:
    """A recipe that differs from the default in one thing, or a projection that does."""

    group: str
    name: str
    recipe: Callable[[Recipe], Recipe] = lambda recipe: recipe
    basis: MakeBasis | None = None


def fchl19(**changes: Any) -> Callable[[Recipe], Recipe]:
    return lambda recipe: replace(recipe, representation=replace(recipe.representation, **changes))


def features(**changes: Any) -> Callable[[Recipe], Recipe]:
    return lambda recipe: with_features(recipe, **changes)


def fields(**changes: Any) -> Callable[[Recipe], Recipe]:
    return lambda recipe: replace(recipe, **changes)


def blocks(recipe: Recipe) -> Recipe:
    """Own weights for each element, as many in all as the default has (three elements)."""
    unit = 2 * recipe.rank
    return with_features(recipe, max(unit, recipe.features.n_features // 3 // unit * unit), blocks=True)


def whitened(power: float) -> MakeBasis:
    """Axes divided by the spread of the environments along them, to a power."""

    def change(element: int, axes: Tensor, rho: Tensor) -> Tensor:
        spread = rho.square().mean(0).sqrt().clamp_min(1e-12)
        return axes * (spread / spread[0]).clamp_min(1e-4) ** -power

    return lambda data, recipe: _with_changed_axes(data, recipe, change)


def informed(power: float, n_features: int = 1024) -> MakeBasis:
    """Axes stretched by how much the energy of a first, small model changes along them.

    The stretch is the mean of g gᵀ over the environments, g the gradient of an atom's energy by ρ, to a power.
    """

    def basis(data: Dataset, recipe: Recipe) -> Basis:
        solver = replace(recipe.solver, method="direct")
        first = fit(data, replace(with_features(recipe, n_features), ridge=1e-9, solver=solver))
        products = [slope.T @ slope / len(slope) for slope in energy_gradients(first, data.structures)]

        def change(element: int, axes: Tensor, rho: Tensor) -> Tensor:
            values, vectors = torch.linalg.eigh(products[element])
            stretch = vectors * values.clamp_min(1e-12 * float(values[-1])) ** power
            return axes @ (stretch @ vectors.T)

        return _with_changed_axes(data, recipe, change)

    return basis


def _with_changed_axes(data: Dataset, recipe: Recipe, change: Callable[[int, Tensor, Tensor], Tensor]) -> Basis:
    """A basis with `change(element, axes, rho)` in the place of each element's axes; ρ keeps its length."""
    basis = Basis.draw(data.structures, recipe)
    axes = basis.projection.matrices
    environments = projected_environments(basis, data.structures.select(torch.arange(min(100, len(data)))))
    changed = axes.clone()
    for e, rho in enumerate(environments):
        new = change(e, axes[e], rho)
        after = rho @ (axes[e].T @ new)  # the old axes are orthonormal: oldᵀ · new is the effect of the change on ρ
        changed[e] = new * (rho.square().sum() / after.square().sum()).sqrt()
    return with_axes(basis, changed)


DEFAULT = Change("", "default recipe")
CHANGES = (
    DEFAULT,
    Change("energy weight", "3", fields(energy_weight=3.0)),
    Change("energy weight", "10", fields(energy_weight=10.0)),
    Change("energy weight", "100", fields(energy_weight=100.0)),
    Change("angular series", "2 functions", fchl19(n_angular=2)),
    Change("angular series", "3", fchl19(n_angular=3)),
    Change("angular series", "5", fchl19(n_angular=5)),
    Change("angular series", "6", fchl19(n_angular=6)),
    Change("angular series", "the paper's cos θ and sin θ", fields(representation=representations.ENERGIES_AND_FORCES)),
    Change("three-body weight c3", "0.1", fchl19(weight3=0.1)),
    Change("three-body weight c3", "0.4", fchl19(weight3=0.4)),
    Change("three-body width η3", "1.5", fchl19(eta3=1.5)),
    Change("three-body width η3", "4.5", fchl19(eta3=4.5)),
    Change("cutoff", "5 Å", fchl19(cutoff=5.0)),
    Change("cutoff", "7 Å", fchl19(cutoff=7.0)),
    Change("rank", "64", fields(rank=64)),
    Change("rank", "256", fields(rank=256)),
    Change("rank", "512", fields(rank=512)),
    Change("features", "phases instead of pairs", features(paired=False)),
    Change("features", "χ-scaled SORF", features(chi_scaled=True)),
    Change("features", "three Hadamard transforms", features(n_transforms=3)),
    Change("features", "own weights for each element, as many in all", blocks),
    Change("kernel width σ", "4", features(sigma=4.0)),
    Change("kernel width σ", "16", features(sigma=16.0)),
    Change("projection", "whitened", basis=whitened(1.0)),
    Change("projection", "whitened to the power 1/4", basis=whitened(0.25)),
    Change("projection", "by gradients of a first fit, power 1/4", basis=informed(0.25)),
    Change("projection", "by gradients of a first fit, power 1/2", basis=informed(0.5)),
)
# All energies of one composition have the same weight, whatever the exponent; molecules of 16 atoms have it here, too.
SIZE_EXPONENTS = (
    Change("size exponent", "0", fields(size_exponent=0.0, energy_weight=7.5)),
    Change("size exponent", "1", fields(size_exponent=1.0, energy_weight=120.0)),
)
