"""Data sets that ASE can read: extended XYZ, trajectories, databases, output files of other programs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .content import Content, Wanted, as_stress, stress_from_virial

if TYPE_CHECKING:
    from ase import Atoms

# Usual keys in order of preference, in capitals or small letters. Calculator results win over `info` and `arrays`.
ENERGY = ("energy", "free_energy", "ref_energy", "dft_energy", "total_energy")
FORCES = ("forces", "force", "ref_forces", "ref_force", "dft_forces", "dft_force")
STRESS = ("stress", "ref_stress", "dft_stress")
VIRIAL = ("virial", "virials", "ref_virial", "ref_virials", "dft_virial", "dft_virials")
GROUPS = ("config_type", "group")


def read_frames(path: Path, wanted: Wanted) -> Content:
    """Wanted frames of a file that ASE can read. The header of a frame says its split: `split=train`."""
    # without a split, ASE takes the slice: it need not parse the other frames
    bounds = (None, None, None) if wanted.index is None else (wanted.index.start, wanted.index.stop, wanted.index.step)
    lazy = wanted.split is None and not any(bound is not None and bound < 0 for bound in bounds)
    start, stop, step = bounds if lazy else (None, None, None)
    frames = itertools.islice(_iterate(path, slice(start, stop, step)), wanted.limit if lazy else None)
    numbered = list(zip(itertools.count(start or 0, step or 1), frames, strict=False))
    if wanted.split is not None:
        numbered = frames_of_split(numbered, wanted.split, path.name)
    if not lazy:
        numbered = numbered[wanted.index or slice(None)][: wanted.limit]
    if not numbered:
        raise InputError(f"{path.name} has no frames{'' if wanted.index is None else ' in this slice'}.")
    return content_of_atoms(numbered, wanted, path.name)


def _iterate(path: Path, index: slice) -> Iterable[Atoms]:
    import ase.io

    n = 0
    try:
        # the slice was split off before: an @ in the path belongs to the name of the file
        for atoms in ase.io.iread(path, index, do_not_split_by_at_sign=True):
            n += 1
            yield atoms
    except (KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:  # for a bad file, ASE's readers may raise almost anything
        where = f" after {n} frames" if n else ""
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(
            f"{path.name} cannot be read{where} ({reason}). It may be incomplete, or in a format unknown to ASE."
        ) from error


def frames_of_split(numbered: list[tuple[int, Atoms]], split: str, name: str) -> list[tuple[int, Atoms]]:
    """Frames whose header says that they belong to this split."""
    found = [str(atoms.info.get("split", "")) for _, atoms in numbered]
    if split not in found or not split:
        there = sorted(set(found) - {""})
        says = f"It has {', '.join(there)}." if there else "No frame has split=… in its header."
        raise InputError(f"{name} has no split {split!r}. {says}")
    return [frame for frame, its in zip(numbered, found, strict=True) if its == split]


def content_of_atoms(numbered: Sequence[tuple[int, Atoms]], wanted: Wanted, name: str) -> Content:
    """Content of ASE structures, each given with its number in the file."""
    frames = [atoms for _, atoms in numbered]
    rows = np.array([row for row, _ in numbered])
    counts = np.array([len(atoms) for atoms in frames])
    cells = np.array([atoms.cell.array for atoms in frames])
    content = Content(
        numbers=np.concatenate([atoms.numbers for atoms in frames]),
        positions=np.concatenate([atoms.positions for atoms in frames]),
        counts=counts,
        cells=cells,
        periodic=np.array([atoms.pbc for atoms in frames]),
        rows=rows,
        groups=_groups(frames),
    )
    if not wanted.labels:
        return content
    tables = [_labels(atoms) for atoms in frames]
    used: dict[str, str] = {}
    labels: dict[str, np.ndarray] = {}
    for kind, asked, usual, shapes in (
        ("energies", wanted.keys.energy, ENERGY, [() for _ in frames]),
        ("forces", wanted.keys.forces, FORCES, [(n, 3) for n in counts]),
        ("stress", wanted.keys.stress, (*STRESS, *VIRIAL), [(3, 3) for _ in frames]),
    ):
        key = _key(tables, asked, usual, name)
        if key is None:
            continue
        used[kind] = next(table[key][0] for table in tables if key in table)
        values = [
            _value(table.get(key), kind, shape, f"{name}, frame {row}")
            for table, shape, row in zip(tables, shapes, rows, strict=True)
        ]
        labels[kind] = np.concatenate(values) if kind == "forces" else np.array(values)
        if kind == "stress" and "virial" in key:
            labels[kind] = stress_from_virial(labels[kind], cells)
    return replace(content, keys=used, **labels)  # type: ignore[arg-type]


def _groups(frames: Sequence[Atoms]) -> np.ndarray | None:
    """Name of the group of each frame, "" for none; None if no frame has one."""
    key = next((key for key in GROUPS if any(key in atoms.info for atoms in frames)), None)
    return None if key is None else np.array([str(atoms.info.get(key, "")) for atoms in frames])


def _labels(atoms: Atoms) -> dict[str, tuple[str, object]]:
    """Labels of a frame: key in small letters → key as written, value. Calculator results win over info and arrays."""
    table: dict[str, tuple[str, object]] = {}
    results = getattr(atoms.calc, "results", None) or {}
    for values, suffix in ((atoms.arrays, ""), (atoms.info, ""), (results, " (calculator)")):
        for key, value in values.items():
            table[str(key).lower()] = (f"{key}{suffix}", value)
    return {key: pair for key, pair in table.items() if pair[1] is not None}


def _key(
    tables: Sequence[dict[str, tuple[str, object]]], asked: str | None, usual: tuple[str, ...], name: str
) -> str | None:
    # one key for the whole file: energy and free_energy may have different zeros
    there = set().union(*tables)
    if asked is None:
        return next((key for key in usual if key in there), None)
    if asked and asked.lower() not in there:
        raise InputError(f"No frame of {name} has the key {asked!r}. Its keys are {', '.join(sorted(there))}.")
    return asked.lower() or None


def _value(found: tuple[str, object] | None, kind: str, shape: tuple[int, ...], where: str) -> np.ndarray:
    """Label as an array of this shape; NaN if the frame does not have it."""
    if found is None:
        return np.full(shape, np.nan)
    key, raw = found
    try:
        value = np.asarray(raw, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: wanted numbers in {key}, got {raw!r:.60}.") from error
    if kind == "energies" and value.size == 1:
        value = value.reshape(())
    if kind == "stress":
        value = as_stress(value, f"{where}, {key}")
    if value.shape != shape:
        raise InputError(f"{where}: wanted {key} of shape {shape}, got {value.shape}.")
    if np.isnan(value).any():
        raise InputError(f"{where} has NaN among its {kind} (key {key}). Remove the frame or the label.")
    return value
