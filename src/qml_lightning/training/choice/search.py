"""Hyper-parameters chosen on a part of the training data by smaller fits, and carried to the full size."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...linear.ridge import Ridge
from ...machine.compute import Compute
from ...machine.progress import Progress, silent
from ...model.recipe import Automatic, Recipe
from ...model.representations.fchl19 import ENERGIES_SERIES
from ..chosen import Chosen
from ..costs import batch_numbers
from ..problem import Problem
from .budget import PASSES, planned, telling, unit
from .trials import Judges, Sampled, Size, SmallerFits, Trial

# With fewer structures only the ridge is chosen, and nothing where there are fewer rows than weights: they cannot tell.
FEW_STRUCTURES = 30
# What another width or weight must gain in the logarithm of the error to be taken: this, and this over the square root
# of the number of energies that judge. Less is chance.
WORTH, CHANCE = 0.02, 0.3
# With as many rows for each feature, the best ridge falls with about this power of the error of forces: 4.6 for
# ethanol, 4.5 for benzene, 4.2 for uracil, 4.0 for aspirin, over a factor of 16 in size; and with this one of energies
# alone, 5.2 for QM9 (benchmarks/ridges.py). Errors can be told much better than where the bottom of a flat valley is.
POWERS_OF_ERRORS = {"forces": 4.5, "energies": 5.5}
# Which makes powers of the number of features between these, and this one where nothing is known; and this one of the
# width, to know where to look.
POWERS_OF_FEATURES, POWER_OF_FEATURES, POWER_OF_WIDTH = (1.5, 3.5), 2.7, 5.0
# The factor of errors for twice the size that goes with that power, 0.66; and to how many structures a smaller fit is
# believed as much as that.
USUAL_GAIN, KNOWN = 2 ** (-POWER_OF_FEATURES / POWERS_OF_ERRORS["forces"]), 100
# 3 ε/2 over a third, with ε of float32, and 1.3 for an RMSE from an MAE.
SINGLE = 3.5e-7
# Energy weights that are tried.
WEIGHTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Axes lose at most this part of the squared norm of an element's environments, and SORF has at least so many blocks:
# with 256 instead of 128 axes forces are 5 % better for 3BPA (9e-6 lost with 128), 3 % for aspirin (3e-6), 1 to 7 % for
# smaller molecules (less than 1e-6), and 512 axes are no better (benchmarks/ranks.py); energies of QM9 4 % (4e-6).
# Smaller fits cannot tell that.
LOST, BLOCKS = 1e-6, 8

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
    least_ridge: float = 0.0  # below it, rounding decides
    trials: tuple[Trial, ...] = ()
    seconds: float = 0.0

    def settled(self) -> Chosen:
        """The recipe and its ridge for the fit, with the evidence."""
        if self.best is None:
            return Chosen.given(self.recipe)
        return Chosen(
            self.recipe,
            Ridge(self.recipe.ridge, self.least_ridge if "ridge" in self.chosen else None),
            self.as_dict(),
        )

    def as_dict(self) -> dict[str, Any]:
        """Evidence for the header of a model, which has the recipe already."""
        solved = [asdict(trial) for trial in self.trials if math.isfinite(trial.score)]
        told = asdict(replace(self, trials=())) | {"chosen": list(self.chosen), "trials": solved}
        del told["recipe"]
        return told


def choose(
    problem: Problem,
    automatic: Automatic,
    *,
    compute: Compute | None = None,
    iterates: bool = False,
    tell: Progress = silent,
) -> Choice:
    """The recipe with its free fields as smaller fits to a part of `problem` find them best for another part.

    The smaller fits have fewer structures and features in the same proportion, so that they overfit as the fit itself
    would; features beyond the number of rows are not counted. Width and energy weight are taken over, the ridge is
    carried to the full size. The rank is told by the environments, without a fit. `iterates`: whether the fit will form
    no Gram matrix, in which a ridge can be lost.
    """
    started, compute, sampled = time.perf_counter(), compute or Compute(), Sampled(problem.structures)
    memory = compute.memory
    free = _free(problem, automatic)
    start = _ranked(automatic.start, sampled) if "rank" in free else automatic.start
    size, judges = planned(problem, start, memory, iterates)
    if not free or judges.structures == 0:
        return Choice(automatic.start)
    most = None if memory.limit is None else batch_numbers(size.n_features, problem, memory.left)
    fits = SmallerFits(
        problem, start, judges, compute=compute, most=most, remembers=memory.left // 8,
        sampled=sampled, passed=lambda n: tell("choosing", min(n, PASSES), PASSES + 1),
    )  # fmt: skip
    tell("choosing", 0, PASSES + 1)
    whole = Size(len(problem.structures), start.features.n_features)
    shrunk = telling(problem, start, whole) / telling(problem, start, size)
    first = _first(fits, size, replace(start, ridge=start.ridge * shrunk**POWER_OF_FEATURES))
    times = shrunk**first.power / first.by_half
    larger = 0.0 if iterates else whole.structures / size.structures * whole.n_features / size.n_features
    single = _shown_by_float32(problem, start, fits.trial(size, first.recipe).errors)
    search = _Search(fits, size, times, larger, single, "ridge" in free)
    begin = first.recipe if search.ridged else replace(first.recipe, ridge=start.ridge * times)
    best = search.best(begin, free, max(WORTH, CHANCE * (judges.structures + judges.more_energies) ** -0.5))
    trial = fits.trial(size, best)
    predicted = {kind: error * first.gain(kind) ** math.log2(shrunk) for kind, error in trial.errors.items()}
    ridge = search.carried(best) if search.ridged else start.ridge
    tell("choosing", PASSES + 1, PASSES + 1)
    seconds = round(time.perf_counter() - started, 3)
    told, least = replace(best, ridge=ridge), search.least_there(best)
    return Choice(told, free, judges, trial, predicted, least, tuple(fits.trials.values()), seconds)


@dataclass(frozen=True)
class _Search:
    """Downhill from one recipe to another in smaller fits of one size, by ridges that the fit itself can have."""

    fits: SmallerFits
    size: Size
    times: float  # a ridge of the fit itself, to have as good a one of the smaller fits
    larger: float  # what rounding is in the fit itself
    single: float  # the least ridge that float32 allows
    ridged: bool  # whether the ridge is free; one that is given is taken as it is

    def best(self, recipe: Recipe, free: Sequence[str], worth: float) -> Recipe:
        """The free fields one after the other, and the ridge with each of them."""
        recipe = self.settled(recipe)
        for steps in self._steps(free):
            settling = [lambda one, step=step: (other := step(one)) and self.settled(other) for step in steps]
            recipe = _downhill(self.score, recipe, settling, worth)
        return recipe

    def _steps(self, free: Sequence[str]) -> list[list[Step]]:
        """What is tried of each field, one after the other in this order."""
        steps: dict[str, list[Step]] = {
            "representation": [lambda one: replace(one, representation=ENERGIES_SERIES)],
            "energy_weight": [lambda one: _weight(one, up=True), lambda one: _weight(one, up=False)],
            "sigma": [lambda one: _width(one, 0.5), lambda one: _width(one, 2.0)],
        }
        return [steps[name] for name in steps if name in free]

    def score(self, recipe: Recipe) -> float:
        return math.inf if recipe.ridge < self._least(recipe) else self.fits.trial(self.size, recipe).score

    def settled(self, recipe: Recipe) -> Recipe:
        return best_ridge(self.score, recipe, self._least(recipe)) if self.ridged else recipe

    def carried(self, recipe: Recipe) -> float:
        """Its ridge for the fit itself."""
        return float(f"{max(recipe.ridge / self.times, self.least_there(recipe)):.2g}")

    def least_there(self, recipe: Recipe) -> float:
        """The smallest ridge of the fit itself: rounding grows with its sums and with their number."""
        return max(self.single, self.fits.rounding(self.size, recipe) * self.larger)

    def _least(self, recipe: Recipe) -> float:
        """The smallest ridge of the smaller fits, such that it can be carried."""
        if not self.ridged:
            return 0.0
        return max(self.fits.rounding(self.size, recipe), self.least_there(recipe) * self.times)


def _free(problem: Problem, automatic: Automatic) -> tuple[str, ...]:
    """What there is to choose, and can be told by so much data: weights only between kinds of labels, and another
    representation only where there are no forces."""
    needless = {"representation" if problem.targets.keys() != {"energies"} else "energy_weight"}
    needless |= {"energy_weight"} if len(problem.targets) == 1 else set()
    free = tuple(name for name in automatic.free if name not in needless)
    if len(problem.structures) >= FEW_STRUCTURES:
        return free
    weights = automatic.start.features.n_weights(len(problem.elements))
    enough = problem.n_rows > weights
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


def _ranked(recipe: Recipe, sampled: Sampled) -> Recipe:
    """With twice the rank, and twice again, as long as axes lose too much and there are features for several blocks."""
    larger = replace(recipe, rank=2 * recipe.rank)
    lost = max(found.lost(recipe.rank) for found in sampled.of(recipe))
    if lost <= LOST or recipe.features.n_features % (BLOCKS * unit(larger)):
        return recipe
    return _ranked(larger, sampled)


@dataclass(frozen=True)
class _First:
    """What two sizes tell before anything but the ridge is sought."""

    recipe: Recipe  # with a good ridge
    gains: dict[str, float] = field(default_factory=dict)  # by what factor errors fall with twice the size
    power: float = POWER_OF_FEATURES  # with which the ridge falls as the number of features grows
    by_half: float = 1.0  # what to multiply a ridge by, so that half the size tells as much of it

    def gain(self, kind: str) -> float:
        """By what factor that error will fall with twice the size: energies as forces, which tell it far better."""
        return self.gains.get("forces", self.gains.get(kind, 1.0))


def _first(fits: SmallerFits, size: Size, recipe: Recipe) -> _First:
    """The bottom of a valley is found within a factor of 3, and 10 at times (uracil, 3BPA): two sizes err less."""

    def settled(size: Size, one: Recipe) -> Recipe:
        return best_ridge(lambda other: fits.trial(size, other).score, one, fits.rounding(size, one))

    half = Size(size.structures // 2, size.n_features // 2)
    if half.structures == 0 or half.n_features % unit(recipe):
        return _First(settled(size, recipe))
    smaller = settled(half, replace(recipe, ridge=recipe.ridge * 2**POWER_OF_FEATURES))
    larger = settled(size, replace(smaller, ridge=smaller.ridge / 2**POWER_OF_FEATURES))
    before, now = (fits.trial(*fit).errors for fit in ((half, smaller), (size, larger)))
    # what cannot be solved, or is met exactly, tells nothing
    known = [kind for kind in now if 0 < now[kind] < math.inf and 0 < before[kind] < math.inf]
    gains = {kind: min(1.0, _believed(now[kind] / before[kind], size.structures)) for kind in known}
    power = power_of_features(gains)
    return _First(larger, gains, power, math.sqrt(smaller.ridge / 2**power / larger.ridge))


def _believed(gain: float, structures: int) -> float:
    """What few structures tell, and what is usual."""
    return math.exp((structures * math.log(gain) + KNOWN * math.log(USUAL_GAIN)) / (structures + KNOWN))


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
