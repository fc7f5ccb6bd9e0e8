"""The ASE calculator of a trained potential, for optimisers, vibrations and molecular dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from ase.calculators import calculator
from ase.calculators.calculator import Calculator, PropertyNotImplementedError, all_changes
from ase.stress import full_3x3_to_voigt_6_stress

from ..atoms.structures import structures_from_ase
from ..errors import InputError
from ..machine.shared_lock import Turn
from ..model.committee import NO_COMMITTEE
from ..model.potential import Model
from ..model.recipe import Precision
from .engine import whole_potential

if TYPE_CHECKING:
    from ase import Atoms

NAME = "qml-lightning"
# Results of a calculator with uncertainties.
UNCERTAINTIES = ("energy_uncertainty", "energies_uncertainty", "forces_uncertainty")


class QMLLightning(Calculator):  # type: ignore[misc]  # ASE has no types
    """ASE calculator of a potential: energies (eV), forces (eV/Å), stress (eV/Å³, Voigt order, tension positive).

    atoms.calc = QMLLightning("ethanol.safetensors")

    The neighbour list has a skin (Å) around the cutoff. It is used again until an atom has moved by half of the skin or
    the cell has changed; `lists_made` counts the lists. With a skin of 0 every step makes a new list.

    With `uncertainty` the results also hold standard deviations: energy_uncertainty (eV), and of each atom
    energies_uncertainty (eV) and, with forces, forces_uncertainty (eV/Å, of one component). That needs a committee.

    A model that corrects another method is refused, unless `correction` says that its part alone is wanted.
    """

    implemented_properties: list[str] = ["energy", "free_energy", "energies", "forces", "stress"]  # noqa: RUF012 (as ASE declares it)
    # the potential does not depend on charges and magnetic moments
    ignored_changes: set[str] = {"initial_charges", "initial_magmoms"}  # noqa: RUF012
    name = NAME

    def __init__(
        self,
        model: str | Path | Model,
        *,
        device: torch.device | str = "cpu",
        precision: Precision | None = None,
        kernels: str | None = None,
        skin: float = 0.5,
        uncertainty: bool = False,
        correction: bool = False,
    ) -> None:
        potential = whole_potential(model, correction=correction)
        self.predictor = potential.on(device, precision, kernels, skin=skin)
        # ASE writes these into trajectories and databases
        parameters = {"skin": skin, "device": str(device), "kernels": self.predictor.basis.kernels.NAME}
        if isinstance(model, str | Path):
            parameters["model"] = str(model)
        super().__init__(**parameters)  # type: ignore[no-untyped-call]
        self._turn = Turn()
        self.uncertainty = uncertainty
        if uncertainty:
            self.implemented_properties = [*self.implemented_properties, *UNCERTAINTIES]
            if potential.committee is None:
                raise InputError(NO_COMMITTEE)

    @property
    def potential(self) -> Model:
        return self.predictor.potential

    @property
    def lists_made(self) -> int:
        return self.predictor.lists_made

    def get_property(self, name: str, atoms: Atoms | None = None, allow_calculation: bool = True) -> Any:
        """A result for `atoms`. Threads that share the calculator take turns: it keeps the results of one system."""
        with self._turn:
            return super().get_property(name, atoms, allow_calculation)  # type: ignore[no-untyped-call]

    def check_state(self, atoms: Atoms, tol: float = 1e-15) -> list[str]:
        """Changes of the atoms since the last calculation.

        Compared exactly: the tolerances of ASE take longer than the energy of a small molecule, and a change that they
        would pass over is computed anew.
        """
        last = self.atoms
        if last is None or tol != 1e-15:
            changes: list[str] = super().check_state(atoms, tol)  # type: ignore[no-untyped-call]
            return changes
        before, now = (
            {"positions": a.positions, "numbers": a.numbers, "cell": a.cell.array, "pbc": a.pbc} for a in (last, atoms)
        )
        return [name for name, value in now.items() if not np.array_equal(before[name], value)]

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = tuple(all_changes),
    ) -> None:
        """Fill `results` with properties of `atoms`: those that are asked for, and others that cost nothing."""
        super().calculate(atoms, properties, system_changes)  # type: ignore[no-untyped-call]
        assert self.atoms is not None  # ASE keeps a copy of the atoms
        self.results = self.results_for(self.atoms, properties)

    def results_for(self, atoms: Atoms, properties: Sequence[str]) -> dict[str, Any]:
        """Energies; if forces or stress are asked for, forces and, for a cell, stress too."""
        structures = structures_from_ase(atoms)
        if "stress" in properties and not structures.has_volume:
            raise PropertyNotImplementedError(
                "Stress is an energy per volume, but these atoms have no volume: they are not periodic, or their cell "
                "is flat. Set atoms.cell and atoms.pbc."
            )
        derivatives = not {"forces", "stress", "forces_uncertainty"}.isdisjoint(properties)
        stress = derivatives and structures.has_volume
        prediction = self.predictor.predict(structures, forces=derivatives, stress=stress, uncertainty=self.uncertainty)
        energy = prediction.energies.item()
        # there is no electronic entropy: the free energy is the energy
        results: dict[str, Any] = {
            "energy": energy,
            "free_energy": energy,
            "energies": prediction.atom_energies.numpy(),
        }
        if prediction.forces is not None:
            results["forces"] = prediction.forces.numpy()
        if prediction.stress is not None:
            results["stress"] = full_3x3_to_voigt_6_stress(prediction.stress[0].numpy())
        if prediction.energy_uncertainty is not None and prediction.atom_energy_uncertainty is not None:
            results["energy_uncertainty"] = prediction.energy_uncertainty.item()
            results["energies_uncertainty"] = prediction.atom_energy_uncertainty.numpy()
        if prediction.force_uncertainty is not None:
            results["forces_uncertainty"] = prediction.force_uncertainty.numpy()
        return results


# ASE has no entry points for calculators: an external one is found by name only after it has been registered.
if NAME not in calculator.external_calculators:
    calculator.register_calculator_class(NAME, QMLLightning)
