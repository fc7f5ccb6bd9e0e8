"""What every benchmark shares: a record of the run written as JSON, the best of several timings, tables."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from qml_lightning import Dataset, Recipe, load_dataset, recipes
from qml_lightning.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SHARED_DATA = ROOT.parent / "shared" / "data"
# What decides a result: a change elsewhere (docs, tests, other results) does not make a run dirty.
SOURCES = ("src", "native", "benchmarks/*.py", "CMakeLists.txt", "pyproject.toml", "constraints.txt")
PACKAGES = ("qml-lightning", "torch", "numpy", "ase", "vesin")


def best_of(function: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of several calls: the machine may be shared, and nothing makes code faster than it is."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def product_rate(dtype: torch.dtype, *, quick: bool = False) -> float:
    """GFLOP/s of a matrix product: what this machine can do at the time."""
    n = 256 if quick else 4096
    a, b, out = (torch.randn(n, n, dtype=dtype) for _ in range(3))
    return 2 * n**3 / best_of(lambda: torch.mm(a, b, out=out), 3) / 1e9


def best_in_turn(functions: Mapping[str, Callable[[], object]], rounds: int, seconds: float = 0.2) -> dict[str, float]:
    """Seconds of the fastest call of each, in turns of `seconds` or one call: what slows the machine for a while then
    spoils no ratio, and what the one before has left in the caches decides nothing."""
    best = dict.fromkeys(functions, math.inf)
    for _ in range(rounds):
        for name, function in functions.items():
            end = time.perf_counter() + seconds
            while True:
                best[name] = min(best[name], best_of(function, 1))
                if time.perf_counter() > end:
                    break
    return best


def options_of_a_fit(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark of fits to one rMD17 molecule has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecule", default="ethanol")
    parser.add_argument("--features", type=int, default=8192)
    parser.add_argument("--structures", type=int, default=1000)
    parser.add_argument("--ridge", type=float, default=1e-8)
    parser.add_argument("--quick", action="store_true", help="seconds; writes nothing")
    return parser


def rmd17(molecule: str, structures: int | None = None) -> Dataset:
    """The first `structures` of the training split; None: the test split."""
    part = "test_01" if structures is None else f"train_01@0:{structures}"
    return load_dataset(f"rmd17_{molecule}:{part}", data_folder=SHARED_DATA)


def recipe_with(features: int, **changes: Any) -> Recipe:
    """The default recipe with so many features and these changes."""
    return replace(recipes.DEFAULT, features=replace(recipes.DEFAULT.features, n_features=features), **changes)


def machine() -> dict[str, Any]:
    """Processor, cores this process may use, memory in GiB."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cpu": model, "cores": cores, "memory_gib": round(memory, 1), "system": platform.platform()}


def commit() -> dict[str, Any]:
    """The commit that is checked out, and whether the sources differ from it; nulls outside of a repository."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--", *SOURCES))}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}


@dataclass(frozen=True)
class Headline:
    """A row for the table of the README, which `readme_table.py` collects."""

    what: str
    here: str
    beside: str  # a floor or a rival measured in the same run, or a published figure
    timing: bool = False  # left out of the README if others kept the machine busy


def write(name: str, results: Any, headline: Sequence[Headline] = (), *, folder: Path = RESULTS) -> Path:
    """Write NAME.json into `folder`, atomically: `results`, and all that is needed to run it again."""
    record = {
        "benchmark": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", *(os.path.relpath(a, ROOT) if a == sys.argv[0] else a for a in sys.argv)]),
        **commit(),
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "load_average": [round(load, 2) for load in os.getloadavg()],  # others on the machine: timings are upper bounds
        "versions": {package: version(package) for package in PACKAGES} | {"python": platform.python_version()},
        "headline": [asdict(row) for row in headline],
        "results": results,
    }
    return _save(name, record, folder)


def retell(name: str, headline: Sequence[Headline]) -> Path:
    """Change the rows for the README in a result file; everything that was measured stays."""
    record = read(name)
    if record is None:
        raise SystemExit(f"There is no {RESULTS / name}.json. Run the benchmark first.")
    return _save(name, record | {"headline": [asdict(row) for row in headline]})


def _save(name: str, record: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    write_atomically(path, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode(), overwrite=True)
    return path


def read(name: str, *, folder: Path = RESULTS) -> dict[str, Any] | None:
    """The record of a benchmark, or None if it was never run."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def digits(value: float) -> str:
    """Three of them, and no powers of ten: 0.905, 5.56, 18 800."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}".replace(",", " ") if rounded >= 100 else f"{rounded:g}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([line(head), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line, rows)])
