"""Processes that torchrun started side by side: who they are, and how they agree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ..errors import InputError, QMLError, ResourceError

T = TypeVar("T")

# A process that ends closes its connections, so the others know at once. The timeout is for machines that fall silent.
# It must be longer than the solution by the first rank, for which the others wait.
TIMEOUT = timedelta(hours=6)


def own_rank() -> int:
    """Number of this process among those that torchrun started; 0 if it is alone."""
    return int(os.environ["RANK"]) if several_ranks() else 0


def several_ranks() -> bool:
    """Whether torchrun started this process beside others."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys() and int(os.environ["WORLD_SIZE"]) > 1


@dataclass(frozen=True)
class Ranks:
    """This process among others that do the same work."""

    rank: int
    size: int
    local_size: int  # processes on the same machine
    device: torch.device

    def first(self, work: Callable[[], T]) -> T:
        """Result of `work` on the first rank, sent to all of them. Its error is raised on all of them, too."""
        found: list[Any] = [None, None]
        if self.rank == 0:
            try:
                found[0] = work()
            except QMLError as problem:
                found[1] = problem
        with in_touch(self):
            dist.broadcast_object_list(found, 0, device=self.device)
        if found[1] is not None:
            found[1].told_elsewhere = self.rank > 0
            raise found[1]
        return found[0]  # type: ignore[no-any-return]  # it is what `work` gives

    def agree(self, text: str) -> None:
        """Raise an InputError unless all ranks say the same."""
        if len(set(self._said(text))) > 1:
            raise InputError("The ranks have different data or recipes. Give all of them the same files and options.")

    def all(self, fact: bool) -> bool:
        """Whether `fact` is true on every rank."""
        return all(self._said(fact))

    def _said(self, mine: T) -> list[T]:
        said: list[Any] = [None] * self.size
        with in_touch(self):
            dist.all_gather_object(said, mine)
        return said


@contextmanager
def joined(device: torch.device, timeout: timedelta = TIMEOUT) -> Iterator[Ranks | None]:
    """Connect the ranks that torchrun started: gloo on CPUs, NCCL on GPUs. None if there is only one process."""
    if not several_ranks():
        yield None
        return
    local = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if device.type == "cuda":
        device = _own_gpu(device, local)
        torch.cuda.set_device(device)
    ranks = Ranks(own_rank(), int(os.environ["WORLD_SIZE"]), local, device)
    with in_touch(ranks):
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timeout)
    try:
        yield ranks
    finally:
        dist.destroy_process_group()


def _own_gpu(device: torch.device, n_local: int) -> torch.device:
    """GPU of this rank, one of `n_local` on this machine: that of its number, unless another one was asked for."""
    if device.index is not None:
        return device
    number, there = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if number >= there:
        raise InputError(
            f"torchrun started {n_local} processes on a machine where torch sees {there} GPUs, and each takes one. Use "
            f"--nproc-per-node {max(1, there)}. If every process is shown one GPU alone: --device cuda:0."
        )
    return torch.device("cuda", number)


@contextmanager
def in_touch(ranks: Ranks) -> Iterator[None]:
    """Turn a failed message between processes into a ResourceError that says what happened."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:  # a RuntimeError too, but of this rank alone
        raise
    except RuntimeError as problem:
        raise ResourceError(
            f"Rank {ranks.rank} of {ranks.size} has lost touch with another one: it has ended, or cannot be reached. "
            "Its own message says why; without one it was stopped from outside, often for want of memory. "
            f"Start all of them again. ({str(problem).splitlines()[0]})"
        ) from problem
