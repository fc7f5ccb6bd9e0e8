"""What is to be learnt, and two ways to the weights without a Gram matrix in memory: on disk, or never formed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from .baseline import Baseline
from .basis import Basis
from .design import BATCH_NUMBERS, labelled_rows, targets_of
from .errors import SolveError
from .krylov import SmallModelPreconditioner, least_residuals
from .matrixfree import matrix_free
from .normal import Gram
from .outofcore import OutOfCore, plan
from .recipes import Recipe
from .resources import Memory
from .structures import Labels, Structures

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
    chosen = plan(sum(counts.values()), basis.n_weights, free - BYTES_IN_FLIGHT * most, memory.scratch)
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


def iterative_weights(basis: Basis, problem: Problem, recipe: Recipe, tell: Progress) -> tuple[Tensor, dict[str, Any]]:
    """Weights by an iteration, preconditioned by a direct fit with fewer features, and a report.

    A few structures are held out: the iteration ends when their error falls no more.
    """
    settings = recipe.solver
    n_small = min(settings.preconditioner_features, basis.maps[0].n_features)
    n = len(problem.structures)
    n_held = min(n - 1, round(settings.held_out * n))
    order = torch.from_numpy(np.random.default_rng(recipe.seed).permutation(n))
    learn, held = problem.select(order[n_held:].sort().values), problem.select(order[:n_held].sort().values)

    rows, y = matrix_free(basis, learn.structures, learn.targets, recipe)
    small = rows.with_first(n_small)
    gram = _small_gram(small.basis, learn, recipe, tell)
    shift = max(2 * recipe.ridge, settings.shift * float(gram.diagonal().mean()) * (rows.n_rows / n_small) ** 2)
    precondition = SmallModelPreconditioner(small, gram, shift)
    state = least_residuals(
        rows,
        y,
        recipe.ridge,
        precondition,
        tolerance=settings.tolerance,
        most_iterations=settings.most_iterations,
        held_out=_held_out_error(basis, held, recipe) if n_held else None,
        tell=lambda state: tell("iterations", state.number, settings.most_iterations),
    )
    if state.number >= settings.most_iterations and state.history[-1].residual > settings.tolerance:
        raise SolveError(
            f"The iteration has not converged after {state.number} steps (residual {state.history[-1].residual:.1e}). "
            "Use a larger ridge, more preconditioner features or iterations, or the direct solver."
        )
    return state.weights, {
        "solver": "iterative",
        "rows": counts_of(learn.targets),
        "held_out_structures": n_held,
        "preconditioner_features": n_small,
        "shift": shift,
        "converged": "residual below the tolerance"
        if state.history[-1].residual <= settings.tolerance
        else "held-out error fell no more",
        "history": [asdict(step) for step in state.history],
    }


def _small_gram(basis: Basis, problem: Problem, recipe: Recipe, tell: Progress) -> Tensor:
    """Lower triangle of Z_sᵀ Z_s with the weights of the rows."""
    gram = Gram(basis.n_weights, basis.device)
    tell("preconditioner", 0, len(problem.structures))
    for _, _, y, done in labelled_rows(
        basis,
        problem.structures,
        problem.targets,
        recipe.size_exponent,
        lambda _, n: gram.room(n),
        weight_of=recipe.weight_of,
    ):
        gram.take(y)
        tell("preconditioner", done, len(problem.structures))
    gram.flush()
    return gram.gram


def _held_out_error(basis: Basis, held: Problem, recipe: Recipe) -> Callable[[Tensor], float]:
    rows, y = matrix_free(basis, held.structures, held.targets, recipe)
    return lambda weights: float((rows.times(weights) - y).square().mean().sqrt())
