"""TorchSim's model without TorchSim: what it does with a state that is on a device."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from device_stand_in import DEVICE, stand_in
from qml_lightning import fit
from small_models import crystals, recipe


@pytest.fixture
def model_class(monkeypatch):
    """The class, beside an interface that has nothing in it."""
    interface = ModuleType("torch_sim.models.interface")
    interface.ModelInterface = torch.nn.Module
    for name in ("torch_sim", "torch_sim.models"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    monkeypatch.delitem(sys.modules, "qml_lightning.adapters.torchsim", raising=False)
    from qml_lightning.adapters.torchsim import QMLLightningModel

    yield QMLLightningModel
    sys.modules.pop("qml_lightning.adapters.torchsim")


def test_a_state_on_a_device_gives_results_there(model_class, monkeypatch):
    data = crystals(4)
    potential, some = fit(data, recipe(n_features=64)), data.structures.select([0, 1])
    wanted = potential.on("cpu", "float64").predict(some)
    columns = some.cells.transpose(1, 2).contiguous()
    given = {"positions": some.positions, "atomic_numbers": some.numbers, "system_idx": some.structure_of_atom}
    for device in (torch.device("cpu"), DEVICE):
        with stand_in(monkeypatch):
            there = {name: one.to(device) for name, one in {**given, "cell": columns}.items()}
            found = model_class(potential, device=device)(SimpleNamespace(**there, pbc=True).__dict__)
            assert {one.device.type for one in found.values()} == {device.type}
        for name, other in {"energy": wanted.energies, "forces": wanted.forces, "stress": wanted.stress}.items():
            torch.testing.assert_close(found[name].cpu(), other, rtol=1e-9, atol=1e-9)
