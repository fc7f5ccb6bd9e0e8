"""Ragged batches of atomic structures and the labels that belong to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError

if TYPE_CHECKING:
    from ase import Atoms

# Two nuclei closer than this are one atom written twice, not chemistry.
SHORTEST_DISTANCE = 0.1  # Å


@dataclass(frozen=True)
class Structures:
    """Structures laid end to end: structure s owns the atoms offsets[s]:offsets[s + 1].

    Positions and cells are in Å and float64, on the CPU.
    """

    numbers: Tensor  # (atoms,) atomic numbers, int64
    positions: Tensor  # (atoms, 3)
    offsets: Tensor  # (structures + 1,) int64
    cells: Tensor  # (structures, 3, 3), rows are lattice vectors; zero where there is none
    periodic: Tensor  # (structures, 3) bool

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_atoms(self) -> int:
        return len(self.numbers)

    @cached_property
    def counts(self) -> Tensor:
        """Atoms in each structure, (structures,)."""
        return self.offsets.diff()

    @cached_property
    def structure_of_atom(self) -> Tensor:
        """(atoms,)"""
        return torch.repeat_interleave(torch.arange(len(self)), self.counts)

    @cached_property
    def volumes(self) -> Tensor:
        """Å³ of the cell of periodic structures (also slabs and wires), NaN of molecules: no stress, (structures,)."""
        volume = torch.linalg.det(self.cells).abs()
        return torch.where(self.periodic.any(1) & (volume > 0), volume, torch.nan)

    @property
    def elements(self) -> tuple[int, ...]:
        """Atomic numbers that occur, ascending."""
        return tuple(self.numbers.unique().tolist())

    def select(self, index: Sequence[int] | np.ndarray | Tensor) -> Structures:
        """The structures at `index`, in that order."""
        index = torch.as_tensor(np.asarray(index), dtype=torch.int64)
        atoms = atoms_of(self.offsets, index)
        return Structures(
            self.numbers[atoms],
            self.positions[atoms],
            offsets_from_counts(self.counts[index]),
            self.cells[index],
            self.periodic[index],
        )

    def __getitem__(self, index: slice) -> Structures:
        return self.select(torch.arange(len(self))[index])


@dataclass(frozen=True)
class Labels:
    """Reference energies (eV), forces (eV/Å) and stresses (eV/Å³, tension positive) of a batch.

    None: no structure has this label. NaN: this structure has none (the other ones do).
    """

    energies: Tensor | None = None  # (structures,)
    forces: Tensor | None = None  # (atoms, 3)
    stress: Tensor | None = None  # (structures, 3, 3)

    def select(self, index: Sequence[int] | np.ndarray | Tensor, offsets: Tensor) -> Labels:
        """The labels of the structures at `index`; `offsets` are those of the whole batch."""
        index = torch.as_tensor(np.asarray(index), dtype=torch.int64)
        return Labels(
            None if self.energies is None else self.energies[index],
            None if self.forces is None else self.forces[atoms_of(offsets, index)],
            None if self.stress is None else self.stress[index],
        )

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which labels there are: some of energies, forces, stress."""
        return tuple(kind for kind in ("energies", "forces", "stress") if getattr(self, kind) is not None)


def offsets_from_counts(counts: Tensor) -> Tensor:
    """Where each run of a ragged array begins, and where the last one ends."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def atoms_of(offsets: Tensor, index: Tensor) -> Tensor:
    """Numbers of the atoms of the structures at `index`, run after run."""
    counts = offsets.diff()[index]
    starts = offsets[:-1][index]
    ends = counts.cumsum(0)
    return torch.repeat_interleave(starts - (ends - counts), counts) + torch.arange(int(counts.sum()))


def batches(cost: Tensor, most: float, first: int = 0) -> Iterator[Tensor]:
    """Runs of neighbouring indices from `first` on whose cost together is at most `most` (but at least one each)."""
    ends = cost.double().cumsum(0)
    while first < len(cost):
        spent = float(ends[first - 1]) if first else 0.0
        last = max(first + 1, int(torch.searchsorted(ends, spent + most, right=True)))
        yield torch.arange(first, min(last, len(cost)))
        first = last


def structures_from_arrays(
    numbers: Sequence[np.ndarray],
    positions: Sequence[np.ndarray],
    cells: Sequence[np.ndarray] | None = None,
    periodic: Sequence[np.ndarray] | None = None,
) -> Structures:
    """Structures from one array of atomic numbers (n,) and positions (n, 3) in Å for each."""
    counts = [len(z) for z in numbers]
    for s, (n, r) in enumerate(zip(counts, positions, strict=True)):
        if np.shape(r) != (n, 3):
            raise InputError(f"Structure {s}: wanted positions of shape ({n}, 3), got {np.shape(r)}.")
    n = len(counts)
    flat = {
        "numbers": np.concatenate([np.asarray(z, np.int64) for z in numbers]) if n else np.zeros(0, np.int64),
        "positions": np.concatenate([np.asarray(r, np.float64) for r in positions]) if n else np.zeros((0, 3)),
    }
    return checked(
        Structures(
            torch.from_numpy(flat["numbers"]),
            torch.from_numpy(flat["positions"]),
            offsets_from_counts(torch.tensor(counts, dtype=torch.int64)),
            torch.zeros(n, 3, 3, dtype=torch.float64) if cells is None else torch.tensor(np.array(cells, np.float64)),
            torch.zeros(n, 3, dtype=torch.bool) if periodic is None else torch.tensor(np.array(periodic, bool)),
        )
    )


def structures_from_ase(frames: Atoms | Sequence[Atoms]) -> Structures:
    """Structures from one ASE `Atoms` or several."""
    frames = [frames] if hasattr(frames, "get_positions") else list(frames)  # type: ignore[list-item]
    return structures_from_arrays(
        [atoms.numbers for atoms in frames],
        [atoms.positions for atoms in frames],
        [atoms.cell.array for atoms in frames],
        [atoms.pbc for atoms in frames],
    )


def checked(
    structures: Structures, labels: Labels | None = None, *, name: Callable[[int], str] = "Structure {}".format
) -> Structures:
    """`structures` again, or an InputError that names the first structure that cannot be used, and why.

    `name` is how the error calls the structure of a given number: a reader says file and frame.
    """
    _check_structures(structures, name)
    if labels is not None:
        _check_labels(structures, labels, name)
    return structures


def _first(bad: Tensor, structures: Structures, per_atom: bool) -> int:
    at = int(bad.nonzero()[0, 0])
    return int(structures.structure_of_atom[at]) if per_atom else at


def _check_structures(structures: Structures, name: Callable[[int], str]) -> None:
    if len(structures) == 0:
        raise InputError("There is no structure here. Give at least one.")
    empty = structures.counts == 0
    if empty.any():
        raise InputError(f"{name(_first(empty, structures, False))} has no atoms. Remove it.")
    bad = ~structures.positions.isfinite().all(1)
    if bad.any():
        raise InputError(f"{name(_first(bad, structures, True))} has a coordinate that is NaN or infinite.")
    bad = (structures.numbers < 1) | (structures.numbers > 118)
    if bad.any():
        s = _first(bad, structures, True)
        raise InputError(f"{name(s)}: {int(structures.numbers[bad][0])} is no atomic number (1 to 118).")
    bad = ~structures.cells.isfinite().all(2).all(1)
    if bad.any():
        raise InputError(f"{name(_first(bad, structures, False))} has a cell that is NaN or infinite.")
    # the lattice vectors of the periodic directions must be independent
    periodic = structures.periodic.any(1)
    if periodic.any():
        lattice = torch.where(structures.periodic[..., None], structures.cells, 0.0)
        rank = torch.linalg.matrix_rank(lattice[periodic], rtol=1e-8)
        flat = torch.zeros_like(periodic)
        flat[periodic] = rank < structures.periodic[periodic].sum(1)
        if flat.any():
            s = _first(flat, structures, False)
            raise InputError(
                f"{name(s)} is periodic along {structures.periodic[s].tolist()} but its cell "
                f"{structures.cells[s].tolist()} does not span these directions. Give a cell, or turn periodicity off."
            )


def _check_labels(structures: Structures, labels: Labels, name: Callable[[int], str]) -> None:
    wanted = {
        "energies": (len(structures),),
        "forces": (structures.n_atoms, 3),
        "stress": (len(structures), 3, 3),
    }
    for kind in labels.kinds:
        values = getattr(labels, kind)
        if tuple(values.shape) != wanted[kind]:
            raise InputError(f"Wanted {kind} of shape {wanted[kind]}, got {tuple(values.shape)}.")
        bad = values.reshape(len(values), -1).isinf().any(1)
        if bad.any():
            s = _first(bad, structures, kind == "forces")
            raise InputError(f"{name(s)} has an infinite value among its {kind}. Remove it.")
