"""Tables that are measured cell by cell: each cell is written as it is done, and not measured again.

A benchmark is a list of cells (plain dictionaries that tell what to measure), a function that measures one of them, and
functions that tell all of them as a table and as a picture.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from common import RESULTS, ROOT, SHARED_DATA, Headline, commit, machine, read, write
from drawing import save

from qml_lightning.kernels import kernels_for

FIGURES = ROOT / "benchmarks" / "figures"
TRIED = ROOT / "build" / "benchmarks"  # where quick runs go
PUBLISHED = json.loads((ROOT / "benchmarks" / "published.json").read_text(encoding="utf-8"))
WHAT = "cell"  # where an entry of the results says what was measured

Cell = dict[str, Any]  # what to measure: words and numbers that tell it from all others
Entry = dict[str, Any]  # what was measured: the cell, and what came out


@dataclass(frozen=True)
class Options:
    """What the command line asks of a benchmark."""

    quick: bool = False
    recipe: str = "default"


@dataclass(frozen=True)
class Beside:
    """A figure that the paper has as well; less is better."""

    what: str
    here: float
    paper: float
    error: float = 0.0  # standard error of what is here, where it is known

    @property
    def reached(self) -> bool:
        return self.here <= self.paper

    @property
    def by_chance(self) -> bool:
        """Whether it is reached but for less than its standard error."""
        return not self.reached and self.here - self.error <= self.paper


@dataclass(frozen=True)
class Benchmark:
    """One table or figure of the paper."""

    name: str
    title: str
    text: str  # what was done, for the page of results
    cells: Callable[[Options], list[Cell]]
    measure: Callable[[Cell, Options], dict[str, Any]]
    tables: Callable[[list[Entry]], str]  # Markdown
    draw: Callable[[list[Entry]], Any]  # a matplotlib figure
    headline: Callable[[list[Entry]], list[Headline]] = lambda _: []
    recipe: str = "default"  # what it is measured with unless the command line says otherwise
    needs: tuple[str, ...] = ()  # files of the folder of shared data
    timing: bool = False  # says something only on a machine that does nothing else
    beside: Callable[[list[Entry]], list[Beside]] = lambda _: []
    why: str = ""  # some of the paper's figures are not reached, or what it says is not seen

    @property
    def missing(self) -> list[str]:
        """Files that are needed and not there."""
        return [name for name in self.needs if not (SHARED_DATA / name).is_file()]


def key_of(cell: Cell) -> str:
    """The words of a cell in one line: its name in the result file."""
    return " ".join(str(value) for value in cell.values())


def chosen(cells: Sequence[Cell], only: Sequence[Sequence[str]]) -> list[Cell]:
    """The cells that have one of the words of each group; `seed=1` is more exact than `1`."""

    def words(cell: Cell) -> set[str]:
        return {*key_of(cell).split(), *(f"{name}={value}" for name, value in cell.items())}

    return [cell for cell in cells if all(words(cell) & set(group) for group in only)]


def run(
    benchmark: Benchmark,
    options: Options,
    *,
    only: Sequence[Sequence[str]] = (),
    again: bool = False,
    folder: Path | None = None,
) -> Path:
    """Measure the cells that are missing, write each as it is done, draw all; the path of the result file.

    `folder`: where results and picture go; by default those of the repository, for a quick run build/benchmarks.
    """
    if benchmark.missing:
        raise SystemExit(
            f"{benchmark.name} needs {', '.join(benchmark.missing)} in {SHARED_DATA}, where public data sets are "
            "expected (CONTRIBUTING.md). Put them there, or leave this benchmark out."
        )
    results = folder or (TRIED if options.quick else RESULTS)
    results.mkdir(parents=True, exist_ok=True)
    path = results / f"{benchmark.name}.json"
    for cell in chosen(benchmark.cells(options), only):
        # read anew: another process may be at other cells of the same table
        there = entries(benchmark, results)
        if not again and any(key_of(entry[WHAT]) == key_of(cell) and "failed" not in entry for entry in there):
            print(f"{benchmark.name}: {key_of(cell)} is there", flush=True)
            continue
        entry = {WHAT: cell, **_measured(benchmark, cell, options)}
        kept = [other for other in entries(benchmark, results) if key_of(other[WHAT]) != key_of(cell)]
        told = _in_order(benchmark, options, [*kept, entry])
        path = write(benchmark.name, told, benchmark.headline(told), folder=results)
    draw(benchmark, results, folder or (TRIED if options.quick else FIGURES))
    return path


def _measured(benchmark: Benchmark, cell: Cell, options: Options) -> dict[str, Any]:
    """What came out, or why nothing did, and in what circumstances."""
    print(f"{benchmark.name}: {key_of(cell)} …", flush=True)
    start = time.perf_counter()
    try:
        out = benchmark.measure(cell, options)
    except Exception as error:  # a cell that fails is shown as such, and the others are measured
        traceback.print_exc()
        out = {"failed": f"{type(error).__name__}: {error}"}
    seconds = time.perf_counter() - start
    numbers = {name: value for name, value in out.items() if isinstance(value, float)}
    print(f"  {seconds:.1f} s: " + (out.get("failed") or ", ".join(f"{k} {v:.4g}" for k, v in numbers.items())))
    circumstances = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **commit(),
        "cpu": machine()["cpu"],  # cells of one table may come from several machines
        "threads": torch.get_num_threads(),
        "kernels": kernels_for("cpu", torch.float32).NAME,
        "load_average": round(os.getloadavg()[0], 2),
        "seconds": round(seconds, 1),
    }
    return {**out, "run": circumstances}


def entries(benchmark: Benchmark, folder: Path = RESULTS) -> list[Entry]:
    """What was measured so far."""
    record = read(benchmark.name, folder=folder)
    return [] if record is None else list(record["results"])


def _in_order(benchmark: Benchmark, options: Options, told: list[Entry]) -> list[Entry]:
    """In the order of the cells, those of its own recipe first, whichever was measured last."""
    cells = [cell for recipe in (benchmark.recipe, options.recipe)
             for cell in benchmark.cells(Options(options.quick, recipe))]  # fmt: skip
    order: dict[str, int] = {}
    for cell in cells:
        order.setdefault(key_of(cell), len(order))
    return sorted(told, key=lambda entry: order.get(key_of(entry[WHAT]), len(order)))


def draw(benchmark: Benchmark, results: Path = RESULTS, figures: Path = FIGURES) -> Path | None:
    """The picture of what was measured so far, failures too; None if nothing else was."""
    told = entries(benchmark, results)
    there = any("failed" not in entry for entry in told)
    return save(benchmark.draw(told), figures / f"{benchmark.name}.png") if there else None


def main(benchmarks: Sequence[Benchmark], arguments: Sequence[str] | None = None, text: str | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    by_name = {benchmark.name: benchmark for benchmark in benchmarks}
    parser.add_argument("names", nargs="*", choices=[*by_name, []], metavar="NAME", help=", ".join(by_name))
    parser.add_argument("--quick", action="store_true", help=f"small sizes, into {TRIED.relative_to(ROOT)}")
    parser.add_argument(
        "--only",
        nargs="+",
        action="append",
        default=[],
        metavar="WORD",
        help="only cells with one of these words, such as ethanol or seed=1; given several times, all must hold",
    )
    parser.add_argument("--recipe", help="default, auto, paper or angular-pair (default: as the benchmark wants it)")
    parser.add_argument("--again", action="store_true", help="measure cells that are there already, too")
    parser.add_argument("--draw", action="store_true", help="measure nothing: tables and pictures of what is there")
    parser.add_argument("--list", action="store_true", help="the cells, and which of them are there")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    for benchmark in [by_name[name] for name in given.names] or benchmarks:
        options = Options(given.quick, given.recipe or benchmark.recipe)
        if given.list:
            _list(benchmark, options, given.only)
            continue
        if given.draw or not given.names:
            draw(benchmark)
        else:
            print(f"written: {run(benchmark, options, only=given.only, again=given.again)}")
        told = entries(benchmark, TRIED if given.quick else RESULTS)
        if told:
            print(f"\n{benchmark.title}\n\n{benchmark.tables(told)}\n")


def _list(benchmark: Benchmark, options: Options, only: Sequence[Sequence[str]]) -> None:
    there = {key_of(entry[WHAT]) for entry in entries(benchmark) if "failed" not in entry}
    for cell in chosen(benchmark.cells(options), only):
        print(f"{benchmark.name}: {key_of(cell)}{' (there)' if key_of(cell) in there else ''}")
