"""A benchmark as a value: the cells to measure, a function that measures one, and tables and a picture of all.

A cell is a plain dictionary of words and numbers that tells what to measure. Its entry in the result file is the cell,
the figures that came out, and the circumstances of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from . import results
from .places import FIGURES, RESULTS, SHARED_DATA, TRIED

CELL = "cell"  # key of an entry under which its cell stands
FAILED = "failed"  # key of an entry that could not be measured; the value is the reason

Cell = dict[str, Any]
Entry = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """Options of the command line that cells and measurements depend on."""

    quick: bool = False
    recipe: str = "default"
    folder: Path | None = None  # of results and pictures; None: those of the repository, or TRIED for a quick run

    @property
    def results(self) -> Path:
        return self.folder or (TRIED if self.quick else RESULTS)

    @property
    def figures(self) -> Path:
        return self.folder or (TRIED if self.quick else FIGURES)


@dataclass(frozen=True)
class Headline:
    """A row for the tables of the README."""

    what: str
    here: str
    beside: str  # a floor or a rival measured in the same run, or a published figure
    timing: bool = False  # left out if others kept the machine busy
    first: bool = False  # for the first screen


@dataclass(frozen=True)
class Comparison:
    """A figure that the paper has as well; less is better."""

    what: str
    here: float
    paper: float
    error: float = 0.0  # standard error of the figure here, where it is known

    @property
    def reached(self) -> bool:
        return self.here <= self.paper

    @property
    def by_chance(self) -> bool:
        """Whether it is missed by less than its standard error."""
        return not self.reached and self.here - self.error <= self.paper


@dataclass(frozen=True)
class Benchmark:
    """One table or figure, measured cell by cell."""

    name: str
    title: str
    text: str  # how it is measured, for the page of results
    cells: Callable[[Options], list[Cell]]
    measure: Callable[[Cell, Options], dict[str, Any]]
    tables: Callable[[list[Entry]], str]  # Markdown
    draw: Callable[[list[Entry]], Any] | None = None  # a matplotlib figure, where there is a picture
    headline: Callable[[list[Entry]], list[Headline]] = lambda _: []
    recipe: str = "default"  # unless the command line says otherwise
    needs: tuple[str, ...] = ()  # files of the folder of shared data
    packages: tuple[str, ...] = ()  # modules of other programs that it imports
    threads: int | None = None  # unless the command line says otherwise; None: as many as torch takes
    timing: bool = False  # needs a machine that does nothing else
    compared: Callable[[list[Entry]], list[Comparison]] = lambda _: []  # with figures of the paper
    why: str = ""  # the reason why figures of the paper are not reached, or not seen

    @property
    def missing(self) -> list[str]:
        """Files and modules that are needed and not there."""
        files = [name for name in self.needs if not (SHARED_DATA / name).is_file()]
        return files + [name for name in self.packages if find_spec(name) is None]


def key_of(cell: Cell) -> str:
    """The values of a cell in one line: its name."""
    return " ".join(str(value) for value in cell.values())


def entries(name: str, folder: Path = RESULTS) -> list[Entry]:
    """Entries of a benchmark that were measured so far, failures too."""
    record = results.read(name, folder)
    return [] if record is None else list(record["results"])


def succeeded(told: Sequence[Entry]) -> list[Entry]:
    """Entries that did not fail."""
    return [entry for entry in told if FAILED not in entry]


def earlier(name: str, options: Options, **cell: Any) -> Entry:
    """The entry of another cell, which must have been measured before."""
    for entry in succeeded(entries(name, options.results)):
        if entry[CELL].items() >= cell.items():
            return entry
    raise LookupError(
        f"This needs the cell {cell} of {name}, which is not in {options.results}. Run python -m benchmarks {name}."
    )
