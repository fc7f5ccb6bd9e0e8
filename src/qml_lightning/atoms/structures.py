"""Ragged batches of atomic structures and the labels that belong to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..machine.display import one_line
from ..machine.transfers import sent

if TYPE_CHECKING:
    from ase import Atoms

# A coordinate or a lattice vector beyond this is in another unit, or damaged: it is a tenth of a millimetre.
LARGEST = 1e6  # Å
# A label beyond this, in eV, eV/Å or eV/Å³, is a mark for a missing number, or damaged: its square tells nothing else.
LARGEST_LABEL = 1e12

LABEL_UNITS = {"energies": "eV", "forces": "eV/Å", "stress": "eV/Å³"}

# Six independent components of a symmetric tensor, in Voigt's order.
VOIGT = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))

Index = Sequence[int] | np.ndarray | Tensor  # numbers of structures


@dataclass(frozen=True)
class Structures:
    """Structures laid end to end: structure s owns the atoms offsets[s]:offsets[s + 1].

    Positions and cells are in Å and float64, on the CPU until they are sent to a device. Positions that are on a device
    already may stay there, with the rest on the CPU.
    """

    numbers: Tensor  # (atoms,) atomic numbers, int64
    positions: Tensor  # (atoms, 3)
    offsets: Tensor  # (structures + 1,) int64
    cells: Tensor  # (structures, 3, 3), rows are lattice vectors; zero where there is none
    periodic: Tensor  # (structures, 3) bool

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return one_line("Structures", [f"{len(self):,} structures", f"{self.n_atoms:,} atoms", self.symbols])

    @property
    def symbols(self) -> str:
        """Elements that occur, such as `H C O`."""
        from ase.data import chemical_symbols

        return " ".join(chemical_symbols[z] for z in self.elements)

    @property
    def n_atoms(self) -> int:
        return len(self.numbers)

    @cached_property
    def counts(self) -> Tensor:
        """Atoms in each structure, (structures,)."""
        return self.offsets.diff()

    @cached_property
    def structure_of_atom(self) -> Tensor:
        """Number of the structure of each atom, (atoms,)."""
        numbers = torch.arange(len(self), device=self.offsets.device)
        return torch.repeat_interleave(numbers, self.counts, output_size=self.n_atoms)  # the size: no wait for a device

    @cached_property
    def volumes(self) -> Tensor:
        """Volume of the cell of each structure in Å³, (structures,); NaN where no direction is periodic."""
        volume = torch.linalg.det(self.cells).abs()
        return torch.where(self.periodic.any(1) & (volume > 0), volume, torch.nan)

    @property
    def has_volume(self) -> bool:
        """Whether any structure has a volume, and so a stress."""
        # molecules first: they need no determinants, which dynamics would pay for at every step
        return bool(self.periodic.any()) and bool(self.volumes.isfinite().any())

    @property
    def elements(self) -> tuple[int, ...]:
        """Atomic numbers that occur, ascending."""
        return tuple(self.numbers.unique().tolist())

    def to(self, device: torch.device | str) -> Structures:
        """These structures on `device`."""
        if torch.device(device).type == self.positions.device.type == "cpu":
            return self
        return Structures(*(sent(getattr(self, one.name), device) for one in fields(self)))

    def select(self, index: Index) -> Structures:
        """Structures at `index`, in that order."""
        index = torch.as_tensor(np.asarray(index), dtype=torch.int64)
        atoms = atoms_of(self.offsets, index)
        return Structures(
            self.numbers[atoms],
            self.positions[sent(atoms, self.positions.device)],
            offsets_from_counts(self.counts[index]),
            self.cells[index],
            self.periodic[index],
        )


@dataclass(frozen=True)
class Labels:
    """Reference energies (eV), forces (eV/Å) and stresses (eV/Å³, tension positive) of a batch.

    None: no structure has this label. NaN: this structure has none (the other ones do).
    """

    energies: Tensor | None = None  # (structures,)
    forces: Tensor | None = None  # (atoms, 3)
    stress: Tensor | None = None  # (structures, 3, 3)

    def select(self, index: Tensor, offsets: Tensor) -> Labels:
        """Labels of the structures at `index`; `offsets` are those of the whole batch."""
        places = {"energies": index, "forces": atoms_of(offsets, index), "stress": index}
        return Labels(**{kind: getattr(self, kind)[places[kind]] for kind in self.kinds})

    @property
    def kinds(self) -> tuple[str, ...]:
        """Labels that there are: some of energies, forces, stress."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) is not None)


def label_shapes(structures: Structures) -> dict[str, tuple[int, ...]]:
    """Shape of each kind of label of these structures."""
    n = len(structures)
    return {"energies": (n,), "forces": (structures.n_atoms, 3), "stress": (n, 3, 3)}


def offsets_from_counts(counts: Tensor) -> Tensor:
    """Start of each run of a ragged array, and the end of the last one."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def atoms_of(offsets: Tensor, index: Tensor) -> Tensor:
    """Numbers of the atoms of the structures at `index`, run after run."""
    counts = offsets.diff()[index]
    starts = offsets[:-1][index]
    ends = counts.cumsum(0)
    return torch.repeat_interleave(starts - (ends - counts), counts) + torch.arange(int(counts.sum()))


def batches(cost: Tensor, most: float, first: int = 0) -> Iterator[Tensor]:
    """Runs of consecutive indices, from `first` on, each with a total cost of at most `most` or one index long."""
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
    return checked(
        Structures(
            torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *numbers]).astype(np.int64)),
            torch.from_numpy(np.concatenate([np.zeros((0, 3)), *positions])),
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
    structures: Structures,
    labels: Labels | None = None,
    *,
    name: Callable[[int], str] = "Structure {}".format,
    in_range: bool = False,
) -> Structures:
    """`structures` itself; an InputError that names the first structure that cannot be used, and why.

    `name` gives the words for the structure of a number: a reader says file and frame. `in_range`: it is known already
    that no coordinate is too large or not a number.
    """
    _check_structures(structures, name, in_range)
    for kind in () if labels is None else labels.kinds:
        values, wanted = getattr(labels, kind), label_shapes(structures)[kind]
        if tuple(values.shape) != wanted:
            raise InputError(f"Wanted {kind} of shape {wanted}, got {tuple(values.shape)}.")
        most = values.reshape(len(values), -1).abs().nan_to_num(0.0, posinf=torch.inf).amax(1)
        offsets = structures.offsets if kind == "forces" else None
        if (s := _first(most.isinf(), offsets)) is not None:
            raise InputError(f"{name(s)} has an infinite value among its {kind}. Remove it.")
        if (s := _first(most > LARGEST_LABEL, offsets)) is not None:
            size = f"{float(most[most > LARGEST_LABEL][0]):.3g}, more than {LARGEST_LABEL:.0e}"
            raise InputError(f"{name(s)} has a value of {size} {LABEL_UNITS[kind]} among its {kind}. Remove it.")
    return structures


def _check_structures(structures: Structures, name: Callable[[int], str], in_range: bool) -> None:
    if len(structures) == 0:
        raise InputError("There is no structure here. Give at least one.")
    numbers, cells, periodic = structures.numbers, structures.cells, structures.periodic
    if (s := _first(structures.counts == 0)) is not None:
        raise InputError(f"{name(s)} has no atoms. Remove it.")
    if not in_range and (s := _first(~in_reach(structures.positions).all(1), structures.offsets)) is not None:
        atoms = structures.positions[structures.offsets[s] : structures.offsets[s + 1]]
        raise InputError(f"{name(s)} has a coordinate {_out_of_range(atoms)}")
    wrong = (numbers < 1) | (numbers > 118)
    if (s := _first(wrong, structures.offsets)) is not None:
        raise InputError(f"{name(s)}: {int(numbers[wrong][0])} is no atomic number (1 to 118).")
    if (s := _first(~in_reach(cells).all(2).all(1))) is not None:
        raise InputError(f"{name(s)} has a cell {_out_of_range(cells[s])}")
    if not periodic.any():
        return
    # the lattice vectors of the periodic directions must be independent
    lattice = torch.where(periodic[..., None], cells, 0.0)
    if (s := _first(torch.linalg.matrix_rank(lattice, rtol=1e-8) < periodic.sum(1))) is not None:
        raise InputError(
            f"{name(s)} is periodic along {periodic[s].tolist()} but its cell {cells[s].tolist()} does not span these "
            "directions. Give a cell, or turn periodicity off."
        )


def in_reach(lengths: Tensor) -> Tensor:
    """Marks of numbers that may be lengths in Å."""
    return lengths.abs() <= LARGEST


def _out_of_range(values: Tensor) -> str:
    """End of a sentence about numbers of which one is not finite, or too large to be a length in Å."""
    if not values.isfinite().all():
        return "that is NaN or infinite."
    return f"of {float(values.abs().max()):.3g} Å, more than {LARGEST:.0e} Å. Check its unit of length."


def _first(bad: Tensor, offsets: Tensor | None = None) -> int | None:
    """First structure marked in `bad`, None if there is none; with `offsets`, `bad` marks atoms."""
    if not bad.any():
        return None
    at = bad.nonzero()[0, 0]
    return int(at if offsets is None else torch.searchsorted(offsets, at, right=True) - 1)
