"""Training on several processes: each gathers the equations of its share, they are added up, the first one solves."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ..errors import InputError, QMLError, ResourceError
from ..linear.normal_equations import Gram, Rows
from ..model.basis import Basis
from .equations import Equations, gather
from .problem import Problem, Progress, counts_of

T = TypeVar("T")

# Bytes of one message, and rows of the Gram matrix in it: large beside the latency, low enough to send only half of it.
MESSAGE_BYTES, MESSAGE_ROWS = 64 * 1024**2, 256
# A process that ends closes its connections, and the others know at once. This is for machines that fall silent; it
# must be longer than the solution by one process, for which the others wait.
TIMEOUT = timedelta(hours=6)


def own_rank() -> int:
    """Number of this process among those that torchrun started; 0 where it is alone."""
    return int(os.environ["RANK"]) if several_ranks() else 0


def several_ranks() -> bool:
    """Whether torchrun started this process beside others."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys() and int(os.environ["WORLD_SIZE"]) > 1


@dataclass(frozen=True)
class Ranks:
    """This process among others that do the same."""

    rank: int
    size: int
    local_size: int  # on the same machine
    device: torch.device

    def first(self, work: Callable[[], T]) -> T:
        """What `work` gives on the first rank, on all of them; also its error, which the first one tells."""
        found: list[Any] = [None, None]
        if self.rank == 0:
            try:
                found[0] = work()
            except QMLError as problem:
                found[1] = problem
        with _touch(self):
            dist.broadcast_object_list(found, 0, device=self.device)
        if found[1] is not None:
            found[1].told_elsewhere = self.rank > 0
            raise found[1]
        return found[0]  # type: ignore[no-any-return]  # it is what `work` gives

    def agree(self, text: str) -> None:
        """An InputError unless all ranks say the same."""
        said: list[Any] = [None] * self.size
        with _touch(self):
            dist.all_gather_object(said, text)
        if len(set(said)) > 1:
            raise InputError("The ranks have different data or recipes. Give all of them the same files and options.")


def on_first(ranks: Ranks | None, work: Callable[[], T]) -> T:
    """What `work` gives: here where there are no ranks, else on the first one."""
    return work() if ranks is None else ranks.first(work)


@contextmanager
def joined(device: torch.device, timeout: timedelta = TIMEOUT) -> Iterator[Ranks | None]:
    """The ranks that torchrun started, connected: gloo on CPUs, NCCL on GPUs. None where there is only one."""
    if not several_ranks():
        yield None
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) if device.index is None else device.index)
        torch.cuda.set_device(device)
    local = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    ranks = Ranks(own_rank(), int(os.environ["WORLD_SIZE"]), local, device)
    with _touch(ranks):
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timeout)
    try:
        yield ranks
    finally:
        dist.destroy_process_group()


@contextmanager
def _touch(ranks: Ranks) -> Iterator[None]:
    """What goes wrong between processes, in words."""
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


def share(problem: Problem, ranks: Ranks) -> Problem:
    """The structures of this rank: neighbouring ones, about as many rows and atoms on every rank."""
    structures = problem.structures
    cost = structures.counts.clone()
    for kind, target in problem.targets.items():
        known = target.isfinite().sum(1) if target.dim() == 2 else target.isfinite().long()
        cost.index_add_(0, structures.structure_of_atom if kind == "forces" else torch.arange(len(structures)), known)
    middle = cost.cumsum(0).double() - cost / 2
    owner = (middle / float(cost.sum()) * ranks.size).long()
    return problem.select((owner == ranks.rank).nonzero()[:, 0])


def gather_by_ranks(
    equations: Equations, basis: Basis, problem: Problem, tell: Progress, ranks: Ranks
) -> dict[str, Any]:
    """Add the rows of `problem`, which is the whole one, each rank a share; the first one has them all, and a report.

    Every rank has made room for all of them, so that all choose the same form.
    """
    ranks.agree(repr(equations.recipe) + hashlib.sha256(equations.structures.numpy().tobytes()).hexdigest())
    started = time.perf_counter()
    gather(equations, basis, share(problem, ranks), tell)
    gathered = time.perf_counter()
    tell("adding up", 0, 1)
    sent = 0
    with _touch(ranks):
        for kind, n in counts_of(problem.targets).items():
            part = equations.parts[kind]
            sent += _collect(part, ranks) if isinstance(part, Rows) else _add_up(part, ranks)
            part.n = n
        most_sent = torch.tensor(sent, device=ranks.device)
        dist.all_reduce(most_sent, dist.ReduceOp.MAX)  # the first one keeps its rows, and tells
    seconds = {"equations": gathered - started, "adding_up": time.perf_counter() - gathered}
    return {
        "size": ranks.size,
        "bytes_sent_by_each": int(most_sent),
        "seconds": {k: round(v, 3) for k, v in seconds.items()},
    }


def _add_up(equations: Gram, ranks: Ranks) -> int:
    """The lower triangle and the moments of all ranks on the first one, in messages of bounded size; bytes sent."""
    gram, sent = equations.gram, 0
    n, first = len(gram), 0
    while first < n:
        last = min(n, first + max(1, min(MESSAGE_ROWS, MESSAGE_BYTES // (8 * n))))
        part = gram[first:last, :last].contiguous()
        dist.reduce(part, 0)
        if ranks.rank == 0:
            gram[first:last, :last] = part
        sent += part.nbytes
        first = last
    for part in (equations.moment, equations.square):
        dist.reduce(part, 0)
        sent += part.nbytes
    if ranks.rank > 0:
        equations.gram = gram.new_zeros(0, 0)  # the first rank may be on the same machine, and solves now
    return sent


def _collect(equations: Rows, ranks: Ranks) -> int:
    """The rows of all ranks on the first one, in the order of the ranks and in messages of bounded size; bytes sent."""
    n = torch.tensor([equations.n], device=equations.rows.device)
    numbers = [torch.zeros_like(n) for _ in range(ranks.size)]
    dist.all_gather(numbers, n)
    step, sent = max(1, MESSAGE_BYTES // (8 * equations.n_columns)), 0
    for rank in range(1, ranks.size):
        for first in range(0, int(numbers[rank]), step):
            at = slice(first, min(first + step, int(numbers[rank])))
            if ranks.rank == rank:
                for part in (equations.rows[at], equations.targets[at]):
                    dist.send(part, 0)
                    sent += part.nbytes
            elif ranks.rank == 0:
                here = slice(equations.n, equations.n + at.stop - at.start)
                dist.recv(equations.rows[here], rank)
                dist.recv(equations.targets[here], rank)
                equations.n = here.stop
    return sent
