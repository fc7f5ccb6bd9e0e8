"""Reading a data set, from a path, a split of a file, or a name of the catalogue."""

from __future__ import annotations

import difflib
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..atoms.dataset import Dataset, Source
from ..atoms.structures import Labels, Structures
from ..atoms.units import Units, energy_unit_named, force_unit_named, length_unit_named, stress_unit_named
from ..errors import InputError
from ..machine.files import sha256
from . import catalogue
from .content import Content, LabelKeys, Wanted, digest, past_column, structures_and_labels
from .doubts import DataWarning, look_at, states_that_vary
from .entries import Download
from .frames import content_of_atoms, read_frames
from .npz import read_npz
from .unit_hints import doubt_about_ev, doubt_about_lengths, likely_units, unit_hint, unusual_length

if TYPE_CHECKING:
    from ase import Atoms

SLICE = re.compile(r"(-?\d*)(:(-?\d*)(:(-?\d*))?)?")


@dataclass(frozen=True)
class Address:
    """Parts of PATH, PATH:SPLIT, PATH@SLICE or PATH:SPLIT@SLICE, where PATH may be a name of the catalogue."""

    target: str
    split: str | None = None
    slice_text: str = ""

    @property
    def index(self) -> slice | None:
        if not self.slice_text:
            return None
        if ":" not in self.slice_text:
            row = int(self.slice_text)
            return slice(row, row + 1 or None)
        start, stop, step = (*(int(part) if part else None for part in self.slice_text.split(":")), None, None)[:3]
        if step == 0:
            raise InputError(f"@{self.slice_text} has a step of 0. Give another step, such as @::10 for every tenth.")
        return slice(start, stop, step)


def address(source: str | os.PathLike[str]) -> Address:
    """Parts of a source. If a file or a folder has exactly this name, the whole text is its path."""
    text = os.fspath(source)
    try:
        Path(text).expanduser()
    except RuntimeError as error:
        raise InputError(f"{text}: there is no such user. Write the whole path.") from error
    if Path(text).expanduser().exists():
        return Address(text)
    slice_text = ""
    head, at, tail = text.rpartition("@")
    if at and head and tail and SLICE.fullmatch(tail):
        text, slice_text = head, tail
    if Path(text).expanduser().exists():
        return Address(text, slice_text=slice_text)
    head, colon, tail = text.rpartition(":")
    # C:\set.npz has no split, and the name of a split contains no slash
    if colon and tail and not re.search(r"[/\\]", tail) and len(head) > 1:
        return Address(head, tail, slice_text)
    return Address(text, slice_text=slice_text)


def load(
    source: str | os.PathLike[str],
    *,
    energy_unit: str | None = None,
    length_unit: str | None = None,
    force_unit: str | None = None,
    stress_unit: str | None = None,
    split: str | None = None,
    limit: int | None = None,
    energy_key: str | None = None,
    forces_key: str | None = None,
    stress_key: str | None = None,
    labels: Literal["optional", "required", "ignored"] = "optional",
    columns: Sequence[str] = (),
    baseline: str | None = None,
    data_folder: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Structures and labels in eV and Å, from one file or a public set (`datasets/several` reads several files)."""
    given = address(source)
    _refuse_contradictions(source, given, split, limit, columns)
    wanted = Wanted(
        split=split or given.split,
        index=given.index,
        limit=limit,
        keys=LabelKeys(energy_key, forces_key, stress_key),
        labels=labels != "ignored",
        columns=(*columns, *([baseline] if baseline else [])),
    )
    found = _find(given.target, data_folder)
    asked = {"energy": energy_unit, "length": length_unit, "force": force_unit, "stress": stress_unit}
    content, stated, default = _read(found, wanted)
    if not content.counts.all():
        raise InputError(f"{found.name}, frame {content.rows[content.counts.argmin()]} has no atoms. Remove it.")
    units, notes = _units(found.name, content, asked, stated, default, bool(baseline))
    structures, its_labels, more_notes = structures_and_labels(content, units, found.name)
    notes = (*notes, *more_notes, *look_at(content, structures, its_labels, found.name))
    its_labels, cheaper = past_column(its_labels, content, baseline, units.energy_in_ev, found.name)
    if labels == "required":
        _require_labels(structures, its_labels, content, found.name)
    draws = (*([f"@{given.slice_text}"] if given.slice_text else ()), *([f"limit {limit}"] if limit else ()))
    source_of_data = replace(
        _source(found, content, units, notes), split=wanted.split or "", draws=draws, baseline=baseline or ""
    )
    kept = {name: content.columns[name] for name in columns}
    return Dataset(structures, its_labels, source_of_data, content.rows, content.groups, columns=kept, baseline=cheaper)


def _refuse_contradictions(
    source: str | os.PathLike[str], given: Address, split: str | None, limit: int | None, columns: Sequence[str]
) -> None:
    """Raise an InputError for arguments of `load` that cannot be meant so."""
    if isinstance(columns, str):
        raise InputError(f"Wanted a list of columns, got the text {columns!r}. Write [{columns!r}].")
    if split is not None and given.split not in (None, split):
        raise InputError(
            f"{os.fspath(source)} names the split {given.split!r}, but split= names {split!r}. Give only one."
        )
    if limit is not None and limit < 1:
        raise InputError(f"Wanted a limit of at least one frame, got {limit}.")


def _source(found: Found, content: Content, units: Units, notes: Sequence[str]) -> Source:
    """Origin of the data of a file, as models keep it."""
    entry = found.entry
    return Source(
        name=entry.name if entry else found.name,
        path=str(found.path),
        sha256=found.sha256,
        units=units,
        n_structures=len(content.counts),
        citation=entry.citation if entry else content.citation,
        keys=content.keys,
        notes=(*found.notes, *content.notes, *notes),
        varies=states_that_vary(content.states),
    )


def from_ase(
    frames: Atoms | Iterable[Atoms],
    *,
    energy_key: str | None = None,
    forces_key: str | None = None,
    stress_key: str | None = None,
    columns: Sequence[str] = (),
    baseline: str | None = None,
    name: str = "ASE structures",
) -> Dataset:
    """Structures in memory, with labels in eV and Å from their calculators, `info` or `arrays`."""
    listed: list[Atoms] = [frames] if hasattr(frames, "get_positions") else list(frames)  # type: ignore[list-item]
    if not listed:
        raise InputError("Wanted at least one structure, got none.")
    for row, atoms in enumerate(listed):
        _refuse_stale(atoms, f"{name}, frame {row}")
    read = (*columns, *([baseline] if baseline else []))
    wanted = Wanted(keys=LabelKeys(energy_key, forces_key, stress_key), columns=read)
    content = content_of_atoms(list(enumerate(listed)), wanted, name)
    structures, labels, notes = structures_and_labels(content, catalogue.EV, name)
    notes = (*content.notes, *notes, *look_at(content, structures, labels, name))
    labels, cheaper = past_column(labels, content, baseline, 1.0, name)
    source = Source(
        name,
        "",
        digest(content),
        catalogue.EV,
        len(structures),
        keys=content.keys,
        notes=notes,
        varies=states_that_vary(content.states),
        baseline=baseline or "",
    )
    kept = {key: content.columns[key] for key in columns}
    return Dataset(structures, labels, source, content.rows, content.groups, columns=kept, baseline=cheaper)


def _refuse_stale(atoms: Atoms, where: str) -> None:
    """Raise an InputError for what is no structure, and for results of a calculator that belong to other positions."""
    if not hasattr(atoms, "get_positions"):
        raise InputError(f"{where}: wanted a structure of ASE (Atoms), got {type(atoms).__name__}.")
    results, at = getattr(atoms.calc, "results", None), getattr(atoms.calc, "atoms", None)
    if not results or at is None:
        return
    same = len(at) == len(atoms) and np.array_equal(at.numbers, atoms.numbers)
    if not (same and np.allclose(at.positions, atoms.positions, atol=1e-8) and np.allclose(at.cell, atoms.cell)):
        raise InputError(
            f"{where}: the results of its calculator belong to other positions. A calculator keeps the last results "
            "only: give each structure its own, such as ase.calculators.singlepoint.SinglePointCalculator."
        )


@dataclass(frozen=True)
class Found:
    """A file, an entry of the catalogue, or both."""

    name: str  # for errors
    path: Path
    sha256: str
    entry: catalogue.Entry | None
    notes: tuple[str, ...] = ()


def _find(target: str, data_folder: str | os.PathLike[str] | None) -> Found:
    path, entry = Path(target).expanduser(), None
    if not path.is_file():
        entry = catalogue.named(target)
        if entry is None:
            raise InputError(_missing(target, path))
        local = catalogue.local_file(entry, data_folder)
        if local is None:
            raise InputError(catalogue.not_found(entry, data_folder))
        path = local
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty. The program that wrote it may have failed.")
    checksum = sha256(path)
    entry = entry or catalogue.known_file(checksum)
    notes: tuple[str, ...] = ()
    if entry is not None and entry.download is not None and checksum != entry.sha256:
        entry, notes = _of_download(entry, entry.download)
    return Found(path.name, path, checksum, entry, notes)


def _of_download(entry: catalogue.Entry, download: Download) -> tuple[catalogue.Entry, tuple[str, ...]]:
    """The entry as it describes the download instead of the file, and a note about the difference."""
    entry = replace(entry, units=download.units, splits=(), energy_key="")
    return entry, ((f"from {download.url}: {download.note}",) if download.note else ())


def _read(found: Found, wanted: Wanted) -> tuple[Content, Mapping[str, str], Units | None]:
    """Content, the units stated by the file or the catalogue, and the usual units of the format (None: it has none)."""
    path, entry = found.path, found.entry
    if path.suffix.lower() != ".npz":
        content = read_frames(path, wanted)
        return content, content.stated, catalogue.EV
    if entry is None:
        content = read_npz(path, wanted)
        return content, content.stated, None
    if wanted.keys.energy is None and entry.energy_key:
        wanted = replace(wanted, keys=replace(wanted.keys, energy=entry.energy_key))
    return read_npz(path, wanted, entry.splits), {"energy": entry.units.energy, "length": entry.units.length}, None


def _missing(target: str, path: Path) -> str:
    if path.is_dir():
        return f"{path} is a folder. Give a file in it."
    near = catalogue.near_names(target)
    if path.parent.is_dir():
        here = [p.name for p in path.parent.iterdir() if p.is_file()]
        near = [str(path.parent / name) for name in difflib.get_close_matches(path.name, here, n=3)] + near
    hint = f" Did you mean {' or '.join(near)}?" if near else f" There is no folder {path.parent}."
    if not near and path.parent.is_dir():
        hint = " Give the path of a file, or a name of the catalogue, such as ethanol."
    return f"There is no file {path}, and the catalogue has no such name.{hint}"


def _units(
    name: str,
    content: Content,
    asked: Mapping[str, str | None],
    stated: Mapping[str, str],
    default: Units | None,
    has_energies: bool = False,
) -> tuple[Units, tuple[str, ...]]:
    """Units of the content, and notes about them; `has_energies`: it has energies even if it has no labels.

    They are stated by the file or the catalogue, given by the user, or usual for the format.
    """
    parse = {"energy": energy_unit_named, "length": length_unit_named}
    parse |= {"force": force_unit_named, "stress": stress_unit_named}
    wanted = {kind: parse[kind](text) for kind, text in asked.items() if text}
    known: dict[str, str] = {}
    for kind, text in stated.items():
        try:
            known[kind] = parse[kind](text)
        except InputError:
            if kind not in wanted:
                raise InputError(
                    f"{name} says that its {kind} unit is {text!r}, which is unknown. Add --{kind}-unit."
                ) from None
    for kind in wanted.keys() & known.keys():
        if wanted[kind] != known[kind]:
            raise InputError(
                f"Mixed units: --{kind}-unit says {wanted[kind]}, but {name} is known to be in {known[kind]}. "
                f"Leave out --{kind}-unit. (If you have converted the numbers, save them to a new file.)"
            )
    if "stress" in wanted and "virial" in content.keys.get("stress", "").lower():
        raise InputError(
            f"{name} has virials ({content.keys['stress']}), which are energies, and no stress. Leave out "
            "--stress-unit; --energy-unit says the unit of virials."
        )
    units = known | wanted
    if "energy" not in units and default is None and (content.labelled or has_energies):
        likely = likely_units(content)
        raise InputError(
            f"{name} does not say its units. Add {likely.options or '--energy-unit kcal/mol'} (or eV, Hartree, kJ/mol; "
            f"in Python energy_unit=), and --length-unit if lengths are not in Å.{unit_hint(likely)}"
        )
    notes: tuple[str, ...] = ()
    if "length" not in units and default is None:
        unusual = unusual_length(content)
        if unusual:
            raise InputError(f"{name} does not say its unit of length, and {unusual} Add --length-unit Bohr, nm or Å.")
        notes = ("the file does not state its unit of length: Å is assumed",)
    if default is not None and not units.keys() & {"energy", "length", "force"}:
        doubt = doubt_about_lengths(content) or doubt_about_ev(content)
        if doubt:
            warnings.warn(DataWarning(f"{name} {doubt}"), stacklevel=3)
    default = default or catalogue.EV
    energy, length = units.get("energy", default.energy), units.get("length", default.length)
    return Units(energy, length, units.get("force", ""), units.get("stress", "")), notes


def _require_labels(structures: Structures, labels: Labels, content: Content, name: str) -> None:
    labelled = np.zeros(len(structures), bool)
    if labels.energies is not None:
        labelled |= ~labels.energies.isnan().numpy()
    if labels.forces is not None:
        labelled[structures.structure_of_atom[~labels.forces.isnan().any(1)].numpy()] = True
    if labels.stress is not None:
        labelled |= ~labels.stress.isnan().any(2).any(1).numpy()
    if not labelled.any():
        raise InputError(
            f"{name} has no energies, forces or stress, which are needed here. If they have other names, give the "
            "names: --energy-key, --forces-key, --stress-key."
        )
    if not labelled.all():
        frame = content.rows[int((~labelled).argmax())]
        raise InputError(
            f"{name}: {int((~labelled).sum())} of {len(labelled)} frames have no energy, forces or stress. The first "
            f"of them is frame {frame}. Labels are needed here: remove these frames."
        )
