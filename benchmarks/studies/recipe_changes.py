"""Changes of a recipe, one at a time: of its fields, of the axes of its projection, of the channels of its density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qml_lightning import Dataset, Potential, Recipe, fit

from ..harness.internals import (
    Basis,
    density_gradients,
    energy_gradients,
    invariants_of,
    projected_environments,
    representations,
    with_axes,
)
from ..harness.models import with_features

MakeBasis = Callable[[Dataset, Recipe], Basis]  # for the equations of these data


@dataclass(frozen=True)
class Change:
    """A recipe that differs from the one to begin with in one thing, or a basis that does."""

    group: str
    name: str
    recipe: Callable[[Recipe], Recipe] = lambda recipe: recipe
    basis: MakeBasis | None = None


def represented(**changes: Any) -> Callable[[Recipe], Recipe]:
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
        first = _first_fit(data, recipe, n_features)
        products = [slope.T @ slope / len(slope) for slope in energy_gradients(first, data.structures)]

        def change(element: int, axes: Tensor, rho: Tensor) -> Tensor:
            values, vectors = torch.linalg.eigh(products[element])
            stretch = vectors * values.clamp_min(1e-12 * float(values[-1])) ** power
            return axes @ (stretch @ vectors.T)

        return _with_changed_axes(data, recipe, change)

    return basis


def learnt_channels(power: float, n_features: int = 4096) -> MakeBasis:
    """Channels drawn with the covariance that the gradients of a first fit by the density have, to a power.

    The covariance is the mean over degrees, each with trace 1. The channels keep their mean square.
    """

    def basis(data: Dataset, recipe: Recipe) -> Basis:
        first = _first_fit(data, recipe, n_features, ridge=1e-6)
        slopes = density_gradients(first, data.structures.select(torch.arange(min(100, len(data)))))
        covariance = torch.zeros(slopes.shape[2], slopes.shape[2], dtype=torch.float64)
        for degree in range(recipe.representation.l_max + 1):
            rows = slopes[:, degree**2 : (degree + 1) ** 2].flatten(0, 1)
            product = rows.T @ rows
            covariance += product / product.trace()
        values, vectors = torch.linalg.eigh(covariance)
        root = vectors * values.clamp_min(0) ** (power / 2) @ vectors.T
        mixing = first.basis.drawn["mixing"]
        learnt = (root @ mixing.flatten(0, 1)).view_as(mixing)
        drawn = {**first.basis.drawn, "mixing": learnt * (mixing.norm() / learnt.norm())}
        return Basis.draw(data.structures, recipe, drawn)

    return basis


def channels_of_first_fit(drawn_for_each: int = 4, n_features: int = 4096) -> MakeBasis:
    """The channels, of several times as many, that change the energy of a first fit most.

    The share of a channel is the squared gradient by its invariants times their variance, as a part of that of all.
    """

    def basis(data: Dataset, recipe: Recipe) -> Basis:
        n = recipe.representation.n_channels
        wide = replace(recipe, representation=replace(recipe.representation, n_channels=drawn_for_each * n))
        first, some = _first_fit(data, wide, n_features, ridge=1e-6), data.structures.select(torch.arange(50))
        share = torch.zeros(drawn_for_each * n, dtype=torch.float64)
        slopes, axes = energy_gradients(first, some), first.basis.projection.matrices
        for invariants, matrix, slope in zip(invariants_of(first.basis, some), axes, slopes, strict=True):
            by_entry = (slope @ matrix.T).square().mean(0)[-invariants[0].numel() :].view_as(invariants[0])
            of_channels = (by_entry * invariants.var(0)).sum(0)
            share += of_channels / of_channels.sum()
        drawn, kept = first.basis.drawn, share.argsort(descending=True)[:n]
        return Basis.draw(data.structures, recipe, {**drawn, "mixing": drawn["mixing"][:, :, kept].contiguous()})

    return basis


def heavy_tailed(degrees_of_freedom: int) -> MakeBasis:
    """Frequencies with the lengths of Student's t instead of a Gaussian: the kernel is rougher."""

    def basis(data: Dataset, recipe: Recipe) -> Basis:
        found, random = Basis.draw(data.structures, recipe), np.random.default_rng([recipe.seed, 2])
        maps = []
        for one in found.maps:
            longer = np.sqrt(degrees_of_freedom / random.chisquare(degrees_of_freedom, one.n_frequencies))
            maps.append(replace(one, row_scale=one.row_scale * torch.from_numpy(longer)))
        return replace(found, maps=tuple(maps))

    return basis


def half_blind(data: Dataset, recipe: Recipe) -> Basis:
    """Half of the blocks of features see pairs and three bodies alone: the kernel is a sum of two.

    Each of the two views has half of the axes, principal ones of what it sees; zeros among the signs of the first
    Hadamard transform hide the other half.
    """
    found, half = Basis.draw(data.structures, recipe), recipe.rank // 2
    three = replace(recipe.representation, weight3=0.0)
    mixing = {"mixing": found.drawn["mixing"]}
    drawn = {**three.draw(len(found.elements), recipe.seed), **mixing}
    fewer = Basis.draw(data.structures, replace(recipe, representation=three), drawn).projection.matrices
    axes = found.projection.matrices.clone()
    axes[:, :, half:] = 0.0
    axes[:, : fewer.shape[1], half:] = fewer[:, :, :half]
    maps = []
    for one in found.maps:
        assert one.signs is not None
        signs = one.signs.clone()
        signs[0::2, 0, half:] = 0.0
        signs[1::2, 0, :half] = 0.0
        maps.append(replace(one, signs=signs))
    return replace(with_axes(found, axes), maps=tuple(maps))


def _first_fit(data: Dataset, recipe: Recipe, n_features: int, ridge: float = 1e-9) -> Potential:
    """A small model, by the direct solver."""
    n_features = min(n_features, recipe.features.n_features)
    return fit(
        data, replace(with_features(recipe, n_features), ridge=ridge, solver=replace(recipe.solver, method="direct"))
    )


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
    Change("angular series", "2 functions", represented(n_angular=2)),
    Change("angular series", "3", represented(n_angular=3)),
    Change("angular series", "5", represented(n_angular=5)),
    Change("angular series", "6", represented(n_angular=6)),
    Change("angular series", "the paper's cos θ and sin θ", fields(representation=representations.ENERGIES_AND_FORCES)),
    Change("three-body weight c3", "0.1", represented(weight3=0.1)),
    Change("three-body weight c3", "0.4", represented(weight3=0.4)),
    Change("three-body width η3", "1.5", represented(eta3=1.5)),
    Change("three-body width η3", "4.5", represented(eta3=4.5)),
    Change("cutoff", "5 Å", represented(cutoff=5.0)),
    Change("cutoff", "7 Å", represented(cutoff=7.0)),
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

# Changes of the kernel on top of the density, which are tried on more molecules than the others.
KERNEL_CHANGES = (
    Change("projection", "bonding classes apart by 1", fields(class_spread=1.0)),
    Change("projection", "bonding classes apart by 2", fields(class_spread=2.0)),
    Change("projection", "bonding classes apart by 4", fields(class_spread=4.0)),
    Change("features", "half of them see three bodies alone", basis=half_blind),
)
# Changes of the density. The rank is 256, as the choice takes it for these molecules; the short range suits aspirin.
DENSITY_CHANGES = (
    DEFAULT,
    Change("representation", "FCHL19", fields(representation=representations.COSINE_SERIES)),
    Change("bodies", "three: no products of three moments", represented(weight3=0.0)),
    Change("weight of three moments", "0.015", represented(weight3=0.015)),
    Change("weight of three moments", "0.06", represented(weight3=0.06)),
    Change("weight of two moments", "0.08", represented(weight2=0.08)),
    Change("weight of two moments", "0.32", represented(weight2=0.32)),
    Change("weight of pairs", "0.85", represented(pair_weight=0.85)),
    Change("weight of pairs", "3.4", represented(pair_weight=3.4)),
    Change("degree", "l ≤ 2", represented(l_max=2)),
    Change("channels", "32", represented(n_channels=32)),
    Change("channels", "128", represented(n_channels=128)),
    Change("radial functions", "width 0.4 Å", represented(width=0.4)),
    Change("radial functions", "width 0.8 Å", represented(width=0.8)),
    Change("radial functions", "14 of them", represented(n_radial=14, width=0.4)),
    Change("decay with distance", "r⁰", represented(decay=0.0)),
    Change("decay with distance", "r⁻²", represented(decay=2.0)),
    Change("cutoff of the density", "4 Å", represented(density_cutoff=4.0)),
    Change("cutoff of the density", "4.5 Å", represented(density_cutoff=4.5)),
    Change("cutoffs", "6 Å, widths alike", represented(cutoff=6.0, density_cutoff=6.0, width=0.65, pair_width=0.65)),
    Change("cutoffs", "6 Å of pairs", represented(cutoff=6.0, pair_width=0.65)),
    Change("rank", "128", fields(rank=128)),
    Change("rank", "512", fields(rank=512)),
    Change("kernel width σ", "4", features(sigma=4.0)),
    Change("kernel width σ", "16", features(sigma=16.0)),
    Change("features", "own weights for each element, as many features", features(blocks=True)),
    Change("projection", "by gradients of a first fit, power 1/4", basis=informed(0.25, 4096)),
    Change("channels", "learnt from gradients of a first fit, power 1/2", basis=learnt_channels(0.5)),
    Change("channels", "learnt from gradients of a first fit, power 1", basis=learnt_channels(1.0)),
    Change("channels", "64 of 256 that change the energy of a first fit most", basis=channels_of_first_fit()),
    Change("channels", "64 of 256 that differ most", represented(n_candidates=256)),
    Change("channels", "48 of 256 that differ most", represented(n_channels=48, n_candidates=256)),
    Change("channels", "32 of 256 that differ most", represented(n_channels=32, n_candidates=256)),
    *KERNEL_CHANGES,
    Change("features", "frequencies of Student's t, 4 degrees of freedom", basis=heavy_tailed(4)),
    Change("features", "frequencies of Student's t, 10 degrees of freedom", basis=heavy_tailed(10)),
)
