"""The figure of a search: how the errors answer to each field, the others at their best."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from ..study.tuning import KINDS, Trial, Tuning
from .summary import GREY, STYLE, TURNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(tuning: Tuning) -> Figure:
    """A panel for each field that has several values."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    fields = [name for name, values in tuning.space.items() if len(values) > 1] or list(tuning.space)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.9 * len(fields) + 0.4, 3.0), layout="constrained")
        panels = figure.subplots(1, len(fields), squeeze=False, sharey=True)[0]
        for axes, name in zip(panels, fields):
            _panel(axes, tuning, name)
        panels[0].set_ylabel("MAE / that of the best recipe")
        panels[0].legend(fontsize=7, loc="best")
        title = "Errors on structures held out, the other fields at their best"
        figure.suptitle(title, fontsize=9, x=0.01, ha="left", fontweight="bold")
    return figure


def _panel(axes: Axes, tuning: Tuning, name: str) -> None:
    values, best = tuning.space[name], tuning.ranking[0]
    winners = {value: _winner(tuning, name, value) for value in values}
    shown = [value for value, winner in winners.items() if winner is not None]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) and value > 0 for value in shown)
    at: list[Any] = list(shown) if numeric else list(range(len(shown)))
    for kind, colour, marker in zip(KINDS, TURNS, "osD"):
        if getattr(best, kind):
            least = statistics.fmean(getattr(best, kind))
            ratios = [statistics.fmean(getattr(winners[value], kind)) / least for value in shown]
            axes.plot(at, ratios, color=colour, marker=marker, markersize=4, linewidth=1.2, label=kind)
    axes.axhline(1.0, color=GREY, linewidth=0.6, linestyle=":")
    axes.axvline(at[shown.index(best.values[name])], color=GREY, linewidth=0.6, linestyle=":")
    axes.set(xlabel=name, yscale="log")
    _ticks(axes, at, shown, numeric)


def _winner(tuning: Tuning, name: str, value: Any) -> Trial | None:
    """The best of those with that value, if any has a solution."""
    having = [one for one in tuning.ranking if one.values[name] == value and (one.energy or one.forces)]
    return having[0] if having else None


def _ticks(axes: Axes, at: list[Any], shown: list[Any], numeric: bool) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    if numeric:
        axes.set_xscale("log")
    step = -(-len(at) // 5)  # five labels have room
    axes.xaxis.set_major_locator(FixedLocator(at[::step]))
    names = {float(place): f"{value:g}" if numeric else str(value) for place, value in zip(at, shown)}
    axes.xaxis.set_major_formatter(FuncFormatter(lambda place, _: names.get(float(place), "")))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0), numticks=30))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.grid(True, which="major", color=GREY, alpha=0.15, linewidth=0.6)
