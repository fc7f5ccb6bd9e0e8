"""Drawings inside a page: histograms, and curves on logarithmic axes."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

COLOURS = ("--one", "--two", "--three", "--four", "--five", "--six")
# Size of a drawing, and the place of its axes, in units of its own.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 340, 190, 46, 16, 10, 40
LETTER = 6.0  # width of a letter
ROW = 19  # height of a series of ranges
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# A histogram ends at so many times the distance from the median that nine of ten values keep.
TAIL = 4.0
LEAST = 1e-6  # part of the largest value at which an axis of ranges begins
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
FAINT = 'stroke="currentColor" stroke-opacity=".5"'
FAINTER = 'stroke="currentColor" stroke-opacity=".12"'


def within(values: np.ndarray) -> tuple[float, float, int]:
    """Ends of an axis for values with long tails, and the number of values that lie beyond them."""
    low, high = float(values.min()), float(values.max())
    middle, (least, most) = float(np.median(values)), np.quantile(values, (0.005, 0.995))
    reach = TAIL * float(np.quantile(np.abs(values - middle), 0.9))
    inner = max(float(least), middle - reach), min(float(most), middle + reach)
    room = 0.5 * (inner[1] - inner[0])
    if room > 0:  # an end is cut only if that makes room
        low, high = (inner[0] if inner[0] - low > room else low), (inner[1] if high - inner[1] > room else high)
    return low, high, int(((values < low) | (values > high)).sum())


def histogram(
    values: np.ndarray, label: str, *, colour: str = "--one", bins: int = 40, caption: str = "", lengths: bool = False
) -> str:
    """Histogram as a drawing inside the page. Long tails are cut, which the caption tells.

    `lengths`: the axis begins at zero. Nothing if all values are the same.
    """
    values = values[np.isfinite(values)]
    if len(values) == 0 or values.min() == values.max():
        return ""  # one bar would say nothing
    low, high, beyond = within(values)
    if lengths:
        low, beyond = 0.0, int((values > high).sum())
    heights, edges = np.histogram(values, bins=min(bins, max(5, len(values))), range=(low, high))
    tallest = max(1, int(heights.max()))

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    def y(n: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * n / tallest

    bars = "".join(
        f'<rect x="{x(a):.1f}" y="{y(n):.1f}" width="{max(0.5, x(b) - x(a) - 0.7):.1f}" '
        f'height="{HEIGHT - BOTTOM - y(n):.1f}" fill="var({colour})"/>'
        for a, b, n in zip(edges[:-1], edges[1:], heights)
        if n
    )
    marks = "".join(_below(x(tick), HEIGHT - BOTTOM + 15, _short(tick)) for tick in ticks(low, high))
    scale = f'<text x="{LEFT - 5}" y="{y(tallest) + 8:.1f}" text-anchor="end">{tallest:,}</text>'
    axis = f'<path d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}" {FAINT}/>'
    name = _below((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, label)
    middle = (TOP + HEIGHT - BOTTOM) / 2
    name += f'<text transform="translate({LEFT - 10} {middle}) rotate(-90)" text-anchor="middle">number</text>'
    told = caption + (f" {beyond:,} of {len(values):,} values lie beyond the edges." if beyond else "")
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Histogram: {html.escape(label)}">'
        f"{bars}{axis}{marks}{scale}{name}</svg><figcaption>{html.escape(told.strip())}</figcaption></figure>"
    )


def ranges(series: Mapping[str, np.ndarray], label: str) -> str:
    """Median, half and nine tenths of the values of each series, below each other on a logarithmic axis.

    It spans six powers of ten at most: smaller values stand at its left end. Nothing if no series has a value.
    """
    kept = {name: np.abs(values[np.isfinite(values)]) for name, values in series.items()}
    kept = {name: np.quantile(values, QUANTILES) for name, values in kept.items() if len(values)}
    most = max((found[-1] for found in kept.values()), default=0.0)
    if not most > 0:
        return ""
    # forces that vanish by symmetry have errors of rounding, which would stretch the axis over 15 powers of ten
    kept = {name: np.log10(np.maximum(found, LEAST * most)) for name, found in kept.items()}
    low, high = _span(np.concatenate(list(kept.values())))
    left = min(140, 14 + 7 * max(len(_cut(name)) for name in kept))
    bottom = TOP + ROW * len(kept)

    def x(value: float) -> float:
        return left + (WIDTH - left - RIGHT) * (value - low) / (high - low)

    drawn = ""
    for tick in log_ticks(low, high, WIDTH - left - RIGHT, LETTER):
        place = x(float(np.log10(tick)))
        drawn += f'<path d="M{place:.1f} {TOP}V{bottom}" {FAINTER}/>' + _below(place, bottom + 15, power_words(tick))
    for at, (name, found) in enumerate(kept.items()):
        y = TOP + ROW * (at + 0.5)
        a, b, middle, c, d = (x(float(value)) for value in found)
        drawn += f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{html.escape(_cut(name))}</text>'
        drawn += f'<path d="M{a:.1f} {y:.1f}H{d:.1f}" stroke="var(--one)" stroke-width="1.5"/>'
        drawn += f'<path d="M{b:.1f} {y:.1f}H{c:.1f}" stroke="var(--one)" stroke-width="7" stroke-opacity=".55"/>'
        drawn += f'<circle cx="{middle:.1f}" cy="{y:.1f}" r="3.5" fill="var(--two)"/>'
    drawn += _below((left + WIDTH - RIGHT) / 2, bottom + 34, label)
    caption = "Point: median. Bar: the middle half. Line: nine of ten."
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {bottom + BOTTOM}" role="img" aria-label="{html.escape(label)} by group">'
        f"{drawn}</svg><figcaption>{caption}</figcaption></figure>"
    )


@dataclass(frozen=True)
class Axis:
    """Values along a line of the drawing: by their logarithm, or from zero."""

    low: float  # of the logarithms, or of the values
    high: float
    logarithmic: bool
    start: float  # place of `low`
    end: float

    def place(self, value: float) -> float:
        at = float(np.log10(value)) if self.logarithmic else value
        return self.start + (self.end - self.start) * (at - self.low) / (self.high - self.low)

    def ticks(self, wide: float = 0.0) -> list[tuple[float, str]]:
        """Places and labels of round numbers. `wide`: width of a letter on a horizontal axis."""
        length = abs(self.end - self.start)
        found = log_ticks(self.low, self.high, length, wide) if self.logarithmic else ticks(self.low, self.high, 5)
        return [(self.place(value), (power_words if self.logarithmic else _short)(value)) for value in found]


def _axis(values: np.ndarray, logarithmic: bool, start: float, end: float) -> Axis:
    """Axis that has room for some positive values."""
    low, high = _span(np.log10(values)) if logarithmic else (0.0, 1.03 * float(values.max()))
    return Axis(low, high, logarithmic, start, end)


def curves(
    series: Mapping[str, tuple[np.ndarray, np.ndarray]],
    across: str,
    up: str,
    *,
    caption: str = "",
    identity: bool = False,
    logarithmic: bool = True,
) -> str:
    """Points (x, y) of each series, joined by lines, on logarithmic axes or on axes from zero.

    `identity`: with the line y = x. Only positive values are drawn; nothing if no series has two points.
    """
    kept = {}
    for name, (x, y) in series.items():
        known = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
        order = np.flatnonzero(known)[np.argsort(x[known], kind="stable")]
        if len(order) > 1:
            kept[name] = x[order], y[order]
    if not kept:
        return ""
    xs, ys = (np.concatenate([one[k] for one in kept.values()]) for k in (0, 1))
    if identity:
        xs = ys = np.concatenate([xs, ys])
    horizontal = _axis(xs, logarithmic, LEFT, WIDTH - RIGHT)
    vertical = _axis(ys, logarithmic, HEIGHT - BOTTOM, TOP)
    drawn = f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" {FAINT}/>'
    for place, text in horizontal.ticks(LETTER):
        drawn += (
            f'<path d="M{place:.1f} {TOP}V{HEIGHT - BOTTOM}" {FAINTER}/>{_below(place, HEIGHT - BOTTOM + 15, text)}'
        )
    for place, text in vertical.ticks():
        drawn += f'<path d="M{LEFT} {place:.1f}H{WIDTH - RIGHT}" {FAINTER}/>'
        drawn += f'<text x="{LEFT - 5}" y="{place + 4:.1f}" text-anchor="end">{text}</text>'
    if identity:
        drawn += f'<path d="M{LEFT} {HEIGHT - BOTTOM}L{WIDTH - RIGHT} {TOP}" stroke-dasharray="4 3" {FAINT}/>'
    for colour, (x, y) in zip(COLOURS * len(kept), kept.values()):
        places = [(f"{horizontal.place(float(a)):.1f}", f"{vertical.place(float(b)):.1f}") for a, b in zip(x, y)]
        path = " ".join(f"{a},{b}" for a, b in places)
        drawn += f'<polyline points="{path}" fill="none" stroke="var({colour})" stroke-width="1.5"/>'
        drawn += "".join(f'<circle cx="{a}" cy="{b}" r="3" fill="var({colour})"/>' for a, b in places)
    drawn += _below((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, across)
    names = "".join(
        f'<span><i style="background:var({colour})"></i>{html.escape(name)}</span>'
        for colour, name in zip(COLOURS * len(kept), kept)
        if name
    )
    return (
        f'<figure><div class="legend"><b>{html.escape(up)}</b>{names}</div><svg viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{html.escape(up)} against {html.escape(across)}">{drawn}</svg>'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def _span(logarithms: np.ndarray) -> tuple[float, float]:
    """Ends of an axis, a little beyond the values."""
    low, high = float(logarithms.min()), float(logarithms.max())
    room = 0.05 * (high - low) or 0.1
    return low - room, high + room


def log_ticks(low: float, high: float, length: float = HEIGHT - TOP - BOTTOM, wide: float = 0.0) -> list[float]:
    """Up to seven round numbers between 10^low and 10^high on an axis of a `length`.

    Labels do not overlap: each takes one line of height, or on a horizontal axis (`wide`) the width of its letters.
    """
    for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        found = [
            step * 10.0**power
            for power in range(int(np.floor(low)), int(np.ceil(high)) + 1)
            for step in steps
            if low <= np.log10(step) + power <= high
        ]
        if len(found) <= 7:
            break
    if len(found) < 2:
        found = ticks(10.0**low, 10.0**high, 4)
    kept: list[float] = []
    for tick in found[:: -(-len(found) // 7)]:
        room = (10 + wide * len(power_words(tick))) * (high - low) / length
        if not kept or np.log10(tick / kept[-1]) >= room:
            kept.append(tick)
    return kept


def ticks(low: float, high: float, n: int = 6) -> list[float]:
    """About `n` round numbers between two values."""
    step = 10.0 ** np.floor(np.log10((high - low) / n))
    step *= next(f for f in (1, 2, 5, 10) if (high - low) / (step * f) <= n)
    first = np.ceil(low / step) * step
    return [float(first + k * step) for k in range(n + 2) if first + k * step <= high + 1e-9 * step]


def _short(value: float) -> str:
    return f"{0.0 if abs(value) < 1e-12 else value:.6g}".replace("-", "−")


def power_words(value: float) -> str:
    """A number for a logarithmic axis: 0.05, 20, but 10⁻⁷ and 2·10⁻⁷."""
    power = int(np.floor(np.log10(value) + 1e-9))
    if -4 < power < 5:
        return _short(value)
    first = _short(value / 10.0**power)
    return ("" if first == "1" else f"{first}·") + "10" + str(power).translate(SUPERSCRIPTS)


def _cut(name: str) -> str:
    """A name that fits beside its row."""
    return name if len(name) <= 18 else f"{name[:17]}…"


def _below(x: float, y: float, text: str) -> str:
    """Text with its middle at a place."""
    return f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{html.escape(text)}</text>'
