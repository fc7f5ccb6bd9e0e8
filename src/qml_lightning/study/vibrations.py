"""Second derivatives of the energy and vibrational frequencies, by differentiating the reference kernels twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..atoms.neighbours import element_indices, pairs_within
from ..atoms.structures import structures_from_ase
from ..errors import InputError
from ..machine.compute import Compute
from ..model.potential import Potential
from ..model.projection import atoms_of_elements, project

if TYPE_CHECKING:
    from ase import Atoms


def hessian(potential: Potential, atoms: Atoms) -> np.ndarray:
    """Second derivatives of the energy by the positions, (3 · atoms, 3 · atoms) in eV/Å², in float64.

    Every row is one pass backward through the reference kernels.
    """
    structures = structures_from_ase(atoms)
    basis = potential._ready_basis(Compute("cpu", "reference"), "float64")
    pairs = pairs_within(structures, basis.arguments.cutoff, basis.elements)
    element = element_indices(structures.numbers, basis.elements)
    if potential.repulsion is not None:
        beyond = potential.repulsion.beyond(element, pairs.centre, pairs.neighbour, pairs.vector)
        if any(one is not None for one in beyond):
            raise InputError(
                "Atoms are at distances that none have in the training data. Their repulsion has no second "
                "derivatives here: relax the structure first."
            )
    of_elements = atoms_of_elements(element, len(basis.elements), basis.device)
    weights = potential.weights

    def energy(moved: Tensor) -> Tensor:
        vectors = pairs.vector + moved[pairs.neighbour] - moved[pairs.centre]
        values = basis.kernels.environments(basis.arguments, structures.n_atoms, pairs.segments, vectors)
        rho = project(basis.projections, values, of_elements)
        parts = [
            basis.kernels.energy_and_slope(basis.maps[e], rho[at], weights[basis.columns(e)])[0].sum()
            for e, at in enumerate(of_elements)
        ]
        return torch.stack(parts).sum()

    found = torch.autograd.functional.hessian(energy, torch.zeros_like(structures.positions))  # type: ignore[no-untyped-call]
    matrix: np.ndarray = found.reshape(3 * structures.n_atoms, -1).numpy()
    both: np.ndarray = 0.5 * (matrix + matrix.T)
    return both


def frequencies(potential: Potential, atoms: Atoms) -> np.ndarray:
    """Vibrational frequencies in cm⁻¹, ascending; an imaginary one (a direction downhill) is told as negative."""
    from ase.vibrations import VibrationsData

    found = VibrationsData.from_2d(atoms, hessian(potential, atoms)).get_frequencies()
    told: np.ndarray = np.sort(found.real - found.imag)
    return told
