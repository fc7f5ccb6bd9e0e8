"""Prediction of energies and forces beside kernelforge's random-feature model: the same features and molecules."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from qml_lightning import fit

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Headline, Options, succeeded
from ..harness.models import fchl19_recipe, load, rmd17_files
from ..harness.tables import table
from ..harness.timing import best_of
from ..peers.environments import ask

OURS, THEIRS = "qml-lightning", "kernelforge"
AT_ONCE = {OURS: 500, THEIRS: 5}  # molecules that are predicted at once
LEARNT = 5


def cells(options: Options) -> list[Cell]:
    return [{"program": program, "n_features": 256 if options.quick else 16384} for program in AT_ONCE]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    program, n_features = cell["program"], cell["n_features"]
    data = load("rmd17_aspirin:train_01").select(np.arange(LEARNT if options.quick else AT_ONCE[program]))
    if program == OURS:
        potential = fit(data.select(np.arange(LEARNT)), fchl19_recipe(n_features))
        seconds = best_of(lambda: potential.predict(data.structures), 5)
        return {"us_per_atom": seconds / data.structures.n_atoms * 1e6, "molecules": len(data)}
    n = int(data.structures.counts[0])
    assert data.labels.energies is not None
    arrays = {
        "numbers": data.structures.numbers[:n].numpy(),
        "positions": data.structures.positions.view(-1, n, 3).numpy(),
        "energies": data.labels.energies.numpy(),
    }
    task = {"task": "predict", "method": "rff", "n_features": n_features, "threads": torch.get_num_threads()}
    return {**ask(THEIRS, task, arrays, seconds=300), "molecules": len(data)}


def _times(entries: list[Entry]) -> dict[str, float]:
    return {entry[CELL]["program"]: entry["us_per_atom"] for entry in succeeded(entries)}


def tables(entries: list[Entry]) -> str:
    times = _times(entries)
    rows = [[name, f"{time:.1f}", f"{time / times[OURS]:.0f}" if OURS in times else ""] for name, time in times.items()]
    return table(["energies and forces of aspirin", "µs per atom", "times ours"], rows)


def headline(entries: list[Entry]) -> list[Headline]:
    """One row, with the differences: precision, batch and dimension."""
    times = _times(entries)
    if times.keys() != AT_ONCE.keys():
        return []
    return [
        Headline(
            f"energies and forces of aspirin, {entries[0][CELL]['n_features']} features",
            f"{times[OURS]:.1f} µs per atom (float32, {AT_ONCE[OURS]} at once, projected to rank 128)",
            f"kernelforge {times[THEIRS]:.0f} µs per atom (float64, {AT_ONCE[THEIRS]} at once, no projection)",
            timing=True,
        )
    ]


RIVALS = Benchmark(
    "rivals",
    "Prediction beside kernelforge",
    "Both are fitted to a handful of structures: the time of a prediction does not depend on what was learnt.",
    cells, measure, tables, headline=headline,
    needs=rmd17_files("aspirin"), packages=("kernelforge",), timing=True,
)  # fmt: skip
