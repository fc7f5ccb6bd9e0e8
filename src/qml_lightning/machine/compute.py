"""The machine of a fit: device, kernels, memory and the processes that share the work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from . import forks as forks  # a fit or a prediction in a forked process must not hang
from .memory import Memory, room_on
from .ranks import Ranks

T = TypeVar("T")


@dataclass(frozen=True)
class Compute:
    """Device, kernels, memory and ranks of a fit or a prediction."""

    device: torch.device | str = "cpu"
    kernels: str | None = None  # name of a back-end; None: the best one for the device
    memory: Memory = field(default_factory=Memory)  # limit, and the folder for scratch files
    ranks: Ranks | None = None  # processes that share the work; None: this one alone

    @property
    def processes(self) -> int:
        """Processes of this fit on this machine: each holds equations of its own."""
        return 1 if self.ranks is None else self.ranks.local_size

    @property
    def device_room(self) -> int | None:
        """Bytes that are free on the device, if it has a memory of its own."""
        return room_on(self.device)

    @property
    def room(self) -> int:
        """Bytes that can still be allocated where the work is done."""
        return self.memory.left if self.device_room is None else self.device_room

    def on_first(self, work: Callable[[], T]) -> T:
        """Result of `work`: computed here, or by the first rank and sent to all of them."""
        return work() if self.ranks is None else self.ranks.first(work)
