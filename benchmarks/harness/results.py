"""Result files: measured cells, and the machine, commit and command behind each of them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from .internals import kernels_in_use, write_atomically
from .places import ROOT

# Files that decide a result: a change elsewhere (docs, tests, other results) does not make a run dirty.
SOURCES = ("src", "native", "benchmarks/*.py", "CMakeLists.txt", "pyproject.toml", "constraints.txt")
PACKAGES = ("qml-lightning", "torch", "numpy", "ase", "vesin")


def read(name: str, folder: Path) -> dict[str, Any] | None:
    """The record of a benchmark, or None if it was never run."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def write(name: str, entries: list[dict[str, Any]], folder: Path) -> Path:
    """Write NAME.json into `folder`, atomically: the entries, and the circumstances of the last one."""
    record = {
        "benchmark": name,
        "date": now(),
        "command": command(),
        **commit(),
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "versions": {package: version(package) for package in PACKAGES} | {"python": platform.python_version()},
        "results": entries,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    write_atomically(path, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode(), overwrite=True)
    return path


def circumstances(seconds: float) -> dict[str, Any]:
    """Circumstances of one cell: the cells of a file may come from several machines, commits and commands."""
    return {
        "date": now(),
        "command": command(),
        **commit(),
        "cpu": machine()["cpu"],
        "threads": torch.get_num_threads(),
        "kernels": kernels_in_use(),
        "load_average": round(os.getloadavg()[0], 2),
        "seconds": round(seconds, 1),
    }


def quiet(entry: dict[str, Any]) -> bool:
    """Whether nobody else kept the machine busy: else a time is only an upper bound."""
    run = entry["run"]
    return bool(run["load_average"] <= run["threads"] + 1)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def command() -> str:
    """The command line, such as `python -m benchmarks rmd17 --again`."""
    spec = sys.modules["__main__"].__spec__  # None: a script
    program = os.path.relpath(sys.argv[0], ROOT) if spec is None else f"-m {spec.name.removesuffix('.__main__')}"
    return " ".join(["python", program, *sys.argv[1:]])


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, memory in GiB."""
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
        line = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--", *SOURCES))}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}
