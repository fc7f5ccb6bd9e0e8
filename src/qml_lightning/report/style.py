"""The look that all figures share, and the files they are written to."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..machine.files import check_output, write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")
GREY = "#555555"
# Colours of successive lines, after Okabe and Ito: also people who see no red or no green tell them apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07c00", "#56b4e9")
DPI = 200
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # TrueType: journals refuse fonts of type 3
}


def check_figure(
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    name: str = "A figure",
    formats: Sequence[str] = FORMATS,
) -> Path:
    """The path, or an InputError if the figure cannot be written there. Called before the work begins.

    `name` begins the sentence of the error.
    """
    if Path(path).suffix.lower() not in formats:
        raise InputError(f"{name} is written as {' or '.join(formats)}, got {path}.")
    try:
        import matplotlib  # noqa: F401
    except ImportError as problem:
        raise InputError(
            f'{name} needs matplotlib, which is not installed. Install it: pip install "qml-lightning[plot]"'
        ) from problem
    return check_output(path, overwrite)


def write_figure(path: str | os.PathLike[str], draw: Callable[[], Figure], *, overwrite: bool = False) -> None:
    """Write the figure that `draw` returns as .png, .pdf or .svg."""
    path = check_figure(path, overwrite=overwrite)
    write_atomically(path, image(draw(), path.suffix[1:].lower()), overwrite=overwrite)


def image(figure: Figure, format: str, dpi: int = DPI) -> bytes:
    """The bytes of an image file."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format=format, dpi=dpi)
    return buffer.getvalue()


def document(figures: Sequence[Figure]) -> bytes:
    """The bytes of a PDF with a page for each figure."""
    import matplotlib as mpl
    from matplotlib.backends.backend_pdf import PdfPages

    buffer = io.BytesIO()
    with mpl.rc_context(STYLE), PdfPages(buffer) as made:
        for figure in figures:
            made.savefig(figure)
    return buffer.getvalue()


def headline(figure: Figure, text: str) -> None:
    """Title of a figure with several panels, on the left."""
    figure.suptitle(text, fontsize=9, x=0.01, ha="left", fontweight="bold")


def ticks_at(axes: Axes, places: Sequence[float], label: Callable[[float], str], steps: Sequence[float]) -> None:
    """Labels at `places` on the horizontal axis; on the vertical one, which is logarithmic, `steps` in each decade."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(list(places)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: label(value)))
    axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=30))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.grid(True, which="major", color=GREY, alpha=0.15, linewidth=0.6)
