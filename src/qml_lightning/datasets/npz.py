"""Data sets in .npz files: one molecule (MD17, rMD17), flat arrays of many molecules, or several named sets."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import InputError
from .archive import Archive
from .content import (
    STATED,
    STATES,
    Content,
    LabelKeys,
    Wanted,
    as_stress,
    refuse_nan,
    rows_of_split,
    stress_from_virial,
)
from .usage import looks_like, refuse_ignored, usage_note

NUMBERS = ("nuclear_charges", "atomic_numbers", "numbers", "z", "Z", "charges")  # charges last: they may be partial
POSITIONS = ("coords", "R", "positions", "coordinates")
ENERGIES = ("energies", "E", "energy")
FORCES = ("forces", "F")
STRESS = ("stress", "stresses")
VIRIAL = ("virial", "virials")
CELLS = ("cell", "cells", "lattice")
PERIODIC = ("pbc", "periodic")
GROUPS = ("group", "groups", "config_type")
SPLIT_NAME = re.compile(r"(train|test|val|calib|hold|split|fold|idx_|index_)", re.IGNORECASE)


def read_npz(path: Path, wanted: Wanted, known_splits: tuple[str, ...] = ()) -> Content:
    """Wanted frames of a .npz file, in its own units. `known_splits`: splits of this file in the catalogue."""
    archive = Archive(path)
    try:
        split, prefix = wanted.split, ""
        if archive.first(POSITIONS) is None:
            prefix, split = _named_set(archive, split), None
        content = _frames(archive, prefix)
        if wanted.labels:
            content = _with_labels(archive, prefix, content, wanted.keys)
            content = replace(content, states=_states(archive, prefix, len(content.counts)))
            if not known_splits:
                content = replace(content, notes=usage_note(content.keys, _unused(archive, prefix, content)))
        content = replace(content, columns={key: _column(archive, prefix, key, content) for key in wanted.columns})
        content = replace(content, stated=_stated(archive), citation=archive.text(["citation"]))
        n_frames = len(content.counts)
        rows = np.arange(n_frames) if split is None else _rows(archive, split, n_frames, known_splits)
        rows = rows[wanted.index or slice(None)][: wanted.limit]
        if len(rows) == 0:
            raise InputError(f"{archive.name} has no frames in this split or slice.")
        if not np.array_equal(rows, content.rows):
            content = content.select(rows)
    finally:
        archive.close()
    refuse_nan(content, archive.name)
    return content


def _stated(archive: Archive) -> dict[str, str]:
    """Units that the file states, each under its own key, or together as units="kcal/mol, Å"."""
    together = [text.strip() for text in re.split("[,;]", archive.text(["units"])) if text.strip()]
    each = {kind: text for kind, names in STATED.items() if (text := archive.text(names))}
    return dict(zip(("energy", "length"), together)) | each


def _states(archive: Archive, prefix: str, n_frames: int) -> dict[str, np.ndarray]:
    """Charges and spins of the frames, or of all together."""
    found: dict[str, np.ndarray] = {}
    for state, names in STATES.items():
        key = archive.first(prefix + name for name in names)
        if key is not None and archive.header(key).shape in ((), (1,), (n_frames,), (n_frames, 1)):
            values = archive[key]
            if values.dtype.kind in "fiu":
                found[state] = np.broadcast_to(values.astype(np.float64).ravel(), (n_frames,))
    return found


def _unused(archive: Archive, prefix: str, content: Content) -> list[str]:
    """Arrays of the frames that are neither structure nor label, without splits and stated units."""
    names = (*NUMBERS, *POSITIONS, *CELLS, *PERIODIC, *GROUPS, "natoms", "citation", "units")
    told = {prefix + name for name in names} | set(content.keys.values())
    told |= {name for names in STATED.values() for name in names}
    told |= {prefix + name for names in STATES.values() for name in names}
    return [key for key in archive.keys if key.startswith(prefix) and key not in told and not SPLIT_NAME.match(key)]


def _rows(archive: Archive, split: str, n_frames: int, known: tuple[str, ...]) -> np.ndarray:
    # the catalogue knows the splits of its files; in other files a split is recognised by its name
    names = known or tuple(key for key in archive.keys if SPLIT_NAME.match(key))
    if split not in (known or archive.keys):
        there = f"It has {', '.join(names)}." if names else "It has none."
        raise InputError(f"{archive.name} has no split {split!r}. {there}")
    return rows_of_split(archive[split], n_frames, f"{archive.name}, split {split}")


def _named_set(archive: Archive, split: str | None) -> str:
    """Prefix of the set to read, in a file with several sets: methanol_train_coords, dimers_coords …"""
    found = {key: name for key in archive.keys for name in POSITIONS if key.endswith(f"_{name}")}
    sets = [key.removesuffix(f"_{name}") for key, name in found.items()]
    if not sets:
        raise InputError(
            f"{archive.name} has no coordinates. Wanted a key {' or '.join(POSITIONS)}, got {', '.join(archive.keys)}."
        )
    if split not in sets:
        wrong = f"has no set {split!r}" if split else "holds several sets"
        raise InputError(f"{archive.name} {wrong}. Choose one, such as {archive.name}:{sets[0]}, of {', '.join(sets)}.")
    return f"{split}_"


def _numbers_key(archive: Archive, prefix: str, positions: np.ndarray) -> str:
    own = archive.first(prefix + name for name in NUMBERS)
    if own is None and prefix:
        # methanol_train_coords belongs to methanol_charges; or else to the only charges with this number of atoms
        shared = [key for key in archive.keys if any(key.endswith(f"_{name}") for name in NUMBERS)]
        named = [key for key in shared if prefix.startswith(key.rpartition("_")[0])]
        fitting = [key for key in shared if archive[key].shape[-1:] == positions.shape[1:2]]
        own = max(named, key=len) if named else fitting[0] if len(fitting) == 1 else None
    if own is None:
        raise InputError(
            f"{archive.name} has no atomic numbers for its coordinates. Wanted a key {' or '.join(NUMBERS)}, "
            f"got {', '.join(archive.keys)}."
        )
    return own


def _frames(archive: Archive, prefix: str) -> Content:
    """Content without labels."""
    key = archive.first(prefix + name for name in POSITIONS)
    assert key is not None  # the caller found it
    positions = _floats(archive, key)
    numbers_key = _numbers_key(archive, prefix, positions)
    numbers = archive[numbers_key]
    if numbers.dtype.kind not in "iu":
        if numbers.dtype.kind != "f" or not np.array_equal(numbers, np.round(numbers)):
            raise InputError(f"{archive.name}: wanted whole atomic numbers in {numbers_key}, got {numbers.dtype}.")
        numbers = numbers.astype(np.int64)
    if positions.ndim == 3 and positions.shape[2] == 3:
        n_frames, n_atoms = positions.shape[:2]
        if numbers.shape not in ((n_atoms,), (n_frames, n_atoms)):
            raise InputError(
                f"{archive.name}: {key} has the shape {positions.shape}, so {numbers_key} must have the shape "
                f"({n_atoms},) or ({n_frames}, {n_atoms}), got {numbers.shape}."
            )
        numbers = np.broadcast_to(numbers, (n_frames, n_atoms))
        real = _real_atoms(archive, numbers, numbers_key, positions)
        counts, numbers, positions = real.sum(1), numbers[real], positions[real]
    elif positions.ndim == 2 and positions.shape[1] == 3:
        counts = _counts(archive, len(positions))
        if not counts.sum() == len(numbers) == len(positions):
            raise InputError(
                f"{archive.name}: natoms add up to {counts.sum()}, but there are {len(numbers)} {numbers_key} "
                f"and {len(positions)} {key}."
            )
    else:
        raise InputError(
            f"{archive.name}: wanted {key} of shape (frames, atoms, 3) or (all atoms, 3), got {positions.shape}."
        )
    if len(counts) == 0:
        raise InputError(f"{archive.name} has no frames.")
    cells, periodic = _cells(archive, prefix, len(counts))
    return Content(
        numbers,
        positions,
        counts,
        cells,
        periodic,
        np.arange(len(counts)),
        groups=_groups(archive, prefix, len(counts)),
    )


def _groups(archive: Archive, prefix: str, n_frames: int) -> np.ndarray | None:
    """Name of the group of each frame; None if the file has none."""
    key = archive.first(prefix + name for name in GROUPS)
    if key is None or archive[key].shape != (n_frames,) or archive[key].dtype.kind not in "USiu":
        return None
    return archive[key].astype(str)


def _real_atoms(archive: Archive, numbers: np.ndarray, key: str, positions: np.ndarray) -> np.ndarray:
    """Mask of the atoms, (frames, atoms): smaller molecules are filled up with zeros at the end."""
    real: np.ndarray = numbers != 0
    if real.all():
        return real
    padded = np.minimum.accumulate(real, 1) == real  # zeros follow after the last atom only
    empty = real | ~np.nan_to_num(positions).any(2)
    bad = (~(padded & empty)).any(1)
    if bad.any():
        frame = int(bad.argmax())
        raise InputError(
            f"{archive.name}, frame {frame}: {key} has a 0, which is no atomic number (1 to 118). Zeros may only fill "
            "up the end of a row, with coordinates that are zero too."
        )
    return real


def _counts(archive: Archive, n_atoms: int) -> np.ndarray:
    """Numbers of atoms of the frames in flat arrays; without natoms, all atoms are one frame."""
    counts = archive["natoms"] if "natoms" in archive.keys else np.array([n_atoms])
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise InputError(f"{archive.name}: wanted a number of atoms per frame in natoms, got shape {counts.shape}.")
    return counts.astype(np.int64)  # natoms may be uint8, whose sum would overflow


def _cells(archive: Archive, prefix: str, n_frames: int) -> tuple[np.ndarray, np.ndarray]:
    cells, periodic = np.zeros((n_frames, 3, 3)), np.zeros((n_frames, 3), bool)
    key = archive.first(prefix + name for name in CELLS)
    if key is not None:
        if archive[key].shape not in ((3, 3), (n_frames, 3, 3)):
            raise InputError(f"{archive.name}: wanted {key} of shape ({n_frames}, 3, 3), got {archive[key].shape}.")
        cells = np.broadcast_to(_floats(archive, key), (n_frames, 3, 3))
        periodic = np.broadcast_to((cells != 0).any((1, 2))[:, None], (n_frames, 3))
    key = archive.first(prefix + name for name in PERIODIC)
    if key is not None:
        if archive[key].shape not in ((), (1,), (3,), (n_frames, 3)):
            raise InputError(f"{archive.name}: wanted {key} of shape ({n_frames}, 3), got {archive[key].shape}.")
        periodic = np.broadcast_to(archive[key].astype(bool), (n_frames, 3))
    return cells, periodic


def _with_labels(archive: Archive, prefix: str, content: Content, keys: LabelKeys) -> Content:
    used: dict[str, str] = {}
    n_frames, energies, forces, stress = len(content.counts), None, None, None
    forces_key = _key(archive, keys.forces, prefix, FORCES)
    if forces_key is not None:
        _warn_of_lost_digits(archive, forces_key)
        forces, used["forces"] = _forces(archive, forces_key, prefix, content), forces_key
    elif keys.forces is None:
        wanted = archive.header(next(prefix + name for name in POSITIONS if prefix + name in archive.keys)).shape
        refuse_ignored(archive.name, "forces", _candidates(archive, prefix, "forces", wanted))
    energy_key = _key(archive, keys.energy, prefix, ENERGIES)
    if energy_key is None and keys.energy is None:
        refuse_ignored(archive.name, "energies", _energy_candidates(archive, prefix, n_frames, forces is not None))
    if energy_key is not None:
        _warn_of_lost_digits(archive, energy_key)
        energies, used["energies"] = _floats(archive, energy_key), energy_key
        if energies.size != n_frames:
            raise InputError(f"{archive.name}: wanted {n_frames} {energy_key}, got the shape {energies.shape}.")
        energies = energies.reshape(n_frames)
    stress_key = _key(archive, keys.stress, prefix, (*STRESS, *VIRIAL))
    if stress_key is not None:
        stress, used["stress"] = as_stress(_floats(archive, stress_key), f"{archive.name}, {stress_key}"), stress_key
        if len(stress) != n_frames or stress.ndim != 3:
            raise InputError(f"{archive.name}: wanted {n_frames} {stress_key}, got the shape {stress.shape}.")
        if "virial" in stress_key.lower():
            stress = stress_from_virial(stress, content.cells)
    return replace(content, energies=energies, forces=forces, stress=stress, keys=used)


def _key(archive: Archive, asked: str | None, prefix: str, usual: Iterable[str]) -> str | None:
    if asked is None:
        return archive.first(prefix + name for name in usual)
    if asked and asked not in archive.keys:
        raise InputError(f"{archive.name} has no key {asked!r}. It has {', '.join(archive.keys)}.")
    return asked or None


def _column(archive: Archive, prefix: str, key: str, content: Content) -> np.ndarray:
    """Numbers under `key` of all frames, (frames, …)."""
    values = _floats(archive, prefix + key if prefix + key in archive.keys else str(_key(archive, key, prefix, ())))
    if values.ndim == 0 or len(values) != len(content.counts):
        raise InputError(f"{archive.name}: wanted {len(content.counts)} values of {key}, got the shape {values.shape}.")
    return values


def _candidates(archive: Archive, prefix: str, kind: str, *shapes: tuple[int, ...]) -> list[str]:
    """Keys that look like labels of this kind by name and by shape."""
    return [
        key
        for key in archive.keys
        if key.startswith(prefix)
        and looks_like(kind, key.removeprefix(prefix))
        and archive.header(key).shape in shapes
        and archive.header(key).dtype.kind == "f"
    ]


def _energy_candidates(archive: Archive, prefix: str, n_frames: int, has_forces: bool) -> list[str]:
    """Keys that look like energies; without forces, all keys with one number for each frame."""
    shapes = ((n_frames,), (n_frames, 1))
    if found := _candidates(archive, prefix, "energies", *shapes):
        return found
    headers = {key: archive.header(key) for key in archive.keys if key.startswith(prefix)}
    per_frame = [key for key, header in headers.items() if header.shape in shapes and header.dtype.kind == "f"]
    return [] if has_forces else per_frame


def _forces(archive: Archive, key: str, prefix: str, content: Content) -> np.ndarray:
    forces = _floats(archive, key)
    wanted = archive[next(prefix + name for name in POSITIONS if prefix + name in archive.keys)].shape
    if forces.shape != wanted:
        raise InputError(f"{archive.name}: wanted {key} of shape {wanted} like the coordinates, got {forces.shape}.")
    flat = forces.reshape(-1, 3)
    if len(flat) != len(content.numbers):  # padded
        numbers = archive[_numbers_key(archive, prefix, archive[key])]
        flat = flat[np.broadcast_to(numbers != 0, wanted[:2]).ravel()]
    return flat


def _warn_of_lost_digits(archive: Archive, key: str) -> None:
    """Warn of labels that were saved as whole numbers, or as floats with three digits."""
    dtype = archive.header(key).dtype
    if dtype.kind in "iu" or dtype.itemsize == 2:
        digits = "whole numbers" if dtype.kind in "iu" else "three digits"
        warnings.warn(
            f"{archive.name}: {key} is saved as {dtype}, with {digits} only. The rest is lost: save it as float64.",
            stacklevel=5,
        )


def _floats(archive: Archive, key: str) -> np.ndarray:
    values = archive[key]
    if values.dtype.kind not in "fiu":
        raise InputError(f"{archive.name}: wanted numbers in {key}, got {values.dtype}.")
    return values.astype(np.float64)
