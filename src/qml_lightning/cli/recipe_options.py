"""Command-line options of a recipe."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ..errors import InputError
from .options import checked_precision

if TYPE_CHECKING:
    from ..exact import ExactRecipe
    from ..model.recipe import Automatic, Recipe
    from ..model.representations import Representation

RECIPE, TARGETS = "Recipe", "Labels and weights"
KINDS = ("energies", "forces", "stress")
AUTOMATIC = "automatic"
LONGEST_CUTOFF = 100.0  # Å: everything within reach of it would not fit in any memory


@dataclass(frozen=True)
class RecipeOptions:
    """A named recipe and changes to it. A field that is None keeps the value of the named recipe."""

    recipe: Annotated[
        str,
        Option(help="automatic: choose from the data what is not given. Or a fixed recipe: a name of "
               "`qml-lightning info`, or a file that `tune` wrote.", metavar="NAME|FILE", rich_help_panel=RECIPE),
    ] = "automatic"  # fmt: skip
    features: Annotated[
        int | None,
        Option(help="Number of random features. More features are more accurate and slower.", rich_help_panel=RECIPE),
    ] = None
    method: Annotated[
        str | None,
        Option(help="Feature map; oqml and gpr have explicit kernels: exact and expensive.",
               metavar="sorf|rff|orf|oqml|gpr", rich_help_panel=RECIPE),
    ] = None  # fmt: skip
    sigma: Annotated[float | None, Option(help="Width of the kernel (σ).", rich_help_panel=RECIPE)] = None
    blocks: Annotated[
        bool | None,
        Option("--own-weights/--shared-weights", show_default=False, rich_help_panel=RECIPE,
               help="Own weights for each element, or one vector for all. By default own ones if the fit iterates."),
    ] = None  # fmt: skip
    ridge: Annotated[float | None, Option(help="Regularisation strength (λ).", rich_help_panel=RECIPE)] = None
    threshold: Annotated[
        float | None,
        Option(help="OQML: drop singular values below this fraction of the largest.", rich_help_panel=RECIPE),
    ] = None
    representation: Annotated[
        str | None,
        Option(help="Representation of atomic environments: a name of `qml-lightning info`.", metavar="NAME",
               rich_help_panel=RECIPE),
    ] = None  # fmt: skip
    rank: Annotated[
        int | None, Option(help="Number of principal axes kept for each element.", rich_help_panel=RECIPE)
    ] = None
    class_spread: Annotated[
        float | None,
        Option(help="How far the last axes set atoms with other bonds apart, beside --sigma; 0: not at all.",
               rich_help_panel=RECIPE),
    ] = None  # fmt: skip
    cutoff: Annotated[float | None, Option(help="Cutoff radius in Å.", rich_help_panel=RECIPE)] = None
    cutoff_power: Annotated[
        int | None,
        Option(help="Cutoff function: 1 is the paper's; 2 has continuous second derivatives.", metavar="1|2",
               rich_help_panel=RECIPE),
    ] = None  # fmt: skip
    angular: Annotated[
        str | None,
        Option(help="Angular functions: the paper's pair cos θ and sin θ, or a cosine series.", metavar="pair|series",
               rich_help_panel=RECIPE),
    ] = None  # fmt: skip
    solver: Annotated[
        str | None,
        Option(help="direct: one factorisation; iterative: for very many features.",
               metavar="automatic|direct|iterative", rich_help_panel=RECIPE),
    ] = None  # fmt: skip
    accumulation: Annotated[
        str | None,
        Option(help="Products of the Gram matrix, or of the iteration: in float64, or in compensated float32, which is "
               "the default on GPUs with slow float64.", metavar="float64|compensated", rich_help_panel=RECIPE),
    ] = None  # fmt: skip
    seed: Annotated[
        int | None, Option(help="Seed of all random draws: the same seed gives the same model.", rich_help_panel=RECIPE)
    ] = None
    targets: Annotated[
        str | None,
        Option(help="Labels to learn from, such as energies,forces,stress. By default all labels of the data.",
               metavar="LIST", rich_help_panel=TARGETS),
    ] = None  # fmt: skip
    energy_weight: Annotated[
        float | None, Option(help="Weight of an energy relative to a force component.", rich_help_panel=TARGETS)
    ] = None
    force_weight: Annotated[float | None, Option(help="Weight of a force component.", rich_help_panel=TARGETS)] = None
    stress_weight: Annotated[
        float | None, Option(help="Weight of a component of stress × volume.", rich_help_panel=TARGETS)
    ] = None
    reference_energies: Annotated[
        str | None,
        Option(help="Energies of free atoms in eV, as H=-13.6,O=-432.1 or in a JSON file. By default least squares.",
               metavar="LIST|FILE", rich_help_panel=TARGETS),
    ] = None  # fmt: skip

    def automatic(self, precision: str | None, start: Recipe | None = None) -> Recipe | Automatic | ExactRecipe:
        """The recipe of `make`, with the fields that are not given left to be chosen from the data.

        Nothing is left to choose if `start` or a named recipe fixes all fields.
        """
        from ..model.recipe import CHOOSABLE, Automatic, Recipe

        recipe = self.make(precision, start)
        if self.recipe != AUTOMATIC or start is not None or not isinstance(recipe, Recipe):
            return recipe
        given = {name for name in CHOOSABLE if getattr(self, name, None) is not None}
        if any(option is not None for option in (self.cutoff, self.cutoff_power, self.angular)):
            given.add("representation")  # itself an option: the name of a preset
        return Automatic(recipe, tuple(name for name in CHOOSABLE if name not in given))

    def make(self, precision: str | None, start: Recipe | None = None) -> Recipe | ExactRecipe:
        """The named recipe with the changes of the options, checked. `start` replaces the named recipe."""
        from dataclasses import replace

        from ..exact.recipe import METHODS
        from ..linear.compensated import ACCUMULATIONS
        from ..model.recipe import DEFAULT, NAMED
        from ..model.recipe_file import load_recipe

        self._check_ranges()
        known = {AUTOMATIC: DEFAULT, **NAMED}
        if self.recipe not in known and Path(self.recipe).is_file():
            known = {self.recipe: load_recipe(self.recipe)}
        if self.recipe not in known:
            raise InputError(f"There is no recipe {self.recipe!r}. Use {', '.join(known)}, or the path of a file.")
        base = known[self.recipe] if start is None else start
        representation = self._representation(base.representation)
        if self.method in METHODS:
            return self._make_exact(base, representation, precision)
        if self.solver not in (None, "automatic", "direct", "iterative"):
            raise InputError(f"--solver is automatic, direct or iterative, got {self.solver!r}.")
        if self.accumulation not in (None, *ACCUMULATIONS):
            raise InputError(f"--accumulation is {' or '.join(ACCUMULATIONS)}, got {self.accumulation!r}.")
        if self.threshold is not None:
            raise InputError("--threshold is for --method oqml only. For random features use --ridge.")
        features: dict[str, Any] = {"n_features": self.features, "method": self.method, "sigma": self.sigma}
        features |= {"blocks": self.blocks}
        recipe = replace(
            base,
            representation=representation,
            features=replace(base.features, **_given(features)),
            solver=replace(base.solver, **_given({"method": self.solver, "accumulation": self.accumulation})),
            **self._shared(),
            **_given({"precision": checked_precision(precision), "class_spread": self.class_spread}),
        )
        recipe.check()
        return recipe

    def _check_ranges(self) -> None:
        """Raise an InputError for numbers that no recipe can have."""
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"--{name.replace('_', '-')} is a finite number, got {value}.")
        if self.seed is not None and not 0 <= self.seed < 2**32:
            raise InputError(f"--seed is a number from 0 to 2^32 − 1, got {self.seed}.")
        if self.rank is not None and self.rank < 1:
            raise InputError(f"--rank is at least 1, got {self.rank}.")

    def random_features(self, precision: str | None, purpose: str) -> Recipe:
        """The recipe of `make`, which must have random features; `purpose` begins the sentence of the error."""
        from ..model.recipe import Recipe

        recipe = self.make(precision)
        if not isinstance(recipe, Recipe):
            raise InputError(f"{purpose} needs random features: --method sorf, rff or orf, got {self.method}.")
        return recipe

    def _make_exact(self, base: Recipe, representation: Representation, precision: str | None) -> ExactRecipe:
        from ..exact import ExactRecipe

        without: dict[str, object] = {"--features": self.features, "--solver": self.solver}
        without |= {"--accumulation": self.accumulation, "--own-weights": self.blocks}
        without |= {"--class-spread": self.class_spread}
        without |= {"--ridge": self.ridge} if self.method == "oqml" else {"--threshold": self.threshold}
        if given := list(_given(without)):
            raise InputError(f"--method {self.method} does not use {', '.join(given)}. Leave it out.")
        if checked_precision(precision) == "float32":
            raise InputError(f"--method {self.method} trains in float64 only. Leave --precision out.")
        # fields of the named recipe that explicit kernels use too
        names = ("ridge", "energy_weight", "force_weight", "stress_weight", "size_exponent", "projection_samples")
        shared = {"sigma": base.features.sigma} | {name: getattr(base, name) for name in names}
        chosen = {**shared, **self._shared(), **_given({"sigma": self.sigma, "threshold": self.threshold})}
        recipe = ExactRecipe(method=self.method, representation=representation, **chosen)  # type: ignore[arg-type]
        recipe.check()
        return recipe

    def _shared(self) -> dict[str, Any]:
        """Options that every method has, if they are given."""
        names = ("ridge", "rank", "seed", "energy_weight", "force_weight", "stress_weight")
        return _given({name: getattr(self, name) for name in names})

    def _representation(self, representation: Representation) -> Representation:
        from dataclasses import replace

        from ..exact.recipe import METHODS
        from ..model.representations import PRESETS
        from ..model.representations.fchl19 import COSINE_SERIES, ENERGIES_AND_FORCES, FCHL19

        if self.representation is not None:
            if self.representation not in PRESETS:
                raise InputError(f"--representation is one of {', '.join(PRESETS)}, got {self.representation!r}.")
            representation = PRESETS[self.representation]
        elif self.angular is not None or self.cutoff_power is not None or self.method in METHODS:
            # options of FCHL19, and the published methods that were made for it
            representation = representation if isinstance(representation, FCHL19) else COSINE_SERIES
        own = _given({"--angular": self.angular, "--cutoff-power": self.cutoff_power})
        if own and not isinstance(representation, FCHL19):
            raise InputError(
                f"{' and '.join(own)}: these are of FCHL19; the recipe has {representation.describe()}. Leave them out."
            )
        if self.cutoff_power is not None:
            representation = replace(representation, cutoff_power=self.cutoff_power)
        if self.angular is not None and self.angular != getattr(representation, "angular", None):
            known = {"pair": ENERGIES_AND_FORCES, "series": COSINE_SERIES}
            if self.angular not in known:
                raise InputError(f"--angular is pair or series, got {self.angular!r}.")
            # the weight of the three-body part and the number of functions belong to the kind of functions
            like = known[self.angular]
            representation = replace(
                representation, angular=like.angular, n_angular=like.n_angular, weight3=like.weight3
            )
        if self.cutoff is None:
            return representation
        if not 0 < self.cutoff <= LONGEST_CUTOFF:
            raise InputError(f"--cutoff is a length up to {LONGEST_CUTOFF:g} Å, got {self.cutoff:g}.")
        return representation.within(self.cutoff)

    def learning(self) -> dict[str, Any]:
        """Options of `fit`: labels to learn from, and reference energies."""
        return {"targets": self.chosen_targets(), "reference_energies": self.given_energies()}

    def chosen_targets(self) -> tuple[str, ...] | None:
        """Kinds of labels to learn from; None for all."""
        if self.targets is None:
            return None
        names = tuple(name.strip().lower() for name in self.targets.split(",") if name.strip())
        aliases = {"energy": "energies", "force": "forces"}
        kinds = tuple(aliases.get(name, name) for name in names)
        if not kinds or not set(kinds) <= set(KINDS):
            raise InputError(f"--targets takes one or more of {','.join(KINDS)}, got {self.targets!r}.")
        return kinds

    def given_energies(self) -> dict[int, float] | None:
        """Reference energies by atomic number, in eV; None for least squares."""
        text = self.reference_energies
        if text is None:
            return None
        if "=" not in text or Path(text).is_file():
            return _energies_in(Path(text))
        pairs = [part.partition("=") for part in text.split(",") if part.strip()]
        return _by_number({name: value for name, _, value in pairs}, "--reference-energies")


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _energies_in(path: Path) -> dict[int, float]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise InputError(
            f"--reference-energies: {path} cannot be read as JSON ({problem}). Write H=-13.6,O=-432.1 or a file with "
            '{"H": -13.6, "O": -432.1}.'
        ) from problem
    if not isinstance(values, dict):
        raise InputError(f'{path} should hold {{"H": -13.6, "O": -432.1}}, it holds a {type(values).__name__}.')
    return _by_number(values, str(path))


def _by_number(values: Mapping[str, object], where: str) -> dict[int, float]:
    from ase.data import atomic_numbers

    energies = {}
    for name, value in values.items():
        key = str(name).strip()
        number = int(key) if key.isdigit() else atomic_numbers.get(key.capitalize())
        try:
            energy = float(str(value))
        except ValueError:
            energy = float("nan")
        if number is None or not 1 <= number <= 118 or not math.isfinite(energy):
            raise InputError(f"{where}: wanted an element and its energy in eV, such as H=-13.6, got {name}={value}.")
        energies[number] = energy
    return energies
