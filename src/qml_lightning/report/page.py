"""Pages: one HTML file with its style inside, readable offline, in light and dark, and on a phone."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files


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
        f"unless another unit is given.</footer>\n{ends}</body></html>\n"
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


def columns(*parts: str) -> str:
    """Parts beside each other where there is room; empty ones are left out."""
    kept = [f"<div>{part}</div>" for part in parts if part]
    kind = "columns even" if len(kept) == 4 else "columns"  # two and two, not three and one
    return f'<div class="{kind}">{"".join(kept)}</div>' if kept else ""


def details(title: str, content: str) -> str:
    """Content that opens on a click."""
    return f"<details><summary>{html.escape(title)}</summary>{content}</details>" if content else ""
