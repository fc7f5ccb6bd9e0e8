"""A fit by several processes beside the same fit by one, and beside the cost model of docs/scaling.md."""

from __future__ import annotations

import time
from typing import Any

from qml_lightning import fit

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Headline, Options
from ..harness.entries import grouped
from ..harness.internals import facts, ranks_of_torchrun
from ..harness.models import fchl19_recipe, rmd17, rmd17_files
from ..harness.processes import apart
from ..harness.tables import table

# Rates that docs/scaling.md assumes of one GPU and its network: FLOP/s in float64 and bytes/s between ranks.
PRODUCT, CHOLESKY, NETWORK = 40e12, 20e12, 25e9
RIDGE = 1e-8
RANKS = 2


def cells(options: Options) -> list[Cell]:
    n_train, n_features = (30, 256) if options.quick else (600, 4096)
    sizes = {"molecule": "ethanol", "n_train": n_train, "n_features": n_features}
    return [{**sizes, "ranks": ranks} for ranks in (RANKS, 1)]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    if options.quick and cell["ranks"] == 1:  # a process of its own costs seconds
        return one_fit(cell, True) or {}
    found: dict[str, Any] = apart(one_fit, cell, options.quick, ranks=cell["ranks"], threads=1)
    return found


def one_fit(cell: Cell, quick: bool) -> dict[str, Any] | None:
    """Facts about the fit, from the first rank; None from the others."""
    train, _ = rmd17(cell["molecule"], cell["n_train"], quick=quick)
    with ranks_of_torchrun() as ranks:
        start, busy = time.perf_counter(), time.process_time()
        # start of each stage in processor time, which a machine that is shared changes little
        begun: dict[str, float] = {}
        tell = lambda what, *_: begun.setdefault(what, time.process_time())  # noqa: E731
        potential = fit(train, fchl19_recipe(cell["n_features"], ridge=RIDGE), ranks=ranks, progress=tell)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    if ranks is not None and ranks.rank > 0:
        return None
    known = facts(potential)
    shared = known["solution"].get("ranks", {})
    return {
        "seconds": seconds,
        "processor_seconds_of_first": busy,
        "equations_of_first": begun.get("adding up", begun["solving"]) - begun["equations"],
        "rows": sum(known["targets"].values()),
        "bytes_sent_by_each": shared.get("bytes_sent_by_each"),
        "stages": shared.get("seconds"),
        "norm": float(potential.weights.norm()),
    }


def model() -> str:
    """Seconds by the cost model, equations / P + 4 N² / network + N³ / 3, with the rates above."""
    lines = []
    for features, rows in ((32768, 1e6), (32768, 3e7), (65536, 1e6), (65536, 3e7)):
        equations = rows * features**2 / PRODUCT
        send, factor = 4 * features**2 / NETWORK, features**3 / 3 / CHOLESKY
        by_ranks = [equations / p + send + factor for p in (8, 64, 256, 1024)]
        alone = equations + factor
        even = equations / (send + factor)
        cells = [f"{t:.1f} ({alone / t:.0f}×)" for t in by_ranks]
        shown = [f"{alone:.0f}", f"{4 * features**2 / 1e9:.0f} GB, {send:.1f}", f"{factor:.1f}", *cells, f"{even:.0f}"]
        lines.append([f"{features}, {rows:.0e}".replace("e+0", "e"), *shown])
    head = ["N_F, rows", "one GPU", "sent", "Cholesky", "8", "64", "256", "1024", "half of it serial at"]
    return table(head, lines)


def _pairs(entries: list[Entry]) -> list[tuple[Cell, Entry, Entry]]:
    """Cell, entry of several ranks and entry of one process of the same fit, where both are there."""
    out = []
    for there in grouped(entries, "molecule", "n_train", "n_features").values():
        by_ranks = {entry[CELL]["ranks"]: entry for entry in there}
        if 1 in by_ranks:
            out += [(entry[CELL], entry, by_ranks[1]) for ranks, entry in by_ranks.items() if ranks > 1]
    return out


def headline(entries: list[Entry]) -> list[Headline]:
    """Processor time, which others on the machine change little."""
    rows = []
    for cell, several, alone in _pairs(entries):
        ranks, shared, whole = cell["ranks"], alone["equations_of_first"], alone["processor_seconds_of_first"]
        rows.append(
            Headline(
                f"fit of {cell['n_features']} features by {ranks} ranks of one thread: processor time of the first",
                f"{several['processor_seconds_of_first']:.1f} s",
                f"the model {whole - shared + shared / ranks:.1f} s, one process {whole:.1f} s",
            )
        )
    return rows


def tables(entries: list[Entry]) -> str:
    return "\n\n".join(_table(*pair) for pair in _pairs(entries))


def _table(cell: Cell, several: Entry, alone: Entry) -> str:
    """The measurement beside the cost model."""
    n, ranks = cell["n_features"], cell["ranks"]
    sent, shared = several["bytes_sent_by_each"], alone["equations_of_first"]
    adding = several["stages"]["adding_up"]
    rest = alone["processor_seconds_of_first"] - shared
    lines = [
        ["bytes that each rank sends", f"4·N_F² = {4 * n**2 / 1e6:.1f} MB", f"{sent / 1e6:.1f} MB"],
        ["adding up", "4·N_F² / b", f"{adding:.2f} s: b = {4 * n**2 / adding / 1e9:.2f} GB/s, waiting included"],
        ["processor time for the equations, each rank",
         f"{shared:.1f} s of one process / {ranks} = {shared / ranks:.1f} s", f"{several['equations_of_first']:.1f} s"],
        ["processor time of the first rank", f"{shared / ranks:.1f} s + {rest:.1f} s that are not shared = "
         f"{shared / ranks + rest:.1f} s", f"{several['processor_seconds_of_first']:.1f} s"],
        ["weights, relative difference of their norms", "rounding",
         f"{abs(several['norm'] / alone['norm'] - 1):.0e}"],
    ]  # fmt: skip
    return table(["", "model", "measured"], lines)


DISTRIBUTED = Benchmark(
    "distributed",
    "A fit by several processes",
    "Ranks of one thread each, started by torchrun, beside one process of one thread.",
    cells, measure, tables, headline=headline,
    needs=rmd17_files("ethanol"), timing=True,
)  # fmt: skip
