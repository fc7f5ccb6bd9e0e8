"""Rows of all labels as an operator: products with weights and with residuals, and no matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ..kernels import Sums, sums_in_pairs
from ..linear.compensated import Accumulation, accumulation_and_reason
from ..linear.preconditioner import Parted
from ..machine.row_sums import add_rows
from ..model.basis import ReadyBasis
from ..model.recipe import Recipe
from .environments import Environments, all_environments
from .problem import Problem
from .rows import row_factors


@dataclass(frozen=True)
class MatrixFreeRows:
    """Rows of energies, forces and virials, each times its factor, in the order of `kinds`.

    Z w is a prediction: per-atom energies and slopes, then tangents · slopes.
    Zᵀ v is a directional derivative: tangents added up with the residuals, then one moment of the features.
    Memory: environments and tangents, but no (rows, weights) array. Environments, tangents and angles are in the
    precision of the basis and the same numbers each time; all products and sums with them are float64, or pairs of
    float32 if `sums` are such.
    """

    basis: ReadyBasis
    at: Environments
    kinds: tuple[str, ...]
    factor: Tensor  # (rows,) weight of each row, 0 where its label is not known
    sums: Sums  # functions that multiply and add up

    @property
    def n_columns(self) -> int:
        return self.basis.n_weights

    @cached_property
    def _atoms_by_element(self) -> list[Tensor]:
        return [(self.at.element == e).nonzero()[:, 0] for e in range(len(self.basis.maps))]

    @cached_property
    def _rho_by_element(self) -> list[Tensor]:
        return [self.at.rho[atoms].contiguous() for atoms in self._atoms_by_element]

    def times(self, weights: Tensor) -> Tensor:
        """Z w, (rows,)."""
        at, basis = self.at, self.basis
        energy = torch.zeros(len(at.rho), dtype=torch.float64, device=basis.device)
        slope = torch.zeros_like(at.rho, dtype=torch.float64)
        for e, (atoms, rho) in enumerate(zip(self._atoms_by_element, self._rho_by_element, strict=True)):
            energy[atoms], slope[atoms] = self.sums.energy_and_slope(basis.maps[e], rho, weights[basis.columns(e)])
        parts = []
        for kind in self.kinds:
            if kind == "energies":
                total = torch.zeros(at.n_structures, dtype=torch.float64, device=basis.device)
                parts.append(add_rows(total, at.structure, energy))
            else:
                moving = at.tangents[kind]
                products = self.sums.tangent_products(moving.vector, moving.owner, slope)
                total = torch.zeros(moving.n_rows, dtype=torch.float64, device=basis.device)
                parts.append(add_rows(total, moving.row, products))
        return torch.cat(parts) * self.factor

    def transposed_times(self, residual: Tensor) -> Tensor:
        """Zᵀ v, (weights,)."""
        at, basis = self.at, self.basis
        parts = dict(zip(self.kinds, (residual * self.factor).split(self._rows_of_kinds), strict=True))
        coefficients = parts["energies"][at.structure] if "energies" in parts else None
        moves = torch.zeros_like(at.rho, dtype=torch.float64) if at.tangents else None
        for kind, moving in at.tangents.items():
            assert moves is not None
            by = parts[kind][moving.row]
            moves += self.sums.tangent_sums(moving.vector, moving.owner, by, len(at.rho), torch.float64)
        out = torch.zeros(self.n_columns, dtype=torch.float64, device=basis.device)
        for e, (atoms, rho) in enumerate(zip(self._atoms_by_element, self._rho_by_element, strict=True)):
            out[basis.columns(e)] += self.sums.feature_moment(
                basis.maps[e],
                rho,
                None if coefficients is None else coefficients[atoms].contiguous(),
                None if moves is None else moves[atoms].contiguous(),
            )
        return out

    @property
    def _rows_of_kinds(self) -> list[int]:
        return [self.at.n_structures if k == "energies" else self.at.tangents[k].n_rows for k in self.kinds]

    def parted(self, n_small: int) -> Parted:
        """These rows in two parts: the first `n_small` features of each map (the small model), and the rest."""
        n, paired = self.basis.maps[0].n_features, self.basis.maps[0].paired

        def joined(small: Tensor, rest: Tensor) -> Tensor:
            halves = [
                part.view(-1, 1 + paired, size // (1 + paired))
                for part, size in ((small, n_small), (rest, n - n_small))
            ]
            return torch.cat(halves, -1).flatten()

        rest = self._with_part(n_small, n) if n_small < n else None
        return Parted(self._with_part(0, n_small), rest, n_small / n, joined)

    def _with_part(self, first: int, last: int) -> MatrixFreeRows:
        part = replace(self, basis=self.basis.part(first, last))
        # environments do not depend on the features: share what was gathered
        part.__dict__.update(_atoms_by_element=self._atoms_by_element, _rho_by_element=self._rho_by_element)
        return part


def summation(recipe: Recipe, device: torch.device | str) -> tuple[Accumulation, str]:
    """Sums of an iteration on a device: "float64", or "compensated" in pairs of float32; and the reason in words."""
    how, reason = accumulation_and_reason(device, recipe.solver.accumulation)
    if how == "compensated" and not recipe.pairs_serve:
        return "float64", f"{reason}, but pairs of float32 need precision float32 and the features sorf"
    return how, reason


def matrix_free(basis: ReadyBasis, problem: Problem, recipe: Recipe) -> tuple[MatrixFreeRows, Tensor]:
    """Rows of all labels as an operator, and their targets with the same factors, (rows,)."""
    factors, values = [], []
    for kind, target in problem.targets.items():
        y = target.flatten()
        factor = row_factors(kind, y, problem.structures.counts, recipe)
        known = y.isfinite()
        factors.append(torch.where(known, factor, 0.0))
        values.append(torch.where(known, y * factor, 0.0))
    at = all_environments(basis, problem.structures, problem.targets)
    how, _ = summation(recipe, basis.device)
    sums = sums_in_pairs(basis.kernels) if how == "compensated" else basis.kernels
    rows = MatrixFreeRows(basis, at, tuple(problem.targets), torch.cat(factors).to(basis.device), sums)
    return rows, torch.cat(values).to(basis.device)
