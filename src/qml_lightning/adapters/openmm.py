"""OpenMM: a `PythonForce`, and the maker of the potential "qml-lightning" of OpenMM-ML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openmm
from ase.units import kJ, mol
from openmm import unit

from ..model.potential import Model
from ..model.recipe import Precision
from .engine import MovingAtoms

EV = mol / kJ  # kJ/mol in 1 eV
NANOMETRE = 10.0  # Å


class Computation:
    """Function of a state of OpenMM, as `PythonForce` calls it."""

    def __init__(self, engine: MovingAtoms, particles: Sequence[int] | None) -> None:
        self.engine = engine
        self.particles = None if particles is None else np.array(list(particles))

    def __call__(self, state: Any) -> tuple[float, np.ndarray]:
        """Energy in kJ/mol and forces in kJ/mol/nm of all particles that the force was given."""
        positions = state.getPositions(asNumpy=True).value_in_unit(unit.angstrom)
        cell = None
        if bool(self.engine.periodic.any()):
            cell = state.getPeriodicBoxVectors(asNumpy=True).value_in_unit(unit.angstrom)
        found = self.engine.evaluate(positions, cell)
        return found.energy * EV, found.forces * (EV * NANOMETRE)


def openmm_force(
    model: str | Path | Model,
    numbers: Sequence[int],
    *,
    periodic: bool = False,
    particles: Sequence[int] | None = None,
    precision: Precision | None = None,
) -> openmm.PythonForce:
    """Force of a model on the atoms with these atomic numbers, which are all of a system or its `particles`."""
    engine = MovingAtoms(model, numbers, periodic, precision=precision)
    force = openmm.PythonForce(Computation(engine, particles))
    force.setUsesPeriodicBoundaryConditions(periodic)
    if particles is not None:
        force.setParticles(list(particles))
    return force


class QMLLightningFactory:
    """Maker of the potential, which OpenMM-ML finds through the entry point `openmmml.potentials`."""

    def createImpl(self, name: str, **arguments: Any) -> Any:
        # OpenMM-ML loads this module while it is imported itself: so nothing of it is imported above
        from .openmm_ml import QMLLightningPotential

        return QMLLightningPotential(name)
