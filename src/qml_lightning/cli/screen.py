"""The screen: tables and messages that also read well in a file, and bars that only a terminal sees."""

from __future__ import annotations

import json
import math
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

# Columns where there is no terminal to ask.
WIDTH = 110


def teaching(text: str) -> str:
    """Help with its paragraphs on one line each, for the terminal to break; indented lines (examples) stay."""
    lines: list[str] = []
    for line in text.strip().split("\n"):
        joins = bool(lines) and lines[-1] != "" and line != "" and not line.startswith(" ")
        lines[-1:] = [f"{lines[-1]} {line}"] if joins else [*lines[-1:], line]
    return "\n".join(lines)


def console(*, stderr: bool = False) -> Console:
    """Results go to stdout; progress, notes and errors to stderr."""
    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=WIDTH)


def panel(title: str, message: str, *, colour: str) -> None:
    """A framed message on stderr; without a terminal the plain text."""
    to = console(stderr=True)
    if to.is_terminal:
        to.print(Panel(Text(message), title=title, title_align="left", border_style=colour, width=min(to.width, WIDTH)))
    else:
        to.print(f"{title}: {message}", markup=False, soft_wrap=True)


def note(message: str) -> None:
    """A line on stderr."""
    console(stderr=True).print(Text(message, style="dim"), soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> Group:
    """Rows under a heading; the columns numbered in `right` are aligned to the right."""
    made = Table(box=box.SIMPLE_HEAD, header_style="dim")
    for at, name in enumerate(columns):
        made.add_column(name, justify="right" if at in right else "left", overflow="fold", no_wrap=at in right)
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return _titled(title, made)


def facts(title: str, values: dict[str, str]) -> Group:
    """Names and values, two columns without a heading; empty values are left out."""
    made = Table(box=box.SIMPLE_HEAD, show_header=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in values.items():
        if value:
            made.add_row(name, Text(value))
    return _titled(title, made)


def _titled(title: str, made: Table) -> Group:
    return Group(Text(title, style="bold"), made)  # rich would squeeze its own title into the width of the table


def show(*parts: Any) -> None:
    """On stdout; plain text is not broken and not read as markup, as there may be paths in it."""
    to = console()
    for part in parts:
        if isinstance(part, str):
            to.print(part, markup=False, soft_wrap=True)
        else:
            to.print(part)


def show_json(value: dict[str, Any]) -> None:
    """One JSON object on stdout; what is not a number becomes null."""
    print(json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def finite(value: Any) -> Any:
    """What JSON can hold: null for what is not a number."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Warnings of the library as framed messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: panel("Warning", str(message), colour="yellow")
        yield


class Remark(ProgressColumn):
    """What the work says of itself beside its bar, such as its rate."""

    def render(self, task: Task) -> Text:
        return Text(task.fields.get("remark", ""), style="dim")


class Remaining(ProgressColumn):
    """Time left, from the speed since the beginning: portions are few and large, rich would wait for several."""

    def render(self, task: Task) -> Text:
        if not task.total or not task.completed or not task.elapsed:
            return Text("")
        seconds = round(task.elapsed * (task.total - task.completed) / task.completed)
        return Text(f"{timedelta(seconds=seconds)} left")


class Tell(Protocol):
    """What `progress` gives: `training.Progress`, without waiting for torch."""

    def __call__(self, what: str, done: int, of: int, remark: str = "", /) -> None: ...


@contextmanager
def progress(*, shown: bool = True) -> Iterator[Tell]:
    """`tell(what, done, of, remark)` draws a bar with the remaining time for each `what`, in terminals only."""
    to = console(stderr=True)
    columns = (TextColumn("{task.description:<12}"), BarColumn(40), TaskProgressColumn(), Remaining(), Remark())
    with Progress(*columns, console=to, transient=True, disable=not (shown and to.is_terminal)) as bars:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, of: int, remark: str = "", /) -> None:
            # one step in all has no fraction to show: its bar only moves, and goes when the next step begins
            if what not in tasks:
                for task in bars.tasks:
                    bars.update(task.id, visible=task.total is not None)
                tasks[what] = bars.add_task(what, total=of if of > 1 else None)
            bars.update(tasks[what], completed=done, remark=remark)

        yield tell
