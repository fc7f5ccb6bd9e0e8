"""The committee of a fit: drawn from the posterior of its first features, and calibrated on rows that were left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..linear.direct import Term, dual_rows
from ..linear.normal_equations import Rows
from ..linear.posterior import (
    POWERS,
    Calibration,
    calibrated,
    drawn,
    left_out_members,
    left_out_residuals,
    part_of_factor,
)
from ..linear.preconditioner import trusted_factor
from ..linear.ridge import left_out
from ..linear.solution import Solution
from ..model.basis import Basis, ReadyBasis
from ..model.committee import FORCE_MEMBERS, Committee, committee_columns, committee_features
from ..model.recipe import Recipe
from .outputs import FEWEST_STRUCTURES
from .problem import Problem
from .rows import Pass, write_rows

# Rows that are left out to calibrate a direct fit, as a part of all: their cost is about as small a part of the fit.
CALIBRATION_PART = 0.2
# Small fits leave out so many structures if they have them: the part of energies within one standard deviation is then
# known to 3 points.
CALIBRATION_STRUCTURES = 200
MOST_CALIBRATION_ROWS = 20_000
# Forces of an element have a calibration of their own if it has so many components. Ethanol and aspirin, 300 and 200
# structures: with one for all elements, one deviation holds 76 and 84 % of the errors of H, 59 and 61 % of those of C.
FEWEST_COMPONENTS = 300


def draw_committee(gram: Tensor, least: float, n: int, n_features: int, seed: int) -> tuple[Committee, Tensor]:
    """A committee that is not calibrated yet, and the factor of its posterior. `gram` is overwritten.

    The ridge of the posterior is the one that the preconditioner of an iteration would have.
    """
    factor, _ = trusted_factor(gram, least)
    return Committee(drawn(factor, n, seed).cpu(), n_features, min(n, FORCE_MEMBERS)), factor


def committee_of_direct(
    n: int, basis: ReadyBasis, problem: Problem, recipe: Recipe, solution: Solution, terms: list[Term]
) -> Committee:
    """Committee of a direct solution, calibrated by leaving out structures: that takes no further factorisation."""
    assert solution.factor is not None
    n_all, factor = basis.maps[0].n_features, solution.factor
    n_few = committee_features(n_all, recipe.rank)
    columns = committee_columns(n_few, n_all, basis.n_weights, basis.maps[0].paired).to(factor.device)
    more = n_all / n_few  # squared amplitude of a map with fewer features
    committee, small = draw_committee(more * _gram(solution, terms, columns), recipe.ridge, n, n_few, recipe.seed)
    index = _calibrating(problem, recipe.seed)
    part = problem.select(index)
    rows, targets = (one.to(factor.device) for one in _rows_of(basis, part, recipe))
    groups = _groups(part)
    members = left_out_members(small, more**0.5 * rows[:, columns], committee.deviations.to(small), groups)
    if solution.dual is None:
        errors = left_out_residuals(factor, rows, targets - rows @ solution.weights, groups)
    else:
        of_rows = problem.structure_of_rows
        numbers = [(of_rows == s).nonzero()[:, 0] for s in index.tolist()]
        errors = torch.empty_like(targets)
        errors[torch.cat(groups).to(errors.device)] = left_out(factor, solution.dual, numbers)
    return _with_calibrations(committee, part, recipe, errors, members)


def committee_again(
    earlier: Committee, basis: Basis, recipe: Recipe, solution: Solution, terms: list[Term]
) -> Committee:
    """Committee of another direct solution in the same basis, with the calibration of the earlier one.

    The structures that calibrated it are not stored, but its calibration still holds: the unit of the variance is that
    of the noise. The random numbers are the same, so that members change only as far as the data have changed.
    """
    assert solution.factor is not None
    n_all, n_few = basis.maps[0].n_features, earlier.n_features
    columns = committee_columns(n_few, n_all, basis.n_weights, basis.maps[0].paired).to(solution.factor.device)
    gram = n_all / n_few * _gram(solution, terms, columns)
    made, _ = draw_committee(gram, solution.ridge, len(earlier), n_few, recipe.seed)
    return replace(earlier, deviations=made.deviations)


def _gram(solution: Solution, terms: list[Term], columns: Tensor) -> Tensor:
    """Gram matrix of some columns, from the factor of a solution (with its ridge) or from the rows of a dual one."""
    assert solution.factor is not None
    rows = None if solution.dual is None else dual_rows([term.part for term in terms])
    if rows is None:
        return part_of_factor(solution.factor, columns)
    some = [term.weight * part.filled()[0][:, columns] for term, part in zip(terms, rows, strict=True)]
    return torch.stack([z.T @ z for z in some]).sum(0)


def committee_of_iteration(
    n: int, factor: Tensor, n_small: int, basis: ReadyBasis, recipe: Recipe, held: Problem, errors: Tensor
) -> Committee:
    """Committee from the small model that preconditions an iteration, calibrated by the errors of held-out rows.

    `factor`: that of the small model with `n_small` features of each map.
    """
    small = basis.part(0, n_small)
    n_few = min(n_small, committee_features(basis.maps[0].n_features, recipe.rank))
    columns = committee_columns(n_few, n_small, small.n_weights, small.maps[0].paired).to(factor.device)
    gram = n_small / n_few * part_of_factor(factor, columns)
    committee, _ = draw_committee(gram, recipe.ridge, n, n_few, recipe.seed)
    rows, _ = _rows_of(basis.part(0, n_few), held, recipe)
    return _with_calibrations(committee, held, recipe, errors, rows @ committee.deviations.to(rows).T)


def _rows_of(basis: ReadyBasis, problem: Problem, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Weighted rows of all labels, kind after kind, with their targets."""
    places: Mapping[str, Rows] = {kind: Rows(basis.n_weights, n, basis.device) for kind, n in problem.rows.items()}
    for _ in write_rows(basis, problem, recipe, places.__getitem__, Pass(weighted=True)):
        pass
    filled = [place.filled() for place in places.values()]
    return torch.cat([rows for rows, _ in filled]), torch.cat([targets[:, 0] for _, targets in filled])


def _calibrating(problem: Problem, seed: int) -> Tensor:
    """Structures to calibrate with, ascending."""
    n, of_rows = len(problem.structures), problem.structure_of_rows
    rows = torch.bincount(of_rows, minlength=n)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(n))
    part = min(1.0, max(CALIBRATION_PART, CALIBRATION_STRUCTURES / n))
    most = min(part * len(of_rows), MOST_CALIBRATION_ROWS)
    few = max(FEWEST_STRUCTURES, int((rows[order].cumsum(0) <= most).sum()))
    return order[:few].sort().values


def _groups(problem: Problem) -> list[Tensor]:
    """Row numbers of each structure."""
    of_rows = problem.structure_of_rows
    return [(of_rows == s).nonzero()[:, 0] for s in range(len(problem.structures))]


def _with_calibrations(
    committee: Committee, problem: Problem, recipe: Recipe, errors: Tensor, members: Tensor
) -> Committee:
    """The committee with a calibration of each kind of label, from errors and members' deviations on weighted rows."""
    found: dict[str, Calibration] = {}
    of_elements: dict[int, Calibration] = {}
    parts = list(problem.rows.values())
    for kind, error, told in zip(problem.rows, errors.split(parts), members.split(parts), strict=True):
        weight, variance = recipe.weight_of(kind), told.square().mean(1)
        powers: Sequence[float] = (1.0,)
        if kind == "forces":
            # one variance for the three components of a force, and few members: as a prediction has it
            whole = len(error) - len(error) % 3
            of_atoms = told[:whole, : committee.force_members].square().reshape(-1, 3 * committee.force_members).mean(1)
            error, variance = error[:whole], of_atoms.repeat_interleave(3)
            powers = POWERS if "energies" in found else powers  # else their scale serves energies too
        if kind in ("energies", "forces") and len(error):
            error, variance = error.cpu() / weight, variance.cpu() / weight**2
            found[kind] = calibrated(error, variance, powers)
        if kind == "forces":
            known = problem.targets[kind].isfinite().flatten()
            numbers = problem.structures.numbers.repeat_interleave(3)[known][: len(error)]
            of_elements = {
                z: calibrated(error[numbers == z], variance[numbers == z], powers)
                for z, n in zip(*(one.tolist() for one in numbers.unique(return_counts=True)), strict=True)
                if FEWEST_COMPONENTS <= n < len(numbers)
            }
    if "energies" not in found:  # no energies were learnt: forces say how far the posterior is off
        found["energies"] = Calibration(found["forces"].scale, 0.0)
    if "forces" not in found:
        found["forces"] = Calibration(found["energies"].scale, 0.0)
    return replace(committee, size_exponent=recipe.size_exponent, calibrations=found, of_elements=of_elements)
