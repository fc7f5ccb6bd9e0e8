"""Groups of structures with the same composition and labels: environments, tangents and targets for the kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..atoms.neighbours import element_indices
from ..atoms.structures import Structures, batches
from ..errors import InputError
from ..model.basis import ReadyBasis
from ..training.environments import environments
from ..training.problem import VOIGT
from .recipe import ExactRecipe

# Numbers of tangents that are in memory at once while they are combined into rows.
DENSE_NUMBERS = 16_000_000
# A rigid motion with a singular value below this part of the largest one moves no atom: a linear molecule has five.
RIGID = 1e-8


@dataclass(frozen=True)
class Group:
    """Structures with the same composition and the same labels.

    The rows of a structure are its energy, if it is known, and derivatives of the energy along tangents. Targets and
    tangents are multiplied by the weights of their rows. Columns in which the environments of an element are zero and
    do not move are left out.
    """

    start: int  # first row of the group among the rows of all groups
    energy: float | None  # weight of the energy row; None: there is none
    targets: Tensor  # (structures, rows)
    atoms: list[Tensor]  # for each element (structures, its atoms): index of the atom in the whole batch
    values: list[Tensor]  # for each element (structures, its atoms, columns): environments
    tangents: list[Tensor]  # for each element (structures, tangent rows, its atoms, columns)
    columns: list[Tensor] = field(default_factory=list)  # for each element: columns that are kept

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def n_rows(self) -> int:
        """Rows of one structure."""
        return self.targets.shape[1]

    @property
    def n_tangents(self) -> int:
        """Tangent rows of one structure."""
        return self.n_rows - (self.energy is not None)

    def rows(self, first: int, last: int) -> slice:
        """Rows of the structures from `first` to `last`, among the rows of all groups."""
        return slice(self.start + first * self.n_rows, self.start + last * self.n_rows)


@dataclass(frozen=True)
class RowPlan:
    """Rows of one structure."""

    energy: bool  # the energy is known
    combination: Tensor  # (3 · atoms + 6, tangent rows) coefficients of force and virial components in each row


def plan_rows(structures: Structures, targets: Mapping[str, Tensor], recipe: ExactRecipe) -> list[RowPlan]:
    """Rows of each structure: its energy, its forces without rigid motions, its virial.

    The model is invariant: the row of a rigid motion would be zero. A molecule has six rows less, and the solution is
    the same.
    """
    plans = []
    for s in range(len(structures)):
        run, n = _atoms(structures, s), int(structures.counts[s])
        size = float(n) ** -recipe.size_exponent
        parts = []
        if "forces" in targets:
            known = targets["forces"][run].isfinite().flatten()
            if bool(known.all()):
                moves = inner_motions(structures.positions[run], rotations=not bool(structures.periodic[s].any()))
            else:
                moves = torch.eye(3 * n, dtype=torch.float64)[:, known]
            parts.append((0, recipe.force_weight * moves))
        if "stress" in targets:
            known = targets["stress"][s].isfinite()
            eye = torch.eye(len(VOIGT), dtype=torch.float64)[:, known]
            parts.append((3 * n, recipe.stress_weight * size * eye))
        combination = torch.zeros(3 * n + len(VOIGT), sum(part.shape[1] for _, part in parts), dtype=torch.float64)
        column = 0
        for row, part in parts:
            combination[row : row + len(part), column : column + part.shape[1]] = part
            column += part.shape[1]
        plans.append(RowPlan("energies" in targets and bool(targets["energies"][s].isfinite()), combination))
    return plans


def inner_motions(positions: Tensor, *, rotations: bool) -> Tensor:
    """Orthonormal motions of the atoms, (3 · atoms, motions), without translations and, if `rotations`, rotations."""
    n = len(positions)
    axes = torch.eye(3, dtype=torch.float64)
    rigid = axes.repeat(n, 1)
    if rotations:
        arms = positions - positions.mean(0)
        turns = torch.linalg.cross(axes.expand(n, 3, 3), arms[:, None].expand(n, 3, 3))  # atom, axis of rotation, xyz
        rigid = torch.cat([rigid, turns.transpose(1, 2).reshape(3 * n, 3)], 1)
    axes, values, _ = torch.linalg.svd(rigid, full_matrices=True)
    inner: Tensor = axes[:, int((values > RIGID * values[0]).sum()) :]
    return inner


def gather(
    basis: ReadyBasis,
    structures: Structures,
    values: Tensor,
    targets: Mapping[str, Tensor],
    plans: list[RowPlan],
    recipe: ExactRecipe,
) -> list[Group]:
    """Groups with the rows of all structures. `values` (atoms, columns) are the environments."""
    element = element_indices(structures.numbers, basis.elements)
    members: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for s, its in enumerate(plans):
        if not its.energy and its.combination.shape[1] == 0:
            continue  # no label, or only the force on a single atom
        composition = torch.bincount(element[_atoms(structures, s)], minlength=len(basis.elements)).tolist()
        members[(*composition, its.energy, its.combination.shape[1])].append(s)
    if not members:
        raise InputError("No label tells anything: there are no energies, and no forces between atoms. Add some.")
    groups, start = [], 0
    for index in members.values():
        plans_here = [plans[s] for s in index]
        energy = None
        if plans_here[0].energy:
            energy = recipe.energy_weight * float(structures.counts[index[0]]) ** -recipe.size_exponent
        rows = _weighted_targets(structures, targets, plans_here, index, energy).to(basis.device)
        order, tangents = _tangent_rows(basis, structures.select(index), tuple(targets), plans_here)
        atoms = structures.offsets[index].to(basis.device)[:, None] + order
        counts = torch.bincount(element[_atoms(structures, index[0])], minlength=len(basis.elements)).tolist()
        by_element = list(atoms.split(counts, 1))
        groups.append(
            Group(
                start,
                energy,
                rows,
                by_element,
                [values[atom] for atom in by_element],
                list(tangents.split(counts, 2)),
            )
        )
        start += rows.numel()
    return _without_idle_columns(groups, len(basis.elements))


def _atoms(structures: Structures, s: int) -> slice:
    return slice(int(structures.offsets[s]), int(structures.offsets[s + 1]))


def _tangent_rows(
    basis: ReadyBasis, structures: Structures, kinds: tuple[str, ...], plans: list[RowPlan]
) -> tuple[Tensor, Tensor]:
    """Atoms of each structure sorted by element, (structures, atoms), and tangents of their environments in that order.

    The tangents are combined to those of the rows, (structures, tangent rows, atoms, columns).
    """
    n, (raw, n_tangents) = int(structures.counts[0]), plans[0].combination.shape
    size = basis.projections.shape[2]
    order = (
        element_indices(structures.numbers, basis.elements)
        .view(-1, n)
        .sort(dim=1, stable=True)
        .indices.to(basis.device)
    )
    out = torch.empty(len(structures), n_tangents, n, size, dtype=torch.float64, device=basis.device)
    if n_tangents == 0:
        return order, out
    for run in batches(torch.full((len(structures),), float(n * raw * size)), DENSE_NUMBERS):
        at = environments(basis, structures.select(run), kinds)
        dense = at.rho.new_zeros(len(run) * n, raw, size)
        for kind, tangents in at.tangents.items():
            # rows of forces, then those of the virial, counted within the structure
            place, each = (0, 3 * n) if kind == "forces" else (3 * n, len(VOIGT))
            row = tangents.row - each * at.structure[tangents.owner] + place
            dense[tangents.owner, row] = tangents.vector
        combination = torch.stack([plans[s].combination for s in run.tolist()]).to(dense)
        moving = combination.transpose(1, 2)[:, None] @ dense.view(len(run), n, raw, size)
        out[run] = moving.gather(1, order[run][:, :, None, None].expand_as(moving)).transpose(1, 2)
    return order, out


def _weighted_targets(
    structures: Structures, targets: Mapping[str, Tensor], plans: list[RowPlan], index: list[int], energy: float | None
) -> Tensor:
    """Targets times the weights of their rows, (structures, rows)."""
    rows = []
    for s, its in zip(index, plans, strict=True):
        raw = torch.zeros(len(its.combination), dtype=torch.float64)
        if "forces" in targets:
            raw[: -len(VOIGT)] = targets["forces"][_atoms(structures, s)].flatten()
        if "stress" in targets:
            raw[-len(VOIGT) :] = targets["stress"][s]
        row = its.combination.T @ raw.nan_to_num()  # no row contains a component that is not known
        rows.append(row if energy is None else torch.cat([energy * targets["energies"][s : s + 1], row]))
    return torch.stack(rows)


def _without_idle_columns(groups: list[Group], n_elements: int) -> list[Group]:
    """Groups without columns in which all environments and tangents are zero: they change no kernel."""
    for e in range(n_elements):
        here = [group for group in groups if group.values[e].numel()]
        busy = groups[0].targets.new_zeros(groups[0].values[e].shape[2], dtype=torch.bool)
        for group in here:
            busy |= group.values[e].flatten(0, 1).any(0) | group.tangents[e].flatten(0, 2).any(0)
        for group in groups:
            group.columns.append(busy.nonzero()[:, 0])
            group.values[e] = group.values[e][..., busy]
            group.tangents[e] = group.tangents[e][..., busy]
    return groups
