"""Memory of the machine and of this process."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, ResourceError

if TYPE_CHECKING:
    import torch

GIB = 1024**3


def available_memory() -> int:
    """Bytes that are free now, within the limit of the control group."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        if found := re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE):
            free = int(found[1]) * 1024
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            free = min(free, int(limit) - int((group / "memory.current").read_text()))
    except OSError:
        pass  # not Linux, or no control group: keep the figure so far
    return max(free, 0)


def room_on(device: torch.device | str) -> int | None:
    """Bytes that are free on a device with a memory of its own; None: its memory is that of the host."""
    import torch

    device = torch.device(device)
    on = torch.get_device_module(device)
    if not hasattr(on, "mem_get_info"):
        return None
    free, _ = on.mem_get_info(device)
    # torch keeps what it has freed, and gives it out again
    return int(free + on.memory_reserved(device) - on.memory_allocated(device))


def resident_memory() -> int:
    """Bytes of this process that are in memory now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0  # not Linux: a limit then does not count what was loaded before the work


@dataclass(frozen=True)
class Memory:
    """Memory that this process may use, and the folder for arrays that do not fit."""

    limit: int | None = None  # bytes of the whole process; None: all that is free
    scratch: Path | None = None  # folder for scratch files; None: $TMPDIR or /var/tmp

    @property
    def left(self) -> int:
        """Bytes that can still be allocated."""
        free = available_memory()
        return free if self.limit is None else max(0, min(free, self.limit - resident_memory()))

    def require(self, needed: int, what: str, remedy: str) -> None:
        """Raise a ResourceError if `needed` bytes cannot be allocated."""
        if needed > (free := self.left):
            raise short_of_memory(needed, free, what, remedy)


def short_of_memory(needed: int, free: int, what: str, remedy: str) -> ResourceError:
    """Error for work that does not fit in memory."""
    return ResourceError(f"{what} needs {needed / GIB:.2f} GiB and {free / GIB:.2f} GiB are free. {remedy}")


def bytes_from(text: str) -> int:
    """Number of bytes in a text such as 4GiB, 512MiB, 800MB or 4e9."""
    size = 0.0
    if found := re.fullmatch(r"\s*((?:\d+\.?\d*|\.\d+)(?:e\d+)?)\s*(?:([kmgt])(i?))?b?\s*", text.lower()):
        size = float(found[1]) * (1024 if found[3] else 1000) ** " kmgt".index(found[2] or " ")
    if size < 1:
        raise InputError(f"Wanted an amount of memory such as 4GiB or 800MB, got {text!r}.")
    return int(size)
