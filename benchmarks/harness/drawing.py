"""The look of every picture: sizes, fonts, colours and marks in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from .internals import atomic

ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0  # inches, of a journal's page
# Okabe and Ito: told apart by people who do not see all colours, and in print
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#7F7F7F",
)  # fmt: skip
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
MARKS = ("o", "s", "^", "D", "v", "P")
STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 7.5,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.which": "major",
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": "#DDDDDD",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.minor.width": 0.5,
    "ytick.minor.width": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "errorbar.capsize": 2,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "figure.dpi": 100,
    "savefig.dpi": 220,
    "svg.hashsalt": "qml-lightning",
    "pdf.fonttype": 42,
}


def panels(
    n: int = 1, *, height: float = 2.7, width: float | None = None, columns: int | None = None, **options: Any
) -> tuple[Figure, list[Any]]:
    """A figure with `n` panels beside each other, lettered if there are several."""
    columns = columns or n
    rows = -(-n // columns)
    mpl.rcParams.update(STYLE)
    size = (width or (ONE_COLUMN if n == 1 else TWO_COLUMNS), height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **options)
    for spare in axes.flat[n:]:
        spare.remove()
    return figure, list(axes.flat[:n])


def title(axes: Any, text: str, letter: str = "") -> None:
    """The name of a panel, after its letter."""
    axes.set_title(f"{letter}  {text}" if letter else text)


def log_axis(axis: Any, ticks: Iterable[float] | None = None) -> None:
    """A logarithmic axis with plain numbers; with `ticks`, exactly those."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    plain = FuncFormatter(lambda value, _: f"{value:,.12g}".replace(",", " "))
    axis.set_major_formatter(plain)
    if ticks is not None:
        axis.set_ticks(list(ticks))
        axis.set_minor_formatter(NullFormatter())
        axis.set_ticks([], minor=True)
        return
    low, high = sorted(axis.get_view_interval())
    # not much more than a decade: name some of the small ticks as well
    named = "23456789" if high / low < 5 else "25" if high / low < 30 else ""
    axis.set_minor_formatter(FuncFormatter(lambda value, at: plain(value, at) if f"{value:e}"[0] in named else ""))


def line(
    axes: Any,
    x: Sequence[float],
    y: Sequence[float],
    error: Sequence[float] | None = None,
    *,
    label: str,
    number: int,
    **options: Any,
) -> None:
    """A curve with its points, and bars where there are several seeds."""
    style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKS[number % len(MARKS)], **options}
    bars = error if error is not None and any(error) else None
    axes.errorbar(x, y, yerr=bars, label=label, elinewidth=0.8, markeredgewidth=0, **style)


def stacked(axes: Any, names: Sequence[str], parts: Mapping[str, Sequence[float]]) -> None:
    """Horizontal bars, one for each name, of parts that add up."""
    left = [0.0] * len(names)
    for (label, values), colour in zip(parts.items(), (BLUE, SKY, GREEN, YELLOW, ORANGE, RED, GREY), strict=False):
        axes.barh(range(len(names)), values, left=left, label=label, color=colour, height=0.62, edgecolor="white",
                  linewidth=0.5)  # fmt: skip
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


def legend_above(figure: Figure, axes: Any, columns: int, **options: Any) -> None:
    """One legend for all panels, above them, each label once."""
    handles: dict[str, Any] = {}
    for one in axes if isinstance(axes, list) else [axes]:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=columns, **options)


def save(figure: Figure, path: Path) -> Path:
    """PNG for the page, and PDF beside it for print."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix, metadata in ((".png", {"Software": None}), (".pdf", {"CreationDate": None, "Producer": None})):
        with atomic(path.with_suffix(suffix), overwrite=True) as temporary:
            figure.savefig(temporary, format=suffix[1:], metadata=metadata)
    plt.close(figure)
    return path
