"""Data sets that ASE can read: extended XYZ, trajectories, databases, output files of other programs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .content import STATED, STATES, Content, Wanted, as_stress, stress_from_virial
from .usage import looks_like, refuse_ignored, usage_note
from .xyz_sizes import check_xyz

if TYPE_CHECKING:
    from ase import Atoms

# Usual keys in order of preference, in capitals or small letters. Calculator results win over `info` and `arrays`.
ENERGY = ("energy", "free_energy", "ref_energy", "dft_energy", "total_energy")
FORCES = ("forces", "force", "ref_forces", "ref_force", "dft_forces", "dft_force")
STRESS = ("stress", "ref_stress", "dft_stress")
VIRIAL = ("virial", "virials", "ref_virial", "ref_virials", "dft_virial", "dft_virials")
GROUPS = ("config_type", "group")
STRUCTURE = {"numbers", "positions"}  # arrays that every structure of ASE has
# Results that calculators of ASE write beside the energy: parts of it, or the same number once more.
BESIDE = {"energies (calculator)", "free_energy (calculator)"}
Table = dict[str, tuple[str, Any]]  # key in small letters → key as written, value


def read_frames(path: Path, wanted: Wanted) -> Content:
    """Wanted frames of a file that ASE can read. The header of a frame says its split: `split=train`."""
    # without a split, ASE takes the slice: it need not parse the other frames
    bounds = (None, None, None) if wanted.index is None else (wanted.index.start, wanted.index.stop, wanted.index.step)
    lazy = wanted.split is None and not any(bound is not None and bound < 0 for bound in bounds)
    start, stop, step = bounds if lazy else (None, None, None)
    if {".xyz", ".extxyz"} & {suffix.lower() for suffix in path.suffixes[-2:]}:
        check_xyz(path, stop)
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
    except KeyboardInterrupt:
        raise
    except MemoryError as error:
        raise InputError(
            f"{path.name} asks for more memory than there is after {n} frames. It is damaged, or has frames that are "
            "too large for this machine."
        ) from error
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
    if not wanted.labels and not wanted.columns:
        return content
    tables = [_labels(atoms) for atoms in frames]
    content = replace(content, columns={key: _column(tables, key, rows, name) for key in wanted.columns})
    if not wanted.labels:
        return content
    keys, notes = _keys(tables, wanted, name)
    shapes: dict[str, list[tuple[int, ...]]] = {
        "energies": [()] * len(frames),
        "forces": [(n, 3) for n in counts],
        "stress": [(3, 3)] * len(frames),
    }
    used: dict[str, str] = {}
    labels: dict[str, np.ndarray] = {}
    for kind, key in keys.items():
        used[kind] = next(table[key][0] for table in tables if key in table)
        values = [
            _value(table.get(key), kind, shape, f"{name}, frame {row}")
            for table, shape, row in zip(tables, shapes[kind], rows, strict=True)
        ]
        labels[kind] = np.concatenate(values) if kind == "forces" else np.array(values)
        if kind == "stress" and "virial" in key:
            labels[kind] = stress_from_virial(labels[kind], cells)
    states = {state: found for state, names in STATES.items() if (found := _state(tables, names)) is not None}
    stated = {kind: unit for kind, names in STATED.items() if (unit := _stated(tables, names, name))}
    told = {
        *keys.values(),
        *map(str.lower, wanted.columns),
        *(n for names in (*STATES.values(), *STATED.values()) for n in names),
        _group_key(frames),
    } | STRUCTURE
    unused = {key: as_written for table in tables for key, (as_written, _) in table.items() if key not in told}
    notes += usage_note(used, set(unused.values()) - BESIDE)
    return replace(content, keys=used, states=states, stated=stated, notes=notes, **labels)  # type: ignore[arg-type]


def _groups(frames: Sequence[Atoms]) -> np.ndarray | None:
    """Name of the group of each frame, "" for none; None if no frame has one."""
    key = _group_key(frames)
    return None if key is None else np.array([str(atoms.info.get(key, "")) for atoms in frames])


def _group_key(frames: Sequence[Atoms]) -> str | None:
    return next((key for key in GROUPS if any(key in atoms.info for atoms in frames)), None)


def _keys(tables: Sequence[Table], wanted: Wanted, name: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Key of each kind of label that is read, and notes about the choice."""
    keys: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    for kind, asked, usual in (
        ("energies", wanted.keys.energy, ENERGY),
        ("forces", wanted.keys.forces, FORCES),
        ("stress", wanted.keys.stress, (*STRESS, *VIRIAL)),
    ):
        key = _key(tables, asked, usual, name)
        if key is not None:
            keys[kind] = key
        elif asked is None and kind != "stress":
            refuse_ignored(name, kind, _candidates(tables, kind))
    if wanted.keys.energy is None and keys.get("energies") == "energy":
        apart = _smearing(tables)
        if apart > 0:
            keys["energies"] = "free_energy"
            notes = (
                f"free_energy is read, to which the forces belong; energy (without smearing) differs by up to "
                f"{apart:.3g}, --energy-key energy reads it",
            )
    return keys, notes


def _candidates(tables: Sequence[Table], kind: str) -> set[str]:
    """Keys that look like labels of this kind by name and by shape."""
    found = set()
    for table in tables:
        shape = () if kind == "energies" else np.shape(table["positions"][1])
        for key, (as_written, value) in table.items():
            if key in STRUCTURE or isinstance(value, (str, bool)) or not looks_like(kind, key):
                continue
            if np.shape(value) == shape and np.asarray(value).dtype.kind in "fiu":
                found.add(as_written.removesuffix(" (calculator)"))
    return found


def _smearing(tables: Sequence[Table]) -> float:
    """Largest difference between energy and free_energy; 0 unless calculators give both for the same frames."""
    apart = 0.0
    for table in tables:
        both = [table.get(key, ("", None)) for key in ("energy", "free_energy")]
        if (both[0][1] is None) != (both[1][1] is None):
            return 0.0
        if both[0][1] is None:
            continue
        if not all(as_written.endswith(" (calculator)") for as_written, _ in both):
            return 0.0
        try:
            apart = max(apart, abs(float(both[0][1]) - float(both[1][1])))
        except (TypeError, ValueError):
            return 0.0  # no numbers: reading the energies will say so
    return apart


def _state(tables: Sequence[Table], names: tuple[str, ...]) -> np.ndarray | None:
    """Charge or spin of each frame, NaN where it is not stated; None if no frame states it."""
    found = [next((table[key][1] for key in names if key in table), np.nan) for table in tables]
    try:
        values = np.array([np.nan if np.size(v) != 1 else float(v) for v in found])
    except (TypeError, ValueError):
        return None  # text
    return None if np.isnan(values).all() else values


def _stated(tables: Sequence[Table], names: tuple[str, ...], name: str) -> str:
    """Unit that the frames state under one of these keys; empty if they state none."""
    found = {str(table[key][1]) for table in tables for key in names if key in table}
    if len(found) > 1:
        raise InputError(f"Frames of {name} state different units as {names[0]}: {', '.join(sorted(found))}.")
    return found.pop() if found else ""


def _labels(atoms: Atoms) -> Table:
    """All that a frame holds by name. Calculator results win over info and arrays."""
    table: Table = {}
    results = getattr(atoms.calc, "results", None) or {}
    for values, suffix in ((atoms.arrays, ""), (atoms.info, ""), (results, " (calculator)")):
        for key, value in values.items():
            small = str(key).lower()
            if suffix and small in table and not np.array_equal(table[small][1], value):
                table[f"{small} (file)"] = (f"{key} (file)", table[small][1])  # another value under the same name
            table[small] = (f"{key}{suffix}", value)
    return {key: pair for key, pair in table.items() if pair[1] is not None}


def _key(tables: Sequence[Table], asked: str | None, usual: tuple[str, ...], name: str) -> str | None:
    # one key for the whole file: energy and free_energy may have different zeros
    there = set().union(*tables)
    if asked is None:
        return next((key for key in usual if key in there), None)
    if asked and asked.lower() not in there:
        raise InputError(f"No frame of {name} has the key {asked!r}. Its keys are {', '.join(sorted(there))}.")
    return asked.lower() or None


def _column(tables: Sequence[Table], key: str, rows: np.ndarray, name: str) -> np.ndarray:
    """Numbers under `key` of all frames, (frames, …); an InputError if a frame has none or another shape."""
    small = _key(tables, key, (), name)
    found = [table.get(str(small)) for table in tables]
    if (missing := next((row for row, one in zip(rows, found, strict=True) if one is None), None)) is not None:
        raise InputError(f"{name}, frame {missing} has no {key}, which other frames have. Remove the frame.")
    try:
        return np.array([value for _, value in found if value is not None], np.float64)  # type: ignore[misc]
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: wanted numbers of one shape in {key} of all frames ({error}).") from error


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
