"""Figure for a paper: predictions against references, with errors, of energies, forces and stress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .points import plots
from .style import COLOURS, GREY, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..datasets import Dataset
    from ..model.predictor import Prediction

# Inches: two columns of a journal. Fonts are those that it prints.
PANEL, FONT = 2.35, 8
MOST = 1_000_000  # points in a panel, which are drawn as pixels
MARKERS = "o^sDvP"  # kinds of points differ in shape as well as in colour


def draw(data: Dataset, prediction: Prediction) -> Figure:
    """Figure with a panel for each kind of label, and the distribution of its errors below."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    made = plots(data, prediction, MOST)
    with mpl.rc_context({**STYLE, "font.size": FONT}):
        figure = Figure(figsize=(PANEL * len(made), 1.55 * PANEL))
        figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.06)  # ticks at an edge may stand out a little
        panels = figure.subplots(2, len(made), squeeze=False, height_ratios=(2.2, 1))
        for column, plot in enumerate(made):
            _parity(panels[0][column], plot)
            _errors(panels[1][column], plot)
    return figure


def _parity(axes: Axes, plot: dict[str, Any]) -> None:
    x, y, kind = (np.asarray(plot[name]) for name in ("x", "y", "kind"))
    low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
    room = 0.04 * (high - low)
    axes.plot([low - room, high + room], [low - room, high + room], color=GREY, linewidth=0.7, zorder=0)
    size = 2.0 if len(x) > 500 else 3.5
    for at, one in enumerate(plot["kinds"]):
        own = kind == at
        axes.plot(x[own], y[own], MARKERS[at % len(MARKERS)], color=COLOURS[at % len(COLOURS)], markersize=size,
                  markeredgewidth=0, alpha=0.6, label=one["name"], rasterized=len(x) > 2000)  # fmt: skip
    axes.set(xlim=(low - room, high + room), ylim=(low - room, high + room), aspect="equal")
    axes.set(xlabel=f"reference ({plot['unit']})", ylabel=f"predicted ({plot['unit']})")
    axes.locator_params(nbins=4)
    axes.set_title(
        f"{plot['words']}\nMAE {plot['scale'] * plot['mae']:.3g} {plot['errorUnit']}", fontsize=FONT, loc="left"
    )
    if len(plot["kinds"]) > 1:
        axes.legend(fontsize=FONT - 1.5, markerscale=1.8, handletextpad=0.1, borderaxespad=0.2, loc="lower right")


def _errors(axes: Axes, plot: dict[str, Any]) -> None:
    wrong = plot["scale"] * (np.asarray(plot["y"]) - np.asarray(plot["x"]))
    reach = float(np.quantile(np.abs(wrong), 0.995)) or 1.0
    axes.hist(wrong, bins=41, range=(-reach, reach), color=COLOURS[0], linewidth=0)
    axes.axvline(0.0, color=GREY, linewidth=0.7)
    axes.set(xlabel=f"error ({plot['errorUnit']})", ylabel="values")
    axes.locator_params(nbins=4)
