"""The content of a data file in its own units, and its conversion to structures and labels in eV and Å."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np
import torch
from torch import Tensor

from ..atoms.structures import Labels, Structures, atoms_of, checked, offsets_from_counts
from ..atoms.units import Units
from ..errors import InputError

PER_ATOM = ("numbers", "positions", "forces")
PER_FRAME = ("counts", "cells", "periodic", "energies", "stress", "rows", "groups")

# Keys under which a file states its units, and the charge or spin of a frame.
STATED = {
    "energy": ("energy_unit", "energy_units", "e_unit"),
    "length": ("length_unit", "length_units", "r_unit"),
    "force": ("force_unit", "force_units", "f_unit"),
    "stress": ("stress_unit", "stress_units", "s_unit"),
}
STATES = {
    "charge": ("charge", "total_charge", "net_charge"),
    "spin": ("spin", "total_spin"),
    "multiplicity": ("multiplicity", "spin_multiplicity"),
}

# Index of each matrix element in the Voigt order xx, yy, zz, yz, xz, xy.
VOIGT = np.array([[0, 5, 4], [5, 1, 3], [4, 3, 2]])


@dataclass(frozen=True)
class LabelKeys:
    """Keys of the labels in a file. None: search the usual names. An empty string: do not read this label."""

    energy: str | None = None
    forces: str | None = None
    stress: str | None = None


@dataclass(frozen=True)
class Wanted:
    """Frames and labels to read from a file. The split is taken first, then the slice, then the limit."""

    split: str | None = None  # name of a split that the file stores
    index: slice | None = None  # slice of that split
    limit: int | None = None  # at most this many frames
    keys: LabelKeys = LabelKeys()
    labels: bool = True  # False: structures only
    columns: tuple[str, ...] = ()  # keys of further numbers of each frame, read as they are


@dataclass(frozen=True)
class Content:
    """Frames one after the other, in the units of the file. A missing label is NaN."""

    numbers: np.ndarray  # (atoms,)
    positions: np.ndarray  # (atoms, 3)
    counts: np.ndarray  # (frames,) atoms in each frame
    cells: np.ndarray  # (frames, 3, 3)
    periodic: np.ndarray  # (frames, 3) bool
    rows: np.ndarray  # (frames,) number of the frame in the file, from 0
    energies: np.ndarray | None = None  # (frames,)
    forces: np.ndarray | None = None  # (atoms, 3)
    stress: np.ndarray | None = None  # (frames, 3, 3)
    groups: np.ndarray | None = None  # (frames,) name of the group of each frame, "" for none
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)  # further numbers by key, (frames, …)
    keys: Mapping[str, str] = field(default_factory=dict)  # label → key of the file
    states: Mapping[str, np.ndarray] = field(default_factory=dict)  # charge, spin … → (frames,), NaN where not stated
    stated: Mapping[str, str] = field(default_factory=dict)  # energy, length, force, stress → unit that the file states
    citation: str = ""
    notes: tuple[str, ...] = ()

    def select(self, index: np.ndarray) -> Content:
        """The frames at `index`, in that order."""
        index = np.array(index, np.int64)  # a copy: torch has no reversed slices
        offsets = offsets_from_counts(torch.from_numpy(self.counts.astype(np.int64)))
        atoms = atoms_of(offsets, torch.from_numpy(index)).numpy()
        chosen = dict.fromkeys(PER_ATOM, atoms) | dict.fromkeys(PER_FRAME, index)
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {name: values[name][rows] for name, rows in chosen.items() if values[name] is not None}
        states = {name: state[index] for name, state in self.states.items()}
        columns = {name: column[index] for name, column in self.columns.items()}
        return replace(self, states=states, columns=columns, **arrays)

    @property
    def labelled(self) -> bool:
        return not (self.energies is None and self.forces is None and self.stress is None)


def tensors(values: np.ndarray | None, scale: float) -> Tensor | None:
    """New float64 tensor of values × scale; None without values."""
    return None if values is None else torch.from_numpy(np.array(values, np.float64) * scale)


def structures_and_labels(content: Content, units: Units, name: str) -> tuple[Structures, Labels, tuple[str, ...]]:
    """Structures and labels in eV and Å, checked, and notes about labels that were left out.

    `name`: name of the file, for errors.
    """
    structures = Structures(
        torch.from_numpy(content.numbers.astype(np.int64)),
        torch.from_numpy(np.array(content.positions, np.float64) * units.length_in_angstrom),
        offsets_from_counts(torch.from_numpy(content.counts.astype(np.int64))),
        torch.from_numpy(np.array(content.cells, np.float64) * units.length_in_angstrom),
        torch.from_numpy(np.array(content.periodic, bool)),
    )
    stress = tensors(content.stress, units.stress_in_ev_per_angstrom3)
    notes: tuple[str, ...] = ()
    if stress is not None:
        # stress is an energy per volume, and only a cell that is periodic in three directions has a volume
        open_cell = ~structures.periodic.all(1)
        ignored = int((open_cell & ~stress.isnan().all(2).all(1)).sum())
        stress[open_cell] = torch.nan
        if ignored:
            notes += (f"the stress of {ignored} frames is ignored: they are not periodic in three directions",)
        if stress.isnan().all():
            stress = None
    labels = Labels(
        tensors(content.energies, units.energy_in_ev),
        tensors(content.forces, units.force_in_ev_per_angstrom),
        stress,
    )
    checked(structures, labels, name=lambda s: f"{name}, frame {content.rows[s]}")
    return structures, labels, notes


def past_column(
    labels: Labels, content: Content, key: str | None, energy_in_ev: float, name: str
) -> tuple[Labels, Tensor | None]:
    """Labels less the energies of a cheaper method under `key`, and these energies in eV; both as they are without."""
    if not key:
        return labels, None
    column = content.columns[key]
    if column.reshape(len(column), -1).shape[1] != 1:
        raise InputError(f"{name}: wanted an energy for each frame in the baseline {key}, got {column.shape}.")
    if labels.forces is not None or labels.stress is not None:
        kinds = " and ".join(kind for kind in labels.kinds if kind != "energies")
        raise InputError(
            f"{name} has {kinds} as well, of which the baseline {key} says nothing. Leave them out (--forces-key "
            '"" and --stress-key "", in Python forces_key=""), or subtract an ASE calculator (past_calculator).'
        )
    cheaper = torch.from_numpy(column.reshape(-1).astype(np.float64) * energy_in_ev)
    if not bool(cheaper.isfinite().all()):
        raise InputError(f"{name}: the baseline {key} has values that are not finite. Remove these frames.")
    return (labels if labels.energies is None else replace(labels, energies=labels.energies - cheaper)), cheaper


def as_stress(values: np.ndarray, what: str) -> np.ndarray:
    """Stress as (…, 3, 3), from 3×3 matrices, nine numbers, or six numbers in Voigt order (xx, yy, zz, yz, xz, xy)."""
    values = np.asarray(values, np.float64)
    if values.shape[-2:] == (3, 3):
        return values
    if values.shape[-1:] == (9,):
        return values.reshape(*values.shape[:-1], 3, 3)
    if values.shape[-1:] == (6,):
        return values[..., VOIGT]
    raise InputError(f"{what}: wanted a stress of 3×3, 9 or 6 (Voigt) numbers, got the shape {values.shape}.")


def stress_from_virial(virial: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Stress = -virial / volume; NaN for frames without a volume."""
    volume = np.abs(np.linalg.det(cells))
    with np.errstate(divide="ignore", invalid="ignore"):
        stress = -virial / volume[..., None, None]
    return np.where((volume > 0)[..., None, None], stress, np.nan)


def rows_of_split(values: np.ndarray, n_frames: int, what: str) -> np.ndarray:
    """Row numbers of a split that is stored as row numbers or as a mask."""
    values = np.asarray(values)
    if values.dtype == bool and values.shape == (n_frames,):
        return values.nonzero()[0]
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InputError(f"{what}: wanted a list of row numbers, got {values.dtype} of shape {values.shape}.")
    bad = (values < 0) | (values >= n_frames)
    if bad.any():
        raise InputError(
            f"{what}: row {int(values[bad][0])} is out of range, there are {n_frames} frames (0 to {n_frames - 1}). "
            "The split belongs to another file, or frames of this file are missing."
        )
    return values.astype(np.int64)


def refuse_nan(content: Content, name: str) -> None:
    """Raise an InputError that names the first frame with NaN among its labels, if there is one."""
    for kind in ("energies", "forces", "stress"):
        values = getattr(content, kind)
        if values is None:
            continue
        bad = np.isnan(values).reshape(len(values), -1).any(1)
        if kind == "stress":
            bad &= content.periodic.all(1)  # the other frames have no stress
        if bad.any():
            at = int(bad.argmax())
            frame = at if kind != "forces" else int(np.searchsorted(np.cumsum(content.counts), at, side="right"))
            raise InputError(
                f"{name}, frame {content.rows[frame]} has NaN among its {kind} (key {content.keys[kind]}). "
                "Remove the frame, or choose a split without it."
            )


def digest(content: Content) -> str:
    """SHA-256 of the arrays, for structures that come from no file."""
    total = hashlib.sha256()
    for values in (content.numbers, content.positions, content.counts, content.energies, content.forces):
        if values is not None:
            total.update(np.ascontiguousarray(values).tobytes())
    return total.hexdigest()
