"""The equations of a fit, apart for each kind of label: they add, and serve any weights and reference energies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..atoms.dataset import Dataset
from ..atoms.neighbours import check_distances, element_indices
from ..atoms.structures import Labels, Structures, checked
from ..errors import InputError
from ..kernels import FeatureMap
from ..linear.compensated import accumulation_on
from ..linear.direct import EIGEN_FROM, Term, memory_for_fit, ridge_path, solve
from ..linear.normal_equations import Gram, Part, added, equations_for, grown
from ..linear.ridge import Ridge
from ..machine.memory import Memory
from ..model.baseline import Baseline, References, fit_baseline, given_baseline, references_from
from ..model.basis import Basis, Drawn, basis_difference, draw, make_basis
from ..model.potential import Potential
from ..model.projection import Projection
from ..model.recipe import Recipe
from .problem import Problem, Progress, counts_of
from .rows import Environing, environments, labelled_rows


@dataclass
class Equations:
    """ZᵀZ, Zᵀy and yᵀy (or the rows themselves, while they are few) of energies, forces and virials, in one basis.

    Rows carry no weight. The targets of an energy row are its energy and its composition, so that reference energies
    are chosen late: what is taken off the energies already (the origin) is for the sake of rounding only.
    """

    elements: tuple[int, ...]
    recipe: Recipe  # its ridge, weights and solver are only where a solution starts from
    projection: Projection
    maps: tuple[FeatureMap, ...]
    parts: dict[str, Part]  # by kind of label
    references: References
    given: bool  # the origin is reference energies that were given; else they are found by least squares
    structures: Tensor  # (structures,) int64, a fingerprint of each one that is in
    atoms: int
    data: dict[str, Any]  # where the structures came from
    choice: dict[str, Any] | None = None  # what speaks for the recipe; None: it was given

    @property
    def n_weights(self) -> int:
        return next(iter(self.parts.values())).n_columns

    @property
    def rows(self) -> dict[str, int]:
        """How many equations there are of each kind."""
        return {kind: part.n for kind, part in self.parts.items()}

    def baseline(self, reference_energies: Mapping[int, float] | None = None) -> Baseline:
        """The reference energies that go with these equations, or those given."""
        if reference_energies is not None:
            return given_baseline(reference_energies, self.elements)
        return self.references.origin if self.given else self.references.least_squares()

    def terms(self, recipe: Recipe, baseline: Baseline) -> list[Term]:
        """What is to be solved, with the weights of the recipe and past these reference energies."""
        mixture = self.references.mixture(baseline)[:, 0]
        return [
            Term(part, recipe.weight_of(kind), mixture if kind == "energies" else None)
            for kind, part in self.parts.items()
        ]

    def potential(self, weights: Tensor, recipe: Recipe, baseline: Baseline, **more: Any) -> Potential:
        """The potential with these weights; `more` goes into its provenance."""
        about = provenance(self.data, self.rows, {"solver": "direct"}, len(self.structures), self.atoms)
        if self.choice is not None:
            about["choice"] = self.choice
        return Potential(self.elements, recipe, self.projection, self.maps, weights.cpu(), baseline, {**about, **more})


def provenance(
    data: Mapping[str, Any], rows: Mapping[str, int], solution: Mapping[str, Any], structures: int, atoms: int
) -> dict[str, Any]:
    """What a model tells of how it came to be."""
    return {
        "data": dict(data),
        "targets": dict(rows),
        "solution": dict(solution),
        "structures": structures,
        "atoms": atoms,
        "threads": torch.get_num_threads(),
        "versions": {"qml-lightning": version("qml-lightning"), "torch": torch.__version__},
    }


def empty(
    problem: Problem,
    prints: Tensor,
    source: dict[str, Any],
    recipe: Recipe,
    drawn: tuple[Projection, tuple[FeatureMap, ...]],
    *,
    given: bool,
    device: torch.device | str = "cpu",
    choice: dict[str, Any] | None = None,
) -> Equations:
    """Room for the equations of `problem`, with all but the rows in place."""
    elements, structures = problem.baseline.elements, problem.structures
    n = recipe.features.n_weights(len(elements))
    return Equations(
        elements,
        recipe,
        *drawn,
        {
            kind: equations_for(rows, n, device, 1 + len(elements) if kind == "energies" else 1)
            for kind, rows in counts_of(problem.targets).items()
        },
        references_from(problem.baseline).with_structures(structures, problem.labels.energies),
        given,
        prints,
        structures.n_atoms,
        source,
        choice,
    )


def gather(
    equations: Equations,
    basis: Basis,
    problem: Problem,
    tell: Progress,
    *,
    first: int = 0,
    most: int | None = None,
    after: Callable[[Equations, int, int], None] | None = None,
    environed: Environing = environments,
) -> None:
    """Add the rows of `problem`, from the structure `first` on; `after(equations, done, of)` follows each chunk.

    The baseline of `problem` is the origin of the equations. `most`: numbers at once, where memory is short.
    """
    targets, n = problem.targets, len(problem.structures)
    compositions = Baseline.composition(problem.structures, equations.elements)
    compositions *= problem.structures.counts.double()[:, None] ** -equations.recipe.size_exponent
    known = targets["energies"].isfinite() if "energies" in targets else torch.zeros(n, dtype=torch.bool)
    compositions, taken = compositions[known], int(known[:first].sum())
    before = first
    for part in equations.parts.values():
        if isinstance(part, Gram):
            part.accumulation = accumulation_on(part.device, equations.recipe.solver.accumulation)
    tell("equations", first, n)
    for kind, _, y, done in labelled_rows(
        basis,
        problem.structures,
        targets,
        equations.recipe.size_exponent,
        lambda kind, n: equations.parts[kind].room(n),
        first=first,
        most=most,
        environed=environed,
    ):
        if kind == "energies":
            y = torch.cat([y[:, None], compositions[taken : taken + len(y)].to(y)], 1)
            taken += len(y)
        equations.parts[kind].take(y)
        if done > before:
            before = done
            tell("equations", done, n, rate(equations.parts.values()))
            if after is not None:
                after(equations, done, n)
    for part in equations.parts.values():
        if isinstance(part, Gram):
            part.close()


def equations_of(
    data: Dataset,
    recipe: Recipe,
    *,
    basis: Drawn | None = None,
    reference_energies: Mapping[int, float] | None = None,
    device: torch.device | str = "cpu",
    kernels: str | None = None,
    progress: Progress | None = None,
) -> Equations:
    """The equations of all labels of `data`, in memory: to be solved more than once, or to grow.

    `basis`: what has the axes and feature maps to use; by default they are drawn from the structures.
    """
    recipe.check()
    structures = checked(data.structures, data.labels)
    check_distances(structures)
    elements = structures.elements if basis is None else basis.elements
    if reference_energies is None:
        baseline = fit_baseline(structures, data.labels.energies, elements)
    else:
        baseline = given_baseline(reference_energies, elements)
    problem = Problem(structures, data.labels, baseline)
    Memory().require(
        memory_for_fit(recipe.features.n_weights(len(elements)), list(counts_of(problem.targets).values())),
        f"Equations of {recipe.features.n_features} features",
        "Use fewer features or structures.",
    )
    if basis is None:
        drawn = draw(structures, recipe, np.random.default_rng(recipe.seed))
    else:
        drawn = basis.projection, basis.maps
    prints = fingerprints(structures, data.labels)
    given = reference_energies is not None
    equations = empty(problem, prints, data.source.as_dict(), recipe, drawn, given=given, device=device)
    ready = make_basis(elements, recipe, *drawn, device, kernels)
    gather(equations, ready, problem, progress or (lambda *_: None))
    return equations


def rate(parts: Iterable[Part]) -> str:
    """How fast the Gram products ran, such as 71 GFLOP/s; empty before the first one."""
    grams = [part for part in parts if isinstance(part, Gram)]
    seconds = sum(part.seconds for part in grams)
    return f"{sum(part.flops for part in grams) / seconds / 1e9:.0f} GFLOP/s" if seconds else ""


def fingerprints(structures: Structures, labels: Labels) -> Tensor:
    """64 bits that tell each structure with its labels from others, (structures,) int64."""
    parts = {"numbers": structures.numbers, "positions": structures.positions, "forces": labels.forces}
    per_atom = [np.ascontiguousarray(part.numpy()) for part in parts.values() if part is not None]
    whole = {"cells": structures.cells, "pbc": structures.periodic, "energy": labels.energies, "stress": labels.stress}
    per_structure = [np.ascontiguousarray(part.numpy()) for part in whole.values() if part is not None]
    # which labels there are is part of it: the same structure with fewer labels makes other equations
    kinds = ",".join(labels.kinds).encode()
    out = np.empty(len(structures), np.int64)
    offsets = structures.offsets.tolist()
    for s, (first, last) in enumerate(pairwise(offsets)):
        digest = hashlib.blake2b(kinds, digest_size=8)
        for values in per_atom:
            digest.update(values[first:last].tobytes())
        for values in per_structure:
            digest.update(values[s].tobytes())
        out[s] = np.frombuffer(digest.digest(), np.int64)[0]
    return torch.from_numpy(out)


def merged(one: Equations, other: Equations, *, repeated: bool = False) -> Equations:
    """The equations of both, which must be in the same basis, and are used up.

    A structure that is in both is refused unless `repeated`: it would count twice.
    """
    if difference := basis_difference(one, other):
        raise InputError(
            f"Equations in different bases cannot be added: {difference}. Gather both in one basis: train the second "
            "with --basis and the model of the first."
        )
    if one.given != other.given or (one.given and not _same_origin(one, other)):
        raise InputError("The two were made with different reference energies. Give the same ones to both, or none.")
    _refuse_repeated(one.structures, other.structures, repeated)
    parts = dict(one.parts)
    for kind, part in other.parts.items():
        if kind == "energies" and not _same_origin(one, other):
            part.mix_targets(other.references.mixture(one.references.origin).to(part.device))
        parts[kind] = added(parts[kind], part) if kind in parts else part
    references = other.references.counted_from(one.references.origin)
    return replace(
        one,
        parts=parts,
        references=References(one.references.origin, one.references.sums + references.sums),
        structures=torch.cat([one.structures, other.structures]),
        atoms=one.atoms + other.atoms,
        data=_together(one.data, other.data),
    )


def extended(
    equations: Equations,
    data: Dataset,
    *,
    remove: bool = False,
    repeated: bool = False,
    device: torch.device | str = "cpu",
    kernels: str | None = None,
    progress: Progress | None = None,
) -> Equations:
    """The equations with the structures of `data` added, or taken out again; those given are used up.

    Only kinds of labels that the equations have are looked at. What is taken out must have gone in.
    """
    structures = checked(data.structures, data.labels)
    check_distances(structures)
    element_indices(structures.numbers, equations.elements)
    kinds = [kind for kind in data.labels.kinds if kind in equations.parts]
    if not kinds:
        raise InputError(f"{data.source.name} has none of the labels that the equations have: {list(equations.parts)}.")
    labels = Labels(**{kind: getattr(data.labels, kind) for kind in kinds})
    prints = fingerprints(structures, labels)
    left = _without(equations.structures, prints, data.source.name) if remove else None
    if left is None:
        _refuse_repeated(equations.structures, prints, repeated)
    problem = Problem(structures, labels, equations.references.origin)
    basis = make_basis(equations.elements, equations.recipe, equations.projection, equations.maps, device, kernels)
    sign = -1 if remove else 1
    for kind, more in counts_of(problem.targets).items():
        equations.parts[kind] = grown(equations.parts[kind], sign * more)
    signed = [part for part in equations.parts.values() if isinstance(part, Gram)]
    for part in signed:
        part.sign = float(sign)
    gather(equations, basis, problem, progress or (lambda *_: None))
    for part in signed:
        part.sign = 1.0
    how = f"without {len(data)} of {data.source.name}"
    return replace(
        equations,
        references=equations.references.with_structures(structures, labels.energies, sign),
        structures=torch.cat([equations.structures, prints]) if left is None else left,
        atoms=equations.atoms + sign * structures.n_atoms,
        data={**equations.data, "draws": [*equations.data.get("draws", []), how]}
        if remove
        else _together(equations.data, data.source.as_dict()),
    )


def least_ridge(choice: Mapping[str, Any] | None) -> float | None:
    """Smallest value that a chosen ridge may take (0 in files of earlier versions); None where the ridge was given."""
    return None if choice is None or "ridge" not in choice["chosen"] else float(choice.get("least_ridge", 0.0))


def solved(
    equations: Equations,
    recipe: Recipe | None = None,
    *,
    reference_energies: Mapping[int, float] | None = None,
    use_up: bool = False,
    judges: Sequence[Tensor] = (),
    **more: Any,
) -> Potential:
    """The potential of these equations, with the ridge and the weights of `recipe`.

    `use_up`: solve in the memory of the equations, which are worth nothing afterwards. A ridge that was chosen, and not
    given, is then made larger where it is lost in rounding; and where the dual form suits the equations, others are
    tried beside it, judged by groups of their rows that each are left out: `judges`.
    """
    recipe = equations.recipe if recipe is None else recipe
    baseline = equations.baseline(reference_energies)
    terms = equations.terms(recipe, baseline)
    if not use_up:
        return equations.potential(ridge_path(terms, [recipe.ridge])[0], recipe, baseline, **more)
    found = solve(terms, Ridge(recipe.ridge, least_ridge(equations.choice)), groups=judges)
    if found.report:
        more["solution"] = {**more.get("solution", {}), **found.report}
    return equations.potential(found.weights, replace(recipe, ridge=found.ridge), baseline, **more)


@dataclass(frozen=True)
class Point:
    """One point of a sweep."""

    energy_weight: float
    ridge: float
    potential: Potential
    errors: dict[str, float]  # root mean square of Z w − y over the rows of each kind, without weights


def sweep(
    equations: Equations,
    energy_weights: Sequence[float],
    ridges: Sequence[float],
    *,
    recipe: Recipe | None = None,
    reference_energies: Mapping[int, float] | None = None,
) -> list[Point]:
    """The potential for each energy weight and each ridge, all from one pass over the data; ridges vary fastest.

    A matrix of its own is needed beside the equations, which stay as they are.
    """
    base = equations.recipe if recipe is None else recipe
    baseline = equations.baseline(reference_energies)
    n = min(equations.n_weights, sum(equations.rows.values()))
    # the eigendecomposition works in a copy and two more, and gives vectors
    Memory().require(
        8 * n**2 * (5 if len(ridges) >= EIGEN_FROM else 1),
        f"A sweep over {len(ridges)} ridges with {n} weights",
        f"Use fewer than {EIGEN_FROM} ridges at a time, or fewer features.",
    )
    points = []
    for energy_weight in energy_weights:
        weighted = replace(base, energy_weight=energy_weight)
        terms = equations.terms(weighted, baseline)
        for ridge, weights in zip(ridges, ridge_path(terms, ridges), strict=True):
            chosen = replace(weighted, ridge=ridge)
            chosen.check()
            errors = {
                kind: (term.squared_error(weights) / term.part.n) ** 0.5
                for kind, term in zip(equations.parts, terms, strict=True)
                if term.part.n
            }
            points.append(Point(energy_weight, ridge, equations.potential(weights, chosen, baseline), errors))
    return points


def _same_origin(one: Equations, other: Equations) -> bool:
    return torch.equal(one.references.origin.energies, other.references.origin.energies)


def _refuse_repeated(there: Tensor, new: Tensor, repeated: bool) -> None:
    n = int(torch.isin(new, there).sum())
    if n and not repeated:
        raise InputError(
            f"{n} of {len(new)} structures are in the equations already and would count twice. "
            "Leave them out, or insist with --repeated."
        )


def _without(there: Tensor, gone: Tensor, name: str) -> Tensor:
    """`there` with one occurrence of each of `gone` left out; an InputError if one is not there."""
    positions: dict[int, list[int]] = {}
    for at, value in enumerate(there.tolist()):
        positions.setdefault(value, []).append(at)
    keep, missing = torch.ones(len(there), dtype=torch.bool), 0
    for value in gone.tolist():
        if positions.get(value):
            keep[positions[value].pop()] = False
        else:
            missing += 1
    if missing:
        raise InputError(
            f"{missing} of {len(gone)} structures of {name} are not in the equations, with these labels, and cannot be "
            "taken out. Give them as they went in: same file, same units."
        )
    if not bool(keep.any()):
        raise InputError("These are all the structures that are in the equations: nothing would be left.")
    return there[keep]


def _together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Sources of data as `datasets.concatenate` puts them together."""
    parts = [
        part
        for source in (one, other)
        for part in (source["parts"] if source.get("parts") and not source.get("draws") else [source])
    ]
    return {"name": " + ".join(str(part.get("name", "")) for part in parts), "parts": parts}
