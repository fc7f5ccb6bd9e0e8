"""Replicas of a system: many copies with velocities and random numbers of their own, moved by one call in each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.md.bussi import Bussi
from ase.stress import full_3x3_to_voigt_6_stress

from ..adapters.ase import QMLLightning
from ..atoms.structures import Structures, offsets_from_counts
from ..errors import InputError

if TYPE_CHECKING:
    from numpy.random import Generator


def side_by_side(atoms: Atoms, count: int) -> Atoms:
    """Atoms of `count` copies, one copy after the other. To the `ReplicaCalculator` copies do not see each other."""
    if atoms.constraints:
        raise InputError("Replicas have no constraints. Take them from the structure, or run one trajectory.")
    whole = {name: np.concatenate([values] * count) for name, values in (
        ("numbers", atoms.numbers), ("positions", atoms.positions), ("momenta", atoms.get_momenta()),
        ("masses", atoms.get_masses()))}  # fmt: skip
    return Atoms(**whole, cell=atoms.cell, pbc=atoms.pbc)


class ReplicaCalculator(QMLLightning):
    """Calculator of `side_by_side` atoms: the sum of the energies of all copies, and the forces in each."""

    def __init__(self, model: Any, count: int, **options: Any) -> None:
        super().__init__(model, **options)
        self.count = count

    def results_for(self, atoms: Atoms, properties: Sequence[str]) -> dict[str, Any]:
        """Energy, forces, and `of_replicas`: energy, forces and stress of each of them."""
        n = len(atoms) // self.count
        structures = Structures(
            torch.from_numpy(atoms.numbers.astype(np.int64)),
            torch.from_numpy(atoms.positions.copy()),
            offsets_from_counts(torch.full((self.count,), n)),
            torch.from_numpy(atoms.cell.array.copy()).expand(self.count, 3, 3).contiguous(),
            torch.from_numpy(atoms.pbc.copy()).expand(self.count, 3).contiguous(),
        )
        found = self.predictor.predict(structures, forces=True, stress=structures.has_volume)
        assert found.forces is not None
        energies, forces = found.energies.numpy(), found.forces.numpy()
        parts: list[dict[str, Any]] = [
            {"energy": float(energies[k]), "forces": forces[k * n : (k + 1) * n]} for k in range(self.count)
        ]
        if found.stress is not None:
            for part, stress in zip(parts, found.stress.numpy(), strict=True):
                part["stress"] = full_3x3_to_voigt_6_stress(stress)
        return {"energy": float(energies.sum()), "forces": forces, "of_replicas": parts}


def apart(atoms: Atoms, count: int) -> list[Atoms]:
    """Each replica with its energy, forces and stress; `atoms` themselves if there is one."""
    if count == 1:
        return [atoms]
    atoms.get_forces()  # from the last step, unless the atoms have been moved since
    n, out = len(atoms) // count, []
    for k, results in enumerate(atoms.calc.results["of_replicas"]):
        one = atoms[k * n : (k + 1) * n]
        one.calc = SinglePointCalculator(one, **results)  # type: ignore[no-untyped-call]
        out.append(one)
    return out


class Draws:
    """Random generators of the replicas in place of one for all atoms: Langevin asks it for (atoms, 3) numbers."""

    def __init__(self, generators: Sequence[Generator]) -> None:
        self.generators = generators

    def standard_normal(self, size: tuple[int, int]) -> np.ndarray:
        of_one = (size[0] // len(self.generators), size[1])
        return np.concatenate([one.standard_normal(of_one) for one in self.generators])


class BussiOfReplicas(Bussi):  # type: ignore[misc]  # ASE has no types
    """The thermostat of Bussi, Donadio and Parrinello for each replica by itself."""

    def __init__(
        self, atoms: Atoms, timestep: float, temperature: float, relaxation: float, generators: Sequence[Generator]
    ) -> None:
        super().__init__(atoms, timestep, temperature, relaxation)  # type: ignore[no-untyped-call]
        self.generators = generators
        self.ndof //= len(generators)
        self.target_kinetic_energy /= len(generators)

    def scale_velocities(self) -> None:
        count = len(self.generators)
        momenta = self.atoms.get_momenta().reshape(count, -1, 3)
        kinetic = (momenta**2 / self._masses.reshape(count, -1, 1)).sum((1, 2)) / 2
        for k, generator in enumerate(self.generators):
            self.rng: Any = generator
            momenta[k] *= self.calculate_alpha(kinetic[k])  # type: ignore[no-untyped-call]
        self.atoms.set_momenta(momenta.reshape(-1, 3))
