"""Times on different machines, told by the operations that each machine had time for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..harness.tables import digits, table


class Work(NamedTuple):
    """A time here and in the paper, and the operations per second of both machines."""

    what: str
    here: float
    rate: float
    paper: float
    paper_rate: float


def possible_work(unit: str, rows: Sequence[Work], scale: float) -> str:
    """A table of the operations that each machine could have done in the time it took: a slow machine may do well."""
    if not rows:
        return ""
    told = [
        [one.what, digits(one.here * one.rate * scale), digits(one.paper * one.paper_rate * scale),
         f"{one.rate:.0f}", f"{one.paper_rate:.0f}"]
        for one in rows
    ]  # fmt: skip
    head = [f"what could have been multiplied in that time: {unit}", "here", "paper", "GFLOP/s here", "paper's machine"]
    return "\n\n" + table(head, told)
