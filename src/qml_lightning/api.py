"""The public functions: fit, save, load. They check what they are given once, and dispatch by kind of model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

import torch

from .atoms.dataset import Dataset
from .atoms.fingerprints import geometry_fingerprints
from .atoms.neighbours import pairs_within
from .atoms.structures import Labels, Structures, batches
from .datasets.readers import from_ase
from .errors import InputError
from .exact import ExactPotential, ExactRecipe
from .exact import file as exact_file
from .exact.fit import fit as fit_exact
from .machine.compute import Compute
from .machine.memory import Memory
from .machine.progress import Progress, silent
from .machine.ranks import Ranks
from .machine.tensors import open_tensors
from .model import file as features_file
from .model import property_file
from .model.basis import Basis
from .model.crowding_fit import with_crowding
from .model.metrics import Metrics
from .model.metrics import evaluate as evaluate_dataset
from .model.potential import Model, Potential
from .model.predictor import Predictor
from .model.properties import Kind, PropertyModel
from .model.recipe import AUTOMATIC, Automatic, Recipe, RecipeChanges, changed
from .model.repulsion import Repulsion
from .training.fit import fit as fit_features
from .training.outputs import SECONDS, Keep
from .training.plan import Plan, plan_fit, refuse_impossible
from .training.problem import Learn, Problem, usable_structures
from .training.properties import PropertyProblem, checked_targets
from .training.properties import fit_properties as train_properties
from .training.screening.decision import CHOICES, OnOutliers, Screened, screened, warn

if TYPE_CHECKING:
    from ase import Atoms

    Data = Dataset | Sequence[Atoms]

# Members of a committee: each takes a hundredth or more of the time of a prediction.
MOST_MEMBERS = 64

AnyRecipe = Recipe | Automatic | ExactRecipe
AnyPotential = Potential | ExactPotential

# Atoms whose neighbours are looked for at once.
ATOMS_AT_ONCE = 2000


class FitOptions(RecipeChanges, total=False):
    """Keywords of `fit`: settings of the recipe by name, and all that is no part of a recipe."""

    targets: Sequence[str] | None  # labels to learn from: some of "energies", "forces", "stress"; all by default
    reference_energies: Mapping[int, float] | None  # eV by atomic number; by default found from the data
    outliers: OnOutliers  # frames that contradict the others: "keep" (do not look; the default), "tell", "drop", "stop"
    repulsion: bool  # pairs closer than any in the data repel each other; on by default
    committee: int  # members drawn from the posterior that the model keeps, for uncertainties; 0: none
    basis: Potential | Basis | None  # axes and feature maps to use, so that the equations of both can be added
    equations: str | Path | None  # file to keep the equations in
    checkpoint: str | Path | None  # file for the state of a long fit; delete it at the end
    checkpoint_seconds: float  # between two checkpoints
    resume: bool  # go on from the checkpoint, if there is one
    overwrite: bool  # replace an equations file that exists
    device: torch.device | str  # "cpu" or "cuda"
    kernels: str | None  # name of a back-end; None: the best one
    memory_limit: int | None  # bytes that the process may have in memory
    scratch: str | Path | None  # folder for equations that do not fit in memory
    ranks: Ranks | None  # processes that share the work (`machine.ranks.joined`), each with the same data


@dataclass(frozen=True)
class Request:
    """A fit that is asked for, checked as far as that needs no data."""

    recipe: AnyRecipe
    learn: Learn
    compute: Compute
    keep: Keep
    basis: Basis | None = None
    outliers: OnOutliers = "keep"
    repulsion: bool = True

    @classmethod
    def of(cls, recipe: AnyRecipe = AUTOMATIC, **options: Unpack[FitOptions]) -> Request:
        """Options in their groups; an InputError if two of them exclude each other, or a file cannot be written."""
        if unknown := set(options) - FitOptions.__annotations__.keys():
            raise TypeError(
                f"fit has no option {', '.join(sorted(unknown))}. It has {', '.join(FitOptions.__annotations__)}."
            )
        settings = {name: value for name, value in options.items() if name in RecipeChanges.__annotations__}
        recipe = _changed(recipe, cast(RecipeChanges, settings))
        recipe.check()
        outliers = options.get("outliers", "keep")
        if outliers not in CHOICES:
            raise InputError(f"What to do about outliers is one of {', '.join(CHOICES)}, got {outliers!r}.")
        given = options.get("basis")
        memory = Memory(options.get("memory_limit"), _path(options.get("scratch")))
        compute = Compute(options.get("device", "cpu"), options.get("kernels"), memory, options.get("ranks"))
        keep = Keep(
            _path(options.get("equations")),
            _path(options.get("checkpoint")),
            options.get("checkpoint_seconds", SECONDS),
            options.get("resume", False),
            options.get("overwrite", False),
            _members(options.get("committee", 0)),
        )
        basis = given.basis if isinstance(given, Potential) else given
        learn = Learn(options.get("targets"), options.get("reference_energies"))
        if isinstance(recipe, ExactRecipe):
            _refuse_for_exact(compute, keep, basis)
        else:
            refuse_impossible(recipe.start if isinstance(recipe, Automatic) else recipe, compute, keep)
        return cls(recipe, learn, compute, keep.checked(compute), basis, outliers, options.get("repulsion", True))

    @property
    def start(self) -> Recipe | ExactRecipe:
        """The recipe, or the start of the search for one."""
        if isinstance(self.recipe, Automatic):
            return self.recipe.start if self.basis is None else self.basis.recipe
        return self.recipe

    def problem(self, data: Dataset) -> Problem:
        """The problem of learning from `data`, checked."""
        elements = None if self.basis is None else self.basis.elements
        if not isinstance(self.start, ExactRecipe):
            _refuse_short(self.start.representation.cutoff, data.structures)
        return Problem.of(data, self.learn, elements=elements, compute=self.compute)

    def screened(self, data: Dataset, tell: Progress = silent) -> Screened | None:
        """`data` after the search for outliers; None if they are to be kept unseen."""
        return None if self.outliers == "keep" else screened(data, self.outliers, self.learn, self.compute, tell)

    def plan(self, problem: Problem) -> Plan | None:
        """Solver with its cost and the reason, without any work; None for explicit kernels, which have one solver."""
        recipe = self.recipe if self.basis is None else self.start
        return None if isinstance(recipe, ExactRecipe) else plan_fit(problem, recipe, self.compute, self.keep)

    def fit(self, problem: Problem, tell: Progress = silent) -> AnyPotential:
        """The potential that solves the problem."""
        trained_on = geometry_fingerprints(problem.structures)
        if isinstance(self.recipe, ExactRecipe):
            return replace(fit_exact(problem, self.recipe, self.compute, tell), trained_on=trained_on)
        made = fit_features(problem, self.recipe, basis=self.basis, compute=self.compute, keep=self.keep, tell=tell)
        cutoff = made.recipe.representation.cutoff
        # the method that a correction is added to has a repulsion of its own
        if not self.repulsion or made.corrects:
            return replace(made, trained_on=trained_on)
        below = Repulsion.below(problem.structures, made.elements, cutoff)
        made = replace(made, trained_on=trained_on, repulsion=below)
        return self.compute.on_first(lambda: with_crowding(made, problem.structures))


def _refuse_short(cutoff: float, structures: Structures) -> None:
    """Raise an InputError if no atom has a neighbour within the cutoff, in structures of several atoms."""
    several = (structures.counts > 1).nonzero()[:, 0]
    for index in batches(structures.counts[several], ATOMS_AT_ONCE):
        part = structures.select(several[index])
        if len(pairs_within(part, cutoff, part.elements).centre):
            return
    if len(several):
        raise InputError(
            f"With a cutoff of {cutoff:g} Å no atom has a neighbour, so there is nothing to learn. Use a longer one: 4 "
            "to 6 Å are usual. If that is the cutoff you meant, look at the unit of the coordinates (--length-unit)."
        )


def _changed(recipe: AnyRecipe, settings: RecipeChanges) -> AnyRecipe:
    """`recipe` with settings given by name; a search for a recipe leaves them as they are."""
    if not settings:
        return recipe
    if isinstance(recipe, Automatic):
        return recipe.changed(settings)
    if isinstance(recipe, Recipe):
        return changed(recipe, settings)
    if strange := settings.keys() - recipe.__dataclass_fields__.keys():
        known = ", ".join(recipe.__dataclass_fields__)
        raise InputError(f"Explicit kernels have no {', '.join(sorted(strange))}. They have {known}.")
    return replace(recipe, **dict(settings))  # type: ignore[arg-type]  # names were compared


def _members(n: int) -> int:
    if not 0 <= n <= MOST_MEMBERS or n == 1:
        raise InputError(f"A committee has 2 to {MOST_MEMBERS} members, 8 as a rule, or 0 for none, got {n}.")
    return n


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given).expanduser()


# Wishes that explicit kernels cannot honour, and the reason; docs/scaling.md shows it.
EXACT_EXCLUDES = {
    "a limit of memory": "the whole kernel matrix is in memory",
    "several ranks": "they run in one process",
    "kept equations": "their equations cannot be added to others",
    "a checkpoint": "a kernel matrix is kept only when it is complete",
    "a committee": "its members are weights of random features",
    "the basis of another model": "they have no random features",
}


def _refuse_for_exact(compute: Compute, keep: Keep, basis: Basis | None) -> None:
    """Raise an InputError for wishes that explicit kernels cannot honour."""
    wishes = {
        "a limit of memory": compute.memory.limit is not None,
        "several ranks": compute.ranks is not None,
        "kept equations": keep.equations is not None,
        "a checkpoint": keep.checkpoint is not None,
        "a committee": keep.committee > 0,
        "the basis of another model": basis is not None,
    }
    if wanted := [wish for wish, asked in wishes.items() if asked]:
        reasons = "; ".join(f"they cannot have {wish}, as {EXACT_EXCLUDES[wish]}" for wish in wanted)
        raise InputError(
            f"Explicit kernels run in the memory of one process: {reasons}. Leave that out, or use random features."
        )


@overload
def fit(
    data: Data, recipe: Recipe | Automatic = ..., *, progress: Progress | None = ..., **options: Unpack[FitOptions]
) -> Potential: ...


@overload
def fit(
    data: Data, recipe: ExactRecipe, *, progress: Progress | None = ..., **options: Unpack[FitOptions]
) -> ExactPotential: ...


def fit(
    data: Data, recipe: AnyRecipe = AUTOMATIC, *, progress: Progress | None = None, **options: Unpack[FitOptions]
) -> AnyPotential:
    """The potential that minimises the weighted squared error of the labels plus ridge · |weights|².

    `data`: a data set (`load_dataset`), or structures of ASE with labels in eV and Å.
    `recipe`: random features with width, ridge, energy weight and rank chosen from the data (`recipes.AUTOMATIC`) or
    given (`recipes.DEFAULT`); or explicit kernels (`exact.OQML`, `exact.GPR`).
    `n_features`, `sigma`, `ridge`, `energy_weight`, `rank`, `cutoff`, `seed` …: settings of the recipe by name
    (`RecipeChanges` lists them); what is given is not chosen from the data.
    `targets`: labels to learn from, some of "energies", "forces", "stress"; by default all that there are.
    `reference_energies`: eV by atomic number; by default from least squares.
    `outliers`: frames whose labels contradict all the others are not looked for ("keep"), or named in a warning and
    refused where they would ruin the fit ("tell"), or named and left out ("drop"), or refused ("stop").
    `repulsion`: pairs of atoms closer than any in the data repel each other, where the learnt energy has no meaning; a
    correction to a baseline has none.
    `committee`: members drawn from the posterior, 8 say, that tell how uncertain predictions are; 0: none.
    `basis`: a potential whose axes and feature maps to use, so that the equations of both can be added.
    `equations`: file to keep the equations in (one that exists only with `overwrite`).
    `checkpoint`: file for the state of the fit every `checkpoint_seconds`, and with `resume` to go on from; delete it
    at the end.
    `device`, `kernels`: where to compute, and the name of a back-end instead of the best one.
    `memory_limit`: bytes that the process may have in memory; equations that do not fit (without a limit: in the memory
    of the machine) are gathered on disk, in the folder `scratch`.
    `ranks`: processes that share the work (`machine.ranks.joined`), each with the same data.
    """
    request = Request.of(recipe, **options)
    data = _dataset(data)
    if (result := request.screened(data, progress or silent)) is not None:
        warn(result)
        data = result.data
    return request.fit(request.problem(data), progress or silent)


class PropertyOptions(RecipeChanges, total=False):
    """Keywords of `fit_properties`: settings of the recipe by name, and the machine."""

    device: torch.device | str  # "cpu" or "cuda"
    kernels: str | None  # name of a back-end; None: the best one
    memory_limit: int | None  # bytes that the process may have in memory


def fit_properties(
    data: Data,
    properties: Mapping[str, Any] | Sequence[str],
    *,
    kinds: Mapping[str, Kind] | None = None,
    recipe: Recipe | Automatic = AUTOMATIC,
    progress: Progress | None = None,
    **options: Unpack[PropertyOptions],
) -> PropertyModel:
    """A model of several properties of molecules or crystals, all from one pass over the structures.

    `data`: a data set, or structures of ASE. Energies and forces in it are not looked at.
    `properties`: values by name, (structures,) or (structures, 3) for a dipole; or names of columns of the data set
    (`load_dataset(…, columns=…)`), or of entries of `info` of ASE. Each keeps its own unit.
    `kinds`: by name "extensive" (a sum over atoms, which is the default), "intensive" (a mean over atoms) or "dipole"
    (Σ charge · position, of neutral molecules; the default for vectors).
    `recipe`: what is free is chosen for the first scalar; settings by name as in `fit`. The ridge is chosen for each
    property apart unless it is given by name.
    `device`, `kernels`, `memory_limit`: as in `fit`.
    """
    if unknown := set(options) - PropertyOptions.__annotations__.keys():
        names = ", ".join(PropertyOptions.__annotations__)
        raise TypeError(f"fit_properties has no option {', '.join(sorted(unknown))}. It has {names}.")
    settings = {name: value for name, value in options.items() if name in RecipeChanges.__annotations__}
    changed_recipe = _changed(recipe, cast(RecipeChanges, settings))
    assert isinstance(changed_recipe, (Recipe, Automatic))
    changed_recipe.check()
    compute = Compute(options.get("device", "cpu"), options.get("kernels"), Memory(options.get("memory_limit")))
    problem = property_problem(data, properties, kinds)
    ridge = options.get("ridge")
    return train_properties(problem, changed_recipe, ridge=ridge, compute=compute, tell=progress or silent)


def property_problem(
    data: Data, properties: Mapping[str, Any] | Sequence[str], kinds: Mapping[str, Kind] | None = None
) -> PropertyProblem:
    """Structures with the properties to learn, checked."""
    if isinstance(properties, str):
        raise InputError(f"Wanted a list of properties, got the text {properties!r}. Write [{properties!r}].")
    listed = [] if isinstance(properties, Mapping) else list(properties)
    if not isinstance(data, (Dataset, str, Path)):
        # other labels of the frames are not looked at: they may be of any unit
        data = from_ase(data, energy_key="", forces_key="", stress_key="", columns=listed)
    data = _dataset(data)
    if isinstance(properties, Mapping):
        values = dict(properties)
    elif missing := [name for name in listed if name not in data.columns]:
        have = ", ".join(data.columns) or "none"
        raise InputError(
            f"{data.source.name} was read without the columns {', '.join(missing)} (it has {have}). Read them: "
            f"load_dataset(…, columns={listed})."
        )
    else:
        values = {name: data.columns[name] for name in listed}
    structures = usable_structures(replace(data, labels=Labels()))
    return PropertyProblem.with_references(structures, checked_targets(structures, values, kinds or {}),
                                           data.source.as_dict())  # fmt: skip


def evaluate(potential: Model | Predictor, data: Data) -> Metrics:
    """Errors of `potential` on the labels of a data set, or of structures of ASE with labels in eV and Å."""
    return evaluate_dataset(potential, _dataset(data))


def _dataset(data: Data) -> Dataset:
    if isinstance(data, Dataset):
        return data
    if isinstance(data, (str, Path)):
        raise InputError(f"Wanted a data set, got the path {data}. Read it first: load_dataset({str(data)!r}).")
    return from_ase(data)


def _file_of(potential: Model) -> ModuleType:
    """Module that writes models of this kind."""
    return exact_file if isinstance(potential, ExactPotential) else features_file


def header_of(potential: Model) -> dict[str, Any]:
    """JSON header of the file of a model."""
    header: dict[str, Any] = _file_of(potential).header_of(potential)
    return header


def save(potential: Model, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a model as safetensors with a JSON header, atomically; an existing file is kept unless `overwrite`."""
    tensors = _file_of(potential).tensors_of(potential)
    features_file.write_model(path, header_of(potential), tensors, overwrite=overwrite)


def load(path: str | Path) -> AnyPotential:
    """The potential that `save` wrote, of either kind. Nothing in the file is executed."""
    if features_file.read_header(path).get("kind") == property_file.KIND:
        raise InputError(
            f"{path} is a model of properties, not a potential. The commands predict, evaluate and info take it; in "
            "Python read it with PropertyModel.load."
        )
    with open_tensors(path, features_file.FORMAT, features_file.FORMAT_VERSION, "model") as (header, file):
        exact = header.get("kind", "features") == "exact"
        return exact_file.read_potential(header, file) if exact else features_file.read_potential(header, file)
