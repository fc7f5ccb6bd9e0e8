"""TorchSim: a model that computes many systems at once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch_sim.models.interface import ModelInterface

from ..atoms.structures import Structures, offsets_from_counts
from ..model.potential import Model
from ..model.recipe import Precision
from .engine import whole_potential


class QMLLightningModel(ModelInterface):  # type: ignore[misc]
    """Interface of TorchSim: energies (eV), forces (eV/Å), stress (eV/Å³, tension positive) of a batch of systems."""

    def __init__(
        self, model: str | Path | Model, *, precision: Precision | None = None, skin: float = 0.5,
        dtype: torch.dtype = torch.float64, compute_stress: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.predictor = whole_potential(model).on(precision=precision, skin=skin)
        self._device, self._dtype = torch.device("cpu"), dtype
        self._compute_stress, self._compute_forces = compute_stress, True

    def forward(self, state: Any, **options: Any) -> dict[str, Tensor]:
        """Energies (systems,), forces (atoms, 3) and stress (systems, 3, 3)."""
        given: Any = SimpleNamespace(**state) if isinstance(state, dict) else state
        index, n = given.system_idx, int(given.system_idx.max()) + 1
        structures = Structures(
            given.atomic_numbers.long(),
            given.positions.double().contiguous(),
            offsets_from_counts(torch.bincount(index, minlength=n)),
            # the columns of TorchSim's cells are lattice vectors
            given.cell.reshape(-1, 3, 3).transpose(1, 2).double().contiguous(),
            torch.as_tensor(given.pbc, dtype=torch.bool).expand(n, 3).contiguous(),
        )
        stress = self._compute_stress and structures.has_volume
        found = self.predictor.predict(structures, forces=self._compute_forces, stress=stress)
        out = {"energy": found.energies}
        if found.forces is not None:
            out["forces"] = found.forces
        if self._compute_stress:
            out["stress"] = torch.zeros(n, 3, 3) if found.stress is None else found.stress
        return {name: value.to(self._dtype) for name, value in out.items()}
