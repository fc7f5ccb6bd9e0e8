"""Recipes: every choice of a fit as one value, and the named ones with where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import torch

from ..errors import InputError
from ..linear.compensated import ACCUMULATIONS, Accumulation
from .features import FeatureSettings
from .representations import fchl19 as representation
from .representations.fchl19 import FCHL19

Precision = Literal["float32", "float64"]


def dtype_of(precision: Precision) -> torch.dtype:
    """The type of numbers of that name."""
    return {"float32": torch.float32, "float64": torch.float64}[precision]


def check_weights(energy: float, force: float, stress: float) -> None:
    """Nothing, or an InputError with the remedy."""
    for name, weight in {"energy_weight": energy, "force_weight": force, "stress_weight": stress}.items():
        if not weight > 0:
            raise InputError(f"{name} must be positive, got {weight}. Leave the target out instead.")


@dataclass(frozen=True)
class SolverSettings:
    """How the weights are found once the equations are known."""

    # "direct" needs 8 bytes · N_F² of memory; "iterative" does not, and is faster with many features and force rows;
    # "automatic" takes the faster one, and the direct one where equations are to be kept, shared or limited
    method: Literal["automatic", "direct", "iterative"] = "automatic"
    # how a Gram matrix is summed up: "compensated" is for devices with slow float64; None: what suits the device
    accumulation: Accumulation | None = None
    preconditioner_features: int = 8192  # of the small model whose direct solution guides the iteration
    held_out: float = 0.03  # part of the structures that only tell when to stop
    tolerance: float = 1e-6  # of the residual, relative to the targets
    most_iterations: int = 500


@dataclass(frozen=True)
class Recipe:
    """All that decides a model besides the data."""

    representation: FCHL19 = representation.COSINE_SERIES
    rank: int = 128  # axes kept of each element's environments
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

    @property
    def dtype(self) -> torch.dtype:
        return dtype_of(self.precision)

    def weight_of(self, kind: str) -> float:
        """What the rows of "energies", "forces" or "stress" are multiplied by."""
        return {"energies": self.energy_weight, "forces": self.force_weight, "stress": self.stress_weight}[kind]

    def check(self) -> None:
        """Nothing, or an InputError with the remedy."""
        self.features.check(self.rank)
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
        if self.solver.accumulation == "compensated" and self.solver.method == "iterative":
            raise InputError("The iterative solver needs float64 throughout. Leave out the compensated accumulation.")
        check_weights(self.energy_weight, self.force_weight, self.stress_weight)

    def as_dict(self) -> dict[str, Any]:
        """For a JSON header."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """The recipe that `as_dict` wrote."""
        parts = dict(values)
        parts["representation"] = FCHL19(**parts["representation"])
        parts["features"] = FeatureSettings(**parts["features"])
        solver = dict(parts.get("solver", {}))  # models of before there was a choice have none
        solver.pop("shift", None)  # of models of before it was found from the small model
        parts["solver"] = SolverSettings(**solver)
        return cls(**parts)


# What can be chosen from the data (choice.py).
CHOOSABLE = ("representation", "sigma", "energy_weight", "rank", "ridge")


@dataclass(frozen=True)
class Automatic:
    """A recipe of which some fields are only where the search for better ones begins."""

    start: Recipe
    free: tuple[str, ...] = CHOOSABLE

    def check(self) -> None:
        """Nothing, or an InputError with the remedy."""
        if strange := [name for name in self.free if name not in CHOOSABLE]:
            raise InputError(f"Cannot choose {', '.join(strange)}. What can be chosen: {', '.join(CHOOSABLE)}.")
        self.start.check()

    def settled_as(self, other: Recipe) -> Recipe:
        """`start` with the free fields as `other` has them."""
        fields = {name: getattr(other, name) for name in self.free if name != "sigma"}
        sigma = other.features.sigma if "sigma" in self.free else self.start.features.sigma
        return replace(self.start, features=replace(self.start.features, sigma=sigma), **fields)


# sigma and ridge from the prototype's sweep on rMD17 ethanol (docs/conventions.md). Pairs of cos and sin are as
# accurate as phases at the same number of features and need half of the transforms; float32 features cost no accuracy
# (benchmarks/results/precision.json).
# An energy weight of 30 makes energies a tenth better than 3 does, at no cost in forces (results/ablation.json).
DEFAULT = Recipe(features=FeatureSettings(paired=True), energy_weight=30.0, precision="float32")
# As published: its angular pair, its width and its ridge. Three times the force error of DEFAULT.
PAPER = Recipe(representation=representation.ENERGIES_AND_FORCES, features=FeatureSettings(sigma=2.0), ridge=1e-5)
# The paper's angular pair with a good width and ridge.
ANGULAR_PAIR = replace(DEFAULT, representation=representation.ENERGIES_AND_FORCES)
# DEFAULT with width, ridge, energy weight and rank as the data want them.
AUTOMATIC = Automatic(DEFAULT)
NAMED = {"default": DEFAULT, "paper": PAPER, "angular-pair": ANGULAR_PAIR}
