"""TorchSim: a model that computes many systems at once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch_sim.models.interface import ModelInterface

from ..atoms.structures import Structures, offsets_from_counts
from ..machine.transfers import on_host
from ..model.potential import Model
from ..model.recipe import Precision
from .engine import whole_potential


class QMLLightningModel(ModelInterface):  # type: ignore[misc]
    """Interface of TorchSim: energies (eV), forces (eV/Å), stress (eV/Å³, tension positive) of a batch of systems."""

    def __init__(
        self, model: str | Path | Model, *, precision: Precision | None = None, skin: float = 0.5,
        dtype: torch.dtype = torch.float64, compute_stress: bool = True, device: torch.device | str = "cpu",
    ) -> None:  # fmt: skip
        super().__init__()
        self.predictor = whole_potential(model).on(device, precision, skin=skin)
        self._device, self._dtype = torch.device(device), dtype
        self._compute_stress, self._compute_forces = compute_stress, True

    def forward(self, state: Any, **options: Any) -> dict[str, Tensor]:
        """Energies (systems,), forces (atoms, 3) and stress (systems, 3, 3)."""
        given: Any = SimpleNamespace(**state) if isinstance(state, dict) else state
        # positions stay on the device of the model; the host needs to know the rest
        numbers, index, cells = on_host([given.atomic_numbers, given.system_idx, given.cell.reshape(-1, 3, 3)])
        structures = Structures(
            numbers.long(),
            given.positions.double().to(self._device).contiguous(),
            offsets_from_counts(torch.bincount(index.long(), minlength=len(cells))),
            cells.transpose(1, 2).contiguous(),  # the columns of TorchSim's cells are lattice vectors
            torch.as_tensor(given.pbc, dtype=torch.bool, device="cpu").expand(len(cells), 3).contiguous(),
        )
        stress = self._compute_stress and structures.has_volume
        found = self.predictor.predict_there(structures, forces=self._compute_forces, stress=stress)
        out = {"energy": found.energies}
        if found.forces is not None:
            out["forces"] = found.forces
        if self._compute_stress:
            out["stress"] = found.energies.new_zeros(len(cells), 3, 3) if found.stress is None else found.stress
        return {name: value.to(given.positions.device, self._dtype) for name, value in out.items()}
