"""Values as people see them: one line in a terminal, a small table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

# Colours come from the notebook: these tables are readable on white and on black.
_STYLE = "border-collapse:collapse;margin:.3em 0;font-variant-numeric:tabular-nums"
_NAME = "text-align:left;padding:.15em 1em .15em 0;opacity:.7;font-weight:normal;vertical-align:top;white-space:nowrap"
_VALUE = "text-align:left;padding:.15em 0"
_CELL = "padding:.15em .8em .15em 0;white-space:pre"
_LEFT, _RIGHT = f"text-align:left;{_CELL}", f"text-align:right;{_CELL}"


def one_line(name: str, values: Sequence[str]) -> str:
    """Text such as `Dataset(100 structures, H C O)`; empty values are left out."""
    return f"{name}({', '.join(value for value in values if value)})"


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """HTML of a title and a table of names and values; empty values are left out."""
    rows = "".join(
        f'<tr style="background:none"><th style="{_NAME}">{html.escape(name)}</th>'
        f'<td style="{_VALUE}">{html.escape(value)}</td></tr>'
        for name, value in facts.items()
        if value
    )
    return f'<div><strong>{html.escape(title)}</strong><table style="{_STYLE}">{rows}</table></div>'


def threads_words(threads: object) -> str:
    """Such as `1 thread` and `2 threads`."""
    return f"{threads} thread{'' if threads == 1 else 's'}"


def table_html(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> str:
    """HTML of a title and a table with headings; the columns numbered in `right` are numbers."""
    styles = [_RIGHT if at in right else _LEFT for at in range(len(columns))]
    head = "".join(
        f'<th style="{style};opacity:.7;font-weight:normal">{html.escape(column)}</th>'
        for column, style in zip(columns, styles)
    )
    lines = "".join(
        '<tr style="background:none">'
        + "".join(f'<td style="{style}">{html.escape(cell)}</td>' for cell, style in zip(row, styles))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div><strong>{html.escape(title)}</strong><table style="{_STYLE}"><thead><tr style="background:none">{head}'
        f"</tr></thead><tbody>{lines}</tbody></table></div>"
    )
