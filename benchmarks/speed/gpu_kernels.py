"""Every Triton kernel compiled for five architectures: registers, shared memory, and whether anything is spilled."""

from __future__ import annotations

from typing import Any

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.gpu import compiled_apart
from ..harness.tables import table

ARCHITECTURES = (80, 86, 90, 100, 120)


def cells(options: Options) -> list[Cell]:
    if options.quick:
        return [{"architecture": 86, "part": "quick"}]
    return [{"architecture": a, "part": part} for a in ARCHITECTURES for part in ("features", "pairs", "environments")]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    return {"kernels": compiled_apart(cell["architecture"], cell["part"])}


def tables(entries: list[Entry]) -> str:
    rows: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for entry in succeeded(entries):
        for one in entry["kernels"]:
            rows.setdefault(one["name"].lstrip("_"), {}).setdefault(entry[CELL]["architecture"], []).append(one)
    there = sorted({a for row in rows.values() for a in row})
    head = ["registers, up to", *(f"sm_{a}" for a in there), "shared memory, up to", "spilled"]
    body = []
    for name, row in rows.items():
        every = [one for some in row.values() for one in some]
        most = [str(max(one["registers"] for one in row[a])) if a in row else "–" for a in there]
        spilled = sum(bool(one["does_not_fit"]) for one in every)
        shared = f"{max(one['shared_bytes'] for one in every) / 1024:.0f} KiB"
        body.append([name, *most, shared, f"{spilled} of {len(every)}"])
    return table(head, body)


GPU_KERNELS = Benchmark(
    name="gpu_kernels",
    title="Triton kernels, compiled for GPUs that were not there",
    text="Each kernel is compiled for float32, for float64 and for float32 with float64 products, at the sizes of real "
    "models, as a GPU would have it compiled on first use; sums in pairs of float32 "
    "are for float32 alone. The compiler's own tools report registers of a thread, "
    "shared memory of a program, and kernels that keep numbers of a thread outside its registers. Nothing ran on one.",
    cells=cells,
    measure=measure,
    tables=tables,
    packages=("triton",),
)
