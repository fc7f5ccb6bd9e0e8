"""Rows of the linear model: energies, forces and virials as linear functions of the weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .baseline import Baseline
from .basis import Basis
from .kernels import FeatureMap
from .neighbours import Pairs, element_indices, pairs_within
from .projection import project
from .structures import Labels, Structures, batches

# Six independent components of a symmetric tensor, in Voigt's order.
VOIGT = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))

# What is in flight at once: tangents times features of one tile, rows times weights of one batch, and atoms: they bound
# what the representation takes when there are only energies.
TILE_NUMBERS = 32_000_000
BATCH_NUMBERS = 32_000_000
BATCH_ATOMS = 2048


@dataclass(frozen=True)
class Tangents:
    """Directions in which an environment moves, and the row that the movement belongs to.

    A row of forces or virials is Σ over its tangents of z′(ρ[owner]) · vector.
    """

    vector: Tensor  # (tangents, rank)
    owner: Tensor  # (tangents,) atom whose environment moves, ascending
    row: Tensor  # (tangents,)
    n_rows: int


@dataclass(frozen=True)
class Environments:
    """Projected environments of a batch of structures, and how they move with the atoms and the cell."""

    rho: Tensor  # (atoms, rank)
    element: Tensor  # (atoms,)
    structure: Tensor  # (atoms,)
    n_structures: int
    # "forces": 3 rows for each atom, minus the gradient; "stress": 6 rows for each structure, the virial in eV
    tangents: dict[str, Tangents]


def environments(basis: Basis, structures: Structures, kinds: Collection[str] = ()) -> Environments:
    """Projected environments of all atoms, with the tangents of the rows of those `kinds` that have any."""
    pairs = pairs_within(structures, basis.arguments.cutoff, basis.elements)
    element = element_indices(structures.numbers, basis.elements).to(basis.device)
    segments, vectors = pairs.segments.to(basis.device), basis.like(pairs.vector)
    values = basis.kernels.fchl19(basis.arguments, structures.n_atoms, segments, vectors)
    tangents = {}
    if "forces" in kinds or "stress" in kinds:
        jacobian = basis.kernels.fchl19_jacobian(
            basis.arguments, structures.n_atoms, segments, vectors, element, basis.projections
        )
        if "forces" in kinds:
            tangents["forces"] = _force_tangents(pairs, jacobian, structures.n_atoms)
        if "stress" in kinds:
            tangents["stress"] = _virial_tangents(pairs, vectors, jacobian, structures)
    return Environments(
        project(basis.projections, values, element),
        element,
        structures.structure_of_atom.to(basis.device),
        len(structures),
        tangents,
    )


def _force_tangents(pairs: Pairs, jacobian: Tensor, n_atoms: int) -> Tangents:
    """Minus the derivative of each environment by each atom in it, (different atom pairs · 3).

    Images of one atom move together, hence one tangent for all of them; the centre moves against the sum of its
    neighbours (translation invariance); an image of the centre itself does not move at all.
    """
    # the tangent of (centre, atom) has the key centre · n + atom
    other = (pairs.neighbour != pairs.centre).nonzero()[:, 0]
    keys = pairs.centre[other] * n_atoms + pairs.neighbour[other]
    own = torch.arange(n_atoms) * (n_atoms + 1)
    unique, position = torch.cat([keys, own]).unique(return_inverse=True)
    device = jacobian.device
    moving = jacobian[other.to(device)]
    vector = jacobian.new_zeros(len(unique), 3, jacobian.shape[2])
    vector.index_add_(0, position[: len(other)].to(device), moving, alpha=-1)
    vector.index_add_(0, position[len(other) :][pairs.centre[other]].to(device), moving)
    owner, atom = unique // n_atoms, unique % n_atoms
    row = atom[:, None] * 3 + torch.arange(3)
    return Tangents(vector.flatten(0, 1), owner.repeat_interleave(3).to(device), row.flatten().to(device), 3 * n_atoms)


def _virial_tangents(pairs: Pairs, vectors: Tensor, jacobian: Tensor, structures: Structures) -> Tangents:
    """Derivative of each environment by the strain of its structure, (atoms · 6)."""
    n = structures.n_atoms
    strain = torch.stack([0.5 * (vectors[:, a, None] * jacobian[:, b] + vectors[:, b, None] * jacobian[:, a])
                          for a, b in VOIGT], 1)  # fmt: skip
    vector = jacobian.new_zeros(n, 6, jacobian.shape[2]).index_add_(0, pairs.centre.to(jacobian.device), strain)
    row = structures.structure_of_atom[:, None] * 6 + torch.arange(6)
    owner = torch.arange(n).repeat_interleave(6)
    return Tangents(
        vector.flatten(0, 1), owner.to(jacobian.device), row.flatten().to(jacobian.device), 6 * len(structures)
    )


def energy_rows(basis: Basis, at: Environments) -> Tensor:
    """Σ z(ρ) over the atoms of each structure, (structures, weights) in float64."""
    out = torch.zeros(at.n_structures, basis.n_weights, dtype=torch.float64, device=basis.device)
    for e, feature_map in enumerate(basis.maps):
        atoms = (at.element == e).nonzero()[:, 0]
        step = max(1, TILE_NUMBERS // feature_map.n_features)
        for run in atoms.split(step):
            z = basis.kernels.features(feature_map, at.rho[run].contiguous())
            out[:, basis.columns(e)].index_add_(0, at.structure[run], z.double())
    return out


def tangent_rows(basis: Basis, at: Environments, tangents: Tangents) -> Tensor:
    """Σ z′(ρ) · tangent over the tangents of each row, (rows, weights), a tile of features at a time."""
    out = at.rho.new_zeros(tangents.n_rows, basis.n_weights)
    element_of_tangent = at.element[tangents.owner]
    local = torch.empty_like(at.element)
    for e, feature_map in enumerate(basis.maps):
        atoms = (at.element == e).nonzero()[:, 0]
        chosen = (element_of_tangent == e).nonzero()[:, 0]
        if len(chosen) == 0:
            continue
        local[atoms] = torch.arange(len(atoms), device=basis.device)
        x, moves = at.rho[atoms].contiguous(), tangents.vector[chosen].contiguous()
        owner, row = local[tangents.owner[chosen]], tangents.row[chosen]
        columns = out[:, basis.columns(e)]
        for first, last in _frequency_tiles(feature_map, len(chosen)):
            tile = columns[:, first:last]
            if feature_map.paired:
                tile = at.rho.new_zeros(tangents.n_rows, 2 * (last - first))
            basis.kernels.force_rows(feature_map, x, moves, owner, row, tile, first, last)
            if feature_map.paired:
                n, half = feature_map.n_frequencies, last - first
                columns[:, first:last] += tile[:, :half]
                columns[:, n + first : n + last] += tile[:, half:]
    return out


def _frequency_tiles(feature_map: FeatureMap, n_tangents: int) -> Iterator[tuple[int, int]]:
    rank = feature_map.rank
    step = max(1, TILE_NUMBERS // max(1, n_tangents) // rank) * rank
    for first in range(0, feature_map.n_frequencies, step):
        yield first, min(first + step, feature_map.n_frequencies)


def rows_of_kind(basis: Basis, at: Environments, kind: str) -> Tensor:
    """Rows of "energies", "forces" or "stress", (rows, weights)."""
    return energy_rows(basis, at) if kind == "energies" else tangent_rows(basis, at, at.tangents[kind])


def targets_of(structures: Structures, labels: Labels, baseline: Baseline) -> dict[str, Tensor]:
    """What the rows of each kind are to give: energies past the baseline, forces, virials (six components, eV)."""
    targets = {}
    if labels.energies is not None:
        targets["energies"] = labels.energies - baseline.total(structures)
    if labels.forces is not None:
        targets["forces"] = labels.forces
    if labels.stress is not None:
        virial = labels.stress * structures.volumes[:, None, None]
        targets["stress"] = torch.stack([virial[:, a, b] for a, b in VOIGT], 1)
    return targets


def labelled_rows(
    basis: Basis,
    structures: Structures,
    targets: dict[str, Tensor],
    size_exponent: float,
    *,
    first: int = 0,
    most: int | None = None,
) -> Iterator[tuple[str, Tensor, Tensor, int]]:
    """Rows and targets in chunks that fit: kind, (n, weights), (n,), and how many structures are done.

    A target that is NaN is not known, and its row is left out. Rows of energies and virials, which grow with the
    structure, are divided by atoms^size_exponent. Begins with the structure `first`, which must begin a chunk for the
    chunks to be those of a run from the start. `most`: numbers at once, in rows and in features of atoms, where memory
    is short.
    """
    one = torch.ones_like(structures.counts)
    per_structure = {"energies": one, "forces": 3 * structures.counts, "stress": len(VOIGT) * one}
    rows = torch.stack([per_structure[kind] for kind in targets]).sum(0)
    most_atoms = BATCH_ATOMS if most is None else min(BATCH_ATOMS, max(1, most // basis.n_weights))
    cost = torch.maximum(rows * basis.n_weights / (most or BATCH_NUMBERS), structures.counts / most_atoms)
    for index in batches(cost, 1.0, first):
        part = structures.select(index)
        at = environments(basis, part, targets)
        scale = part.counts.double() ** -size_exponent
        atoms = slice(structures.offsets[index[0]], structures.offsets[index[-1] + 1])
        for kind, target in targets.items():
            z = rows_of_kind(basis, at, kind)
            if kind == "forces":
                y = target[atoms].flatten()
            else:
                y = (target[index].view(len(index), -1) * scale[:, None]).flatten()
                z *= scale.repeat_interleave(len(y) // len(index))[:, None].to(z)
            known = y.isfinite()
            if not bool(known.all()):
                z, y = z[known.to(z.device)], y[known]
            yield kind, z, y.to(z.device), int(index[-1]) + 1
