"""`qml-lightning datasets`: the catalogue of public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ..errors import InputError
from .options import Debug, Json
from .screen import progress, show, show_json, table, teaching

if TYPE_CHECKING:
    from ..datasets.catalogue import Entry

HELP = teaching(
    """List the public data sets that can be used by name, or download one.

The set `ethanol` is part of the package. The others are read from the folder in $QML_LIGHTNING_DATA, or downloaded with
--download into $QML_LIGHTNING_CACHE (~/.cache/qml-lightning). The checksum of a download is compared with the catalogue
before it is used, and with itself each time after that.

[bold]Examples[/bold]

  qml-lightning datasets
  qml-lightning datasets --folder /data/reference
  qml-lightning datasets --download C-GAP-17
  qml-lightning train rmd17_aspirin:train_01 --model aspirin.safetensors
"""
)


def command(
    folder: Annotated[
        Path | None, Option(help="Folder with data files, searched before $QML_LIGHTNING_DATA.", metavar="FOLDER")
    ] = None,
    download: Annotated[str | None, Option(help="Download this set, if it is not there yet.", metavar="NAME")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    from ..datasets import catalogue

    if download is not None:
        with progress(shown=not as_json) as tell:
            path = catalogue.download(download, tell=lambda done, of: tell("downloading", done, max(of, 2)))
        if as_json:
            show_json({"name": download, "path": str(path)})
        else:
            show(f"{download} is in {path}.")
        return
    rows = [_row(entry, *_where(entry, folder)) for entry in catalogue.ENTRIES]
    if as_json:
        show_json({"datasets": rows})
        return
    show(
        table(
            "Data sets",
            ("name", "structures", "splits", "level of theory", "where"),
            [(row["name"], f"{row['structures']:,}" if row["structures"] else "", _short(row["splits"]),
              row["theory"], row["where"]) for row in rows],
            right=(1,),
        )
    )  # fmt: skip


def _row(entry: Entry, where: str, path: str | None) -> dict[str, Any]:
    return {
        "name": entry.name,
        "structures": entry.n_structures,
        "splits": list(entry.splits),
        "theory": entry.theory,
        "licence": entry.licence,
        "citation": entry.citation,
        "where": where,
        "path": path,
    }


def _where(entry: Entry, folder: Path | None) -> tuple[str, str | None]:
    """Place of a data set in words (built in, found, download, not found), and the path of its file or None."""
    from ..datasets import catalogue
    from ..datasets.entries import EMBEDDED

    try:
        path = catalogue.locate(entry.name, data_folder=folder)
    except InputError:
        return ("download" if entry.download else "not found"), None
    return ("built in" if entry is EMBEDDED else "found"), str(path)


def _short(splits: list[str]) -> str:
    return ", ".join(splits) if len(splits) < 3 else f"{splits[0]}, {splits[1]} … ({len(splits)})"
