"""Rows of the linear model: energies, forces and virials as linear functions of the weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..atoms.neighbours import Pairs, element_indices, pairs_within
from ..atoms.structures import Labels, Structures, batches
from ..model.baseline import Baseline
from ..model.basis import Basis
from ..model.projection import project

# Six independent components of a symmetric tensor, in Voigt's order.
VOIGT = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))

# What is made at once: rows times weights, less than wait for one Gram product; and atoms, which bound what the
# representation takes when there are only energies.
BATCH_NUMBERS = 32_000_000
BATCH_ATOMS = 2048

# Where the next rows of a kind are to be written, n or fewer of them: (rows, weights) in float64, of any content.
Room = Callable[[str, int], Tensor]
# What gives the environments of a batch: `environments`, or who remembers them.
Environing = Callable[[Basis, Structures, Collection[str]], "Environments"]


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


def rows_of_kind(
    basis: Basis,
    at: Environments,
    kind: str,
    wanted: Tensor | None = None,
    out: Tensor | None = None,
    *,
    wide: bool = False,
) -> Tensor:
    """Rows of "energies", "forces" or "stress", (rows, weights) in float64: those with the numbers `wanted`, or all.

    They are written to `out` by the kernels, and no other array of their size is made. `wide`: all but sines and
    cosines in float64, as in products that form no rows; that takes twice as long.
    """
    n_rows = at.n_structures if kind == "energies" else at.tangents[kind].n_rows
    if wanted is None:
        wanted = torch.arange(n_rows, device=basis.device)
    if out is None:
        out = torch.empty(len(wanted), basis.n_weights, dtype=torch.float64, device=basis.device)
    out.zero_()
    place = torch.full((n_rows,), -1, device=basis.device)  # where each row goes; −1: nowhere
    place[wanted] = torch.arange(len(wanted), device=basis.device)
    if kind == "energies":
        _add_energies(basis, at, place[at.structure], out)
    else:
        _add_tangents(basis, at, at.tangents[kind], place[at.tangents[kind].row], out, wide)
    return out


def _add_energies(basis: Basis, at: Environments, place: Tensor, out: Tensor) -> None:
    """Σ z(ρ) over the atoms of each structure; `place` is that of each atom."""
    for e, feature_map in enumerate(basis.maps):
        atoms = ((at.element == e) & (place >= 0)).nonzero()[:, 0]
        basis.kernels.energy_rows(feature_map, at.rho[atoms], place[atoms], out[:, basis.columns(e)])


def _add_tangents(basis: Basis, at: Environments, tangents: Tangents, place: Tensor, out: Tensor, wide: bool) -> None:
    """Σ z′(ρ) · tangent over the tangents of each row; `place` is that of each tangent."""
    element_of_tangent = at.element[tangents.owner]
    local = torch.empty_like(at.element)
    for e, feature_map in enumerate(basis.maps):
        atoms = (at.element == e).nonzero()[:, 0]
        chosen = ((element_of_tangent == e) & (place >= 0)).nonzero()[:, 0]
        local[atoms] = torch.arange(len(atoms), device=basis.device)
        basis.kernels.force_rows(
            feature_map,
            at.rho[atoms],
            tangents.vector[chosen].double() if wide else tangents.vector[chosen],
            local[tangents.owner[chosen]],
            place[chosen],
            out[:, basis.columns(e)],
        )


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
    room: Room,
    *,
    weight_of: Callable[[str], float] = lambda kind: 1.0,
    first: int = 0,
    most: int | None = None,
    wide: bool = False,
    environed: Environing = environments,
) -> Iterator[tuple[str, Tensor, Tensor, int]]:
    """Rows, written where there is `room` for them, and targets: kind, (n, weights), (n,), structures that are done.

    A target that is NaN is not known, and its row is not made. Rows of energies and virials, which grow with the
    structure, are divided by atoms^size_exponent, and all are multiplied by the weight of their kind. Begins with the
    structure `first`, which must begin a chunk for the chunks to be those of a run from the start. `most`: numbers at
    once, in rows and in features of atoms, where memory is short. `wide`: as in `rows_of_kind`.
    """
    one = torch.ones_like(structures.counts)
    per_structure = {"energies": one, "forces": 3 * structures.counts, "stress": len(VOIGT) * one}
    rows = torch.stack([per_structure[kind] for kind in targets]).sum(0)
    most_atoms = BATCH_ATOMS if most is None else min(BATCH_ATOMS, max(1, most // basis.n_weights))
    cost = torch.maximum(rows * basis.n_weights / (most or BATCH_NUMBERS), structures.counts / most_atoms)
    for index in batches(cost, 1.0, first):
        part = structures.select(index)
        at = environed(basis, part, targets)
        atoms = slice(structures.offsets[index[0]], structures.offsets[index[-1] + 1])
        for kind, target in targets.items():
            y = (target[atoms] if kind == "forces" else target[index]).flatten()
            factor = torch.full_like(y, weight_of(kind))
            if kind != "forces":
                factor *= (part.counts.double() ** -size_exponent).repeat_interleave(len(y) // len(index))
            left = y.isfinite().nonzero()[:, 0]
            done = None
            while done is None or len(left):
                z = room(kind, len(left))
                here, left = left[: len(z)], left[len(z) :]
                assert len(here) or not len(left), "rows came that no room was made for"
                rows_of_kind(basis, at, kind, here.to(basis.device), z, wide=wide)
                if bool((factor != 1).any()):
                    z *= factor[here].to(z)[:, None]
                whole = kind == tuple(targets)[-1] and not len(left)
                done = int(index[-1]) + 1 if whole else int(index[0])
                yield kind, z, (y * factor)[here].to(z), done
