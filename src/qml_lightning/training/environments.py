"""Projected environments of atoms, and how they move with the atoms and the cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..atoms.neighbours import Pairs, element_indices, pairs_within
from ..atoms.structures import Structures
from ..machine.row_sums import add_rows
from ..machine.transfers import sent
from ..model.basis import ReadyBasis
from ..model.batching import portions
from ..model.projection import atoms_of_elements, project
from ..model.properties import arms
from .problem import VOIGT

# Atoms whose pairs and Jacobians are in memory at once while all environments are gathered.
ATOMS_AT_ONCE = 2048

# A function that gives the environments of a batch: `environments`, or one that remembers them.
Environing = Callable[[ReadyBasis, Structures, Collection[str]], "Environments"]


@dataclass(frozen=True)
class Tangents:
    """Directions in which an environment moves, and the row that the movement belongs to.

    A row of forces or virials is Σ over its tangents of z′(ρ[owner]) · vector.
    """

    vector: Tensor  # (tangents, rank)
    owner: Tensor  # (tangents,) atom whose environment moves, ascending
    row: Tensor  # (tangents,)
    n_rows: int
    sent: tuple[Tensor, Tensor] | None = None  # owner and row as they were on the host

    @property
    def on_host(self) -> tuple[Tensor, Tensor]:
        """Owner and row on the host, to choose among them. There is no wait if the host has sent them."""
        return (self.owner.cpu(), self.row.cpu()) if self.sent is None else self.sent


@dataclass(frozen=True)
class Environments:
    """Projected environments of a batch of structures, and their derivatives."""

    rho: Tensor  # (atoms, rank)
    element: Tensor  # (atoms,)
    structure: Tensor  # (atoms,)
    n_structures: int
    # "forces": 3 rows for each atom, minus the gradient; "stress": 6 rows for each structure, the virial in eV
    tangents: dict[str, Tangents]
    sent: tuple[Tensor, Tensor] | None = None  # element and structure as they were on the host
    arms: Tensor | None = None  # (atoms, 3) positions from the mean of the structure, float64 on the host, for dipoles

    @property
    def on_host(self) -> tuple[Tensor, Tensor]:
        """Element and structure where the host chooses among them, as in `Tangents`."""
        return (self.element.cpu(), self.structure.cpu()) if self.sent is None else self.sent

    @property
    def tangent_bytes(self) -> int:
        return sum(one.vector.nbytes + one.owner.nbytes + one.row.nbytes for one in self.tangents.values())


def environments(basis: ReadyBasis, structures: Structures, kinds: Collection[str] = ()) -> Environments:
    """Projected environments of all atoms, with tangents for the rows of "forces" and "stress" if `kinds` has them."""
    pairs = pairs_within(structures, basis.arguments.cutoff, basis.elements, basis.device)
    listed = element_indices(structures.numbers, basis.elements)
    element, atoms = sent(listed, basis.device), atoms_of_elements(listed, len(basis.elements), basis.device)
    segments, vectors = pairs.segments, basis.like(pairs.vector)
    values = basis.kernels.environments(basis.arguments, structures.n_atoms, segments, vectors)
    tangents = {}
    if "forces" in kinds or "stress" in kinds:
        jacobian = basis.kernels.environments_jacobian(
            basis.arguments, structures.n_atoms, segments, vectors, element, basis.projections
        )
        if "forces" in kinds:
            tangents["forces"] = _force_tangents(pairs, jacobian, structures.n_atoms)
        if "stress" in kinds:
            tangents["stress"] = _virial_tangents(pairs, vectors, jacobian, structures)
    return Environments(
        project(basis.projections, values, atoms),
        element,
        sent(structures.structure_of_atom, basis.device),
        len(structures),
        tangents,
        (listed, structures.structure_of_atom),
        arms(structures) if "dipoles" in kinds else None,
    )


def _force_tangents(pairs: Pairs, jacobian: Tensor, n_atoms: int) -> Tangents:
    """Minus the derivative of each environment by each atom in it, (different atom pairs · 3).

    Images of one atom move together, hence one tangent for all of them; the centre moves against the sum of its
    neighbours (translation invariance); an image of the centre itself does not move at all.
    """
    # the tangent of (centre, atom) has the key centre · n + atom
    other = (pairs.neighbour != pairs.centre).nonzero()[:, 0]
    keys = pairs.centre[other] * n_atoms + pairs.neighbour[other]
    own = torch.arange(n_atoms, device=keys.device) * (n_atoms + 1)
    unique, position = torch.cat([keys, own]).unique(return_inverse=True)
    moving = jacobian[other]
    vector = jacobian.new_zeros(len(unique), 3, jacobian.shape[2])
    add_rows(vector, position[len(other) :][pairs.centre[other]], moving)
    add_rows(vector, position[: len(other)], moving.neg_())
    listed = unique.cpu()  # the host chooses among rows by these
    row = listed[:, None] % n_atoms * 3 + torch.arange(3)
    on_host = (listed // n_atoms).repeat_interleave(3), row.flatten()
    owner, of_row = (sent(one, jacobian.device) for one in on_host)
    return Tangents(vector.flatten(0, 1), owner, of_row, 3 * n_atoms, on_host)


def _virial_tangents(pairs: Pairs, vectors: Tensor, jacobian: Tensor, structures: Structures) -> Tangents:
    """Derivative of each environment by the strain of its structure, (atoms · 6)."""
    n = structures.n_atoms
    strain = torch.stack([0.5 * (vectors[:, a, None] * jacobian[:, b] + vectors[:, b, None] * jacobian[:, a])
                          for a, b in VOIGT], 1)  # fmt: skip
    vector = add_rows(jacobian.new_zeros(n, 6, jacobian.shape[2]), pairs.centre, strain)
    row = (structures.structure_of_atom[:, None] * 6 + torch.arange(6)).flatten()
    on_host = torch.arange(n).repeat_interleave(6), row
    owner, of_row = (sent(one, jacobian.device) for one in on_host)
    return Tangents(vector.flatten(0, 1), owner, of_row, 6 * len(structures), on_host)


def all_environments(basis: ReadyBasis, structures: Structures, kinds: Collection[str]) -> Environments:
    """Environments and tangents of all structures, a bounded number of atoms at a time."""
    rho, element, structure = [], [], []
    moving: dict[str, list[Tangents]] = defaultdict(list)
    first_atom = 0
    for index in portions(basis, structures, ATOMS_AT_ONCE, tangents=bool(set(kinds) - {"energies"})):
        at, first = environments(basis, structures.select(index), kinds), int(index[0])
        rho.append(at.rho)
        element.append(at.element)
        structure.append(at.structure + first)
        first_row = {"forces": 3 * first_atom, "stress": len(VOIGT) * first}
        for kind, one in at.tangents.items():
            moving[kind].append(replace(one, owner=one.owner + first_atom, row=one.row + first_row[kind], sent=None))
        first_atom += len(at.rho)
    tangents = {kind: _joined(parts) for kind, parts in moving.items()}
    return Environments(torch.cat(rho), torch.cat(element), torch.cat(structure), len(structures), tangents)


def _joined(parts: list[Tangents]) -> Tangents:
    vector, owner, row = (torch.cat([getattr(part, name) for part in parts]) for name in ("vector", "owner", "row"))
    return Tangents(vector, owner, row, sum(part.n_rows for part in parts))


@dataclass
class EnvironmentCache:
    """Environments of batches that are needed again: they do not depend on the width of the kernel."""

    most: int  # bytes of tangents; a batch that would exceed it is not remembered
    known: dict[tuple[object, ...], Environments] = field(default_factory=dict)

    def of(self, whose: str, *settings: object) -> Environing:
        """Function that gives the environments of the named structures, batch after batch.

        `settings` are what they depend on. Environments of these structures with other settings are forgotten.
        """
        self.known = {key: at for key, at in self.known.items() if key[0] != whose or key[1] == settings}
        done = 0

        def cached(basis: ReadyBasis, part: Structures, kinds: Collection[str]) -> Environments:
            nonlocal done
            key, done = (whose, settings, done, len(part)), done + len(part)
            if key not in self.known:
                at = environments(basis, part, kinds)
                if sum(one.tangent_bytes for one in self.known.values()) + at.tangent_bytes >= self.most:
                    return at
                self.known[key] = at
            return self.known[key]

        return cached
