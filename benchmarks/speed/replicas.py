"""Replicas of a molecule that `md` moves together, beside one alone."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from ase import Atoms
from ase.io import write

from qml_lightning import Potential, fit, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.models import load, rmd17_files, with_features
from ..harness.tables import digits, table

REPLICAS = (1, 8, 32, 128)
STEPS = 20_000  # of all replicas together
EVERY = 100  # steps between two frames
FEATURES = 4096


def cells(options: Options) -> list[Cell]:
    counts = REPLICAS[:2] if options.quick else REPLICAS
    return [{"system": "ethanol", "replicas": n, "n_features": 256 if options.quick else FEATURES} for n in counts]


@lru_cache(maxsize=1)
def _trained(n_features: int, structures: int) -> tuple[Potential, Atoms]:
    """The model, and the first of its structures."""
    data = load("rmd17_ethanol:train_01").subsample(structures, seed=0)
    n = int(data.structures.offsets[1])
    first = Atoms(data.structures.numbers[:n].numpy(), data.structures.positions[:n].numpy())
    return fit(data, with_features(recipes.DEFAULT, n_features)), first


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    potential, first = _trained(cell["n_features"], 60 if options.quick else 1000)
    steps = max(10, (200 if options.quick else STEPS) // cell["replicas"])
    with tempfile.TemporaryDirectory() as folder:
        potential.save(str(Path(folder) / "model.safetensors"))
        write(Path(folder) / "first.xyz", first)
        given = {"ensemble": "langevin", "temperature": 300, "timestep": 0.25, "steps": steps, "every": EVERY,
                 "restart-every": steps, "replicas": cell["replicas"], "threads": 1}  # fmt: skip
        options_of_md = [text for name, value in given.items() for text in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "qml_lightning", "md", "model.safetensors", "first.xyz", "-o", "run.extxyz"]
        done = subprocess.run([*command, *options_of_md, "--json"], cwd=folder, check=True, capture_output=True)
    told = json.loads(done.stdout)
    per_step = 1e6 / (told["steps_per_second"] * cell["replicas"])
    return {"steps": steps, "us_per_replica_and_step": per_step, "ns_per_day": told["ns_per_day"]}


def tables(told: list[Entry]) -> str:
    there = succeeded(told)
    rows = [
        [str(one[CELL]["replicas"]), digits(one["us_per_replica_and_step"]), digits(one["ns_per_day"]),
         f"{one['ns_per_day'] / there[0]['ns_per_day']:.1f}"]
        for one in there
    ]  # fmt: skip
    return table(["replicas", "µs per replica and step", "ns/day of all", "times one alone"], rows)


REPLICAS_TOGETHER = Benchmark(
    "replicas",
    "Replicas of ethanol",
    f"`md` with Langevin at 300 K, steps of 0.25 fs, a frame of each replica every {EVERY} steps, one thread; default "
    f"recipe with {FEATURES} features, 1000 structures. Files and first lists are in the time.",
    cells, measure, tables,
    needs=rmd17_files("ethanol"), threads=1, timing=True,
)  # fmt: skip
