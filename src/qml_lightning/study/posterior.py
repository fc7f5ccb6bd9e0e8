"""The exact posterior of a model from its equations, with all features and without a committee."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..atoms.neighbours import element_indices
from ..atoms.structures import Structures, batches
from ..errors import InputError
from ..linear.cholesky import first_factorised, substituted
from ..linear.posterior import variances
from ..machine.compute import Compute
from ..training.environments import environments
from ..training.equations import Equations
from ..training.rows import rows_of_kind

# Atoms of structures whose rows are in memory at once.
ATOMS_AT_ONCE = 256


@dataclass(frozen=True)
class ExactUncertainty:
    """Standard deviations of errors, with the noise of the labels."""

    energies: Tensor  # (structures,) eV
    forces: Tensor  # (atoms, 3) eV/Å
    noise: float  # of a row with weight 1


def exact_uncertainty(
    equations: Equations, structures: Structures, ridge: float | None = None, compute: Compute | None = None
) -> ExactUncertainty:
    """Uncertainties of energies and forces by the posterior of the equations, as they are in memory or in a file.

    With weighted rows Z the covariance of the weights is s² (ZᵀZ + ridge)⁻¹. The variance of the noise s² is the
    likeliest one, (|Z w − y|² + ridge |w|²) / rows. The factor takes the memory and time of a direct fit; the equations
    stay as they are. `ridge`: by default that of the recipe.
    """
    recipe, basis = equations.recipe, equations.basis.ready(compute or Compute())
    ridge = recipe.ridge if ridge is None else ridge
    if not ridge > 0:
        raise InputError(f"A posterior needs a positive ridge, got {ridge:g}.")
    element_indices(structures.numbers, basis.elements)
    terms = equations.terms(recipe, equations.baseline())
    n = equations.n_weights
    matrix = torch.zeros(n, n, dtype=torch.float64, device=terms[0].part.home)
    right = torch.zeros(n, dtype=torch.float64, device=matrix.device)
    for term in terms:
        term.part.add_to_gram(matrix, term.weight**2)
        right += term.weight**2 * term.vector(term.part.moments()).to(right)
    first_factorised(matrix, matrix.diagonal().clone(), [ridge])
    weights = substituted(matrix, right)
    squares = sum(term.weight**2 * term.squared_error(weights) for term in terms) + ridge * float(weights @ weights)
    noise = (squares / sum(term.part.n for term in terms)) ** 0.5
    found: dict[str, list[Tensor]] = {"energies": [], "forces": []}
    for index in batches(structures.counts, ATOMS_AT_ONCE):
        at = environments(basis, structures.select(index), dict.fromkeys(found))
        for kind, parts in found.items():
            parts.append(variances(matrix, rows_of_kind(basis, at, kind).to(matrix)).cpu())
    counts = structures.counts.double() ** (2 * recipe.size_exponent)
    of_energies = torch.cat(found["energies"]) + counts / recipe.weight_of("energies") ** 2
    of_forces = torch.cat(found["forces"]) + recipe.weight_of("forces") ** -2
    return ExactUncertainty(noise * of_energies.sqrt(), noise * of_forces.view(-1, 3).sqrt(), noise)
