"""Infrared spectra: frequencies from the second derivatives of a potential, intensities from those of a dipole."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from ase import units

from ..errors import InputError
from ..model.potential import Potential
from ..model.properties import PropertyModel
from .vibrations import hessian

if TYPE_CHECKING:
    from ase import Atoms

DipoleUnit = Literal["e Å", "Debye"]
IN_E_ANGSTROM: dict[DipoleUnit, float] = {"e Å": 1.0, "Debye": units.Debye}
# Integrated intensity π N_A |∂μ/∂Q|² / (3 c² 4 π ε₀) for a derivative of 1 e/√u, in km/mol.
_DERIVATIVE = units._e / math.sqrt(units._amu)  # C/√kg
KM_PER_MOL = units._Nav * _DERIVATIVE**2 / (12 * units._eps0 * units._c**2) / 1000.0
# A direction with a smaller part of the length of the longest one is no rotation: the molecule is linear.
LINEAR = 1e-6


@dataclass(frozen=True)
class Infrared:
    """Vibrations of a molecule, without its translations and rotations."""

    frequencies: np.ndarray  # (modes,) cm⁻¹, ascending; an imaginary one (a direction downhill) is negative
    intensities: np.ndarray  # (modes,) km/mol
    modes: np.ndarray  # (modes, atoms, 3) displacements of length one after multiplication by √mass


def infrared(
    potential: Potential, dipoles: PropertyModel, atoms: Atoms, *, name: str | None = None, unit: DipoleUnit = "e Å"
) -> Infrared:
    """Frequencies and intensities of the vibrations of a molecule in the harmonic approximation.

    `atoms` should be relaxed with `potential` first. `dipoles`: a model with a dipole, of that `name` if it has
    several properties, in that `unit`. With mass-weighted normal coordinates Q an intensity is
    N_A |∂μ/∂Q|² / (12 ε₀ c²).
    """
    if unit not in IN_E_ANGSTROM:
        raise InputError(f"The unit of a dipole is {' or '.join(IN_E_ANGSTROM)}, got {unit!r}.")
    mass = np.repeat(atoms.get_masses(), 3)  # type: ignore[no-untyped-call]
    inner = _inner_directions(atoms.positions, mass)
    weighted = hessian(potential, atoms) / np.sqrt(mass[:, None] * mass)
    values, vectors = np.linalg.eigh(inner.T @ weighted @ inner)
    modes = (inner @ vectors).T
    # eV/Å²/u → cm⁻¹
    energy = units._hbar * 1e10 / math.sqrt(units._e * units._amu)
    frequencies = np.sign(values) * np.sqrt(np.abs(values)) * energy / units.invcm
    derivatives = dipoles.dipole_derivatives(atoms, name).numpy().reshape(3, -1) * IN_E_ANGSTROM[unit]
    along = (derivatives / np.sqrt(mass)) @ modes.T
    return Infrared(frequencies, KM_PER_MOL * (along**2).sum(0), modes.reshape(len(modes), -1, 3))


def _inner_directions(positions: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Orthonormal mass-weighted directions that neither move nor turn the molecule, (3 · atoms, vibrations)."""
    root = np.sqrt(mass)
    centre = (positions * mass.reshape(-1, 3)).sum(0) / mass[::3].sum()
    moves = np.tile(np.eye(3), (len(positions), 1))
    turns = np.stack([np.cross(axis, positions - centre).ravel() for axis in np.eye(3)], 1)
    outer = root[:, None] * np.concatenate([moves, turns], 1)
    left, lengths, _ = np.linalg.svd(outer, full_matrices=True)
    return left[:, int((lengths > LINEAR * lengths[0]).sum()) :]
