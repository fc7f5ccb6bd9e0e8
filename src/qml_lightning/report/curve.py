"""The figure of a learning curve: errors against the number of structures and of features, on logarithmic axes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model.metrics import SCALES, UNITS, WORDS
from ..study.trends import OTHER, Along, LearningCurve, Trend
from .style import STYLE, headline, ticks_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Lines go from light (few) to dark (many). The two ends differ also in a grey print.
LIGHT, DARK = (0.55, 0.75, 0.90), (0.05, 0.16, 0.42)
MARKERS = "osD^vP"
EXTRAPOLATED = "last slope extrapolated"
# Ticks in a decade, where the errors span less than a decade, and more.
CLOSE, FAR = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0), (1.0, 2.0, 5.0)


def draw(curve: LearningCurve) -> Figure:
    """Figure with a column for each quantity: against structures above, against features below if there are several."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows: list[Along] = ["structures"]
    if len(curve.features) > 1:
        rows = ["structures", "features"] if len(curve.sizes) > 1 else ["features"]
    columns = len(curve.quantities)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.5 * columns + 0.3, 3.0 * len(rows) + 0.3), layout="constrained")
        panels = figure.subplots(len(rows), columns, squeeze=False, sharey="col")
        for row, along in zip(panels, rows):
            for axes, quantity in zip(row, curve.quantities):
                _panel(axes, curve, along, quantity)
        headline(figure, _title(curve))
    return figure


def _title(curve: LearningCurve) -> str:
    seeds = len({entry.seed for entry in curve.entries})
    over = f",\nmean and standard deviation over {seeds} seeds" if seeds > 1 else ""
    held_out = f"{curve.entries[0].metrics.structures:,} held-out structures"
    return f"{curve.data.get('name', '')}: errors on {held_out}{over}"


def _panel(axes: Axes, curve: LearningCurve, along: Along, quantity: str) -> None:
    numbers, others = curve.numbers(along), curve.numbers(OTHER[along])
    trends = {trend.fixed: trend for trend in curve.trends(along) if trend.quantity == quantity}
    for at, fixed in enumerate(others):
        # one list of seeds for each number
        runs = [curve.errors(quantity, **{along: n, OTHER[along]: fixed}) for n in numbers]
        mix = at / max(1, len(others) - 1) if len(others) > 1 else 1.0
        colour = tuple((1 - mix) * light + mix * dark for light, dark in zip(LIGHT, DARK))
        runs = [[SCALES[quantity] * error for error in run] for run in runs]
        _line(axes, numbers, runs, colour, MARKERS[at % len(MARKERS)], _label(along, fixed, trends.get(fixed)))
        if fixed in trends and fixed == others[-1]:
            _forecast(axes, numbers[-1], trends[fixed], colour)
    axes.set(xscale="log", yscale="log", xlabel=f"training {along}" if along == "structures" else "random features")
    axes.set_ylabel(f"{WORDS[quantity]} MAE ({UNITS[quantity]})")
    low, high = axes.get_ylim()
    ticks_at(axes, numbers, lambda value: f"{value:,.0f}", CLOSE if high / low < 10 else FAR)
    # in the legend, measured lines come before the extrapolated one
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    handles = dict(sorted(handles.items(), key=lambda item: item[0] == EXTRAPOLATED))
    axes.legend(handles.values(), handles.keys(), fontsize=7, handlelength=1.6, labelspacing=0.35, loc="best")


def _label(along: Along, fixed: int, trend: Trend | None) -> str:
    return f"{fixed:,} {OTHER[along]}" + (
        "" if trend is None else f", slope {trend.last_decade:+.2f}".replace("-", "−")
    )


def _line(
    axes: Axes, numbers: Sequence[int], runs: Sequence[Sequence[float]], colour: object, marker: str, label: str
) -> None:
    means = [statistics.fmean(run) for run in runs]
    spread = [statistics.stdev(run) for run in runs] if min(map(len, runs)) > 1 else None
    axes.errorbar(
        numbers, means, yerr=spread, color=colour, marker=marker, markersize=4, linewidth=1.2, capsize=2,
        elinewidth=0.8, label=label,
    )  # fmt: skip


def _forecast(axes: Axes, last: int, trend: Trend, colour: object) -> None:
    """Draw the error expected with twice as many, as an open marker."""
    scale = SCALES[trend.quantity]
    axes.plot(
        [last, 2 * last], [scale * trend.error, scale * trend.doubled], ":o", color=colour, linewidth=1.0, markersize=4,
        markerfacecolor="white", markevery=[1], label=EXTRAPOLATED,
    )  # fmt: skip
