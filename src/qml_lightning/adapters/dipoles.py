"""ASE calculator with the dipole of a model of properties beside the energies and forces of a potential."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..model.potential import Model
from ..model.properties import PropertyModel
from .ase import QMLLightning

if TYPE_CHECKING:
    from ase import Atoms


class WithDipole(QMLLightning):
    """ASE calculator of a potential that also gives the dipole, in the unit it was learnt in: ASE wants e Å.

    atoms.calc = WithDipole("ethanol.safetensors", "dipoles.safetensors")
    """

    implemented_properties: list[str] = [*QMLLightning.implemented_properties, "dipole"]  # noqa: RUF012 (as ASE declares it)

    def __init__(
        self, model: str | Path | Model, dipoles: str | Path | PropertyModel, name: str | None = None, **options: Any
    ) -> None:
        found = PropertyModel.load(str(dipoles)) if isinstance(dipoles, str | Path) else dipoles
        there = [one.name for one in found.properties if one.kind == "dipole"]
        if not there or name not in (None, *there):
            raise InputError(f"The model of properties has {', '.join(found.names)}; wanted a dipole among them.")
        super().__init__(model, **options)
        self.dipoles, self.dipole_name = found, name or there[0]

    def results_for(self, atoms: Atoms, properties: Sequence[str]) -> dict[str, Any]:
        """Results of the potential, and the dipole if it is asked for."""
        results = super().results_for(atoms, properties)
        if "dipole" in properties:
            results["dipole"] = self.dipoles.predict(atoms)[self.dipole_name][0].numpy()
        return results
