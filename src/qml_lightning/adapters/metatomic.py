"""metatomic: a model as a file for the programs that run models of metatomic, such as ASE and i-PI.

The file holds our model file, byte by byte, and calls the operator that this module registers in torch, which runs the
native predictor. So a program that loads it must import this module before.
"""
# ruff: noqa: UP006, UP035, UP045 (metatomic compares the annotations of `forward` with these)

import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, cast

import metatomic.torch as mta
import numpy as np
import torch
from metatensor.torch import Labels, TensorBlock, TensorMap
from torch import Tensor

from ..atoms.structures import Structures
from ..errors import InputError
from ..machine.files import atomic
from ..model.potential import Model, Potential
from ..model.predictor import Predictor
from ..model.recipe import Precision
from .engine import whole_potential

SKIN = 0.5  # Å
KEPT = 8  # predictors of the files in use
# Address of the bytes of a model, and precision → these bytes, so that the address stays theirs, and the predictor.
_ready: dict[tuple[int, str], tuple[Tensor, Predictor]] = {}


def _predictor(model: Tensor, precision: str) -> Predictor:
    """The predictor of a model that is given as the bytes of its file; a precision of "" is the model's."""
    name = model.data_ptr(), precision
    found = _ready.get(name)
    if found is None:
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(model.numpy().data)
            file.flush()
            found = (
                model,
                Potential.load(file.name).on(precision=cast(Optional[Precision], precision or None), skin=SKIN),
            )
        while len(_ready) >= KEPT:
            del _ready[next(iter(_ready))]
        _ready[name] = found
    return found[1]


@torch.library.custom_op("qml_lightning::energy", mutates_args=())
def energy(
    model: Tensor, precision: str, numbers: Tensor, positions: Tensor, cell: Tensor, periodic: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Energy in eV, and its derivatives by positions and cell in eV/Å, each by fixed values of the other."""
    given = positions.detach().double().cpu().contiguous(), cell.detach().double().cpu().contiguous()
    structures = Structures(
        numbers.long().cpu(), given[0], torch.tensor([0, len(numbers)]), given[1][None], periodic.cpu()[None]
    )
    whole = structures.has_volume
    found = _predictor(model, precision).predict(structures, forces=True, stress=whole)
    assert found.forces is not None
    by_cell = torch.zeros(3, 3, dtype=torch.float64)
    if found.stress is not None:
        # a strain moves both: virial = positionsᵀ · by_positions + cellᵀ · by_cell
        virial = found.stress[0] * structures.volumes[0]
        by_cell = torch.linalg.solve(given[1].T, virial + given[0].T @ found.forces)
    # a copy: no output of an operator may share memory with what the predictor keeps
    return found.energies[0].to(positions).clone(), -found.forces.to(positions), by_cell.to(positions)


def _keep(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output[1:])


def _backward(ctx: Any, by_energy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    if torch.is_grad_enabled():
        raise InputError("A model in metatomic has no second derivatives. Use finite differences of the forces.")
    by_positions, by_cell = ctx.saved_tensors
    return None, None, None, by_energy * by_positions, by_energy * by_cell, None


energy.register_autograd(_backward, setup_context=_keep)


class Exported(torch.nn.Module):
    """Model of metatomic that has the energy of each system; torch translates `forward` into TorchScript."""

    def __init__(self, model: Tensor, precision: str) -> None:
        super().__init__()
        self.precision = precision
        self.register_buffer("model", model)

    def forward(
        self, systems: List[mta.System], outputs: Dict[str, mta.ModelOutput], selected_atoms: Optional[Labels]
    ) -> Dict[str, TensorMap]:
        if selected_atoms is not None:
            raise ValueError("This model has the energy of all atoms, not of selected ones.")
        model, precision = self.model, self.precision
        found: List[Tensor] = []
        for one in systems:
            values = torch.ops.qml_lightning.energy(model, precision, one.types, one.positions, one.cell, one.pbc)
            found.append(values[0].reshape(1, 1))
        samples = Labels(["system"], torch.arange(len(systems)).reshape(-1, 1))
        block = TensorBlock(torch.cat(found), samples, [], Labels(["energy"], torch.tensor([[0]])))
        return {"energy": TensorMap(Labels(["_"], torch.tensor([[0]])), [block])}


def export(
    model: str | Path | Model, path: str | Path, *, precision: Precision | None = None, overwrite: bool = False
) -> None:
    """Write a model as a file of metatomic, in eV and Å, for the CPU; `precision` is that of the prediction."""
    potential = whole_potential(model)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        potential.save(str(file))
        content = torch.from_numpy(np.fromfile(file, dtype=np.uint8))
    capabilities = mta.ModelCapabilities(
        outputs={"energy": mta.ModelOutput(unit="eV", sample_kind="system")},
        atomic_types=list(potential.elements),
        interaction_range=potential.on(precision=precision).cutoff,
        length_unit="angstrom",
        supported_devices=["cpu"],
        dtype="float64",
    )
    about = mta.ModelMetadata(
        name="qml-lightning",
        description="\n".join(f"{name}: {value}" for name, value in potential.facts().items()),
    )
    scripted = mta.AtomisticModel(Exported(content, precision or "").eval(), about, capabilities)
    with atomic(path, overwrite=overwrite) as temporary:
        scripted.save(str(temporary))
