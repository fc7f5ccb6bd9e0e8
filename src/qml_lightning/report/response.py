"""The figure of a search: errors against the values of each field, with the other fields at their best."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from ..study.tuning import KINDS, Trial, Tuning
from .style import COLOURS, GREY, STYLE, headline, ticks_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Ticks in a decade of the vertical axis: errors are near the best one.
STEPS = (1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0)


def draw(tuning: Tuning) -> Figure:
    """Figure with a panel for each field that has several values."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    fields = [name for name, values in tuning.space.items() if len(values) > 1] or list(tuning.space)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.9 * len(fields) + 0.4, 3.0), layout="constrained")
        panels = figure.subplots(1, len(fields), squeeze=False, sharey=True)[0]
        for axes, name in zip(panels, fields):
            _panel(axes, tuning, name)
        panels[0].set_ylabel("MAE relative to the best recipe")
        panels[0].legend(fontsize=7, loc="best")
        headline(figure, "Errors on held-out structures, with the other fields at their best")
    return figure


def _panel(axes: Axes, tuning: Tuning, name: str) -> None:
    values, best = tuning.space[name], tuning.ranking[0]
    winners = {value: _winner(tuning, name, value) for value in values}
    shown = [value for value, winner in winners.items() if winner is not None]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) and value > 0 for value in shown)
    at: list[Any] = list(shown) if numeric else list(range(len(shown)))
    for kind, colour, marker in zip(KINDS, COLOURS, "osD"):
        if getattr(best, kind):
            least = statistics.fmean(getattr(best, kind))
            ratios = [statistics.fmean(getattr(winners[value], kind)) / least for value in shown]
            axes.plot(at, ratios, color=colour, marker=marker, markersize=4, linewidth=1.2, label=kind)
    axes.axhline(1.0, color=GREY, linewidth=0.6, linestyle=":")
    axes.axvline(at[shown.index(best.values[name])], color=GREY, linewidth=0.6, linestyle=":")
    axes.set(xlabel=name, yscale="log")
    _ticks(axes, at, shown, numeric)


def _winner(tuning: Tuning, name: str, value: Any) -> Trial | None:
    """The best trial with this value; None if none of them has a solution."""
    having = [one for one in tuning.ranking if one.values[name] == value and (one.energy or one.forces)]
    return having[0] if having else None


def _ticks(axes: Axes, at: list[Any], shown: list[Any], numeric: bool) -> None:
    if numeric:
        axes.set_xscale("log")
    step = -(-len(at) // 5)  # there is room for five labels
    names = {float(place): f"{value:g}" if numeric else str(value) for place, value in zip(at, shown)}
    ticks_at(axes, at[::step], lambda place: names.get(float(place), ""), STEPS)
