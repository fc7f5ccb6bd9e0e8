"""Tables of headlines for the README and docs/accuracy.md: one row for each, with the machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..harness.benchmark import Benchmark, Headline, entries
from ..harness.places import RESULTS
from ..harness.results import quiet, read
from ..harness.tables import table
from ..rooms import BENCHMARKS
from .links import link

MEASURED_HERE = ("kernelforge", "OQML", "GPR", "sGDML", "TorchANI", "MACE")  # programs whose times are ours


def first_screen(page: Path) -> str:
    """The few rows for readers of one screen only."""
    return _table(page, lambda row: row.first)


def others(page: Path) -> str:
    """All other rows."""
    return _table(page, lambda row: not row.first)


def _table(page: Path, wanted: Callable[[Headline], bool]) -> str:
    """A table of the wanted headlines, with links from `page`, and the machines that they were measured on."""
    rows, machines = [], {}
    for benchmark in BENCHMARKS:
        told = [row for row in headlines(benchmark) if wanted(row)]
        file = RESULTS / f"{benchmark.name}.json"
        rows += [(row.timing, [row.what, link(page, file, f"**{row.here}**"), row.beside]) for row in told]
        if told:
            machines.setdefault(_machine(benchmark), []).append(benchmark.name)
    where = "; ".join(
        machine if len(machines) == 1 else f"{machine} ({', '.join(names)})" for machine, names in machines.items()
    )
    head = ["", "this package, with the result file", "for comparison"]  # three columns fit on a phone
    accuracy_first = [cells for _, cells in sorted(rows, key=lambda row: row[0])]
    times = " ".join(cells[-1] for timing, cells in rows if timing)
    made = table(head, accuracy_first, aligned=False)
    return f"{made}\n\nMeasured on {where or 'nothing'}. {_others(times)}"


def _others(times: str) -> str:
    """Where the figures of other programs come from. `times`: the cells of times, whose programs are named."""
    named = [name for name in MEASURED_HERE if name in times]
    if not named:
        return "Figures of other methods are as published."
    listed = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    same = f"Times of {listed} were measured on the same machine as ours."
    return f"{same} Other figures of other methods are as published."


def headlines(benchmark: Benchmark) -> list[Headline]:
    """Headlines of a benchmark; a time only if all that it tells was measured on a machine that nobody else used."""
    told = entries(benchmark.name)
    undisturbed = benchmark.headline([entry for entry in told if quiet(entry)])
    return [row for row in benchmark.headline(told) if not row.timing or row in undisturbed]


def _machine(benchmark: Benchmark) -> str:
    record = read(benchmark.name, RESULTS)
    assert record is not None
    return f"{record['machine']['cpu']}, {record['threads']} threads"
