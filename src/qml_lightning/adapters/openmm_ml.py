"""OpenMM-ML: the potential "qml-lightning", for a whole system or a part of it (ML/MM).

MLPotential("qml-lightning").createSystem(topology, model="ethanol.safetensors")
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from openmmml.mlpotential import MLPotentialImpl

from .openmm import openmm_force


class QMLLightningPotential(MLPotentialImpl):  # type: ignore[misc]
    """Potential of OpenMM-ML; its options are `model`, a path or a potential, and `precision`."""

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
