"""Values as people see them: one line in a terminal, a small table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

# Colours come from the notebook: these tables are readable on white and on black.
_STYLE = "border-collapse:collapse;margin:.3em 0;font-variant-numeric:tabular-nums"
_NAME = "text-align:left;padding:.15em 1em .15em 0;opacity:.7;font-weight:normal;vertical-align:top;white-space:nowrap"
_VALUE = "text-align:left;padding:.15em 0"
_NUMBER = "text-align:right;padding:.15em .8em .15em 0"


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


def table_html(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """HTML of a title and a table with headings; all columns but the first are aligned to the right."""
    head = "".join(f'<th style="{_NUMBER};opacity:.7">{html.escape(column)}</th>' for column in columns)
    lines = "".join(
        '<tr style="background:none">'
        + "".join(f'<td style="{_NUMBER if at else _VALUE}">{html.escape(cell)}</td>' for at, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div><strong>{html.escape(title)}</strong><table style="{_STYLE}"><thead><tr style="background:none">{head}'
        f"</tr></thead><tbody>{lines}</tbody></table></div>"
    )
