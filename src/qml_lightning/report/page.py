"""Pages: one HTML file with its style inside, readable offline, in light and dark, and on a phone."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files

import numpy as np


def static(name: str) -> str:
    """Text of a file that belongs to the pages."""
    return files("qml_lightning.report").joinpath("static", name).read_text(encoding="utf-8")


def page(title: str, body: Sequence[str], scripts: Sequence[str] = ()) -> str:
    """The whole page. Nothing in it is fetched from elsewhere."""
    ends = "\n".join(f"<script>{script}</script>" for script in scripts)
    # data: of an empty icon keeps browsers from asking for one
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{html.escape(title)}</title>'
        f"<style>{static('page.css')}</style></head><body>\n"
        + "\n".join(body)
        + f"\n<footer>Made by QML-Lightning {html.escape(version('qml-lightning'))}. Energies in eV, lengths in Å, "
        f"unless another unit is told.</footer>\n{ends}</body></html>\n"
    )


def section(title: str, *parts: str) -> str:
    """A heading and what is below it; nothing if that is empty."""
    content = "\n".join(part for part in parts if part)
    return f"<section><h2>{html.escape(title)}</h2>\n{content}</section>" if content else ""


def paragraph(text: str, kind: str = "") -> str:
    """Text as a paragraph; `kind` is soft or warning. Nothing if it is empty."""
    return f'<p class="{kind}">{html.escape(text)}</p>' if text else ""


def tiles(values: Mapping[str, str]) -> str:
    """Large numbers with the words for each below it; empty ones are left out."""
    made = [
        f"<div class=tile><b>{html.escape(v)}</b><span>{html.escape(k)}</span></div>" for k, v in values.items() if v
    ]
    return f"<div class=tiles>{''.join(made)}</div>"


def facts(values: Mapping[str, str]) -> str:
    """Table of names and values; empty values are left out."""
    rows = [f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in values.items() if v]
    return f'<div class=scroll><table class="facts">{"".join(rows)}</table></div>' if rows else ""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Table with headings; the columns numbered in `right` are numbers. Nothing if there are no rows."""
    if not rows:
        return ""
    kinds = [' class="number"' if at in right else "" for at in range(len(columns))]
    head = "".join(f"<th{kind}>{html.escape(name)}</th>" for name, kind in zip(columns, kinds))
    lines = "".join(
        "<tr>" + "".join(f"<td{kind}>{html.escape(cell)}</td>" for cell, kind in zip(row, kinds)) + "</tr>"
        for row in rows
    )
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"


def details(title: str, content: str) -> str:
    """Content that opens on a click."""
    return f"<details><summary>{html.escape(title)}</summary>{content}</details>" if content else ""


# Size of a drawing, and the place of its axes, in units of its own.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 340, 190, 40, 12, 10, 40


def histogram(values: np.ndarray, label: str, *, colour: str = "--one", bins: int = 40, caption: str = "") -> str:
    """Histogram as a drawing inside the page. A long tail is cut at 99.5 %, which the caption tells.

    Nothing if all values are the same.
    """
    values = values[np.isfinite(values)]
    if len(values) == 0 or values.min() == values.max():
        return ""  # one bar would say nothing
    low, high = float(values.min()), float(values.max())
    edge = float(np.quantile(values, 0.995))
    cut = high - low > 3 * (edge - low) > 0
    beyond = int((values > edge).sum()) if cut else 0
    high = edge if cut else high
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
    marks = "".join(
        f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{_short(tick)}</text>'
        for tick in ticks(low, high)
    )
    scale = f'<text x="{LEFT - 5}" y="{y(tallest) + 8:.1f}" text-anchor="end">{tallest:,}</text>'
    axis = f'<path d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}" stroke="currentColor" stroke-opacity=".5"/>'
    name = f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{html.escape(label)}</text>'
    told = caption + (f" {beyond:,} of {len(values):,} values lie beyond the right edge." if beyond else "")
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Histogram: {html.escape(label)}">'
        f"{bars}{axis}{marks}{scale}{name}</svg><figcaption>{html.escape(told.strip())}</figcaption></figure>"
    )


def lines(x: np.ndarray, series: Mapping[str, np.ndarray], label: str, caption: str = "") -> str:
    """Values relative to the smallest of each series against x, both on logarithmic axes, as a drawing."""
    order = np.argsort(x)
    across = np.log10(x[order])
    ratios = {name: np.log10(values[order] / values.min()) for name, values in series.items()}
    high = max(0.02, max(float(values.max()) for values in ratios.values()))
    low, span = float(across[0]), float(across[-1] - across[0]) or 1.0

    def x_of(a: float) -> str:
        return f"{LEFT + (WIDTH - LEFT - RIGHT) * (a - low) / span:.1f}"

    def y_of(b: float) -> str:
        return f"{HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * b / high:.1f}"

    drawn = ""
    for at, (name, values) in enumerate(ratios.items()):
        points = [(x_of(a), y_of(b)) for a, b in zip(across, values)]
        colour = ("--one", "--two", "--three")[at % 3]
        path = " ".join(f"{a},{b}" for a, b in points)
        drawn += f'<polyline points="{path}" fill="none" stroke="var({colour})" stroke-width="1.5"/>'
        drawn += "".join(f'<circle cx="{a}" cy="{b}" r="3" fill="var({colour})"/>' for a, b in points)
        drawn += f'<text x="{LEFT + 8}" y="{TOP + 14 + 14 * at}" style="fill:var({colour})">{html.escape(name)}</text>'
    marks = "".join(
        f'<text x="{x_of(k)}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">1e{k}</text>'
        for k in range(int(np.ceil(low)), int(np.floor(low + span)) + 1)
    )
    marks += "".join(
        f'<text x="{LEFT - 5}" y="{float(y_of(b)) + 4:.1f}" text-anchor="end">{10**b:.3g}×</text>' for b in (0.0, high)
    )
    axis = f'<path d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}" stroke="currentColor" stroke-opacity=".5"/>'
    name = f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{html.escape(label)}</text>'
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(label)}">'
        f"{drawn}{axis}{marks}{name}</svg><figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def ticks(low: float, high: float, n: int = 6) -> list[float]:
    """About `n` round numbers between two values."""
    step = 10.0 ** np.floor(np.log10((high - low) / n))
    step *= next(f for f in (1, 2, 5, 10) if (high - low) / (step * f) <= n)
    first = np.ceil(low / step) * step
    return [float(first + k * step) for k in range(n + 2) if first + k * step <= high + 1e-9 * step]


def _short(value: float) -> str:
    return f"{0.0 if abs(value) < 1e-12 else value:.6g}".replace("-", "−")
