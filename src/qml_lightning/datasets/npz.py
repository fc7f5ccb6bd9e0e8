"""Data sets in .npz files: one molecule (MD17, rMD17), flat arrays of many molecules, or several named sets."""

from __future__ import annotations

import contextlib
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import InputError
from .content import Content, LabelKeys, Wanted, as_stress, refuse_nan, rows_of_split, stress_from_virial

NUMBERS = ("nuclear_charges", "atomic_numbers", "numbers", "z", "Z", "charges")  # charges last: they may be partial
POSITIONS = ("coords", "R", "positions", "coordinates")
ENERGIES = ("energies", "E", "energy")
FORCES = ("forces", "F")
STRESS = ("stress", "stresses")
VIRIAL = ("virial", "virials")
CELLS = ("cell", "cells", "lattice")
PERIODIC = ("pbc", "periodic")
GROUPS = ("group", "groups", "config_type")
STATED = {
    "energy": ("energy_unit", "energy_units", "e_unit"),
    "length": ("length_unit", "length_units", "r_unit"),
    "force": ("force_unit", "force_units", "f_unit"),
}
SPLIT_NAME = re.compile(r"(train|test|val|calib|hold|split|fold|idx_|index_)", re.IGNORECASE)


class Archive:
    """Arrays of a .npz file. Each is read once, and never unpickled. Errors say what is wrong with the file."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        with self._explained():
            opened = np.load(path, allow_pickle=False)
            if not isinstance(opened, np.lib.npyio.NpzFile):
                raise InputError(f"{self.name} holds one array without a name. Save the data set with numpy.savez.")
            self._file = opened
        self.keys = tuple(self._file.files)
        self._read: dict[str, np.ndarray] = {}

    def __getitem__(self, key: str) -> np.ndarray:
        if key not in self._read:
            with self._explained(key):
                self._read[key] = self._file[key]
        return self._read[key]

    def first(self, names: Iterable[str]) -> str | None:
        """First of these keys that the file has; None if it has none."""
        return next((name for name in names if name in self.keys), None)

    def text(self, names: Iterable[str]) -> str:
        """String under the first of these keys that the file has; empty if there is none."""
        key = self.first(names)
        if key is None or self[key].size != 1 or self[key].dtype.kind not in "US":
            return ""
        value = self[key].item()
        return value.decode() if isinstance(value, bytes) else str(value)

    def close(self) -> None:
        self._file.close()

    @contextlib.contextmanager
    def _explained(self, key: str = "") -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise InputError(f"{self.name} is incomplete or not a .npz file ({error}). Copy it again.") from error
        except ValueError as error:
            if "pickle" not in str(error).lower():
                raise InputError(f"{self.name} cannot be read ({error}). Copy it again.") from error
            what = f"The array {key!r} of {self.name} is pickled" if key else f"{self.name} is a pickle"
            raise InputError(f"{what}. Pickles could run code and are not read. Save plain arrays instead.") from error


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
        real = numbers != 0  # smaller molecules are filled up with zeros
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
        forces, used["forces"] = _forces(archive, forces_key, prefix, content), forces_key
    energy_key = _key(archive, keys.energy, prefix, ENERGIES)
    if energy_key is None and keys.energy is None:
        _ask_for_energy(archive, prefix, n_frames, has_forces=forces is not None)
    if energy_key is not None:
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


def _ask_for_energy(archive: Archive, prefix: str, n_frames: int, has_forces: bool) -> None:
    """Raise an InputError if some array may be the energy, but none has its usual name."""
    per_frame = [
        key
        for key in archive.keys
        if key.startswith(prefix) and archive[key].shape == (n_frames,) and archive[key].dtype.kind == "f"
    ]
    # with forces there is something to learn from: then ask only if the name of an array contains "energ"
    candidates = [key for key in per_frame if "energ" in key.lower()] if has_forces else per_frame
    if candidates:
        raise InputError(
            f"{archive.name} does not say which array is the energy. Add --energy-key with one of "
            f"{', '.join(candidates)} (energy_key= in Python)."
        )


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


def _floats(archive: Archive, key: str) -> np.ndarray:
    values = archive[key]
    if values.dtype.kind not in "fiu":
        raise InputError(f"{archive.name}: wanted numbers in {key}, got {values.dtype}.")
    return values.astype(np.float64)
