"""Figures as files: the formats, and how one is written."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..machine.files import write_atomically
from .summary import STYLE, check_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")


def check_figure(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path, if the figure can be written there; found out before the work."""
    return check_report(path, overwrite=overwrite, what="A figure", suffixes=SUFFIXES)


def write_figure(path: str | os.PathLike[str], draw: Callable[[], Figure], *, overwrite: bool = False) -> None:
    """Write what `draw` draws as .png, .pdf or .svg."""
    path = check_figure(path, overwrite=overwrite)

    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        draw().savefig(buffer, format=path.suffix[1:].lower())
    write_atomically(path, buffer.getvalue(), overwrite=overwrite)
