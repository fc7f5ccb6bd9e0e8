"""Data sets that the load-atoms library downloads."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..atoms.units import ENERGY_IN_EV
from ..errors import InputError
from .content import Content, Wanted
from .entries import Entry
from .frames import content_of_atoms, frames_of_split
from .unit_hints import total_energy_ratio

INSTALL = 'pip install "qml-lightning[datasets]"'


def content_from_load_atoms(entry: Entry, wanted: Wanted, not_found: str) -> Content:
    """Content of a set of load-atoms, in eV and Å. The library downloads it once and keeps it in ~/.load-atoms.

    `not_found`: message about the search for a local file, which begins every error.
    """
    if wanted.split in entry.splits:
        raise InputError(f"{not_found} load-atoms has this set, but does not have the split {wanted.split!r}.")
    numbered: Iterable[tuple[int, Any]] = enumerate(_structures(entry, not_found))
    if entry.load_atoms_name:
        numbered = ((row, atoms) for row, atoms in numbered if atoms.info.get("name") == entry.load_atoms_name)
    if wanted.split is not None:
        numbered = frames_of_split(list(numbered), wanted.split, f"{entry.load_atoms} of load-atoms")
    if wanted.index is not None:
        numbered = list(numbered)[wanted.index]
    frames = list(itertools.islice(numbered, wanted.limit))
    if not frames:
        raise InputError(f"load-atoms has no frames of {entry.name} in this split or slice.")
    if wanted.keys.energy is None and entry.load_atoms_energy_key:
        wanted = replace(wanted, keys=replace(wanted.keys, energy=entry.load_atoms_energy_key))
    content = content_of_atoms(frames, wanted, entry.name)
    if entry.load_atoms_note:
        content = replace(content, notes=(f"from load-atoms: {entry.load_atoms_note}",))
    return _undo_inverse_unit(content) if entry.load_atoms == "rMD17" else content


def _structures(entry: Entry, not_found: str) -> Any:
    try:
        import load_atoms
    except ImportError as error:
        raise InputError(f"{not_found} Or install load-atoms, which downloads it: {INSTALL}") from error
    try:
        with _silent(), warnings.catch_warnings():
            warnings.filterwarnings("error", message="Checksum mismatch")
            warnings.filterwarnings("ignore", message="Creating a dataset with a single structure")
            return load_atoms.load_dataset(entry.load_atoms)
    except Exception as error:  # no network, a full disk, a changed format: load-atoms may raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{not_found} load-atoms could not load {entry.load_atoms} ({reason}). It needs the network the first time."
        ) from error


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Silence load-atoms, which prints panels on standard output, unless the user has set its own variable."""
    name = "LOAD_ATOMS_VERBOSE"
    if name in os.environ:
        yield
        return
    os.environ[name] = "0"
    try:
        yield
    finally:
        del os.environ[name]


def _undo_inverse_unit(content: Content) -> Content:
    """rMD17 in eV. load-atoms 0.3.10 divides by kcal/mol where it should multiply: its values are 532 times too large.

    The size of the energies shows whether this version was used: rMD17 has total energies of all electrons.
    """
    if content.energies is None:
        return content
    kcal = ENERGY_IN_EV["kcal/mol"]
    ratio = total_energy_ratio(content)
    if 0.8 < ratio < 1.25:
        return content
    if not 0.8 < ratio * kcal**2 < 1.25:
        raise InputError(
            f"rMD17 of load-atoms is in unknown units: its energies are {ratio:.3g} times the total energies of these "
            "atoms in eV. Use the original files instead, in the folder of QML_LIGHTNING_DATA."
        )
    return replace(
        content,
        energies=content.energies * kcal**2,
        forces=None if content.forces is None else content.forces * kcal**2,
        notes=(*content.notes, "corrected an error of load-atoms, which divides by kcal/mol where it should multiply"),
    )


def digest(content: Content) -> str:
    """SHA-256 of the arrays, because load-atoms has no file whose bytes are always the same."""
    total = hashlib.sha256()
    for values in (content.numbers, content.positions, content.counts, content.energies, content.forces):
        if values is not None:
            total.update(np.ascontiguousarray(values).tobytes())
    return total.hexdigest()
