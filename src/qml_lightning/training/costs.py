"""Cost model of a fit: operations, and bytes in memory and on disk, of each solver.

Operations are multiply-adds of a matrix product, or other work that takes as long. All formulas for the cost of a fit
stand here, also for fits of properties, sweeps, searches, learning curves and explicit kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..atoms.neighbours import pairs_within
from ..linear.direct import EIGEN_FROM
from ..linear.disk.solve import least_memory
from ..linear.krylov import WINDOW
from ..linear.normal_equations import BUFFER_BYTES
from ..machine.compute import Compute
from ..machine.memory import Memory
from ..model.recipe import Recipe
from .problem import VOIGT, Problem
from .rows import BATCH_NUMBERS

# Bytes in flight for each number of a batch of rows. The rows are written where they wait; these are the tangents.
BYTES_IN_FLIGHT = 24
# Steps of an iteration, as planned, and operations of a step for each feature of an atom: sine and cosine, transforms
# there and back, in a product and a transposed one.
STEPS, STEP_OPERATIONS = 100, 180.0
# Operations to write one number of a row, for each environment or tangent that adds to it; features for which that
# takes as long as the representation; and how much slower a factorisation runs than a matrix product.
ROW_OPERATIONS, REPRESENTATION_FEATURES, FACTORISATION_SLOWER = 100.0, 2000.0, 3.0
# An eigendecomposition works in a copy of the matrix and two more, and gives vectors.
EIGEN_MATRICES = 5
# Structures that tell how many pairs there are.
SAMPLED = 10


def equations_memory(n_rows: int, n_weights: int) -> int:
    """Bytes of the equations of one kind of label: rows, or a Gram matrix and the rows that wait for it."""
    return 8 * n_weights * min(n_rows, n_weights) + (BUFFER_BYTES if n_rows > n_weights else 0)


def direct_memory(rows: Sequence[int], n_weights: int, processes: int = 1) -> int:
    """Bytes to gather the rows of each kind, in each process, and to solve the equations in one of them."""
    # the dual matrix, or the sum of the normal equations, which takes the place of a Gram matrix if there is one
    solving = 8 * min(sum(rows), n_weights) ** 2 if max(rows) <= n_weights else 0
    return processes * sum(equations_memory(n, n_weights) for n in rows) + solving


def decomposition_memory(rows: Sequence[int], n_weights: int) -> int:
    """Bytes of the equations of each kind, and of the eigenvectors of the larger one with room to work."""
    n = min(max(rows), n_weights)
    return sum(equations_memory(one, n_weights) for one in rows) + EIGEN_MATRICES * matrix_memory(n)


def repeated_memory(rows: Sequence[int], n_weights: int) -> int:
    """Bytes to gather equations and to solve them more than once: each solution works beside them."""
    return direct_memory(rows, n_weights) + matrix_memory(n_weights)


def trial_memory(n_rows: int, n_weights: int, held_out_rows: int) -> int:
    """Bytes of a trial of the automatic choice: its equations, and the rows of the held-out structures."""
    return direct_memory([n_rows], n_weights) + BYTES_IN_FLIGHT * BATCH_NUMBERS + 8 * n_weights * held_out_rows


def sweep_memory(n: int, n_ridges: int) -> int:
    """Bytes beside `n` equations to solve them for several ridges: a copy, or an eigendecomposition."""
    return matrix_memory(n) * (EIGEN_MATRICES if n_ridges >= EIGEN_FROM else 1)


def explicit_memory(rows: int, columns: int, tangents: int) -> int:
    """Bytes of a fit with explicit kernels: the kernel matrix, and so many numbers in tangents."""
    # twice: the solvers copy their matrix, and the tangents are copied when columns are left out
    return 8 * 2 * (rows * columns + tangents)


def matrix_memory(n: int) -> int:
    """Bytes of a square matrix."""
    return 8 * n**2


def direct_operations(n_rows: int, n_weights: int) -> float:
    """Operations of a direct solution: Gram matrix (or products of the rows) and Cholesky factorisation."""
    smaller = min(n_rows, n_weights)
    return float(n_rows) * n_weights * smaller + smaller**3 / 3


def disk_room(memory: Memory) -> int:
    """Bytes that a fit on disk may take: all within a limit; else three quarters, as the rest caches the disk."""
    return memory.left if memory.limit is not None else memory.left * 3 // 4


def disk_memory(problem: Problem, n_weights: int, memory: Memory) -> int:
    """Least bytes that must be free for a fit on disk, with the smallest tiles and batches."""
    tiles = least_memory(problem.n_rows, n_weights)
    # a batch takes an eighth of the room, or as much as the largest structure needs (`batch_numbers`)
    room = max(-(-8 * tiles // 7), tiles + BYTES_IN_FLIGHT * _least_batch(n_weights, problem))
    return room if memory.limit is not None else -(-4 * room // 3)


def disk_bytes(n_rows: int, n_weights: int) -> int:
    """Bytes on disk: half of a Gram matrix, or half of the products of the rows and the rows themselves."""
    return 4 * n_weights**2 if n_rows >= n_weights else 4 * n_rows**2 + 8 * n_rows * n_weights


def iteration_operations(problem: Problem, recipe: Recipe) -> float:
    """Operations of an iterative solution: the small direct model, and the steps."""
    n_features, n_small = recipe.features.n_features, _small_weights(problem, recipe)
    steps = STEPS * STEP_OPERATIONS * problem.structures.n_atoms * n_features
    return float(problem.n_rows) * n_small**2 + n_small**3 / 3 + steps


def iteration_memory(problem: Problem, recipe: Recipe) -> int:
    """Bytes of an iterative solution: the small Gram matrix, environments with their tangents, vectors of the steps."""
    structures, n_weights = problem.structures, recipe.features.n_weights(len(problem.elements))
    tangents = 3.0 * (structures.n_atoms + len(structures) * pairs_of_a_structure(problem, recipe))
    tangents *= "forces" in problem.targets
    tangents += len(VOIGT) * structures.n_atoms * ("stress" in problem.targets)
    number = torch.finfo(recipe.dtype).bits // 8
    environments = 2 * (structures.n_atoms + tangents) * (recipe.rank * number + 16)  # twice: batches are joined
    window = 8 * min(WINDOW, recipe.solver.most_iterations) * (2 * problem.n_rows + n_weights)
    return int(8 * _small_weights(problem, recipe) ** 2 + BUFFER_BYTES + environments + window)


def _small_weights(problem: Problem, recipe: Recipe) -> int:
    """Weights of the small direct model that preconditions an iteration."""
    n_elements = len(problem.elements)
    return recipe.small_features(n_elements) * recipe.features.weights_of_each(n_elements)


def batch_limit(n_weights: int, problem: Problem, compute: Compute) -> int | None:
    """Most numbers in a batch of rows if memory is limited, as on a GPU; None: as many as run fastest."""
    unlimited = compute.memory.limit is None and compute.device_room is None
    return None if unlimited else batch_numbers(n_weights, problem, compute.room)


def pairs_of_a_structure(problem: Problem, recipe: Recipe) -> float:
    """Mean number of ordered pairs within the cutoff, of the first structures."""
    sample = problem.structures.select(range(min(SAMPLED, len(problem.structures))))
    return len(pairs_within(sample, recipe.representation.cutoff, problem.elements).centre) / len(sample)


def batch_numbers(n_weights: int, problem: Problem, free: int) -> int:
    """Numbers of a batch of rows that fit in an eighth of `free` bytes, but enough for the largest structure."""
    return min(BATCH_NUMBERS, max(free // 8 // BYTES_IN_FLIGHT, _least_batch(n_weights, problem)))


def _least_batch(n_weights: int, problem: Problem) -> int:
    """Numbers of the rows of the largest structure: forces, energy, virial."""
    return (3 * int(problem.structures.counts.max()) + 7) * n_weights


def representation_operations(vectors: float) -> float:
    """Operations of the representation, for so many environments and tangents."""
    return vectors * REPRESENTATION_FEATURES * ROW_OPERATIONS


@dataclass(frozen=True)
class MeanStructure:
    """Mean of the structures of a problem: operations of direct fits of any size follow from it."""

    rows: float  # labels
    weights: int  # of each feature
    vectors: float  # environments, and their tangents if derivatives are learnt
    energy_vectors: float  # for its energy alone, of which a pair costs half as much as an atom

    @classmethod
    def of(cls, problem: Problem, recipe: Recipe) -> MeanStructure:
        """The mean structure, with atoms and pairs of the first structures."""
        pairs, atoms = pairs_of_a_structure(problem, recipe), problem.structures.counts[:SAMPLED].double().mean().item()
        vectors = atoms + (3 * pairs if problem.targets.keys() - {"energies"} else 0)
        weights = recipe.features.weights_of_each(len(problem.elements))
        return cls(problem.n_rows / len(problem.structures), weights, vectors, atoms + pairs / 2)

    def fit_operations(
        self, structures: int, n_weights: int, held_out: int = 0, passes: int = 1, anew: int = 1, solutions: int = 1
    ) -> float:
        """Operations of `passes` over the rows of so many structures, and of `solutions` of their equations.

        `held_out`: further structures whose rows are written, and not solved for. `anew`: passes that compute the
        representation anew.
        """
        rows = self.rows * structures
        small, large = min(rows, n_weights), max(rows, n_weights)
        product = small**2 * large
        written = (structures + held_out) * self.vectors * n_weights * ROW_OPERATIONS
        represented = (structures + held_out) * representation_operations(self.vectors)
        factorised = solutions * FACTORISATION_SLOWER * small**3 / 3
        return passes * (product + written) + anew * represented + factorised
