"""How much memory there is, asked before it is taken."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import ResourceError

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


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Nothing if `needed` bytes are there, else a ResourceError before anything is allocated."""
    free = available_memory()
    if needed > free:
        raise ResourceError(f"{what} needs {needed / GIB:.1f} GiB and {free / GIB:.1f} GiB are free. {remedy}")
