"""Printing: tables and messages for terminals and files, progress bars for terminals only."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol

from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

# Characters in a line where the output is not a terminal.
WIDTH = 110
# Characters up to which the first column of a table is not wrapped: in a narrow terminal the last column gives way.
NAMES = 24
# Files whose notes are printed, where many are read as one.
NOTED = 5


def teaching(text: str) -> str:
    """Help text with each paragraph on one line, which the terminal wraps. Indented examples stay as they are."""
    lines: list[str] = []
    for line in text.strip().split("\n"):
        joins = bool(lines) and lines[-1] != "" and line != "" and not line.startswith(" ")
        lines[-1:] = [f"{lines[-1]} {line}"] if joins else [*lines[-1:], line]
    return "\n".join(lines)


# Characters that steer a terminal or turn the direction of writing: names in files must not reach it as commands.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def harmless(text: str) -> str:
    """Text whose control characters are shown as \\xNN or \\uNNNN instead of acting on the terminal."""
    return _STEERING.sub(lambda found: f"\\x{ord(found[0]):02x}" if found[0] < "\xff" else _escaped(found[0]), text)


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}"


def console(*, stderr: bool = False) -> Console:
    """Console of stdout for results, or of stderr for progress, notes and errors."""
    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=WIDTH)


def panel(title: str, message: str, *, colour: str) -> None:
    """Print a framed message on stderr, or plain text if that is not a terminal."""
    to = console(stderr=True)
    if to.is_terminal:
        to.print(
            Panel(
                Text(harmless(message)),
                title=title,
                title_align="left",
                border_style=colour,
                width=min(to.width, WIDTH),
            )
        )
    else:
        to.print(harmless(f"{title}: {message}"), markup=False, soft_wrap=True)


def note(message: str) -> None:
    """Print a line on stderr."""
    console(stderr=True).print(Text(harmless(message), style="dim"), soft_wrap=True)


def notes(source: Any) -> None:
    """Print the notes of a reader on stderr: decisions that a person should know."""
    parts = source.parts or (source,)
    for part in parts[:NOTED]:
        for text in part.notes:
            note(f"{part.name}: {text}")
    if any(part.notes for part in parts[NOTED:]):
        note(f"… and notes on {len(parts) - NOTED} more files")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> Group:
    """Table with a title and column headings; the columns numbered in `right` are aligned to the right.

    Columns of a table that is wider than the terminal move closer together.
    """
    longest = [max(len(line) for cell in cells for line in cell.split("\n")) for cells in zip(columns, *rows)]
    narrow = sum(longest) + 3 * len(columns) + 1 > console().width
    made = Table(box=box.SIMPLE_HEAD, header_style="dim", padding=0 if narrow else (0, 1), pad_edge=not narrow)
    short = all(len(row[0]) <= NAMES for row in rows)
    for at, name in enumerate(columns):
        whole = at in right or (at == 0 and short)
        made.add_column(name, justify="right" if at in right else "left", overflow="fold", no_wrap=whole)
    for row in rows:
        made.add_row(*(Text(harmless(cell)) for cell in row))
    return _titled(title, made)


def facts(title: str, values: dict[str, str]) -> Group:
    """Table of names and values without column headings; empty values are left out."""
    made = Table(box=box.SIMPLE_HEAD, show_header=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in values.items():
        if value:
            made.add_row(Text(harmless(name)), Text(harmless(value)))
    return _titled(title, made)


def _titled(title: str, made: Table) -> Group:
    return Group(Text(harmless(title), style="bold"), made)  # rich would wrap its own title at the width of the table


def show(*parts: Any) -> None:
    """Print tables and texts on stdout. Texts are neither wrapped nor read as markup: they may contain paths."""
    to = console()
    for part in parts:
        if isinstance(part, str):
            to.print(harmless(part), markup=False, soft_wrap=True)
        else:
            to.print(part)


def show_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout, with null for NaN and infinity."""
    print(as_json_text(value))


def as_json_text(value: dict[str, Any], indent: int | None = 2) -> str:
    """JSON with null for NaN and infinity, in which characters that steer a terminal are escaped."""
    text = json.dumps(finite(value), indent=indent, ensure_ascii=False, allow_nan=False)
    return _STEERING.sub(lambda found: _escaped(found[0]), text)


def finite(value: Any) -> Any:
    """A copy that JSON can hold, with None for NaN and infinity."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Show warnings of the library as framed messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: panel("Warning", str(message), colour="yellow")
        yield


class Remark(ProgressColumn):
    """Remark beside a progress bar, such as the rate."""

    def render(self, task: Task) -> Text:
        return Text(task.fields.get("remark", ""), style="dim")


class Remaining(ProgressColumn):
    """Time left at the mean speed so far. Portions are few and large; rich's own estimate would wait for several."""

    def render(self, task: Task) -> Text:
        if not task.total or not task.completed or not task.elapsed:
            return Text("")
        seconds = round(task.elapsed * (task.total - task.completed) / task.completed)
        return Text(f"{timedelta(seconds=seconds)} left")


class Tell(Protocol):
    """Signature of the function that `progress` yields, declared here so that no import of torch is needed."""

    def __call__(self, what: str, done: int, of: int, remark: str = "", /) -> None: ...


@contextmanager
def progress(*, shown: bool = True) -> Iterator[Tell]:
    """Yield `tell(what, done, of, remark)`, which draws a bar with the time left for each `what`, in terminals only."""
    to = console(stderr=True)
    columns = (TextColumn("{task.description:<12}"), BarColumn(40), TaskProgressColumn(), Remaining(), Remark())
    with Progress(*columns, console=to, transient=True, disable=not (shown and to.is_terminal)) as bars:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, of: int, remark: str = "", /) -> None:
            # a single step has no fraction to show: its bar only moves, and disappears when the next step begins
            if what not in tasks:
                for task in bars.tasks:
                    bars.update(task.id, visible=task.total is not None)
                tasks[what] = bars.add_task(what, total=of if of > 1 else None)
            bars.update(tasks[what], completed=done, remark=remark)

        yield tell
