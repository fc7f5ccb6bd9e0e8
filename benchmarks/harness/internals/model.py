"""Bases and potentials from inside the package: axes, environments, gradients, and models without training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from qml_lightning import Potential, Recipe, Structures
from qml_lightning.atoms.neighbours import element_indices, pairs_within
from qml_lightning.kernels.reference import density as density_kernels
from qml_lightning.linear.posterior import Calibration
from qml_lightning.machine.compute import Compute
from qml_lightning.model.baseline import Baseline
from qml_lightning.model.basis import Basis, sample_environments
from qml_lightning.model.committee import FORCE_MEMBERS, Committee, committee_features
from qml_lightning.model.predictor import Predictor, forces_from
from qml_lightning.model.projection import atoms_of_elements, lift, project
from qml_lightning.training.environments import environments


def with_axes(basis: Basis, axes: Tensor) -> Basis:
    """The basis with other axes, (elements, size, rank)."""
    return replace(basis, projection=replace(basis.projection, matrices=axes))


def lost_by_projection(basis: Basis) -> float:
    """Largest part of the squared norm of an element's environments that the axes lose."""
    return 1 - float(basis.projection.explained.min())


def projected_environments(basis: Basis, structures: Structures) -> list[Tensor]:
    """Projected environments ρ of each element, (atoms, rank) in float64."""
    at = environments(basis.ready(Compute()), structures)
    return [at.rho[at.element == e].double() for e in range(len(basis.elements))]


def energy_gradients(potential: Potential, structures: Structures) -> list[Tensor]:
    """Gradients of the atomic energies by ρ for each element, (atoms, rank) in float64."""
    basis = potential.on(precision="float64").basis
    at, gradients = environments(basis, structures), []
    for e, feature_map in enumerate(basis.maps):
        rho = at.rho[at.element == e].contiguous()
        _, slope = basis.kernels.energy_and_slope(feature_map, rho, potential.weights[basis.columns(e)])
        gradients.append(slope.double())
    return gradients


def density_gradients(potential: Potential, structures: Structures) -> Tensor:
    """Gradients of the atomic energies by the density of the neighbours, (atoms, harmonics, elements · radial)."""
    basis = potential.on(precision="float64", kernels="reference").basis
    p, element = basis.arguments, element_indices(structures.numbers, basis.elements)
    by_rho = torch.zeros(structures.n_atoms, potential.recipe.rank, dtype=torch.float64)
    for e, slopes in enumerate(energy_gradients(potential, structures)):
        by_rho[element == e] = slopes
    atoms = atoms_of_elements(element, len(basis.elements), by_rho.device)
    by_values = lift(basis.projections, by_rho, atoms)[:, p.pair_size :]
    pairs, found = pairs_within(structures, p.cutoff, basis.elements), []
    for part in density_kernels._Centres.chunks(p, structures.n_atoms, pairs.segments, pairs.vector):
        with torch.enable_grad():
            moments = density_kernels._moments(p, part).requires_grad_()
            values = density_kernels._invariants(p, moments).flatten(1)
            total = (values * by_values[part.first : part.last]).sum()
        found.append(torch.einsum("ahk,znk->ahzn", torch.autograd.grad(total, moments)[0], p.mixing).flatten(2))
    return torch.cat(found)


def invariants_of(basis: Basis, structures: Structures) -> list[Tensor]:
    """Invariants of the density around the atoms of each element, (atoms, invariants, channels) in float64."""
    random = np.random.default_rng(0)
    arguments = basis.recipe.representation.arguments(len(basis.elements), basis.drawn)
    samples = sample_environments(structures, basis.recipe, basis.drawn, random)
    shape = arguments.n_invariants, arguments.n_channels
    return [sample[:, arguments.pair_size :].unflatten(1, shape) for sample in samples]


def untrained(structures: Structures, recipe: Recipe) -> Potential:
    """A potential with axes from the structures and random weights: the time of a prediction depends on neither."""
    basis = Basis.draw(structures, recipe)
    weights = torch.from_numpy(np.random.default_rng(0).standard_normal(basis.n_weights))
    zero = torch.zeros(len(basis.elements), dtype=torch.float64)
    return Potential(basis, weights, Baseline(basis.elements, zero))


def with_any_committee(structures: Structures, recipe: Recipe, members: int) -> Potential:
    """An untrained potential with random members of the usual size."""
    potential, n_few = untrained(structures, recipe), committee_features(recipe.features.n_features, recipe.rank)
    n_weights = len(potential.weights) // recipe.features.n_features * n_few
    deviations = torch.from_numpy(np.random.default_rng(1).standard_normal((members, n_weights)))
    calibrations = dict.fromkeys(("energies", "forces"), Calibration(1.0, 0.0))
    return replace(potential, committee=Committee(deviations, n_few, FORCE_MEMBERS, calibrations=calibrations))


def neighbours_by_element(structures: Structures, cutoff: float) -> Tensor:
    """Neighbours of each element around each atom, (atoms, elements)."""
    out = []
    for first in range(0, len(structures), 50):
        part = structures.select(np.arange(first, min(first + 50, len(structures))))
        pairs = pairs_within(part, cutoff, structures.elements)
        out.append(pairs.segments.diff().view(-1, len(structures.elements)))
    return torch.cat(out)


def prediction_steps(structures: Structures, predictor: Predictor) -> dict[str, Callable[[], object]]:
    """Each step of `Predictor.predict_pairs` by itself, in the order of the steps there."""
    basis, n = predictor.basis, structures.n_atoms
    element = element_indices(structures.numbers, basis.elements)
    pairs = pairs_within(structures, predictor.cutoff, basis.elements)
    segments, vectors = pairs.segments, basis.like(pairs.vector)
    values = basis.kernels.environments(basis.arguments, n, segments, vectors)
    atoms = atoms_of_elements(element, len(basis.elements), basis.device)
    rho = project(basis.projections, values, atoms)
    slope = torch.randn_like(rho)
    cotangent = lift(basis.projections, slope, atoms)
    gradient = basis.kernels.environments_pullback(basis.arguments, n, segments, vectors, cotangent).double()

    def features() -> None:
        for e, of_element in enumerate(atoms):
            predictor._local(e, rho[of_element].contiguous())

    return {
        "neighbours": lambda: pairs_within(structures, predictor.cutoff, basis.elements),
        "FCHL19 values": lambda: basis.kernels.environments(basis.arguments, n, segments, vectors),
        "projection": lambda: (project(basis.projections, values, atoms), lift(basis.projections, slope, atoms)),
        "features": features,
        "pullback": lambda: basis.kernels.environments_pullback(basis.arguments, n, segments, vectors, cotangent),
        "forces": lambda: forces_from(structures, pairs, gradient),
    }
