"""Recipes: every choice of a fit as one value, and named recipes with their origin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, TypedDict

import torch

from ..errors import InputError
from ..linear.compensated import ACCUMULATIONS, Accumulation
from ..machine.display import facts_html, one_line
from .features import FeatureSettings, Method
from .field_checks import check_fields
from .representations import DEFAULT as DEFAULT_REPRESENTATION
from .representations import PRESETS, Representation, representation_as_dict, representation_from_dict
from .representations.fchl19 import COSINE_SERIES, ENERGIES_AND_FORCES

Precision = Literal["float32", "float64"]


def dtype_of(precision: Precision) -> torch.dtype:
    """torch's name of a precision."""
    return {"float32": torch.float32, "float64": torch.float64}[precision]


def check_weights(energy: float, force: float, stress: float) -> None:
    """Raise an InputError unless all weights are positive."""
    for name, weight in {"energy_weight": energy, "force_weight": force, "stress_weight": stress}.items():
        if not weight > 0:
            raise InputError(f"{name} must be positive, got {weight}. Leave the target out instead.")


@dataclass(frozen=True)
class SolverSettings:
    """Settings of the solver."""

    # "direct" needs 8 bytes · N_F² of memory; "iterative" does not, and is faster with many features and force rows;
    # "automatic" leaves the decision to the plan of the fit (training/plan.py)
    method: Literal["automatic", "direct", "iterative"] = "automatic"
    # sums of a Gram matrix, or of a step of the iteration: "compensated" (slices or pairs of float32) is for devices
    # with slow float64; None: the better one for the device
    accumulation: Accumulation | None = None
    preconditioner_features: int = 8192  # weights of the small direct model that preconditions the iteration
    held_out: float = 0.03  # fraction of the structures held out for early stopping
    tolerance: float = 1e-6  # residual at which the iteration ends, relative to the targets
    most_iterations: int = 500


@dataclass(frozen=True)
class Recipe:
    """Everything besides the data that decides a model."""

    representation: Representation = DEFAULT_REPRESENTATION
    rank: int = 128  # principal axes of the environments of each element
    # of the last axes, that tell apart atoms with other bonds, such as CH₃ and CH₂: how far, beside σ; 0: none do
    class_spread: float = 0.0
    features: FeatureSettings = field(default_factory=FeatureSettings)
    ridge: float = 1e-9
    energy_weight: float = 3.0
    force_weight: float = 1.0
    stress_weight: float = 1.0  # of the virial, stress × volume, in eV
    size_exponent: float = 0.5  # energy and virial rows are divided by atoms^this: errors of independent atoms add so
    solver: SolverSettings = field(default_factory=SolverSettings)
    projection_samples: int = 2000  # environments of each element that determine the axes
    precision: Precision = "float64"  # of representation and features; equations are always float64
    seed: int = 0

    def __repr__(self) -> str:
        facts = self.facts()
        short = self.representation.describe().split(",")[0]
        return one_line("Recipe", [short, facts["features"], facts["projection"], f"ridge {self.ridge:g}"])

    def _repr_html_(self) -> str:
        return facts_html("Recipe", self.facts())

    def facts(self) -> dict[str, str]:
        """Settings in words, by name."""
        apart = f", bonds apart by {self.class_spread:g}" if self.class_spread else ""
        weights = {"energy": self.energy_weight, "force": self.force_weight, "stress": self.stress_weight}
        return {
            "representation": self.representation.describe(),
            "projection": f"{self.rank} axes{apart}",
            "features": self.features.describe(),
            "ridge": f"{self.ridge:g}",
            "weights": ", ".join(f"{kind} {weight:g}" for kind, weight in weights.items()),
            "solver": self.solver.method,
            "precision": self.precision,
            "seed": str(self.seed),
        }

    def with_own_weights(self) -> Recipe:
        """This recipe with weights of its own for each element."""
        return replace(self, features=replace(self.features, blocks=True))

    def small_features(self, n_elements: int) -> int:
        """Features of each map in the small direct model that preconditions an iteration."""
        unit, each = self.features.unit(self.rank), self.features.weights_of_each(n_elements)
        return min(self.features.n_features, max(1, self.solver.preconditioner_features // each // unit) * unit)

    @property
    def dtype(self) -> torch.dtype:
        return dtype_of(self.precision)

    def weight_of(self, kind: str) -> float:
        """Weight of the rows of "energies", "forces" or "stress"."""
        return {"energies": self.energy_weight, "forces": self.force_weight, "stress": self.stress_weight}[kind]

    def check(self) -> None:
        """Raise an InputError if a field is out of range, or if two fields exclude each other."""
        check_fields(self, rank=1, projection_samples=1, seed=0)
        check_fields(self.solver, preconditioner_features=1, most_iterations=1)
        self.features.check(self.rank)
        if not 0 <= self.class_spread < math.inf:
            raise InputError(f"The class spread must be 0 (none) or positive, got {self.class_spread}. Use 2.")
        if not self.ridge >= 0:
            raise InputError(f"The ridge must not be negative, got {self.ridge}.")
        if self.precision not in ("float32", "float64"):
            raise InputError(f'The precision is "float32" or "float64", got {self.precision!r}.')
        if self.solver.method not in ("automatic", "direct", "iterative"):
            raise InputError(f'The solver is "automatic", "direct" or "iterative", got {self.solver.method!r}.')
        if self.solver.accumulation not in (None, *ACCUMULATIONS):
            raise InputError(
                f'The accumulation is "float64" or "compensated", or None for what suits the device, '
                f"got {self.solver.accumulation!r}."
            )
        check_weights(self.energy_weight, self.force_weight, self.stress_weight)

    @property
    def pairs_serve(self) -> bool:
        """Whether sums of an iteration can be pairs of float32."""
        return self.precision == "float32" and self.features.method == "sorf"

    def as_dict(self) -> dict[str, Any]:
        """All fields, for a JSON header."""
        return asdict(self) | {"representation": representation_as_dict(self.representation)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """The recipe that `as_dict` wrote."""
        parts = dict(values)
        parts["representation"] = representation_from_dict(parts["representation"])
        parts["features"] = FeatureSettings(**parts["features"])
        solver = dict(parts.get("solver", {}))  # the first models have none
        solver.pop("shift", None)  # a setting of old models; the small model now finds it
        parts["solver"] = SolverSettings(**solver)
        return cls(**parts)


class RecipeChanges(TypedDict, total=False):
    """Settings of a recipe by their own names, wherever in it they are."""

    n_features: int  # size of the model: more are more accurate; memory and time grow with their square
    method: Method  # kind of random features: "sorf" (fast transforms), "rff" or "orf"
    sigma: float  # width of the kernel
    n_transforms: int  # Hadamard transforms of SORF
    chi_scaled: bool  # SORF: rows as long as those of a Gaussian matrix
    paired: bool  # cosine and sine of the same frequency, instead of a cosine with a random phase
    blocks: bool  # weights of its own for each element, instead of one vector for all
    representation: Representation | str  # its settings or a name, such as "density" or "cosine-series"
    cutoff: float  # radius in Å within which atoms see each other
    rank: int  # principal axes of the environments that are kept for each element
    class_spread: float  # how far the last axes set atoms with other bonds apart; 0: not at all
    ridge: float  # regularisation: larger for noisy labels
    energy_weight: float  # of an energy beside a force component: larger for better energies and worse forces
    force_weight: float  # of a force component
    stress_weight: float  # of a component of the virial, which is stress × volume
    size_exponent: float  # rows of energies and virials are divided by (number of atoms)^this
    solver: SolverSettings | str  # its settings or a name: "automatic", "direct" or "iterative"
    projection_samples: int  # environments of each element that determine the axes
    precision: Precision  # of representation and features, "float32" or "float64"; equations are in float64
    seed: int  # of all random draws: the same seed gives the same model


def changed(recipe: Recipe, changes: RecipeChanges) -> Recipe:
    """`recipe` with other settings; not checked."""
    rest: dict[str, Any] = dict(changes)
    features = {f.name: rest.pop(f.name) for f in fields(FeatureSettings) if f.name in rest}
    if isinstance(name := rest.get("representation"), str):
        if name not in PRESETS:
            raise InputError(f"There is no representation {name!r}. Known are {', '.join(PRESETS)}.")
        rest["representation"] = PRESETS[name]
    if "cutoff" in rest:
        rest["representation"] = rest.get("representation", recipe.representation).within(rest.pop("cutoff"))
    if isinstance(rest.get("solver"), str):
        rest["solver"] = replace(recipe.solver, method=rest["solver"])
    return replace(recipe, features=replace(recipe.features, **features), **rest)


# Fields that training/choice can choose from the data.
CHOOSABLE = ("representation", "sigma", "energy_weight", "rank", "class_spread", "ridge", "blocks")


@dataclass(frozen=True)
class Automatic:
    """A recipe with free fields: the search for better values starts from those given here."""

    start: Recipe
    free: tuple[str, ...] = CHOOSABLE

    def check(self) -> None:
        """Raise an InputError if a field is out of range, or if two fields exclude each other."""
        if strange := [name for name in self.free if name not in CHOOSABLE]:
            raise InputError(f"Cannot choose {', '.join(strange)}. What can be chosen: {', '.join(CHOOSABLE)}.")
        self.start.check()

    def changed(self, changes: RecipeChanges) -> Automatic:
        """A search that starts from other settings and leaves them as they are given."""
        given = {*changes, *(("representation",) if "cutoff" in changes else ())}
        return Automatic(changed(self.start, changes), tuple(name for name in self.free if name not in given))

    def settled_as(self, other: Recipe) -> Recipe:
        """`start` with the free fields taken from `other`."""
        of_features = {f.name for f in fields(FeatureSettings)}.intersection(self.free)
        features = replace(self.start.features, **{name: getattr(other.features, name) for name in of_features})
        settled = {name: getattr(other, name) for name in self.free if name not in of_features}
        return replace(self.start, features=features, **settled)


# Pairs of cos and sin are as accurate as phases at the same number of features and need half of the transforms; float32
# features cost no accuracy (benchmarks/results/precision.json). An energy weight of 30 makes energies a tenth better
# than 3 does, at no cost in forces (results/ablation.json).
# Representations are scaled so that a width of 8 suits them; the ridge is from a sweep on rMD17 ethanol.
DEFAULT = Recipe(features=FeatureSettings(paired=True), energy_weight=30.0, precision="float32")
# FCHL19 with a cosine series: three bodies.
FCHL19 = replace(DEFAULT, representation=COSINE_SERIES)
# The published recipe: its angular pair, width and ridge. Three times the force error of FCHL19.
PAPER = Recipe(representation=ENERGIES_AND_FORCES, features=FeatureSettings(sigma=2.0), ridge=1e-5)
# The paper's angular pair with a good width and ridge.
ANGULAR_PAIR = replace(DEFAULT, representation=ENERGIES_AND_FORCES)
# DEFAULT with representation, width, ridge, energy weight, rank and own or shared weights chosen from the data.
AUTOMATIC = Automatic(DEFAULT)
NAMED = {"default": DEFAULT, "fchl19": FCHL19, "paper": PAPER, "angular-pair": ANGULAR_PAIR}
