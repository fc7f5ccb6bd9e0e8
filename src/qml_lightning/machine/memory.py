"""How much memory there is, asked before it is taken."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, ResourceError

GIB = 1024**3


def available_memory() -> int:
    """Bytes that can be allocated now: what the system has free, within the limit of the control group."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            free = min(free, int(limit) - int((group / "memory.current").read_text()))
    except OSError:
        pass  # not Linux, or no control group: the plain figure stands
    return max(free, 0)


def resident_memory() -> int:
    """Bytes of this process that are in memory now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0  # not Linux: what was loaded before the work is not counted


@dataclass(frozen=True)
class Memory:
    """What a process may take, and where to put what does not fit."""

    limit: int | None = None  # bytes of the whole process in memory; None: what the machine has
    scratch: Path | None = None  # folder for scratch files; None: the usual one

    @property
    def left(self) -> int:
        """Bytes that can still be taken."""
        free = available_memory()
        return free if self.limit is None else max(0, min(free, self.limit - resident_memory()))

    def require(self, needed: int, what: str, remedy: str) -> None:
        """Nothing if `needed` bytes can be taken, else a ResourceError before any are."""
        if needed > (free := self.left):
            raise short_of_memory(needed, free, what, remedy)


def short_of_memory(needed: int, free: int, what: str, remedy: str) -> ResourceError:
    """The error for work that does not fit."""
    return ResourceError(f"{what} needs {needed / GIB:.2f} GiB and {free / GIB:.2f} GiB are free. {remedy}")


def bytes_from(text: str) -> int:
    """4GiB, 512MiB, 4e9 … in bytes."""
    scale = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
    scale |= {f"{name}i": 1024**power for power, name in enumerate(scale) if name}
    found = re.fullmatch(r"\s*([\d.]+(?:e\d+)?)\s*([kmgt]?i?)b?\s*", text.lower())
    try:
        size = int(float(found[1]) * scale[found[2]]) if found else 0
    except (ValueError, KeyError):
        size = 0
    if size <= 0:
        raise InputError(f"Wanted an amount of memory such as 4GiB or 800MB, got {text!r}.")
    return size
