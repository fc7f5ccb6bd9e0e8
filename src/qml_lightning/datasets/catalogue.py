"""The catalogue of public data sets: entries by name, and the places of their files."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ..errors import InputError
from ..machine.files import sha256
from .downloads import cache_folder, cached, fetch
from .entries import EMBEDDED, ENTRIES, EV, Entry

__all__ = [
    "ENTRIES",
    "EV",
    "FOLDER_VARIABLE",
    "Entry",
    "download",
    "known_file",
    "local_file",
    "locate",
    "named",
    "near_names",
    "not_found",
]

FOLDER_VARIABLE = "QML_LIGHTNING_DATA"

_BY_NAME = {entry.name.lower(): entry for entry in ENTRIES}
_BY_SHA256 = {entry.sha256: entry for entry in ENTRIES if entry.sha256}


def named(name: str) -> Entry | None:
    """Entry with this name, in capitals or small letters; None if there is none."""
    return _BY_NAME.get(name.lower())


def known_file(checksum: str) -> Entry | None:
    """Entry whose file has this SHA-256, whatever the name and place of the file; None if there is none."""
    return _BY_SHA256.get(checksum)


def near_names(name: str) -> list[str]:
    """Up to three names of the catalogue that are similar to this one."""
    names = list(_BY_NAME)
    near = difflib.get_close_matches(name.lower(), names, n=3)
    return [_BY_NAME[n].name for n in near or [n for n in names if name.lower() in n][:3]]


def locate(name: str, *, data_folder: str | os.PathLike[str] | None = None) -> Path:
    """Path of the file of a data set, with a checked checksum. Raise an InputError if there is no such file.

    The embedded set is in the package. The files of the others are searched in `data_folder`, then in the folders of
    the environment variable QML_LIGHTNING_DATA, up to two levels deep, then among the downloads.
    """
    entry = named(name)
    if entry is None:
        near = near_names(name)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise InputError(f"The catalogue has no data set {name!r}.{hint}")
    path = local_file(entry, data_folder)
    if path is None:
        raise InputError(not_found(entry, data_folder))
    return path


def local_file(entry: Entry, data_folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Path of the file of an entry; None if it is not found.

    Raise an InputError if a file has the right name, but another checksum.
    """
    if entry is EMBEDDED:
        return Path(__file__).parent / "data" / entry.file
    found = list(_candidates(entry, _folders(data_folder)))
    for path in found:
        if sha256(path) == entry.sha256:
            return path
    if found:
        raise InputError(
            f"{found[0]} is not the file of {entry.name} in the catalogue: its SHA-256 is "
            f"{sha256(found[0])[:12]}…, wanted {entry.sha256[:12]}…. It may be damaged, or another version. "
            "If you trust it, give its path instead of the name, and its --energy-unit."
        )
    return None if entry.download is None else cached(entry.download)


def download(name: str, *, tell: Callable[[int, int], None] = lambda done, of: None) -> Path:
    """Path of the file of a public set, downloaded if it is not there. `tell`: bytes so far, and of all."""
    entry = named(name)
    if entry is None or entry.download is None:
        can = ", ".join(one.name for one in ENTRIES if one.download is not None)
        raise InputError(f"There is no download of {name!r}. There is one of {can}.")
    return fetch(entry.download, tell)


def not_found(entry: Entry, data_folder: str | os.PathLike[str] | None = None) -> str:
    """Message for a file that was not found: the folders that were searched, and the remedy."""
    looked = ", ".join(map(str, _folders(data_folder))) or f"no folder, because {FOLDER_VARIABLE} is not set"
    remedy = [f"Set {FOLDER_VARIABLE} to the folder that holds it."] if entry.file else []
    if entry.download is not None:
        looked += f", and among the downloads in {cache_folder()}"
        note = f" ({entry.download.note})" if entry.download.note else ""
        remedy.append(f"Download it{note}: qml-lightning datasets --download {entry.name}")
    file = entry.file or (entry.download.member or entry.download.name if entry.download else "")
    return f"{Path(file).name} ({entry.name}) was not found. Looked in {looked}. {' '.join(remedy)}"


def _folders(given: str | os.PathLike[str] | None) -> list[Path]:
    texts = [] if given is None else [os.fspath(given)]
    texts += [text for text in os.environ.get(FOLDER_VARIABLE, "").split(os.pathsep) if text]
    return [Path(text).expanduser() for text in texts]


def _candidates(entry: Entry, folders: Iterable[Path]) -> Iterable[Path]:
    if not entry.file:
        return
    seen: set[Path] = set()
    for folder in folders:
        file = Path(entry.file).name
        for path in (folder / entry.file, folder / file, *folder.glob(f"*/{file}"), *folder.glob(f"*/*/{file}")):
            if path.is_file() and path.resolve() not in seen:
                seen.add(path.resolve())
                yield path
