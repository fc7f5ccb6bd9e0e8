"""Figure for a paper: predictions against references, with errors, of energies, forces and stress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .drawing import within
from .points import plots
from .style import COLOURS, GREY, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..datasets import Dataset
    from ..model.baseline import Baseline
    from ..model.predictor import Prediction

# Inches: two columns of a journal. Fonts are those that it prints.
PANEL, HEIGHT, FONT = 2.35, 3.75, 8
FLAT = 0.45  # height of a distribution by its width
PRINT = 300  # dots per inch
MOST = 1_000_000  # points in a panel, which are drawn as pixels
# Points are drawn in layers of about so many, up to a number of layers: kinds take turns, so that none hides another.
LAYER, LAYERS = 40, 200
MARKERS = "o^sDvP"  # kinds of points differ in shape as well as in colour


def draw(data: Dataset, prediction: Prediction, baseline: Baseline | None = None) -> Figure:
    """Figure with a panel for each kind of label, and the distribution of its errors below.

    Energies of various compositions are shown past `baseline`.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    made = plots(data, prediction, MOST, baseline=baseline)
    with mpl.rc_context({**STYLE, "font.size": FONT}):
        figure = Figure(figsize=(PANEL * len(made), HEIGHT))
        figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.06)  # ticks at an edge may stand out a little
        panels = figure.subplots(2, len(made), squeeze=False, height_ratios=(1 / FLAT, 1))
        for column, plot in enumerate(made):
            _parity(panels[0][column], plot)
            _errors(panels[1][column], plot)
        figure.align_labels()
    return figure


def _parity(axes: Axes, plot: dict[str, Any]) -> None:
    x, y, kind = (np.asarray(plot[name]) for name in ("x", "y", "kind"))
    low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
    room = 0.04 * (high - low)
    axes.plot([low - room, high + room], [low - room, high + room], color=GREY, linewidth=0.7, zorder=0)
    size = 2.0 if len(x) > 500 else 3.5
    layers = min(LAYERS, 1 + len(x) // LAYER) if len(plot["kinds"]) > 1 else 1
    layer = np.random.default_rng(0).integers(layers, size=len(x))
    style: Any = {"markersize": size, "markeredgewidth": 0, "alpha": 0.6, "rasterized": len(x) > 2000}
    looks: list[Any] = [
        {"marker": MARKERS[k % len(MARKERS)], "color": COLOURS[k % len(COLOURS)]} for k in range(len(plot["kinds"]))
    ]
    for turn in range(layers):
        for at in np.roll(np.arange(len(looks)), turn):
            points = (layer == turn) & (kind == at)
            axes.plot(x[points], y[points], linestyle="none", **looks[at], **style)
    for one, look in zip(plot["kinds"], looks):
        axes.plot([], [], linestyle="none", label=one["name"], **look, **style)
    axes.set(xlim=(low - room, high + room), ylim=(low - room, high + room))
    axes.set_box_aspect(1)  # as wide as the distribution below
    axes.set(xlabel=f"reference ({plot['unit']})", ylabel=f"predicted ({plot['unit']})")
    axes.locator_params(nbins=4)
    # each line for itself and by its base: an Å is higher than other letters and would push them out of line
    axes.set_title(plot["words"], fontsize=FONT, loc="left", pad=5 + 1.35 * FONT)
    told = f"MAE {plot['told']}"
    axes.annotate(told, (0, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", va="baseline")
    axes.xaxis.label.set_verticalalignment("baseline")
    axes.xaxis.labelpad = 1.2 * FONT
    if len(plot["kinds"]) > 1:
        axes.legend(fontsize=FONT - 1.5, markerscale=4 / size, handletextpad=0.1, borderaxespad=0.2, loc="lower right")


def _errors(axes: Axes, plot: dict[str, Any]) -> None:
    wrong = plot["scale"] * (np.asarray(plot["y"]) - np.asarray(plot["x"]))
    reach = max(map(abs, within(wrong)[:2])) or 1.0
    beyond = float((np.abs(wrong) > reach).mean())
    axes.hist(wrong, bins=41, range=(-reach, reach), color=COLOURS[0], linewidth=0)
    axes.set_box_aspect(FLAT)
    axes.axvline(0.0, color=GREY, linewidth=0.7)
    axes.set(xlabel=f"error ({plot['errorUnit']})", ylabel="number of values")
    axes.xaxis.label.set_verticalalignment("baseline")
    axes.xaxis.labelpad = 1.2 * FONT
    if beyond:  # inside the panel: a longer label would push it out of line with the others
        told = f"{1 - beyond:.0%} of\nall values" if beyond > 0.01 else f"{1 - beyond:.1%} of\nall values"
        axes.text(0.99, 0.97, told, transform=axes.transAxes, ha="right", va="top", fontsize=FONT - 1.5)
    axes.locator_params(nbins=4)
