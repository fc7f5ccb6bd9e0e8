"""Markdown tables, and figures as they stand in them."""

from __future__ import annotations

from collections.abc import Sequence


def digits(value: float) -> str:
    """Three digits and no powers of ten: 0.905, 5.56, 18 800."""
    rounded = float(f"{value:.3g}")
    return thousands(rounded) if rounded >= 100 else f"{rounded:g}"


def thousands(value: float) -> str:
    """A whole number with spaces, such as 75 000."""
    return f"{value:,.0f}".replace(",", " ")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, aligned: bool = True) -> str:
    """A Markdown table; `aligned`: its columns line up in the source as well."""
    if not aligned:
        lines = ["|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|" for cells in (head, *rows)]
        return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([line(head), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line, rows)])
