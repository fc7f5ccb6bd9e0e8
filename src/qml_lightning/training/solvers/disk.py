"""Disk solver: one Gram matrix in scratch files for the rows of all kinds, in a bounded amount of memory."""

from __future__ import annotations

from ...linear.disk.solve import Layout, OutOfCore, layout
from ...linear.solution import Solution
from ...machine.memory import Memory
from ..costs import BYTES_IN_FLIGHT, batch_numbers, disk_room
from ..problem import Problem
from ..rows import Pass, write_rows
from .task import Fitted, Task


def sizes(problem: Problem, n_weights: int, memory: Memory) -> tuple[Layout, int]:
    """Sizes of the pieces on disk, and most numbers in a batch of rows; a ResourceError if memory holds none."""
    free = disk_room(memory)
    most = batch_numbers(n_weights, problem, free)
    return layout(problem.n_rows, n_weights, free - BYTES_IN_FLIGHT * most, memory.scratch), most


def solve(task: Task) -> Fitted:
    """Gather the equations on disk and factorise them there."""
    problem, tell = task.problem, task.tell
    basis = task.basis.ready(task.compute)
    chosen, most = sizes(problem, basis.n_weights, task.compute.memory)
    with OutOfCore(chosen) as equations:
        tell("equations", 0, len(problem.structures))
        how = Pass(most=most, weighted=True)
        for done in write_rows(basis, problem, task.recipe, lambda _: equations, how):
            tell("equations", done, len(problem.structures))
        weights = equations.solve(task.ridge.value, lambda done, of: tell("solving", done, of))
        disk, read, written = equations.disk
    out_of_core = {"disk_bytes": disk, "bytes_read": read, "bytes_written": written}
    out_of_core |= {"dual": chosen.dual, "tile": chosen.tile, "rows_at_once": chosen.width}
    report = {"solver": "disk", "out_of_core": out_of_core}
    return Fitted(Solution(weights, task.ridge.value, task.ridge.chosen, report), problem.baseline, problem.rows)
