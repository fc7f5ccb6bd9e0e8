"""Automatic choice of a recipe: trials on a part of the training data, and their result carried to the full size."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from ...errors import InputError
from ...linear.ridge import Ridge
from ...machine.compute import Compute
from ...machine.progress import Progress, silent
from ...model.recipe import Automatic, Recipe
from ...model.representations import PRESETS, Representation
from ..chosen_recipe import Chosen
from ..costs import batch_limit
from ..problem import Problem
from . import rules
from .budget import plan_trials
from .trials import Size, Trial, TrialData, Trials

# Score of a recipe in a trial: the smaller, the better.
Score = Callable[[Recipe], float]
# Function from a recipe to its neighbour in one direction; None at the end.
Step = Callable[[Recipe], Recipe | None]


EXPLAINS_NOTHING = (
    "Held-out structures are predicted best by no prediction at all (a ridge of {:.0e}): the labels contradict each "
    'other. A few wrong frames can do that: look for them with --outliers stop (in Python fit(..., outliers="stop")). '
    "Or give a ridge to train anyway."
)


def choose(
    problem: Problem, automatic: Automatic, compute: Compute, *, iterates: bool = False, tell: Progress = silent
) -> Chosen:
    """The recipe whose free fields are best in trials: small fits to a part of `problem`, with another part held out.

    Trials have fewer structures and fewer features, in the same proportion, so that they overfit as the fit would. Two
    sizes of trials tell how errors and the best ridge fall as a fit grows. A search then goes from field to field, with
    the best ridge for each value. Width, energy weight and representation hold for the fit too; the ridge is carried to
    the full size. The rank follows from the environments without a trial.

    `iterates`: the fit will form no Gram matrix, in which a small ridge would be lost in rounding.
    """
    started, data = time.perf_counter(), TrialData(problem, automatic.start.seed)
    free = _free_fields(problem, automatic)
    start = _with_enough_axes(automatic.start, data) if "rank" in free else automatic.start
    plan = plan_trials(problem, start, compute.memory, iterates)
    if not free or not plan.validation.structures:
        return Chosen.given(automatic.start)

    tell("choosing", 0, rules.PLANNED_PASSES + 1)
    at_once = batch_limit(plan.size.n_features, problem, compute)
    trials = Trials(data, plan.validation, compute, at_once, tell)
    trend = _trend(trials, plan.size, replace(start, ridge=start.ridge * plan.growth**rules.RIDGE_POWER))
    float32_ridge = _float32_ridge(problem, start, trials.trial(plan.size, trend.recipe).errors)
    ratio = trend.ridge_ratio(plan.growth)
    more_for_short = rules.MORE_FOR_SHORT_RANGE * max(0.0, math.log2(plan.growth))
    search = _Search(
        trials, plan.size, free, ratio, plan.rounding_growth, float32_ridge, automatic.start.rank, more_for_short
    )
    begin = trend.recipe if "ridge" in free else replace(trend.recipe, ridge=start.ridge * search.ratio)
    least_gain = max(rules.LEAST_GAIN, rules.LEAST_GAIN_WITH_ONE_ENERGY * plan.validation.energies**-0.5)
    best = search.best(begin, least_gain)

    if "ridge" in free and best.ridge > trials.trace(plan.size, best):
        raise InputError(EXPLAINS_NOTHING.format(best.ridge))
    trial, least = trials.trial(plan.size, best), search.least_carried(best)
    ridge = Ridge(search.carried_ridge(best), rules.refinement(least)) if "ridge" in free else Ridge(start.ridge)
    tell("choosing", rules.PLANNED_PASSES + 1, rules.PLANNED_PASSES + 1)
    evidence = {
        "chosen": list(free),
        "judges": asdict(plan.validation),  # by the name that the first files have
        "best": asdict(trial),
        "predicted": trend.errors_after(plan.growth, trial.errors),
        "uncertainties": trend.uncertainties_after(plan.growth, trial),
        "least_gain": least_gain,
        "least_gain_of_width": max(least_gain, rules.LEAST_GAIN_OF_WIDTH),
        "more_for": {name: more_for_short for name, one in PRESETS.items() if one in rules.SHORT_RANGE},
        "apart": problem.groups is not None and len(set(problem.groups.tolist())) > 1,  # held out by groups
        "least_ridge": least,
        "trials": [asdict(one) for one in trials.done.values() if math.isfinite(one.score)],
        "seconds": round(time.perf_counter() - started, 3),
    }
    return Chosen(replace(best, ridge=ridge.value), ridge, evidence)


def _free_fields(problem: Problem, automatic: Automatic) -> tuple[str, ...]:
    """Free fields that matter for these labels and that so much data can decide.

    An energy weight matters if there are several kinds of labels.
    """
    kinds, many = problem.targets.keys(), len(problem.structures) >= rules.FEWEST_STRUCTURES
    matters = {
        "energy_weight": many and len(kinds) > 1,
        "ridge": many or problem.n_rows > automatic.start.features.n_weights(len(problem.elements)),
        "blocks": False,  # the plan of the fit decides
    }
    return tuple(name for name in automatic.free if matters.get(name, many))


def _with_enough_axes(recipe: Recipe, data: TrialData) -> Recipe:
    """The recipe with its rank doubled until the axes lose little, or too few blocks of features would be left."""
    larger = replace(recipe, rank=2 * recipe.rank)
    lost = max(found.lost(recipe.rank) for found in data.directions(recipe))
    blocks = rules.FEWEST_BLOCKS * recipe.features.unit(larger.rank)
    kind = recipe.representation
    enough = lost <= kind.norm_to_lose or larger.rank > kind.most_axes or recipe.features.n_features % blocks
    return recipe if enough else _with_enough_axes(larger, data)


@dataclass(frozen=True)
class _Trend:
    """Change of the errors and of the best ridge with the size of a fit, from trials of two sizes."""

    recipe: Recipe  # with the best ridge of the larger size
    gains: dict[str, float] = field(default_factory=dict)  # factor of the error at twice the size, by kind of label
    power: float = rules.RIDGE_POWER  # power of the number of features with which the ridge falls
    correction: float = 1.0  # factor of the ridge of the larger size that makes both sizes count alike

    def ridge_ratio(self, growth: float) -> float:
        """Ridge of a trial over the ridge that does as well in a fit with `growth` times the size."""
        return float(growth**self.power) / self.correction

    def errors_after(self, growth: float, errors: dict[str, float]) -> dict[str, float]:
        """Errors to expect at `growth` times the size. All fall as those of forces, which are known far better."""
        gains = {kind: self.gains.get("forces", self.gains.get(kind, 1.0)) for kind in errors}
        return {kind: error * gains[kind] ** math.log2(growth) for kind, error in errors.items()}

    def uncertainties_after(self, growth: float, trial: Trial) -> dict[str, float]:
        """Standard errors of `errors_after`: from the errors of the trial, and from the gain up to the full size."""
        carried = rules.UNCERTAIN_GAIN * abs(math.log2(growth))
        return {
            kind: error * math.hypot(trial.uncertainties[kind] / trial.errors[kind], carried)
            if trial.errors[kind]
            else 0.0
            for kind, error in self.errors_after(growth, trial.errors).items()
        }


def _trend(trials: Trials, size: Size, recipe: Recipe) -> _Trend:
    """Trend of the errors and of the best ridge, from trials of this size and of half of it.

    Trials of one size find the best ridge within a factor of 3, at times of 10 (uracil, 3BPA): two sizes err less.
    """
    half = Size(size.structures // 2, size.n_features // 2)
    if half.structures == 0 or half.n_features % recipe.features.unit(recipe.rank):
        return _Trend(_Search(trials, size).with_best_ridge(recipe))
    fall = 2**rules.RIDGE_POWER
    smaller = _Search(trials, half).with_best_ridge(replace(recipe, ridge=recipe.ridge * fall))
    larger = _Search(trials, size).with_best_ridge(replace(smaller, ridge=smaller.ridge / fall))
    before, now = trials.trial(half, smaller).errors, trials.trial(size, larger).errors
    # an error that is infinite (no solution) or zero (met exactly) tells nothing
    known = [kind for kind in now if 0 < now[kind] < math.inf and 0 < before[kind] < math.inf]
    gains = {kind: min(1.0, _trusted_gain(now[kind] / before[kind], size.structures)) for kind in known}
    power = power_of_features(gains)
    return _Trend(larger, gains, power, math.sqrt(smaller.ridge / 2**power / larger.ridge))


def _trusted_gain(gain: float, structures: int) -> float:
    """Gain of the errors between two sizes, drawn towards the usual gain: the more, the fewer structures showed it."""
    usual = rules.HALF_TRUSTED_STRUCTURES
    return math.exp((structures * math.log(gain) + usual * math.log(rules.USUAL_GAIN)) / (structures + usual))


def power_of_features(gains: dict[str, float]) -> float:
    """Power of the number of features with which the ridge falls, from the gains of the errors at twice the size."""
    kind = next((kind for kind in rules.RIDGE_POWER_OF_ERROR if kind in gains), None)
    if kind is None:
        return rules.RIDGE_POWER
    least, most = rules.RIDGE_POWER_BOUNDS
    return min(max(least, -rules.RIDGE_POWER_OF_ERROR[kind] * math.log2(gains[kind])), most)


def _float32_ridge(problem: Problem, recipe: Recipe, errors: dict[str, float]) -> float:
    """Ridge below which the weights are so large that rounding shows in energies predicted in float32.

    At a good ridge |weights|² is about a quarter of n_features · (RMSE of forces)² / ridge. Rounding of relative size ε
    makes an error of 3 ε |weights| √(2 atoms / n_features) in an energy; a third of the error it has is allowed.
    """
    force, energy = errors.get("forces", math.inf), errors.get("energies", math.inf)
    if recipe.precision != "float32" or not (force < math.inf and 0 < energy < math.inf):
        return 0.0
    atoms = problem.structures.n_atoms / len(problem.structures)
    return 2 * atoms * (rules.FLOAT32_SHOWS * recipe.force_weight * force / energy) ** 2


@dataclass(frozen=True)
class _Search:
    """Search for the best recipe by trials of one size, with ridges that the fit itself can have."""

    trials: Trials
    size: Size
    free: tuple[str, ...] = ("ridge",)  # names of fields
    ratio: float = 0.0  # ridge of a trial over the ridge that does as well in the fit
    rounding_growth: float = 0.0  # ridge lost in rounding in the fit over that in a trial; 0: none is lost in the fit
    float32_ridge: float = 0.0  # ridge of the fit below which rounding in float32 shows
    least_rank: int = 1  # from which it is doubled
    more_for_short: float = 0.0  # by which a short range has to be better

    def best(self, recipe: Recipe, least_gain: float) -> Recipe:
        """Best recipe: one free field after the other, each value with its best ridge."""
        recipe = self.with_best_ridge(recipe)
        for name, steps in ((name, self._steps(name)) for name in rules.ORDER if name in self.free):
            here = [partial(self._after, step) for step in steps]
            needed = max(least_gain, rules.LEAST_GAIN_OF_WIDTH) if name == "sigma" else least_gain
            recipe = _downhill(self._score_by_range, recipe, here, needed)
        return recipe

    def _steps(self, name: str) -> list[Step]:
        """Steps of the search for one field."""
        if name == "representation":
            forces = "forces" in self.trials.data.problem.targets
            candidates = rules.WITH_FORCES if forces else rules.ENERGIES_ALONE
            return [partial(self._represented, other=other) for other in candidates]
        if name == "class_spread":
            return [self._with_classes_apart]
        return STEPS[name]

    def _represented(self, recipe: Recipe, other: Representation) -> Recipe | None:
        """The recipe with another representation, and with the axes that this one needs."""
        if recipe.representation == other:
            return None
        changed = replace(recipe, representation=other)
        if "rank" not in self.free:
            return changed
        enough = _with_enough_axes(replace(changed, rank=self.least_rank), self.trials.data)
        return changed if self.size.n_features % enough.features.unit(enough.rank) else enough

    def _with_classes_apart(self, recipe: Recipe) -> Recipe | None:
        """The recipe with bonding classes told apart, if there are several of an element."""
        several = any(found.classes is not None for found in self.trials.data.directions(recipe))
        return replace(recipe, class_spread=rules.CLASS_SPREAD) if several and not recipe.class_spread else None

    def _after(self, step: Step, recipe: Recipe) -> Recipe | None:
        other = step(recipe)
        return None if other is None else self.with_best_ridge(other)

    def with_best_ridge(self, recipe: Recipe) -> Recipe:
        """The recipe with the best ridge, or as it is if the ridge is given."""
        return best_ridge(self._score, recipe, self._least_ridge(recipe)) if "ridge" in self.free else recipe

    def _score_by_range(self, recipe: Recipe) -> float:
        """Score with which recipes are compared: a short range has to be better by more."""
        return self._score(recipe) + (recipe.representation in rules.SHORT_RANGE) * self.more_for_short

    def _score(self, recipe: Recipe) -> float:
        """Score of the trial; infinite if its ridge is too small."""
        too_small = recipe.ridge < self._least_ridge(recipe)
        return math.inf if too_small else self.trials.trial(self.size, recipe).score

    def _least_ridge(self, recipe: Recipe) -> float:
        """Smallest ridge that is lost in rounding neither in a trial nor in the fit; 0 if the ridge is given."""
        least = max(self.trials.least_ridge(self.size, recipe), self.least_carried(recipe) * self.ratio)
        return least if "ridge" in self.free else 0.0

    def least_carried(self, recipe: Recipe) -> float:
        """Smallest ridge of the fit: more rows and more weights make more rounding."""
        return max(self.float32_ridge, self.trials.least_ridge(self.size, recipe) * self.rounding_growth)

    def carried_ridge(self, recipe: Recipe) -> float:
        """Ridge of the fit that does as well as that of the trial."""
        return float(f"{max(recipe.ridge / self.ratio, self.least_carried(recipe)):.2g}")


def best_ridge(score: Score, recipe: Recipe, least: float) -> Recipe:
    """`recipe` with its best ridge, not below `least`.

    Powers of ten are tried downhill from its own. Then the bottom of the parabola through the best one and its
    neighbours is tried, or `least` if there is no such parabola.
    """
    guess = max(recipe.ridge, least)
    recipe = replace(recipe, ridge=float(f"1e{math.ceil(math.log10(guess) - 0.5)}"))
    recipe = _downhill(score, recipe, [partial(_with_ridge, factor=10.0), partial(_with_ridge, factor=0.1)])
    left, middle, right = (score(_with_ridge(recipe, factor)) for factor in (0.1, 1.0, 10.0))
    if math.isfinite(left + right) and left + right > 2 * middle:
        other = _with_ridge(recipe, 10 ** (0.5 * (left - right) / (left + right - 2 * middle)))
    else:
        other = replace(recipe, ridge=float(f"{1.06 * least:.2g}"))  # not below it when rounded
    return min(recipe, other, key=score)


def _downhill(score: Score, recipe: Recipe, steps: Sequence[Step], least_gain: float = 0.0) -> Recipe:
    """Recipe found downhill: by the step that gains most, repeated as long as each repetition gains enough."""
    while steps:
        there = {step: other for step in steps if (other := step(recipe)) is not None}
        best = min(there, key=lambda step: score(there[step]), default=None)
        if best is None or not score(there[best]) < score(recipe) - least_gain:
            break
        recipe, steps = there[best], [best]
    return recipe


def _with_ridge(recipe: Recipe, factor: float) -> Recipe:
    """The recipe with `factor` times its ridge, in two digits: equal ridges make no second trial."""
    return replace(recipe, ridge=float(f"{recipe.ridge * factor:.2g}"))


def _with_width(recipe: Recipe, factor: float) -> Recipe:
    """The recipe with `factor` times its kernel width, and a ridge to begin with."""
    features = replace(recipe.features, sigma=recipe.features.sigma * factor)
    return replace(recipe, features=features, ridge=recipe.ridge * factor**-rules.RIDGE_POWER_OF_WIDTH)


def _with_weight(recipe: Recipe, up: bool) -> Recipe | None:
    """The recipe with the next larger or smaller energy weight."""
    now = recipe.energy_weight
    further = [weight for weight in rules.ENERGY_WEIGHTS if (weight > now if up else weight < now)]
    return replace(recipe, energy_weight=further[0 if up else -1]) if further else None


# Steps for fields whose neighbours do not depend on the data.
STEPS: dict[str, list[Step]] = {
    "energy_weight": [partial(_with_weight, up=True), partial(_with_weight, up=False)],
    "sigma": [partial(_with_width, factor=factor) for factor in rules.WIDTH_FACTORS],
}
