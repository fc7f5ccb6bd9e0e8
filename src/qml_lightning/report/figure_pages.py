"""Further figures for a paper: spread of the errors, uncertainties, response to the ridge, learning curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from .card import symbol
from .drawing import LEAST, LETTER, QUANTILES, log_ticks, power_words, within
from .figures import FONT, MARKERS, PANEL
from .figures import draw as parity
from .points import compared
from .reliability import reliabilities
from .series import Curves, learning_curves, ridge_curves
from .spread import force_errors, group_errors
from .style import COLOURS, GREY, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..datasets import Dataset
    from ..model.baseline import Baseline
    from ..model.predictor import Prediction

HEIGHT = 2.25  # inches of a panel
ROW = 0.15  # inches of a group in a panel of groups
NAMES = ("", "errors", "groups", "uncertainty", "ridge", "learning")  # of all pages that there may be
Panel = Callable[["Axes"], None]


def pages(
    data: Dataset,
    prediction: Prediction,
    baseline: Baseline | None = None,
    *,
    provenance: dict[str, Any] | None = None,
    curve: dict[str, Any] | None = None,
) -> dict[str, Figure]:
    """Figures by name; those that there is nothing for are left out. The first, "", has predictions and references.

    `provenance` of the model file; `curve`: content of a file of `learning-curve`.
    """
    groups = group_errors(data, prediction, compared(data, prediction))
    told = [
        one for found in reliabilities(data, prediction) for one in (found.by_bin, found.ranking) if one is not None
    ]
    made = {
        "errors": [
            partial(_histogram, values=wrong, label=f"force error on {symbol(z)} (meV/Å)", colour=colour)
            for (z, wrong), colour in zip(force_errors(data, prediction).items(), cycle(COLOURS))
            if np.isfinite(wrong).any()
        ],
        "groups": [partial(_ranges, series=series, label=label) for label, series in groups.items()],
        "uncertainty": [partial(_curves, drawn=one) for one in told if one.drawable],
        "ridge": [partial(_curves, drawn=one) for one in ridge_curves(provenance or {})],
        "learning": [partial(_curves, drawn=one) for one in learning_curves(curve) if one.drawable],
    }
    tall = max((0.9 + ROW * len(series) for series in groups.values()), default=HEIGHT)
    heights = {"groups": max(HEIGHT * 0.8, tall)}
    first = {"": parity(data, prediction, baseline)}
    return first | {name: _page(panels, heights.get(name, HEIGHT)) for name, panels in made.items() if panels}


def _page(panels: Sequence[Panel], height: float) -> Figure:
    """Panels in rows of up to three; four are two and two."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    wide = 2 if len(panels) == 4 else min(3, len(panels))
    rows = -(-len(panels) // wide)
    with mpl.rc_context({**STYLE, "font.size": FONT}):
        figure = Figure(figsize=(PANEL * 1.15 * wide, height * rows))
        figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.06)
        axes = figure.subplots(rows, wide, squeeze=False).ravel()
        for one, panel in zip(axes, panels):
            panel(one)
        for spare in axes[len(panels) :]:
            spare.remove()
        figure.align_labels()
    return figure


def _histogram(axes: Axes, *, values: np.ndarray, label: str, colour: str) -> None:
    values = values[np.isfinite(values)]
    high = within(values)[1] or 1.0
    axes.hist(values, bins=40, range=(0.0, high), color=colour, linewidth=0)
    axes.set(xlabel=label, ylabel="number of atoms", xlim=(0.0, high))
    axes.locator_params(nbins=4)
    if beyond := int((values > high).sum()):
        told = f"{beyond:,} of {len(values):,}\nare larger"
        axes.text(0.99, 0.97, told, transform=axes.transAxes, ha="right", va="top", fontsize=FONT - 1.5)


def _ranges(axes: Axes, *, series: dict[str, np.ndarray], label: str) -> None:
    """Median, half and nine tenths of the values of each group on a logarithmic axis."""
    kept = {name: np.abs(values[np.isfinite(values)]) for name, values in series.items()}
    found = {name: np.quantile(values, QUANTILES) for name, values in kept.items() if len(values)}
    most = max((one[-1] for one in found.values()), default=1.0) or 1.0
    for at, quantiles in enumerate(found.values()):
        low, left, middle, right, high = np.maximum(quantiles, LEAST * most)
        axes.plot([low, high], [at, at], color=COLOURS[0], linewidth=1.0)
        axes.plot([left, right], [at, at], color=COLOURS[0], linewidth=4.0, alpha=0.55, solid_capstyle="butt")
        axes.plot([middle], [at], "o", color=COLOURS[1], markersize=3.5)
    axes.set(xscale="log", xlabel=label, yticks=range(len(found)), ylim=(len(found) - 0.4, -0.6))
    _plain(axes, "x")
    axes.set_yticklabels([name if len(name) <= 18 else f"{name[:17]}…" for name in found])


def _curves(axes: Axes, *, drawn: Curves) -> None:
    for (name, (x, y)), colour, marker in zip(drawn.series.items(), cycle(COLOURS), cycle(MARKERS)):
        order = np.argsort(x, kind="stable")
        known = order[np.isfinite(x[order]) & np.isfinite(y[order]) & (x[order] > 0) & (y[order] > 0)]
        axes.plot(x[known], y[known], color=colour, marker=marker, markersize=3.5, linewidth=1.0, label=name or None)
    if drawn.logarithmic:
        axes.set(xscale="log", yscale="log")
    else:
        axes.set(xlim=(0, None), ylim=(0, 1.28 * axes.dataLim.y1))  # room for the legend
    if drawn.identity:
        ends = [*axes.get_xlim(), *axes.get_ylim()]
        axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color=GREY, linewidth=0.7, linestyle="--", zorder=0)
        axes.set(xlim=(min(ends), max(ends)), ylim=(min(ends), max(ends)))
    axes.set(xlabel=drawn.across, ylabel=drawn.up)
    if drawn.logarithmic:
        _plain(axes, "x")
        _plain(axes, "y")
    if any(drawn.series):
        axes.legend(fontsize=FONT - 1.5, loc="best" if drawn.logarithmic else "upper left", borderaxespad=0.1)


def _plain(axes: Axes, which: str) -> None:
    """Round numbers on the logarithmic axis x or y that do not touch."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    inches = PANEL * 0.8 if which == "x" else HEIGHT * 0.8
    low, high = (float(np.log10(end)) for end in sorted(axis.get_view_interval()))
    axis.set_major_locator(FixedLocator(log_ticks(low, high, 72 * inches, LETTER if which == "x" else 0.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_words(value)))
    axis.set_minor_locator(NullLocator())
