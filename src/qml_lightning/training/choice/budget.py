"""How large the smaller fits of a choice are: what they cost, and what part of the fit they may take."""

from __future__ import annotations

from dataclasses import dataclass

from ...machine.memory import Memory
from ...model.recipe import Recipe
from ..costs import (
    BYTES_IN_FLIGHT,
    atoms_of_a_structure,
    direct_memory,
    iteration_operations,
    pairs_of_a_structure,
)
from ..problem import Problem
from ..rows import BATCH_NUMBERS
from .trials import Judges, Size

# Part of the operations of the fit that the choice may take; and how many it always may, about half a second.
SHARE, ALWAYS = 0.17, 2e10
# Passes over the data and solutions that a choice is planned with.
PASSES, SOLUTIONS = 6, 36
# A factorisation and what goes with it run at a third of the rate of the products.
SLOWER = 3.0
# Features of the smaller fits, at most: with more the choice would take minutes and be no better.
MOST_FEATURES = 8192
# With so many rows for each weight they are hardly overfitted, and more structures than that and this say the same.
ENOUGH_ROWS, ENOUGH_STRUCTURES = 8, 20
# Structures that judge, at least where there are as many and at most, their rows at most, and more structures of which
# only the energies do.
FEWEST_HELD, MOST_HELD, MOST_HELD_ROWS, MORE_ENERGIES = 10, 60, 6000, 300
# Operations of a row for each feature and neighbour, in the time of a matrix product; features that cost as much as the
# representation with its derivatives; and passes in which that is made anew at most, as size or rank are others.
ROW_OPERATIONS, REPRESENTATION, ENVIRONED = 100.0, 2000.0, 3


@dataclass(frozen=True)
class _Cost:
    """What fits to such data take, in operations of a matrix product."""

    rows: float  # of a structure
    atoms: float
    pairs: float
    moves: float  # of which features and derivatives are made
    weights: int  # for each feature

    @property
    def environed(self) -> float:
        """The representation of a structure, with its derivatives."""
        return self.moves * REPRESENTATION * ROW_OPERATIONS

    @property
    def environed_for_energy(self) -> float:
        return (self.atoms + self.pairs / 2) * REPRESENTATION * ROW_OPERATIONS

    def operations(
        self, structures: float, n_features: float, judges: float = 0, passes: int = 1, solutions: int = 1
    ) -> float:
        rows, weights = self.rows * structures, n_features * self.weights
        small, large = min(rows, weights), max(rows, weights)
        product = small**2 * large
        made = (structures + judges) * self.moves * weights * ROW_OPERATIONS
        once = (structures + judges) * self.environed
        return passes * (product + made) + min(passes, ENVIRONED) * once + solutions * SLOWER * small**3 / 3


def _cost(problem: Problem, recipe: Recipe) -> _Cost:
    """Told by the first structures."""
    pairs, atoms = pairs_of_a_structure(problem, recipe), atoms_of_a_structure(problem)
    moves = atoms + (3 * pairs if problem.targets.keys() - {"energies"} else 0)
    of_each = recipe.features.weights_of_each(len(problem.elements))
    return _Cost(_rows(problem), atoms, pairs, moves, of_each)


def _rows(problem: Problem) -> float:
    """Of a structure."""
    return problem.n_rows / len(problem.structures)


def planned(problem: Problem, recipe: Recipe, memory: Memory, iterates: bool = False) -> tuple[Size, Judges]:
    """Size of the smaller fits, the largest that the share of operations and half of the memory allow; and how many
    structures judge them, none where there is only one."""
    cost, n, full = _cost(problem, recipe), len(problem.structures), recipe.features.n_features
    whole = iteration_operations(problem, recipe) if iterates else cost.operations(n, full)
    budget = max(ALWAYS, SHARE * whole)
    # what judges cost, only once in a while: at most a third of it, and a sixth for those of energies alone
    wanted = max(1, n // 5, min(n // 3, 10))
    held = min(wanted, MOST_HELD, max(1, int(MOST_HELD_ROWS / max(1.0, cost.rows))), n - 1)
    held = min(held, max(FEWEST_HELD, int(budget / 3 / ENVIRONED / cost.environed)))
    size = _size(problem, recipe, cost, budget, held, memory)
    several = len(problem.targets) > 1 and problem.labels.energies is not None
    affordable = int(budget / 6 / ENVIRONED / cost.environed_for_energy)
    return size, Judges(held, min(MORE_ENERGIES, n - held - size.structures, affordable) if several else 0)


def _size(problem: Problem, recipe: Recipe, cost: _Cost, budget: float, held: int, memory: Memory) -> Size:
    """As many rows for each feature as the fit has; fewer, but enough, where the fewest features cost too much."""
    n, full = len(problem.structures), recipe.features.n_features
    step = max(2 * unit(recipe), 128)  # half of it is possible, too
    size = Size(n - held, full)
    for n_features in range(min(full, MOST_FEATURES) // step * step, 0, -step):
        structures = round(n * n_features / telling(problem, recipe, Size(n, full)))
        size, weights = Size(max(1, min(n - held, structures)), n_features), n_features * cost.weights
        if cost.operations(size.structures, n_features, held, PASSES, SOLUTIONS) > budget:
            continue
        for_judges = BYTES_IN_FLIGHT * BATCH_NUMBERS + 8 * weights * round(cost.rows * held)
        if 2 * (direct_memory([round(cost.rows * size.structures)], weights) + for_judges) < memory.left:
            return size
    enough = max(ENOUGH_STRUCTURES, round(ENOUGH_ROWS * size.n_features * cost.weights / cost.rows))
    return Size(min(size.structures, enough), size.n_features)


def telling(problem: Problem, recipe: Recipe, size: Size) -> float:
    """The features that limit a fit of that size: more than it has rows make it the kernel's own, which has one best
    ridge. Aspirin, 100 structures: 3e-5, 1.5e-5, 5e-6, 4e-6 with 0.32, 0.64, 1.28, 2.56 features for each row."""
    rows = _rows(problem) * size.structures
    return min(size.n_features, rows / recipe.features.weights_of_each(len(problem.elements)))


def unit(recipe: Recipe) -> int:
    """The number of features is a multiple of this."""
    return (recipe.rank if recipe.features.method == "sorf" else 1) * (1 + recipe.features.paired)
