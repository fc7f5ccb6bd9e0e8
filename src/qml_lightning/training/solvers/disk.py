"""Disk solver: one Gram matrix in scratch files for the rows of all kinds, in a bounded amount of memory."""

from __future__ import annotations

from ...linear.disk.solve import OutOfCore, layout
from ...linear.solution import Solution
from ..costs import BYTES_IN_FLIGHT, batch_numbers
from ..rows import Pass, write_rows
from .task import Fitted, Task


def solve(task: Task) -> Fitted:
    """Gather the equations on disk and factorise them there."""
    problem, tell, memory = task.problem, task.tell, task.compute.memory
    free = memory.left if memory.limit is not None else memory.left * 3 // 4  # the rest caches the disk
    basis = task.basis.ready(task.compute)
    most = batch_numbers(basis.n_weights, problem, free)
    chosen = layout(problem.n_rows, basis.n_weights, free - BYTES_IN_FLIGHT * most, memory.scratch)
    with OutOfCore(chosen) as equations:
        tell("equations", 0, len(problem.structures))
        how = Pass(most=most, weighted=True)
        for done in write_rows(basis, problem, task.recipe, lambda _: equations, how):
            tell("equations", done, len(problem.structures))
        weights = equations.solve(task.ridge.value, lambda done, of: tell("solving", done, of))
        disk, read, written = equations.disk
    out_of_core = {"disk_bytes": disk, "bytes_read": read, "bytes_written": written}
    out_of_core |= {"dual": chosen.dual, "tile": chosen.tile, "rows_at_once": chosen.width}
    report = {"solver": "direct", "out_of_core": out_of_core}
    return Fitted(Solution(weights, task.ridge.value, task.ridge.chosen, report), problem.baseline, problem.rows)
