"""Learning curves: errors against the number of training structures, as tables and on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .benchmark import Entry
from .drawing import line, log_axis, panels, title
from .entries import mean, mean_and_error, spread
from .models import ENERGY, FORCE

Curve = Mapping[Any, Sequence[Entry]]  # by the number of structures, or of features


def slope(curve: Curve, name: str) -> float:
    """Slope of log(error) against log(number), by least squares; NaN for a single point."""
    points = [(math.log(n), math.log(mean(there, name))) for n, there in curve.items()]
    if len(points) < 2:
        return math.nan
    x0, y0 = (sum(values) / len(points) for values in zip(*points, strict=True))
    return sum((x - x0) * (y - y0) for x, y in points) / sum((x - x0) ** 2 for x, _ in points)


def row(curve: Curve, sizes: Sequence[Any], name: str, digits: int) -> list[str]:
    """Cells of a table: the errors at these sizes, and the slope."""
    cells = [mean_and_error(curve[n], name, digits) if n in curve else "–" for n in sizes]
    steep = slope(curve, name)
    return [*cells, "–" if math.isnan(steep) else f"{steep:.2f}"]


def energies_and_forces(x: str) -> tuple[Any, list[tuple[Any, str]]]:
    """A figure with two panels, each with the error that it shows, against `x`."""
    figure, axes = panels(2, height=2.8)
    shown = (("Energies", "MAE of the energy / meV", ENERGY), ("Forces", "MAE of the forces / meV Å$^{-1}$", FORCE))
    for letter, axis, (name, label, _) in zip("ab", axes, shown, strict=True):
        axis.set_xlabel(x)
        axis.set_ylabel(label)
        title(axis, name, letter)
    return figure, [(axis, key) for axis, (*_, key) in zip(axes, shown, strict=True)]


def draw_curve(axes: Any, curve: Curve, name: str, *, label: str, number: int, **options: Any) -> None:
    """Draw one curve with error bars over seeds."""
    x = sorted(curve)
    y, error = ([function(curve[n], name) for n in x] for function in (mean, spread))
    line(axes, x, y, error, label=label, number=number, **options)


def both_logarithmic(axes: Any, ticks: Sequence[float]) -> None:
    """Make both axes logarithmic, with the given ticks of x."""
    log_axis(axes.xaxis, ticks)
    log_axis(axes.yaxis)
