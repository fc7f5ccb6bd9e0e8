"""The equations of a fit, one part for each kind of label. They add, and serve any weights and reference energies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..atoms.dataset import Dataset
from ..atoms.fingerprints import geometry_fingerprints
from ..atoms.structures import Labels
from ..errors import InputError
from ..linear.compensated import accumulation_on
from ..linear.direct import Term
from ..linear.normal_equations import Gram, Part, added, equations_for, grown
from ..machine.compute import Compute
from ..machine.progress import Progress, silent
from ..model.baseline import Baseline, References, given_baseline
from ..model.basis import Basis, ReadyBasis
from ..model.recipe import Recipe
from ..model.repulsion import Repulsion
from .chosen_recipe import Chosen
from .problem import Problem, usable_structures
from .rows import Pass, write_rows


@dataclass
class Equations:
    """ZᵀZ, Zᵀy and yᵀy (or the rows themselves, while they are few) of energies, forces and virials, in one basis.

    Rows carry no weight. The targets of an energy row are its energy and its composition, so that reference energies
    can still be chosen when all rows are gathered. The origin is subtracted from the energies only to keep digits.
    """

    basis: Basis  # the ridge, weights and solver of its recipe are only the start of a solution
    parts: dict[str, Part]  # by kind of label
    references: References
    given: bool  # the origin is reference energies that were given; else they are found by least squares
    structures: Tensor  # (structures,) int64, fingerprint of each structure
    atoms: int
    data: dict[str, Any]  # sources of the structures
    chosen: Chosen  # recipe and ridge that the fit began with, and the evidence for them
    # shortest distances and greatest crowding of the structures; None where they were not looked for
    bounds: Repulsion | None = None
    # (structures,) int64, fingerprint of each structure without its labels; None in files of older versions
    geometries: Tensor | None = None

    @property
    def recipe(self) -> Recipe:
        return self.basis.recipe

    @property
    def elements(self) -> tuple[int, ...]:
        return self.basis.elements

    @property
    def n_weights(self) -> int:
        return next(iter(self.parts.values())).n_columns

    @property
    def rows(self) -> dict[str, int]:
        """Number of equations of each kind."""
        return {kind: part.n for kind, part in self.parts.items()}

    @property
    def grams(self) -> list[Gram]:
        """Parts that are Gram matrices."""
        return [part for part in self.parts.values() if isinstance(part, Gram)]

    @property
    def rate(self) -> str:
        """Speed of the Gram products, such as 71 GFLOP/s; empty before the first product."""
        seconds = sum(part.seconds for part in self.grams)
        return f"{sum(part.flops for part in self.grams) / seconds / 1e9:.0f} GFLOP/s" if seconds else ""

    def baseline(self, reference_energies: Mapping[int, float] | None = None) -> Baseline:
        """Reference energies of these equations, or those given."""
        if reference_energies is not None:
            return given_baseline(reference_energies, self.elements)
        return self.references.origin if self.given else self.references.least_squares()

    def terms(self, recipe: Recipe, baseline: Baseline) -> list[Term]:
        """Terms of the sum of squares, with the weights of the recipe and past these reference energies."""
        mixture = self.references.mixture(baseline)[:, 0]
        return [
            Term(part, recipe.weight_of(kind), mixture if kind == "energies" else None)
            for kind, part in self.parts.items()
        ]


# A function of the equations so far, the number of structures in them, and that of all structures.
AfterBatch = Callable[[Equations, int, int], None]


def empty(
    problem: Problem, basis: Basis, chosen: Chosen | None = None, *, device: torch.device | str = "cpu"
) -> Equations:
    """Equations of `problem` before the first row is added."""
    n_targets = {"energies": 1 + len(basis.elements)}
    return Equations(
        basis,
        {kind: equations_for(n, basis.n_weights, device, n_targets.get(kind, 1)) for kind, n in problem.rows.items()},
        References.without_structures(problem.baseline).with_structures(problem.structures, problem.labels.energies),
        problem.given,
        problem.fingerprints,
        problem.structures.n_atoms,
        problem.source,
        chosen or Chosen.given(basis.recipe),
        geometries=geometry_fingerprints(problem.structures),
    )


def gather(
    equations: Equations,
    basis: ReadyBasis,
    problem: Problem,
    tell: Progress = silent,
    how: Pass = Pass(),  # noqa: B008 (a value)
    after: AfterBatch | None = None,
) -> None:
    """Add the rows of `problem`; `after(equations, done, of)` follows each batch of structures.

    The baseline of `problem` is the origin of the equations.
    """
    n, before = len(problem.structures), how.first
    for part in equations.grams:
        part.accumulation = accumulation_on(part.device, equations.recipe.solver.accumulation)
    tell("equations", before, n)
    compositions = Baseline.composition(problem.structures, equations.elements)
    for done in write_rows(basis, problem, equations.recipe, equations.parts.__getitem__, how, compositions):
        if done > before:
            before = done
            tell("equations", done, n, equations.rate)
            if after is not None:
                after(equations, done, n)
    for part in equations.grams:
        part.close()


def merged(one: Equations, other: Equations, *, repeated: bool = False) -> Equations:
    """Sum of two sets of equations, which must be in the same basis and are used up.

    A structure that is in both is refused unless `repeated`: it would count twice.
    """
    if difference := one.basis.difference(other.basis):
        raise InputError(
            f"Equations in different bases cannot be added: {difference}. Gather both in one basis: train the second "
            "with --basis and the model of the first."
        )
    if one.given != other.given or (one.given and not _same_origin(one, other)):
        raise InputError("The two were made with different reference energies. Give the same ones to both, or none.")
    _refuse_other_baseline(one.data, other.data)
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
        bounds=other.bounds if one.bounds is None else one.bounds.and_of(other.bounds),
        geometries=_both(one.geometries, other.geometries),
    )


def extended(
    equations: Equations,
    data: Dataset,
    compute: Compute | None = None,
    *,
    remove: bool = False,
    repeated: bool = False,
    tell: Progress = silent,
) -> Equations:
    """The equations with the structures of `data` added, or taken out again; the old ones are used up.

    Only kinds of labels that the equations have are looked at. A structure can be taken out only if it went in.
    """
    kinds = [kind for kind in data.labels.kinds if kind in equations.parts]
    if not kinds:
        raise InputError(f"{data.source.name} has none of the labels that the equations have: {list(equations.parts)}.")
    _refuse_other_baseline(equations.data, data.source.as_dict())
    structures = usable_structures(data, equations.elements)
    labels = Labels(**{kind: getattr(data.labels, kind) for kind in kinds})
    problem = Problem(structures, labels, equations.references.origin, data.source.as_dict())
    prints = problem.fingerprints
    left = _left_by(prints, equations.structures, data.source.name) if remove else None
    if left is None:
        _refuse_repeated(equations.structures, prints, repeated)
    sign = -1 if remove else 1
    for kind, more in problem.rows.items():
        equations.parts[kind] = grown(equations.parts[kind], sign * more)
    for part in equations.grams:
        part.sign = float(sign)
    gather(equations, equations.basis.ready(compute or Compute()), problem, tell)
    for part in equations.grams:
        part.sign = 1.0
    bounds = equations.bounds
    if bounds is not None and not remove:
        bounds = bounds.and_below(structures, equations.recipe.representation.cutoff)
    geometries = equations.geometries
    if left is None:
        geometries = _both(geometries, geometry_fingerprints(structures))
    elif geometries is not None:
        geometries = geometries[left]
    draws = [*equations.data.get("draws", []), f"without {len(data)} of {data.source.name}"]
    return replace(
        equations,
        references=equations.references.with_structures(structures, labels.energies, sign),
        structures=torch.cat([equations.structures, prints]) if left is None else equations.structures[left],
        atoms=equations.atoms + sign * structures.n_atoms,
        data=equations.data | {"draws": draws} if remove else _together(equations.data, problem.source),
        bounds=bounds,
        geometries=geometries,
    )


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """One list of fingerprints after the other; None unless both are known."""
    return None if one is None or other is None else torch.cat([one, other])


def _same_origin(one: Equations, other: Equations) -> bool:
    return torch.equal(one.references.origin.energies, other.references.origin.energies)


def _refuse_other_baseline(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Raise an InputError if other baselines were subtracted from the labels."""
    baselines = [str(data.get("baseline", "")) for data in (one, other)]
    if baselines[0] != baselines[1]:
        named = " and ".join(f"{name!r}" if name else "none" for name in baselines)
        raise InputError(
            f"Different baselines were subtracted from the labels: {named}. Read the data with the same --baseline."
        )


def _refuse_repeated(there: Tensor, new: Tensor, repeated: bool) -> None:
    n = int(torch.isin(new, there).sum())
    if n and not repeated:
        raise InputError(
            f"{n} of {len(new)} structures are in the equations already and would count twice. "
            "Leave them out, or insist with --repeated."
        )


def _left_by(gone: Tensor, there: Tensor, name: str) -> Tensor:
    """Mask of those in `there` that stay if each of `gone` is removed once; an InputError if one is missing."""
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
    return keep


def _together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Sources of both, as `concatenate` of data sets joins them."""
    parts = [
        part
        for source in (one, other)
        for part in (source["parts"] if source.get("parts") and not source.get("draws") else [source])
    ]
    name = " + ".join(str(part.get("name", "")) for part in parts)
    return {"name": name, "parts": parts, "baseline": one.get("baseline", "")}
