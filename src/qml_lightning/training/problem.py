"""What is to be learnt, and the way to the weights with a Gram matrix on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ..atoms.structures import Labels, Structures
from ..linear.disk.solve import OutOfCore, layout
from ..machine.memory import Memory
from ..model.baseline import Baseline
from ..model.basis import Basis
from ..model.recipe import Recipe
from .rows import BATCH_NUMBERS, labelled_rows, targets_of

# Bytes in flight for each number of a batch of rows: not the rows, which are written where they wait, but the tangents
# that they are made of.
BYTES_IN_FLIGHT = 24


class Progress(Protocol):
    """Called as the work goes on: `print` will do."""

    def __call__(self, what: str, done: int, of: int, remark: str = "", /) -> None:
        """`done` steps of `of` of `what`; the remark is for people, such as a rate."""


@dataclass(frozen=True)
class Problem:
    """What is to be learnt: labelled structures, past the reference energies."""

    structures: Structures
    labels: Labels
    baseline: Baseline

    @property
    def targets(self) -> dict[str, Tensor]:
        return targets_of(self.structures, self.labels, self.baseline)

    @property
    def structure_of_rows(self) -> Tensor:
        """The structure of each row of all labels, kind after kind, (rows,)."""
        n = torch.arange(len(self.structures))
        owners = dict.fromkeys(self.targets, n) | {"forces": n.repeat_interleave(self.structures.counts)}
        targets = {kind: y.reshape(len(owners[kind]), -1) for kind, y in self.targets.items()}
        return torch.cat([owners[kind][:, None].expand_as(y)[y.isfinite()] for kind, y in targets.items()])

    def select(self, index: Tensor) -> Problem:
        """The same for the structures at `index`."""
        labels = self.labels.select(index, self.structures.offsets)
        return Problem(self.structures.select(index), labels, self.baseline)


def counts_of(targets: Mapping[str, Tensor]) -> dict[str, int]:
    """How many rows the targets of each kind make: what is NaN makes none."""
    return {kind: int(y.isfinite().sum()) for kind, y in targets.items()}


def batch_numbers(n_weights: int, problem: Problem, free: int) -> int:
    """Numbers in flight in an eighth of `free` bytes, but enough for the largest structure."""
    largest = 3 * int(problem.structures.counts.max()) + 7  # its rows: forces, energy, virial
    return min(BATCH_NUMBERS, max(free // 8 // BYTES_IN_FLIGHT, largest * n_weights))


def out_of_core_weights(
    basis: Basis, problem: Problem, recipe: Recipe, tell: Progress, memory: Memory
) -> tuple[Tensor, dict[str, Any]]:
    """Weights from one Gram matrix on disk for the rows of all kinds, and a report."""
    targets, counts = problem.targets, counts_of(problem.targets)
    free = memory.left if memory.limit is not None else memory.left * 3 // 4  # the rest holds what the disk is told
    most = batch_numbers(basis.n_weights, problem, free)
    chosen = layout(sum(counts.values()), basis.n_weights, free - BYTES_IN_FLIGHT * most, memory.scratch)
    with OutOfCore(chosen) as equations:
        tell("equations", 0, len(problem.structures))
        for _, _, y, done in labelled_rows(
            basis,
            problem.structures,
            targets,
            recipe.size_exponent,
            lambda _, n: equations.room(n),
            weight_of=recipe.weight_of,
            most=most,
        ):
            equations.take(y)
            tell("equations", done, len(problem.structures))
        weights = equations.solve(recipe.ridge, lambda done, of: tell("solving", done, of))
        disk, read, written = equations.disk
    out_of_core = {"disk_bytes": disk, "bytes_read": read, "bytes_written": written}
    out_of_core |= {"dual": chosen.dual, "tile": chosen.tile, "rows_at_once": chosen.width}
    return weights, {"solver": "direct", "rows": counts, "out_of_core": out_of_core}
