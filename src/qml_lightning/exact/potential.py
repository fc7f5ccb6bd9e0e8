"""Potential with explicit kernels: a sum over the environments of its training set."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..kernels import kernels_for
from ..machine.compute import Compute
from ..model.baseline import Baseline
from ..model.basis import ReadyBasis
from ..model.batch_environments import LocalModel
from ..model.potential import Model
from ..model.projection import Projection
from ..model.provenance import Provenance
from ..model.recipe import Precision, dtype_of
from .covariance import energy_and_slope
from .recipe import ExactRecipe


@dataclass(frozen=True, repr=False)
class ExactPotential(Model):
    """Potential with E_i = Σ_j k(x_i, y_j) (w_j + v_j·(x_i − y_j)), over training environments y_j of atom i's element.

    Environments are projected, and in units of sigma.
    """

    elements: tuple[int, ...]
    recipe: ExactRecipe
    projection: Projection
    element: Tensor  # (environments,) index of the element, ascending
    environments: Tensor  # (environments, columns) float64
    weights: Tensor  # (environments,) w
    directions: Tensor | None  # (environments, columns) v; None: OQML, or GPR of energies alone
    baseline: Baseline
    provenance: Provenance = field(default_factory=Provenance)
    trained_on: Tensor | None = None  # (structures,) int64, `geometry_fingerprints` of the training structures

    def _method(self) -> dict[str, str]:
        recipe = self.recipe
        limit = {"threshold": recipe.threshold} if recipe.method == "oqml" else {"ridge": recipe.ridge}
        return {
            "method": f"{recipe.method.upper()}, Gaussian kernel, σ = {recipe.sigma:g}",
            "representation": recipe.representation.describe(),
            **{name: f"{value:g}" for name, value in limit.items()},
        }

    def _ready_basis(self, compute: Compute, precision: Precision | None) -> ReadyBasis:
        return exact_basis(self.elements, self.recipe, self.projection, compute, dtype_of(precision or "float64"))

    def _local(self, basis: ReadyBasis) -> LocalModel:
        own = [self._of_element(e, basis) for e in range(len(self.elements))]

        def local(e: int, x: Tensor) -> tuple[Tensor, Tensor]:
            centre, environments, weights, directions = own[e]
            return energy_and_slope(x - centre, environments, weights, directions)

        return local

    def _of_element(self, e: int, basis: ReadyBasis) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Mean environment, environments minus it (small numbers, small rounding), weights and directions."""
        here = self.element == e
        y = self.environments[here]
        centre = y.mean(0)
        return (
            basis.like(centre),
            basis.like(y - centre),
            basis.like(self.weights[here]),
            None if self.directions is None else basis.like(self.directions[here]),
        )


def exact_basis(
    elements: tuple[int, ...],
    recipe: ExactRecipe,
    projection: Projection,
    compute: Compute,
    dtype: torch.dtype = torch.float64,
) -> ReadyBasis:
    """Representation and axes on a device, with lengths in units of sigma and without feature maps."""
    return ReadyBasis(
        kernels_for(compute.device, dtype, compute.kernels, recipe.representation.kind),
        elements,
        recipe.arguments(len(elements)).to(compute.device, dtype),
        (projection.matrices / recipe.sigma).to(compute.device, dtype),
        (),
        False,
    )


def whole_representation(n_elements: int, recipe: ExactRecipe) -> Projection:
    """Unit matrices as axes, which leave the representation as it is."""
    size = recipe.arguments(n_elements).size
    return Projection(
        torch.eye(size, dtype=torch.float64).repeat(n_elements, 1, 1), torch.ones(n_elements, dtype=torch.float64)
    )
