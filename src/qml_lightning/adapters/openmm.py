"""OpenMM: a `PythonForce`, and the potential "qml-lightning" of OpenMM-ML, also for part of a system (ML/MM).

MLPotential("qml-lightning").createSystem(topology, model="ethanol.safetensors")
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        from openmmml.mlpotential import MLPotentialImpl

        return type("QMLLightning", (QMLLightningPotential, MLPotentialImpl), {})(name)


class QMLLightningPotential:
    """Forces of the potential of OpenMM-ML; its options are `model`, a path or a potential, and `precision`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def addForces(
        self, topology: Any, system: Any, atoms: Iterable[int] | None, forceGroup: int, **options: Any
    ) -> None:
        """Add the force of a model on all atoms of a topology, or on some of them."""
        every = list(topology.atoms())
        chosen = None if atoms is None else list(atoms)
        numbers = [every[i].element.atomic_number for i in (range(len(every)) if chosen is None else chosen)]
        force = openmm_force(
            options["model"],
            numbers,
            periodic=topology.getPeriodicBoxVectors() is not None,
            particles=chosen,
            precision=options.get("precision"),
        )
        force.setForceGroup(forceGroup)
        system.addForce(force)
