"""Rooms do not grow unnoticed: lines of code of each, at most. Raise a number on purpose, and say in the commit why."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

import pytest

from places import ROOT

PACKAGE = ROOT / "src" / "qml_lightning"
# Lines with code, without blank lines, comments and docstrings; rounded up to the next hundred.
MOST_LINES = {
    "qml_lightning": 400,
    "machine": 700,
    "atoms": 900,
    "kernels": 2800,
    "linear": 1300,
    "model": 2600,
    "training": 3300,
    "datasets": 2300,
    "exact": 600,
    "study": 1500,
    "adapters": 800,
    "dynamics": 800,
    "report": 1800,
    "cli": 3300,
}
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    """Number of lines with code."""
    lines: set[int] = set()
    first = True  # of a logical line: a text that stands there is a docstring
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in NO_CODE:
            first = first or token.type == tokenize.NEWLINE
        elif not (first and token.type == tokenize.STRING):
            lines.update(range(token.start[0], token.end[0] + 1))
            first = False
    return len(lines)


def room_of(path: Path) -> str:
    """The folder in the package, or the package itself."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "qml_lightning"


def lines_of_rooms() -> dict[str, int]:
    found: dict[str, int] = {}
    for path in PACKAGE.rglob("*.py"):
        found[room_of(path)] = found.get(room_of(path), 0) + code_lines(path.read_text(encoding="utf-8"))
    return found


def test_docstrings_comments_and_blank_lines_are_no_code():
    text = (
        '"""Doc."""\n\n# comment\nx = 1  # one\n\n\ndef f():\n    """Doc\n\n    of f."""\n    return """two\nlines"""\n'
    )
    assert code_lines(text) == 4


def test_every_room_has_a_limit():
    assert lines_of_rooms().keys() == MOST_LINES.keys()


@pytest.mark.parametrize("room", MOST_LINES)
def test_a_room_has_no_more_lines_than_its_limit(room):
    assert lines_of_rooms()[room] <= MOST_LINES[room], f"{room} has grown: share code, or raise MOST_LINES on purpose"
