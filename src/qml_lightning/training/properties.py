"""Training on properties: one pass over the structures, one decomposition, and a ridge for each property."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..atoms.fingerprints import geometry_fingerprints
from ..atoms.neighbours import element_indices
from ..atoms.structures import Labels, Structures
from ..errors import InputError
from ..linear.many_targets import Sample, Solved, solve_several
from ..linear.normal_equations import Gram, Part, Rows, equations_for
from ..machine.compute import Compute
from ..machine.progress import Progress, silent
from ..model.baseline import Baseline, least_squares
from ..model.basis import Basis, ReadyBasis
from ..model.properties import KINDS, Kind, Property, PropertyModel, arms
from ..model.provenance import Provenance
from ..model.recipe import Automatic, Recipe
from .choice.rules import MOST_LEFT_OUT_ROWS
from .choice.search import choose
from .chosen_recipe import Chosen
from .costs import decomposition_memory
from .problem import Problem
from .rows import ROWS_OF_STRUCTURE, write_rows


@dataclass(frozen=True)
class Target:
    """Values of one property in its own unit."""

    name: str
    kind: Kind
    values: Tensor  # (structures,) float64, or (structures, 3) of dipoles

    def summed(self, counts: Tensor) -> Tensor:
        """Values as sums over atoms: a mean times the number of atoms, (structures,) or (structures, 3)."""
        return self.values * counts if self.kind == "intensive" else self.values


@dataclass(frozen=True)
class PropertyProblem:
    """Structures and the properties to learn, with reference values that are subtracted before learning."""

    structures: Structures
    of: tuple[Target, ...]
    elements: tuple[int, ...]
    baseline: Tensor  # (elements, properties)
    source: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def with_references(
        cls, structures: Structures, of: Sequence[Target], source: dict[str, Any] | None = None
    ) -> PropertyProblem:
        """The problem with reference values from the data: of elements by least squares, of means over atoms the mean.

        The reference values of a dipole are charges of the elements. Only their differences have a meaning.
        """
        if sum(one.kind == "dipole" for one in of) > 1:
            raise InputError("One dipole can be learnt at a time, as its rows are its own. Fit the others apart.")
        elements = structures.elements
        found = [_references(structures, one, elements) for one in of]
        return cls(structures, tuple(of), elements, torch.stack(found, 1), source or {})

    @cached_property
    def scalars(self) -> list[int]:
        """Indices of the properties that are no dipoles."""
        return [k for k, one in enumerate(self.of) if one.kind != "dipole"]

    def numbers_of(self, kind: str) -> list[int]:
        """Indices of the properties that are targets of a kind of rows."""
        return [k for k in range(len(self.of)) if k not in self.scalars] if kind == "dipoles" else self.scalars

    @cached_property
    def past_references(self) -> list[Tensor]:
        """Each property as a sum over atoms, less its reference values."""
        counts, composition = self.structures.counts, Baseline.composition(self.structures, self.elements)
        columns = {"dipole": _arms_of_elements(self.structures, self.elements)} if self.numbers_of("dipoles") else {}
        return [
            one.summed(counts) - columns.get(one.kind, composition) @ self.baseline[:, k]
            for k, one in enumerate(self.of)
        ]

    @cached_property
    def targets(self) -> dict[str, Tensor]:
        """Targets of the rows of each kind; of scalars the first one."""
        found = {"energies": self.scalars, "dipoles": self.numbers_of("dipoles")}
        return {kind: self.past_references[numbers[0]] for kind, numbers in found.items() if numbers}

    @cached_property
    def more_targets(self) -> Tensor | None:
        """Further scalars, (structures, n)."""
        rest = self.scalars[1:]
        return torch.stack([self.past_references[k] for k in rest], 1) if rest else None

    @property
    def rows(self) -> dict[str, int]:
        """Number of rows of each kind."""
        return {kind: ROWS_OF_STRUCTURE[kind] * len(self.structures) for kind in self.targets}

    def select(self, index: Tensor) -> PropertyProblem:
        """The problem of some structures, with the same reference values."""
        of = tuple(replace(one, values=one.values[index]) for one in self.of)
        return replace(self, structures=self.structures.select(index), of=of)

    def leading(self) -> Problem | None:
        """The problem of the first scalar alone, as if it were an energy; None if there is none."""
        if not self.scalars:
            return None
        first = self.scalars[0]
        energies = self.of[first].summed(self.structures.counts)
        baseline = Baseline(self.elements, self.baseline[:, first])
        return Problem(self.structures, Labels(energies=energies), baseline, self.source)


def checked_targets(structures: Structures, values: Mapping[str, Any], kinds: Mapping[str, Kind]) -> list[Target]:
    """Properties to learn; an InputError if a value is missing, or has a shape that no kind of property has."""
    if not values:
        raise InputError("There is no property to learn. Name at least one.")
    if strange := [name for name in kinds if name not in values]:
        raise InputError(f"Kinds are given for {', '.join(strange)}; the properties are {', '.join(values)}.")
    return [_checked(len(structures), name, given, kinds.get(name)) for name, given in values.items()]


def _checked(n: int, name: str, given: Any, kind: Kind | None) -> Target:
    if kind not in (None, *KINDS):
        raise InputError(f"The kind of a property is {', '.join(KINDS)}, got {kind!r} for {name}.")
    try:
        values = torch.as_tensor(np.asarray(given, np.float64))
    except (TypeError, ValueError) as problem:
        raise InputError(f"Wanted numbers for {name}, got {given!r:.60}.") from problem
    shape = tuple(values.shape)
    if shape == (n, 1):
        values = values[:, 0]
    kind = kind or ("dipole" if shape == (n, 3) else "extensive")
    wanted = (n, 3) if kind == "dipole" else (n,)
    if tuple(values.shape) != wanted:
        tensor = "" if len(shape) < 2 or shape[0] != n else (
            " Tensors such as polarisabilities cannot be learnt: they turn with the molecule, and the sum of scalars "
            "that is learnt here does not. Learn an invariant of them, such as the mean of the diagonal."
        )  # fmt: skip
        raise InputError(f"Wanted {name} ({kind}) of shape {wanted}, got {shape}.{tensor}")
    if (bad := ~values.reshape(n, -1).isfinite().all(1)).any():
        raise InputError(
            f"{name} of structure {int(bad.nonzero()[0, 0])} is not a number ({int(bad.sum())} of {n} are not). All "
            "properties share one matrix, so each structure needs all of them: leave these structures out, or fit "
            f"{name} apart."
        )
    return Target(name, kind, values)


def _references(structures: Structures, target: Target, elements: tuple[int, ...]) -> Tensor:
    """Reference values of an atom of each element, (elements,)."""
    if target.kind == "intensive":
        return torch.full((len(elements),), float(target.values.mean()), dtype=torch.float64)
    if target.kind == "dipole":
        x, y = _arms_of_elements(structures, elements).flatten(0, 1), target.values.flatten()
    else:
        atoms = structures.counts.double()
        x, y = Baseline.composition(structures, elements) / atoms[:, None], target.values / atoms
    return least_squares(x, y, torch.ones_like(y))


def _arms_of_elements(structures: Structures, elements: tuple[int, ...]) -> Tensor:
    """Sum of the arms of the atoms of each element, (structures, 3, elements)."""
    key = structures.structure_of_atom * len(elements) + element_indices(structures.numbers, elements)
    out = torch.zeros(len(structures) * len(elements), 3, dtype=torch.float64)
    return out.index_add_(0, key, arms(structures)).view(len(structures), len(elements), 3).transpose(1, 2)


def fit_properties(
    problem: PropertyProblem,
    recipe: Recipe | Automatic,
    *,
    ridge: float | None = None,
    compute: Compute | None = None,
    tell: Progress = silent,
) -> PropertyModel:
    """The model that minimises the squared error of each property plus its ridge · |weights|².

    A mean over atoms times their number is a sum, so all scalars have the same rows: one Gram matrix serves them all.
    A free recipe is chosen for the first scalar. `ridge`: one for all properties instead of the best of each.
    """
    started, compute = time.perf_counter(), compute or Compute()
    start = recipe.start if isinstance(recipe, Automatic) else recipe
    _require_memory(problem, start, compute)
    chosen, leading = Chosen.given(start), problem.leading()
    if isinstance(recipe, Automatic) and leading is not None:
        chosen = choose(leading, recipe, compute=compute, iterates=False, tell=tell)
    basis = Basis.draw(problem.structures, chosen.recipe)
    ready = basis.ready(compute)
    parts = gathered(ready, problem, chosen.recipe, tell)
    found: dict[str, Solved] = {}
    n = len(problem.of)
    weights = torch.zeros(basis.n_weights, n, dtype=torch.float64)
    properties: list[Property | None] = [None] * n
    for kind, part in parts.items():
        tell("solving", len(found), len(parts))
        found[kind] = solve_several(part, _sample(ready, problem, chosen.recipe, kind, part), ridge)
        for k, column in enumerate(problem.numbers_of(kind)):
            weights[:, column] = found[kind].weights[:, k]
            one = problem.of[column]
            properties[column] = Property(one.name, one.kind, found[kind].ridges[k], found[kind].left_out[k])
    provenance = Provenance.here(
        data=problem.source,
        targets={one.name: one.values.numel() for one in problem.of},
        structures=len(problem.structures),
        atoms=problem.structures.n_atoms,
        kernels=ready.kernels.NAME,
        device=str(compute.device),
        choice=chosen.evidence,
        solution={"solver": "eigenvectors", "rows": problem.rows, "ridges": _told(found, problem)},
        seconds=round(time.perf_counter() - started, 3),
    )
    made = tuple(one for one in properties if one is not None)
    return PropertyModel(basis, made, weights, problem.baseline, provenance, geometry_fingerprints(problem.structures))


def gathered(
    basis: ReadyBasis, problem: PropertyProblem, recipe: Recipe, tell: Progress = silent, *, as_rows: bool = False
) -> dict[str, Part]:
    """Equations of the properties, by kind of rows. Those of all scalars are one set with a column for each.

    `as_rows`: the rows themselves, however many.
    """
    parts: dict[str, Part] = {}
    for kind, n in problem.rows.items():
        given = (basis.device, len(problem.numbers_of(kind)))
        parts[kind] = Rows(basis.n_weights, n, *given) if as_rows else equations_for(n, basis.n_weights, *given)
    n = len(problem.structures)
    for done in write_rows(basis, problem, recipe, parts.__getitem__, more_targets=problem.more_targets):
        tell("equations", done, n)
    for part in parts.values():
        if isinstance(part, Gram):
            part.close()
    return parts


def _sample(basis: ReadyBasis, problem: PropertyProblem, recipe: Recipe, kind: str, part: Part) -> Sample:
    """Rows of a few structures, each left out in turn to compare ridges."""
    size, n = ROWS_OF_STRUCTURE[kind], len(problem.structures)
    order = np.random.default_rng(recipe.seed).permutation(n)[: max(1, MOST_LEFT_OUT_ROWS // size)]
    index = torch.from_numpy(np.sort(order))
    numbers = (index[:, None] * size + torch.arange(size)).flatten()
    if part.n <= part.n_columns:
        return Sample(numbers, size)
    rows = gathered(basis, problem.select(index), recipe, as_rows=True)[kind]
    assert isinstance(rows, Rows)
    return Sample(numbers, size, rows)


def _require_memory(problem: PropertyProblem, recipe: Recipe, compute: Compute) -> None:
    n_weights = recipe.features.n_weights(len(problem.elements))
    compute.memory.require(
        decomposition_memory(list(problem.rows.values()), n_weights),
        f"Equations of {n_weights} weights with their decomposition",
        f"Use fewer features (now {recipe.features.n_features}) or structures.",
    )


def _told(found: Mapping[str, Solved], problem: PropertyProblem) -> dict[str, dict[str, float]]:
    """Ridge of each property and the error of left-out rows, for the header of a model."""
    return {
        problem.of[column].name: {"ridge": solved.ridges[k], "left_out": solved.left_out[k]}
        for kind, solved in found.items()
        for k, column in enumerate(problem.numbers_of(kind))
    }
