"""Hyper-parameters chosen on a part of the training data by smaller fits, and carried to the full size."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from .design import BATCH_NUMBERS
from .iterative import iteration_operations
from .neighbours import pairs_within
from .recipes import Automatic, Recipe
from .representation import ENERGIES
from .resources import Memory
from .smallerfits import Judges, Size, SmallerFits, Trial
from .solve import memory_for_fit
from .training import BYTES_IN_FLIGHT, Problem, Progress, batch_numbers, counts_of

# Part of the operations of the fit that the choice may take; and how many it always may, about half a second.
SHARE, ALWAYS = 0.17, 2e10
# Passes over the data and solutions that a choice is planned with.
PASSES, SOLUTIONS = 6, 36
# A factorisation and what goes with it run at a third of the rate of the products.
SLOWER = 3.0
# Features of the smaller fits, at most: with more the choice would take minutes and be no better.
MOST_FEATURES = 8192
# Structures that judge, at least where there are as many and at most, their rows at most, and more structures of which
# only the energies do.
FEWEST_HELD, MOST_HELD, MOST_HELD_ROWS, MORE_ENERGIES = 10, 60, 6000, 300
# With fewer structures only the ridge is chosen, and nothing where there are fewer rows than weights: they cannot tell.
FEW_STRUCTURES = 30
# What another width, weight or rank must gain in the logarithm of the error to be taken: this, and this over the square
# root of the number of energies that judge. Less is chance.
WORTH, CHANCE = 0.02, 0.3
# With as many rows for each feature, the best ridge falls with about this power of the error of forces: 4.6 for
# ethanol, 4.5 for benzene, 4.2 for uracil, 4.0 for aspirin, over a factor of 16 in size; and with this one of energies
# alone, 5.2 for QM9 (benchmarks/ridges.py). Errors can be told much better than where the bottom of a flat valley is.
POWERS_OF_ERRORS = {"forces": 4.5, "energies": 5.5}
# Which makes powers of the number of features between these, and this one where nothing is known; and this one of the
# width, to know where to look.
POWERS_OF_FEATURES, POWER_OF_FEATURES, POWER_OF_WIDTH = (1.5, 3.5), 2.7, 5.0
# 3 ε/2 over a third, with ε of float32, and 1.3 for an RMSE from an MAE.
SINGLE = 3.5e-7
# Energy weights that are tried.
WEIGHTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Smaller fits with fewer blocks of SORF than this say nothing of the rank.
BLOCKS = 4
# Operations of a row for each feature and neighbour, in the time of a matrix product; features that cost as much as the
# representation with its derivatives; and passes in which that is made anew, as size or rank are others.
ROW_OPERATIONS, REPRESENTATION, ENVIRONED = 100.0, 2000.0, 3


# From a recipe to another one, if there is one there.
Step = Callable[[Recipe], Recipe | None]


@dataclass(frozen=True)
class Choice:
    """A recipe, and what speaks for it."""

    recipe: Recipe
    chosen: tuple[str, ...] = ()  # fields that were free
    judges: Judges = field(default_factory=lambda: Judges(0))
    best: Trial | None = None
    predicted: dict[str, float] = field(default_factory=dict)  # errors that the fit is expected to have
    trials: tuple[Trial, ...] = ()
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For the header of a model, which has the recipe already."""
        solved = [asdict(trial) for trial in self.trials if math.isfinite(trial.score)]
        told = asdict(replace(self, trials=())) | {"chosen": list(self.chosen), "trials": solved}
        del told["recipe"]
        return told


def choose(
    problem: Problem,
    automatic: Automatic,
    *,
    device: torch.device | str = "cpu",
    kernels: str | None = None,
    memory: Memory | None = None,
    iterates: bool = False,
    tell: Progress = lambda *_: None,
) -> Choice:
    """The recipe with its free fields as smaller fits to a part of `problem` find them best for another part.

    The smaller fits have fewer structures and features in the same proportion, so that they overfit as the fit itself
    would; features beyond the number of rows are not counted. Width, energy weight and rank are taken over, the ridge
    is carried to the full size. `iterates`: whether the fit will form no Gram matrix, in which a ridge can be lost.
    """
    started, start, memory = time.perf_counter(), automatic.start, memory or Memory()
    free, (size, judges) = _free(problem, automatic), planned(problem, start, memory, iterates)
    if not free or judges.structures == 0:
        return Choice(start)
    most = None if memory.limit is None else batch_numbers(size.n_features, problem, memory.left)
    fits = SmallerFits(
        problem, start, judges, device=device, kernels=kernels, most=most, remembers=memory.left // 8,
        passed=lambda n: tell("choosing", min(n, PASSES), PASSES + 1),
    )  # fmt: skip
    tell("choosing", 0, PASSES + 1)
    whole = Size(len(problem.structures), start.features.n_features)
    shrunk = _telling(problem, start, whole) / _telling(problem, start, size)
    worth = max(WORTH, CHANCE * (judges.structures + judges.more_energies) ** -0.5)

    first, gains, other = _first(fits, size, replace(start, ridge=start.ridge * shrunk**POWER_OF_FEATURES))
    carried = shrunk ** power_of_features(gains) / other
    single = _shown_by_float32(problem, start, fits.trial(size, first).errors)
    larger = len(problem.structures) / size.structures * start.features.n_features / size.n_features

    def least(recipe: Recipe) -> float:
        """The smallest ridge of the fit itself: rounding grows with its sums and with their number."""
        return max(single, 0.0 if iterates else fits.rounding(size, recipe) * larger)

    def least_here(recipe: Recipe) -> float:
        """The smallest ridge of the smaller fits, such that it can be carried; one that is given is taken as it is."""
        return max(fits.rounding(size, recipe), least(recipe) * carried) if "ridge" in free else 0.0

    def score(recipe: Recipe) -> float:
        return math.inf if recipe.ridge < least_here(recipe) else fits.trial(size, recipe).score

    def settled(recipe: Recipe | None) -> Recipe | None:
        return best_ridge(score, recipe, least_here(recipe)) if recipe and "ridge" in free else recipe

    best = settled(first if "ridge" in free else replace(first, ridge=start.ridge * carried)) or first
    if "representation" in free:
        best = _downhill(score, best, [lambda r: settled(replace(r, representation=ENERGIES))], worth)
    if "energy_weight" in free:  # before what needs another pass over the data
        weights: list[Step] = [lambda r: settled(_weight(r, up=True)), lambda r: settled(_weight(r, up=False))]
        best = _downhill(score, best, weights, worth)
    if "sigma" in free:
        best = _downhill(score, best, [lambda r: settled(_width(r, 0.5)), lambda r: settled(_width(r, 2.0))], worth)
    if "rank" in free:
        n_elements = len(problem.baseline.elements)
        best = _downhill(score, best, [lambda r: settled(_rank(r, size, n_elements))], worth)
    trial = fits.trial(size, best)
    # energies gain about as much as forces, and tell it much worse
    further = {kind: gains.get("forces", gain) ** math.log2(shrunk) for kind, gain in gains.items()}
    predicted = {kind: error * further.get(kind, 1.0) for kind, error in trial.errors.items()}
    ridge = start.ridge
    if "ridge" in free:
        ridge = float(f"{max(best.ridge / carried, least(best)):.2g}")
    tell("choosing", PASSES + 1, PASSES + 1)
    seconds = round(time.perf_counter() - started, 3)
    return Choice(replace(best, ridge=ridge), free, judges, trial, predicted, tuple(fits.trials.values()), seconds)


def _free(problem: Problem, automatic: Automatic) -> tuple[str, ...]:
    """What there is to choose, and can be told by so much data: weights only between kinds of labels, and another
    representation only where there are no forces."""
    needless = {"representation" if problem.targets.keys() != {"energies"} else "energy_weight"}
    needless |= {"energy_weight"} if len(problem.targets) == 1 else set()
    free = tuple(name for name in automatic.free if name not in needless)
    if len(problem.structures) >= FEW_STRUCTURES:
        return free
    weights = automatic.start.features.n_weights(len(problem.baseline.elements))
    enough = sum(counts_of(problem.targets).values()) > weights
    return tuple(name for name in free if name == "ridge" and enough)


def best_ridge(score: Callable[[Recipe], float], recipe: Recipe, least: float) -> Recipe:
    """`recipe` with the best power of ten as its ridge, found downhill from its own, or the bottom of a parabola, or
    the least one where that is better."""
    guess = max(recipe.ridge, least)
    recipe = replace(recipe, ridge=float(f"1e{math.ceil(math.log10(guess) - 0.5)}"))
    recipe = _downhill(score, recipe, [lambda one: _times(one, 10.0), lambda one: _times(one, 0.1)])
    left, middle, right = (score(_times(recipe, factor)) for factor in (0.1, 1.0, 10.0))
    if math.isfinite(left + right) and left + right > 2 * middle:
        other = _times(recipe, 10 ** (0.5 * (left - right) / (left + right - 2 * middle)))
    else:
        other = replace(recipe, ridge=float(f"{1.06 * least:.2g}"))  # not less, in few digits
    return min(recipe, other, key=score)


def _times(recipe: Recipe, factor: float) -> Recipe:
    """With a ridge so much larger, in few digits: trials are known by it."""
    return replace(recipe, ridge=float(f"{recipe.ridge * factor:.2g}"))


def _downhill(score: Callable[[Recipe], float], recipe: Recipe, steps: Sequence[Step], worth: float = 0.0) -> Recipe:
    """From `recipe` by the step that gains most, and on by the same one while it gains more than it is worth."""
    while steps:
        there = {step: other for step in steps if (other := step(recipe)) is not None}
        best = min(there, key=lambda step: score(there[step]), default=None)
        if best is None or not score(there[best]) < score(recipe) - worth:
            break
        recipe, steps = there[best], [best]
    return recipe


def _weight(recipe: Recipe, up: bool) -> Recipe | None:
    further = [weight for weight in WEIGHTS if (weight > recipe.energy_weight if up else weight < recipe.energy_weight)]
    return replace(recipe, energy_weight=further[0 if up else -1]) if further else None


def _width(recipe: Recipe, factor: float) -> Recipe:
    features = replace(recipe.features, sigma=recipe.features.sigma * factor)
    return replace(recipe, features=features, ridge=recipe.ridge * factor**-POWER_OF_WIDTH)


def _rank(recipe: Recipe, size: Size, n_elements: int) -> Recipe | None:
    """Twice the rank, where there are as many axes and features for several blocks; a smaller one would save little."""
    larger = replace(recipe, rank=2 * recipe.rank)
    axes = recipe.representation.arguments(n_elements).size
    fits = recipe.features.n_features % unit(larger) == size.n_features % (BLOCKS * unit(larger)) == 0
    return larger if fits and recipe.rank < axes else None


def _first(fits: SmallerFits, size: Size, recipe: Recipe) -> tuple[Recipe, dict[str, float], float]:
    """`recipe` with a good ridge for that size; by what factor each error is smaller there than at half the size, empty
    where that cannot be told; and what to multiply a ridge by, so that half the size tells as much of it.

    The bottom of a valley is found within a factor of 3 or so, and 10 at times (uracil, 3BPA): two sizes err less."""

    def settled(size: Size, one: Recipe) -> Recipe:
        return best_ridge(lambda other: fits.trial(size, other).score, one, fits.rounding(size, one))

    half = Size(size.structures // 2, size.n_features // 2)
    if half.structures == 0 or half.n_features % unit(recipe):
        return settled(size, recipe), {}, 1.0
    smaller = settled(half, replace(recipe, ridge=recipe.ridge * 2**POWER_OF_FEATURES))
    first = settled(size, replace(smaller, ridge=smaller.ridge / 2**POWER_OF_FEATURES))
    before, now = (fits.trial(*fit).errors for fit in ((half, smaller), (size, first)))
    # what cannot be solved, or is met exactly, tells nothing
    known = [kind for kind in now if 0 < now[kind] < math.inf and 0 < before[kind] < math.inf]
    gains = {kind: min(1.0, now[kind] / before[kind]) for kind in known}
    return first, gains, math.sqrt(smaller.ridge / 2 ** power_of_features(gains) / first.ridge)


def power_of_features(gains: dict[str, float]) -> float:
    """With which the ridge falls as the number of features grows: forces tell it best."""
    kind = next((kind for kind in POWERS_OF_ERRORS if kind in gains), None)
    if kind is None:
        return POWER_OF_FEATURES
    least, most = POWERS_OF_FEATURES
    return min(max(least, -POWERS_OF_ERRORS[kind] * math.log2(gains[kind])), most)


def _shown_by_float32(problem: Problem, recipe: Recipe, errors: dict[str, float]) -> float:
    """The ridge below which weights are so large that energies predicted in float32 show it.

    At a good ridge |weights|² is about a quarter of n_features · (RMSE of force)² / ridge. Rounding of relative size ε
    makes 3 ε |weights| √(2 atoms / n_features) of that in an energy, of which less than a third of its error is wanted.
    """
    if recipe.precision != "float32" or not {"energies", "forces"} <= errors.keys():
        return 0.0
    if not (math.isfinite(errors["forces"]) and 0 < errors["energies"] < math.inf):
        return 0.0
    atoms = problem.structures.n_atoms / len(problem.structures)
    return 2 * atoms * (SINGLE * recipe.force_weight * errors["forces"] / errors["energies"]) ** 2


def _telling(problem: Problem, recipe: Recipe, size: Size) -> float:
    """The features that limit a fit of that size: more than it has rows make it the kernel's own, which has one best
    ridge. Aspirin, 100 structures: 3e-5, 1.5e-5, 5e-6, 4e-6 with 0.32, 0.64, 1.28, 2.56 features for each row."""
    rows = sum(counts_of(problem.targets).values()) * size.structures / len(problem.structures)
    return min(size.n_features, rows / recipe.features.weights_of_each(len(problem.baseline.elements)))


def unit(recipe: Recipe) -> int:
    """The number of features is a multiple of this."""
    return (recipe.rank if recipe.features.method == "sorf" else 1) * (1 + recipe.features.paired)


def planned(problem: Problem, recipe: Recipe, memory: Memory, iterates: bool = False) -> tuple[Size, Judges]:
    """Size of the smaller fits, the largest that the share of operations and half of the memory allow; and how many
    structures judge them, none where there is only one."""
    structures, rows, full = problem.structures, sum(counts_of(problem.targets).values()), recipe.features.n_features
    n, per_structure = len(structures), rows / len(structures)
    sample = structures.select(torch.arange(min(n, 10)))
    atoms, pairs = (
        number / len(sample)
        for number in (
            sample.n_atoms,
            len(pairs_within(sample, recipe.representation.cutoff, problem.baseline.elements).centre),
        )
    )
    moves = atoms + (3 * pairs if len(problem.targets.keys() - {"energies"}) else 0)
    of_each = recipe.features.weights_of_each(len(problem.baseline.elements))

    def operations(structures: float, judges: float, n_features: float, passes: int, solutions: int) -> float:
        rows, weights = per_structure * structures, n_features * of_each
        small, large = min(rows, weights), max(rows, weights)
        product = small**2 * large * (1 if rows > weights else 2)  # of rows with each other: both triangles
        made = (structures + judges) * moves * weights * ROW_OPERATIONS
        once = (structures + judges) * moves * REPRESENTATION * ROW_OPERATIONS
        return passes * (product + made) + min(passes, ENVIRONED) * once + solutions * SLOWER * small**3 / 3

    whole = operations(n, 0, full, 1, 1)
    if iterates:
        whole = iteration_operations(problem, recipe, full * of_each)
    budget = max(ALWAYS, SHARE * whole)
    # what judges cost, only once in a while: at most a third of it, and a sixth for those of energies alone
    each = ENVIRONED * moves * REPRESENTATION * ROW_OPERATIONS
    of_energies = ENVIRONED * (atoms + pairs / 2) * REPRESENTATION * ROW_OPERATIONS
    wanted = max(1, n // 5, min(n // 3, 10))
    n_held = min(wanted, MOST_HELD, max(1, int(MOST_HELD_ROWS / max(1.0, per_structure))), n - 1)
    n_held = min(n_held, max(FEWEST_HELD, int(budget / 3 / each)))
    telling = _telling(problem, recipe, Size(n, full))
    step = max(2 * unit(recipe), 128)  # halves and a doubled rank are possible, too
    size = Size(n - n_held, full)
    for n_features in range(min(full, MOST_FEATURES) // step * step, 0, -step):
        size = Size(max(1, min(n - n_held, round(n * n_features / telling))), n_features)
        weights = n_features * of_each
        counts = [round(per_structure * size.structures)]
        held = 8 * weights * round(per_structure * n_held) + BYTES_IN_FLIGHT * BATCH_NUMBERS
        if operations(size.structures, n_held, n_features, PASSES, SOLUTIONS) > budget:
            continue
        if 2 * (memory_for_fit(weights, counts) + held) < memory.left:
            break
    several = len(problem.targets) > 1 and problem.labels.energies is not None
    more = min(MORE_ENERGIES, n - n_held - size.structures, int(budget / 6 / of_energies)) if several else 0
    return size, Judges(n_held, more)
