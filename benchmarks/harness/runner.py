"""The runner: measures the cells of a benchmark that are missing, and writes each as it is done."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import results
from .benchmark import CELL, FAILED, Benchmark, Cell, Entry, Options, entries, key_of, succeeded
from .drawing import save
from .places import SHARED_DATA


def run(
    benchmark: Benchmark, options: Options, *, only: Sequence[Sequence[str]] = (), again: bool = False
) -> list[Entry]:
    """Measure the missing cells, write each as it is done, draw all; the entries of the result file.

    `only`: groups of words of which a cell must have one each (`chosen`). `again`: cells that are there, too.
    """
    if benchmark.missing:
        raise SystemExit(
            f"{benchmark.name} needs {', '.join(benchmark.missing)}. Files of public data sets are expected in "
            f"{SHARED_DATA}, or in the folder of QML_LIGHTNING_DATA; modules in this environment. Add them, or leave "
            "this benchmark out."
        )
    for cell in chosen(benchmark.cells(options), only):
        # read anew: another process may be at other cells of the same table
        there = succeeded(entries(benchmark.name, options.results))
        if not again and any(key_of(entry[CELL]) == key_of(cell) for entry in there):
            print(f"{benchmark.name}: {key_of(cell)} is there", flush=True)
            continue
        entry = {CELL: cell, **_measured(benchmark, cell, options)}
        others = [e for e in entries(benchmark.name, options.results) if key_of(e[CELL]) != key_of(cell)]
        results.write(benchmark.name, in_order(benchmark, options, [*others, entry]), options.results)
    draw(benchmark, options)
    return entries(benchmark.name, options.results)


def chosen(cells: Sequence[Cell], only: Sequence[Sequence[str]]) -> list[Cell]:
    """The cells that have one of the words of each group; `seed=1` is more exact than `1`."""

    def words(cell: Cell) -> set[str]:
        return {*key_of(cell).split(), *(f"{name}={value}" for name, value in cell.items())}

    return [cell for cell in cells if all(words(cell) & set(group) for group in only)]


def _measured(benchmark: Benchmark, cell: Cell, options: Options) -> dict[str, Any]:
    """The figures of a cell, or the reason why there are none, with the circumstances."""
    print(f"{benchmark.name}: {key_of(cell)} …", flush=True)
    start = time.perf_counter()
    try:
        out = benchmark.measure(cell, options)
    except Exception as error:  # a cell that fails is shown as such, and the others are measured
        traceback.print_exc()
        out = {FAILED: f"{type(error).__name__}: {error}"}
    seconds = time.perf_counter() - start
    numbers = {name: value for name, value in out.items() if isinstance(value, float)}
    print(f"  {seconds:.1f} s: " + (out.get(FAILED) or ", ".join(f"{k} {v:.4g}" for k, v in numbers.items())))
    return {**out, "run": results.circumstances(seconds)}


def in_order(benchmark: Benchmark, options: Options, told: list[Entry]) -> list[Entry]:
    """Entries in the order of the cells, those of the benchmark's own recipe first."""
    order: dict[str, int] = {}
    for recipe in (benchmark.recipe, options.recipe):
        for cell in benchmark.cells(replace(options, recipe=recipe)):
            order.setdefault(key_of(cell), len(order))
    return sorted(told, key=lambda entry: order.get(key_of(entry[CELL]), len(order)))


def draw(benchmark: Benchmark, options: Options) -> Path | None:
    """The picture of all entries, failures too; None if nothing was measured or there is no picture."""
    told = entries(benchmark.name, options.results)
    if benchmark.draw is None or not succeeded(told):
        return None
    return save(benchmark.draw(told), options.figures / f"{benchmark.name}.png")
