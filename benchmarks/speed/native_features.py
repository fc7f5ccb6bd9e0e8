"""Native kernels of the features beside `torch.cos` in the same run: µs per atom or tangent."""

from __future__ import annotations

from typing import Any

import torch

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.internals import NativeFeatures, instruction_set
from ..harness.tables import table
from ..harness.timing import best_of, cosine_floor

RANK, N_TRANSFORMS = 128, 2
COSINE = "torch.cos"


def cells(options: Options) -> list[Cell]:
    n_features, threads = (256, (1,)) if options.quick else (16384, (1, 2))
    return [{"threads": n, "map": name, "n_features": n_features} for n in threads for name in ("unpaired", "paired")]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    before, n_atoms = torch.get_num_threads(), 210 if options.quick else 10500
    torch.set_num_threads(cell["threads"])
    try:
        kernels = NativeFeatures(cell["n_features"], RANK, N_TRANSFORMS, cell["map"] == "paired")
        calls = kernels.calls(n_atoms)
        calls[COSINE] = cosine_floor(n_atoms, cell["n_features"]), n_atoms
        times = {name: best_of(call, 200 if n <= 21 else 5) / n * 1e6 for name, (call, n) in calls.items()}
    finally:
        torch.set_num_threads(before)
    return {"microseconds": times, "atoms": n_atoms, "instruction_set": instruction_set()}


def tables(entries: list[Entry]) -> str:
    there = succeeded(entries)
    names = list(dict.fromkeys(name for entry in there for name in entry["microseconds"]))
    rows = [[name, *(f"{entry['microseconds'][name]:.2f}" for entry in there)] for name in names]
    head = ["{map}, {threads} threads".format(**entry[CELL]) for entry in there]
    return table(["µs per atom", *head], rows)


NATIVE_FEATURES = Benchmark(
    "native_features",
    "Native kernels of the features",
    f"Rank {RANK}, {N_TRANSFORMS} transforms, float32; random environments of 10 500 atoms.",
    cells, measure, tables,
    timing=True,
)  # fmt: skip
