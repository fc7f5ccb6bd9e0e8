"""Surroundings of the atoms of a batch: values of learnt functions there, and their gradients by the pair vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..machine.transfers import sent
from .basis import ReadyBasis
from .projection import atoms_of_elements, lift, project

# Values of projected environments of an element, (n,) float64, and their gradients, (n, rank).
LocalModel = Callable[[int, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Surroundings:
    """Projected environments of a batch on the device of a basis, with the pairs that they came from."""

    basis: ReadyBasis
    atoms: list[Tensor]  # those of each element
    pairs: tuple[int, Tensor, Tensor]  # atoms, segments and vectors as the kernels take them
    rho: Tensor  # (atoms, rank)
    of_elements: list[Tensor]  # the rows of `rho` of each element

    @classmethod
    def of(cls, basis: ReadyBasis, element: Tensor, segments: Tensor, vectors: Tensor) -> Surroundings:
        """Surroundings of atoms of these elements, from their pairs; everything goes to the device here."""
        atoms = atoms_of_elements(element, len(basis.elements), basis.device)
        pairs = len(element), sent(segments, basis.device), basis.like(vectors)
        rho = project(basis.projections, basis.kernels.environments(basis.arguments, *pairs), atoms)
        return cls(basis, atoms, pairs, rho, [rho[at].contiguous() for at in atoms])

    def values(self, local: LocalModel) -> tuple[Tensor, Tensor]:
        """Value of the function at each atom, (atoms,) float64, and its slope by the environment, (atoms, rank)."""
        value = torch.zeros(len(self.rho), dtype=torch.float64, device=self.basis.device)
        slope = torch.zeros_like(self.rho)
        for e, at in enumerate(self.atoms):
            value[at], slope[at] = local(e, self.of_elements[e])
        return value, slope

    def pulled_back(self, slope: Tensor) -> Tensor:
        """Gradient by the pair vectors of a sum over atoms with these slopes, (pairs, 3) float64."""
        lifted = lift(self.basis.projections, slope, self.atoms)
        found: Tensor = self.basis.kernels.environments_pullback(self.basis.arguments, *self.pairs, lifted)
        return found.double()
