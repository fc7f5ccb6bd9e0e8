"""A fit with its equations on disk beside the same fit in memory, or its floor: time, bytes moved, peak of memory."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from qml_lightning import fit

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Headline, Options, succeeded
from ..harness.internals import bytes_from, facts
from ..harness.models import fchl19_recipe, rmd17, rmd17_files
from ..harness.places import ROOT
from ..harness.processes import apart
from ..harness.tables import table
from ..harness.timing import FLOOR_OF_FIT, GIB, floor_of_fit, memory, rates

RIDGE = 1e-8
MOST_IN_MEMORY = 8192  # features with which the fit in memory is run as well
DISK, MEMORY = "on disk", "in memory"


def cells(options: Options) -> list[Cell]:
    sizes = ((100, 1024, "0.2GiB"),) if options.quick else ((1000, 8192, "0.5GiB"), (1000, 32768, "4GiB"))
    return [{"molecule": "ethanol", "n_train": n, "n_features": m, "memory": limit} for n, m, limit in sizes]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    limit = bytes_from(cell["memory"])
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        runs, weights = {}, {}
        for name, bound in {DISK: limit, MEMORY: None}.items():
            if name == DISK or cell["n_features"] <= MOST_IN_MEMORY:
                task = (cell, bound, folder, options.quick)
                # in a process of its own, so that peaks do not mix
                runs[name] = one_fit(*task) if options.quick else apart(one_fit, *task)
                weights[name] = torch.load(Path(folder, "weights.pt"))
    rate = rates(256 if options.quick else 8192)
    out = {"memory_bytes": limit, "ridge": RIDGE, "runs": runs, "weights_difference": None}
    if MEMORY in weights:
        difference = (weights[DISK] - weights[MEMORY]).norm() / weights[MEMORY].norm()
        out["weights_difference"] = float(difference)
    floor = floor_of_fit(sum(runs[DISK]["rows"].values()), cell["n_features"], rate)
    return {**out, "rates_gflops": rate, "floor_seconds": floor}


def one_fit(cell: Cell, limit: int | None, folder: str, quick: bool) -> dict[str, Any]:
    """Facts about a fit within so many bytes; its weights are left in `folder` to be compared."""
    train, _ = rmd17(cell["molecule"], cell["n_train"], quick=quick)
    recipe = fchl19_recipe(cell["n_features"], ridge=RIDGE)
    if limit is not None and quick:
        limit += memory("VmRSS")  # of a process that has other things in memory
    last: dict[str, float] = {}  # when each stage was last told of

    def tell(what: str, done: int, of: int, remark: str = "") -> None:
        last[what] = time.perf_counter() - start

    start, busy = time.perf_counter(), time.process_time()
    potential = fit(train, recipe, memory_limit=limit, scratch=folder, progress=tell)
    seconds, known = time.perf_counter() - start, facts(potential)
    torch.save(potential.weights, Path(folder, "weights.pt"))
    return {
        "seconds": seconds,
        "processor_seconds": time.process_time() - busy,  # a machine that is shared changes it little
        "equations_seconds": last["equations"],
        "solving_seconds": seconds - last["equations"],
        "peak_bytes": memory("VmHWM"),
        "rows": known["targets"],
        **known["solution"].get("out_of_core", {}),
    }


def tables(entries: list[Entry]) -> str:
    return "\n\n".join(_table(entry) for entry in succeeded(entries))


def _table(entry: Entry) -> str:
    runs, disk = entry["runs"], entry["runs"][DISK]
    names = list(dict.fromkeys(name for run in runs.values() for name in run))
    head = ["{n_train} {molecule}, {n_features} features, within {memory}".format(**entry[CELL]), *runs]
    text = table(head, [[name, *(_figure(name, run.get(name)) for run in runs.values())] for name in names])
    difference = entry["weights_difference"]
    compared = "" if difference is None else f"Weights differ by {difference:.0e}. "
    return (
        f"{text}\n\n{disk['seconds'] / entry['floor_seconds']:.2f} × the floor of {entry['floor_seconds']:.0f} s. "
        f"{compared}The peak is {disk['peak_bytes'] / entry['memory_bytes']:.2f} of the limit."
    )


def _figure(name: str, value: Any) -> str:
    if "bytes" in name and value is not None:
        return f"{value / GIB:.2f} GiB"
    return f"{value:.1f}" if isinstance(value, float) else "" if value is None else str(value)


def headline(entries: list[Entry]) -> list[Headline]:
    rows = []
    for entry in succeeded(entries):
        cell, disk = entry[CELL], entry["runs"][DISK]
        beside = f"{disk['seconds'] / entry['floor_seconds']:.2f} × {FLOOR_OF_FIT}"
        if MEMORY in entry["runs"]:
            beside = f"{disk['seconds'] / entry['runs'][MEMORY]['seconds']:.2f} × the same in memory"
        what = f"fit of {cell['n_train']} {cell['molecule']} structures, {cell['n_features']} features, on disk"
        peak, on_disk = f"{disk['peak_bytes'] / GIB:.2f} GiB", f"{disk['disk_bytes'] / GIB:.1f} GiB on disk"
        rows.append(Headline(f"{what} within {cell['memory']}: peak of memory", peak, on_disk))
        rows.append(Headline(what, f"{disk['seconds']:.0f} s", beside, timing=True))
    return rows


OUT_OF_CORE = Benchmark(
    "out_of_core",
    "A fit with its equations on disk",
    f"With {MOST_IN_MEMORY} features the same fit in memory stands beside it, with more the floor of a fit.",
    cells, measure, tables, headline=headline,
    needs=rmd17_files("ethanol"), timing=True,
)  # fmt: skip
