"""The figure of a learning curve: errors against structures and against features, on logarithmic axes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..study.trends import OTHER, QUANTITIES, WORDS, Along, LearningCurve, Trend
from .summary import GREY, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From few to many: a light and a dark end that print apart, also in grey.
LIGHT, DARK = (0.55, 0.75, 0.90), (0.05, 0.16, 0.42)
MARKERS = "osD^vP"
CARRIED_ON = "last slope carried on"
# Marks in a decade.
CLOSE, FAR = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0), (1.0, 2.0, 5.0)


def draw(curve: LearningCurve) -> Figure:
    """A column for each quantity; above along structures, below along features, where there are several of them."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    ways: list[Along] = ["structures"]
    if len(curve.features) > 1:
        ways = ["structures", "features"] if len(curve.sizes) > 1 else ["features"]
    columns = len(curve.quantities)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.5 * columns + 0.3, 3.0 * len(ways) + 0.3), layout="constrained")
        panels = figure.subplots(len(ways), columns, squeeze=False, sharey="col")
        for row, along in zip(panels, ways):
            for axes, quantity in zip(row, curve.quantities):
                _panel(axes, curve, along, quantity)
        figure.suptitle(_title(curve), fontsize=9, x=0.01, ha="left", fontweight="bold")
    return figure


def _title(curve: LearningCurve) -> str:
    seeds = len({entry.seed for entry in curve.entries})
    over = f"; mean and standard deviation over {seeds} seeds" if seeds > 1 else ""
    return (
        f"{curve.data.get('name', '')}: errors on {curve.entries[0].metrics.structures:,} structures not learnt{over}"
    )


def _panel(axes: Axes, curve: LearningCurve, along: Along, quantity: str) -> None:
    numbers, others = curve.numbers(along), curve.numbers(OTHER[along])
    trends = {trend.fixed: trend for trend in curve.trends(along) if trend.quantity == quantity}
    for at, fixed in enumerate(others):
        # one list of seeds for each number
        runs = [curve.errors(quantity, **{along: n, OTHER[along]: fixed}) for n in numbers]
        mix = at / max(1, len(others) - 1) if len(others) > 1 else 1.0
        colour = tuple((1 - mix) * light + mix * dark for light, dark in zip(LIGHT, DARK))
        _line(axes, numbers, runs, colour, MARKERS[at % len(MARKERS)], _label(along, fixed, trends.get(fixed)))
        if fixed in trends and fixed == others[-1]:
            _forecast(axes, numbers[-1], trends[fixed], colour)
    axes.set(xscale="log", yscale="log", xlabel=f"training {along}" if along == "structures" else "random features")
    axes.set_ylabel(f"{WORDS[quantity]} MAE ({QUANTITIES[quantity]})")
    _ticks(axes, numbers)
    # what is measured stands above what is not
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    handles = dict(sorted(handles.items(), key=lambda item: item[0] == CARRIED_ON))
    axes.legend(handles.values(), handles.keys(), fontsize=7, handlelength=1.6, labelspacing=0.35, loc="best")


def _label(along: Along, fixed: int, trend: Trend | None) -> str:
    return f"{fixed:,} {OTHER[along]}" + (
        "" if trend is None else f", slope {trend.last_decade:+.2f}".replace("-", "−")
    )


def _line(
    axes: Axes, numbers: Sequence[int], runs: Sequence[Sequence[float]], colour: object, marker: str, label: str
) -> None:
    means = [1000 * statistics.fmean(run) for run in runs]
    spread = [1000 * statistics.stdev(run) for run in runs] if min(map(len, runs)) > 1 else None
    axes.errorbar(
        numbers, means, yerr=spread, color=colour, marker=marker, markersize=4, linewidth=1.2, capsize=2,
        elinewidth=0.8, label=label,
    )  # fmt: skip


def _forecast(axes: Axes, last: int, trend: Trend, colour: object) -> None:
    """What twice as many would give, as an open marker."""
    axes.plot(
        [last, 2 * last], [1000 * trend.error, 1000 * trend.doubled], ":o", color=colour, linewidth=1.0, markersize=4,
        markerfacecolor="white", markevery=[1], label=CARRIED_ON,
    )  # fmt: skip


def _ticks(axes: Axes, numbers: Sequence[int]) -> None:
    """The measured numbers themselves below; round numbers at the side, closer where the range is small."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axes.xaxis.set_major_locator(FixedLocator([*numbers]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=CLOSE if high / low < 10 else FAR, numticks=30))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.grid(True, which="major", color=GREY, alpha=0.15, linewidth=0.6)
