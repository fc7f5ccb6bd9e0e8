"""Equations gathered by several ranks: each gathers a share of the structures, and the first one adds them up."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import torch
import torch.distributed as dist

from ..linear.normal_equations import Gram, Rows, lower_tiles
from ..machine.progress import Progress
from ..machine.ranks import Ranks, in_touch
from ..model.basis import ReadyBasis
from .equations import AfterBatch, Equations, gather
from .problem import Problem
from .rows import Pass

# Bytes of one message, and rows of the Gram matrix in it: large beside the latency, low enough to send only half of it.
MESSAGE_BYTES, MESSAGE_ROWS = 64 * 1024**2, 256


def share(problem: Problem, ranks: Ranks) -> Problem:
    """Structures of this rank: neighbouring ones, with about as many rows and atoms on every rank."""
    rows = torch.bincount(problem.structure_of_rows, minlength=len(problem.structures))
    cost = problem.structures.counts + rows
    middle = cost.cumsum(0).double() - cost / 2
    owner = (middle / float(cost.sum()) * ranks.size).long()
    return problem.select((owner == ranks.rank).nonzero()[:, 0])


def gather_by_ranks(
    equations: Equations,
    basis: ReadyBasis,
    problem: Problem,
    ranks: Ranks,
    tell: Progress,
    how: Pass,
    after: AfterBatch | None = None,
) -> dict[str, Any]:
    """Add the rows of the whole `problem`, a share by each rank; the first rank has them all. Returns a report.

    Every rank has made room for all rows, so that all choose the same form of the equations.
    """
    ranks.agree(repr(equations.recipe) + hashlib.sha256(equations.structures.numpy().tobytes()).hexdigest())
    started = time.perf_counter()
    gather(equations, basis, share(problem, ranks), tell, how, after)
    gathered = time.perf_counter()
    tell("adding up", 0, 1)
    sent = 0
    with in_touch(ranks):
        for kind, n in problem.rows.items():
            part = equations.parts[kind]
            sent += _collect(part, ranks) if isinstance(part, Rows) else _add_up(part, ranks)
            part.n = n
        most_sent = torch.tensor(sent, device=ranks.device)
        dist.all_reduce(most_sent, dist.ReduceOp.MAX)  # the first rank keeps its rows, and writes the report
    seconds = {"equations": gathered - started, "adding_up": time.perf_counter() - gathered}
    return {
        "size": ranks.size,
        "bytes_sent_by_each": int(most_sent),
        "seconds": {k: round(v, 3) for k, v in seconds.items()},
    }


def _add_up(equations: Gram, ranks: Ranks) -> int:
    """Sum the lower triangles and moments of all ranks on the first one, in bounded messages; bytes sent."""
    gram, sent = equations.gram, 0
    for _, _, tile in lower_tiles(gram, max(1, min(MESSAGE_ROWS, MESSAGE_BYTES // (8 * len(gram))))):
        part = tile.to(ranks.device).contiguous()  # equations that are kept by the host, too
        dist.reduce(part, 0)
        if ranks.rank == 0:
            tile.copy_(part)
        sent += part.nbytes
    for part in (equations.moment, equations.square):
        dist.reduce(part, 0)
        sent += part.nbytes
    if ranks.rank > 0:
        equations.gram = gram.new_zeros(0, 0)  # the first rank may be on the same machine, and solves now
    return sent


def _collect(equations: Rows, ranks: Ranks) -> int:
    """Collect the rows of all ranks on the first one, in their order, in bounded messages. Returns the bytes sent."""
    n = torch.tensor([equations.n], device=ranks.device)
    numbers = [torch.zeros_like(n) for _ in range(ranks.size)]
    dist.all_gather(numbers, n)
    step, sent = max(1, MESSAGE_BYTES // (8 * equations.n_columns)), 0
    for rank in range(1, ranks.size):
        for first in range(0, int(numbers[rank]), step):
            at = slice(first, min(first + step, int(numbers[rank])))
            if ranks.rank == rank:
                for part in (equations.rows[at], equations.targets[at]):
                    dist.send(part.to(ranks.device), 0)
                    sent += part.nbytes
            elif ranks.rank == 0:
                here = slice(equations.n, equations.n + at.stop - at.start)
                for part in (equations.rows[here], equations.targets[here]):
                    received = part.to(ranks.device)
                    dist.recv(received, rank)
                    part.copy_(received)
                equations.n = here.stop
    return sent
