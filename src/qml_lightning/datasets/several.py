"""Reading several files as one data set: lists of names, patterns such as run*.xyz, and folders."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypedDict, Unpack

from ..atoms.dataset import Dataset, concatenate
from ..errors import InputError
from . import catalogue
from .readers import address
from .readers import load as load_one
from .xyz_sizes import OPENERS

# Endings of the files that a folder is searched for. Other files are read only if they are named.
ENDINGS = (".npz", ".extxyz", ".xyz", ".traj", ".db")
PATTERN = "*?["

Path_ = str | os.PathLike[str]


class ReadOptions(TypedDict, total=False):
    """Keywords of `load`."""

    energy_unit: str | None  # eV, kcal/mol, Hartree, kJ/mol …: for files that do not say it
    length_unit: str | None  # Å or Bohr
    force_unit: str | None  # if not energy over length
    stress_unit: str | None  # if not energy over volume: kbar, GPa; -kbar where compression is positive
    split: str | None  # stored split
    limit: int | None  # the first frames only
    energy_key: str | None  # name in the file; "" leaves the label out
    forces_key: str | None
    stress_key: str | None
    labels: Literal["optional", "required", "ignored"]
    columns: Sequence[str]  # keys of further numbers of each structure, read as they are
    baseline: str | None  # key of energies of a cheaper method, to be subtracted from the labels
    data_folder: Path_ | None  # where files of named data sets are


def load(source: Path_ | Sequence[Path_], **options: Unpack[ReadOptions]) -> Dataset:
    """Structures and labels in eV and Å, from one file or several, or from a public set.

    `source`: a path (.npz, or any file that ASE reads), a path with a stored split (`set.npz:train`) or a slice
    (`run.traj@0:100`), or a name of the catalogue (`ethanol`, `rmd17_aspirin:train_01`). A pattern (`run*.xyz`), a
    folder, or a list of all these gives one data set; split and slice then hold for each file.
    `energy_unit`, `length_unit`: units of a .npz file that neither states them nor is in the catalogue. Extended XYZ
    and ASE's formats are in eV and Å, unless units are given.
    `force_unit`, `stress_unit`: for files that mix units (kbar, GPa; -kbar where compression is positive).
    `energy_key`, `forces_key`, `stress_key`: names of the labels in the file; a label whose key is "" is not read.
    `limit`: number of frames to read from the beginning.
    `columns`: keys of further numbers of each structure, such as properties to learn.
    `baseline`: key of energies of a cheaper method, in the same unit. They are subtracted from the labels, so that the
    difference is learnt, and kept as `baseline` of the data set, to be added to predictions.
    """
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if not given:
        raise InputError("Wanted at least one file of structures, got an empty list.")
    files = [file for one in given for file in expanded(one)]
    if len(files) == 1:
        return load_one(files[0], **options)
    limit = options.get("limit")
    parts: list[Dataset] = []
    for file in files:
        left = None if limit is None else limit - sum(map(len, parts))
        if left == 0:
            break
        options["limit"] = left
        parts.append(load_one(file, **options))
    name = " + ".join(os.fspath(one) for one in given[:2]) + (f" + {len(given) - 2} more" if len(given) > 2 else "")
    whole = concatenate(parts, name)
    path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
    return replace(whole, source=replace(whole.source, path=path)) if len(parts) > 1 else whole


def expanded(source: Path_) -> list[str]:
    """Sources that a name stands for: itself, or the files of a folder or of a pattern, in the order of their names."""
    text = os.fspath(source)
    given = address(text)
    path = Path(given.target).expanduser()
    if path.is_file() or catalogue.named(given.target) is not None:
        return [text]
    if path.is_dir():
        found = sorted(str(one) for one in path.iterdir() if one.is_file() and _plain(one.name).endswith(ENDINGS))
        if not found:
            raise InputError(
                f"The folder {path} has no file that ends in {', '.join(ENDINGS)}. Files with other endings are read "
                f"by a pattern: '{path}/*.out'."
            )
    elif any(character in given.target for character in PATTERN):
        found = sorted(one for one in glob.glob(str(path), recursive=True) if Path(one).is_file())
        if not found:
            raise InputError(f"No file fits the pattern {given.target}. Look with: ls {given.target}")
    else:
        return [text]
    after = (f":{given.split}" if given.split else "") + (f"@{given.slice_text}" if given.slice_text else "")
    return [file + after for file in found]


def files_of(sources: Iterable[Path_]) -> list[Path]:
    """Files that these sources name. Those of public sets are not among them."""
    return [Path(address(file).target).expanduser() for one in sources for file in expanded(one)]


def _plain(name: str) -> str:
    """Name in small letters without the ending of a compressed file."""
    name = name.lower()
    return next((name.removesuffix(packed) for packed in OPENERS if name.endswith(packed)), name)
