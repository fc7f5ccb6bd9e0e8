"""Rows of the linear model: energies, forces and virials as linear functions of the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..atoms.structures import Structures, batches
from ..linear.normal_equations import Place
from ..machine.row_sums import add_rows
from ..machine.transfers import sent
from ..model.basis import ReadyBasis
from ..model.recipe import Recipe
from .environments import Environing, Environments, Tangents, environments
from .problem import VOIGT

# Size of a batch: rows × weights, less than wait for one Gram product; and atoms, which bound the memory of the
# representation if there are only energies.
BATCH_NUMBERS = 32_000_000
BATCH_ATOMS = 2048
# Atoms whose features are in memory at once for the rows of dipoles.
ATOMS_OF_DIPOLES = 512


# Rows of each structure, by kind of label; those of "forces" are 3 for each of its atoms.
ROWS_OF_STRUCTURE = {"energies": 1, "stress": len(VOIGT), "dipoles": 3}


class Targets(Protocol):
    """Structures with the targets of their rows, by kind."""

    @property
    def structures(self) -> Structures: ...

    @property
    def targets(self) -> Mapping[str, Tensor]: ...


def rows_of_kind(
    basis: ReadyBasis,
    at: Environments,
    kind: str,
    wanted: Tensor | None = None,
    out: Tensor | None = None,
    *,
    wide: bool = False,
) -> Tensor:
    """Rows of "energies", "forces", "stress" or "dipoles", (rows, weights) in float64: all, or those of `wanted`.

    The kernels write them to `out`; no other array of their size is made. `wide`: all but sines and cosines in float64,
    as in products that form no rows; it takes twice as long. Atoms and tangents of each element are chosen on the host:
    nothing waits for the device.
    """
    n_rows = at.tangents[kind].n_rows if kind in at.tangents else at.n_structures * ROWS_OF_STRUCTURE[kind]
    if wanted is None:
        wanted = torch.arange(n_rows)
    if out is None:
        out = torch.empty(len(wanted), basis.n_weights, dtype=torch.float64, device=basis.device)
    out.zero_()
    place = torch.full((n_rows,), -1)  # place of each row in `out`; −1: not wanted
    place[wanted] = torch.arange(len(wanted))
    if kind == "energies":
        _add_energies(basis, at, place, out)
    elif kind == "dipoles":
        _add_dipoles(basis, at, place, out)
    else:
        _add_tangents(basis, at, at.tangents[kind], place, out, wide)
    return out


def _add_energies(basis: ReadyBasis, at: Environments, place: Tensor, out: Tensor) -> None:
    """Add Σ z(ρ) over the atoms of each structure; `place` is that of each structure's row."""
    element, structure = at.on_host
    of_atom = place[structure]
    for e, feature_map in enumerate(basis.maps):
        atoms = ((element == e) & (of_atom >= 0)).nonzero()[:, 0]
        rho, row = at.rho[sent(atoms, basis.device)], sent(of_atom[atoms], basis.device)
        basis.kernels.energy_rows(feature_map, rho, row, out[:, basis.columns(e)])


def _add_dipoles(basis: ReadyBasis, at: Environments, place: Tensor, out: Tensor) -> None:
    """Add Σ (r − mean r) z(ρ) over the atoms of each structure; `place` is that of each row, three of a structure."""
    assert at.arms is not None, "environments were made without arms"
    element, structure = at.on_host
    for e, feature_map in enumerate(basis.maps):
        for atoms in (element == e).nonzero()[:, 0].split(ATOMS_OF_DIPOLES):
            first, last = (int(structure[atoms[k]]) for k in (0, -1)) if len(atoms) else (0, -1)
            rows = place.view(-1, 3)[first : last + 1].flatten()
            # (3 rows of each structure, atoms): an atom adds to the rows of its own structure
            mixture = torch.zeros(last + 1 - first, 3, len(atoms), dtype=torch.float64)
            mixture[structure[atoms] - first, :, torch.arange(len(atoms))] = at.arms[atoms]
            mixture, kept = (sent(one[rows >= 0], out.device) for one in (mixture.flatten(0, 1), rows))
            features = basis.kernels.features(feature_map, at.rho[sent(atoms, basis.device)].contiguous())
            add_rows(out[:, basis.columns(e)], kept, mixture @ features.double())


def _add_tangents(
    basis: ReadyBasis, at: Environments, tangents: Tangents, place: Tensor, out: Tensor, wide: bool
) -> None:
    """Add Σ z′(ρ) · tangent over the tangents of each row; `place` is that of each row."""
    (element, _), (owner, row) = at.on_host, tangents.on_host
    element_of_tangent, of_tangent = element[owner], place[row]
    local = torch.empty_like(element)
    for e, feature_map in enumerate(basis.maps):
        atoms = (element == e).nonzero()[:, 0]
        chosen = ((element_of_tangent == e) & (of_tangent >= 0)).nonzero()[:, 0]
        local[atoms] = torch.arange(len(atoms))
        vectors = tangents.vector[sent(chosen, basis.device)]
        basis.kernels.force_rows(
            feature_map,
            at.rho[sent(atoms, basis.device)],
            vectors.double() if wide else vectors,
            sent(local[owner[chosen]], basis.device),
            sent(of_tangent[chosen], basis.device),
            out[:, basis.columns(e)],
        )


def row_factors(kind: str, y: Tensor, counts: Tensor, recipe: Recipe, *, weighted: bool = True) -> Tensor:
    """Factor of each row of `kind`: its weight, and for energies and virials 1 / atoms^size_exponent.

    `y` are the targets, whose shape is taken; `counts` the atoms of each structure.
    """
    factor = torch.full_like(y, recipe.weight_of(kind) if weighted else 1.0)
    if kind != "forces":
        factor *= (counts.double() ** -recipe.size_exponent).repeat_interleave(len(y) // len(counts))
    return factor


@dataclass(frozen=True)
class Pass:
    """Settings of one pass over the structures of a problem."""

    first: int = 0  # structure to begin with; it must begin a batch of a whole pass for the batches to be the same
    most: int | None = None  # numbers at once, in rows and in features of atoms; None: as many as run fastest
    weighted: bool = False  # multiply each row by the weight of its kind
    wide: bool = False  # compute in float64 all but sines and cosines
    environments: Environing = environments  # a function that may remember environments


def write_rows(
    basis: ReadyBasis,
    problem: Targets,
    recipe: Recipe,
    place_of: Callable[[str], Place],
    how: Pass = Pass(),  # noqa: B008 (a value)
    more_targets: Tensor | None = None,
) -> Iterator[int]:
    """Write the rows of all labels, with their targets, to the place of each kind; yield the structures that are done.

    A target that is NaN is not known, and its row is not made. `more_targets` (structures, n) are further targets of
    the energy rows.
    """
    structures, targets = problem.structures, problem.targets
    for index in _row_batches(basis, problem, how):
        part = structures.select(index)
        at = how.environments(basis, part, targets)
        atoms = slice(structures.offsets[index[0]], structures.offsets[index[-1] + 1])
        for kind, target in targets.items():
            y = (target[atoms] if kind == "forces" else target[index]).flatten()
            factor = row_factors(kind, y, part.counts, recipe, weighted=how.weighted)
            left = y.isfinite().nonzero()[:, 0]
            scaled = y * factor
            if kind == "energies" and more_targets is not None:
                scaled = torch.cat([scaled[:, None], more_targets[index] * factor[:, None]], 1)
            done = None
            while done is None or len(left):
                place = place_of(kind)
                z = place.room(len(left))
                here, left = left[: len(z)], left[len(z) :]
                assert len(here) or not len(left), "rows came that no room was made for"
                written = _written(z, basis)
                rows_of_kind(basis, at, kind, here, written, wide=how.wide)
                if bool((factor != 1).any()):
                    written *= sent(factor[here], written.device).to(written.dtype)[:, None]
                if written is not z:
                    z.copy_(written)
                place.take(sent(scaled[here], z.device).to(z.dtype))
                whole = kind == tuple(targets)[-1] and not len(left)
                done = int(index[-1]) + 1 if whole else int(index[0])
                yield done


def _written(place: Tensor, basis: ReadyBasis) -> Tensor:
    """Memory where the kernels write rows for `place`: itself, or a copy if the host keeps what a device writes."""
    return place if place.device == basis.device else torch.empty_like(place, device=basis.device)


def _row_batches(basis: ReadyBasis, problem: Targets, how: Pass) -> Iterator[Tensor]:
    """Runs of structures whose rows are made at once."""
    counts = problem.structures.counts
    one = torch.ones_like(counts)
    per_structure = {kind: n * one for kind, n in ROWS_OF_STRUCTURE.items()} | {"forces": 3 * counts}
    rows = torch.stack([per_structure[kind] for kind in problem.targets]).sum(0)
    most_atoms = BATCH_ATOMS if how.most is None else min(BATCH_ATOMS, max(1, how.most // basis.n_weights))
    cost = torch.maximum(rows * basis.n_weights / (how.most or BATCH_NUMBERS), counts / most_atoms)
    yield from batches(cost, 1.0, how.first)
