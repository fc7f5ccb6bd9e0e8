"""Fits, predictions and modules on a device never mix its tensors with those of the host."""

from __future__ import annotations

import pytest
import torch

from device_stand_in import DEVICE, stand_in
from qml_lightning import fit
from qml_lightning.model.module import with_gradients
from qml_lightning.model.recipe import SolverSettings
from small_models import crystals, molecules, recipe

COMPENSATED = SolverSettings("direct", "compensated")
IN_PAIRS = SolverSettings("iterative", "compensated", preconditioner_features=32, held_out=0.2)


@pytest.fixture
def device(monkeypatch):
    return stand_in(monkeypatch)


def test_the_stand_in_refuses_what_a_device_refuses(device):
    with device:
        there, here = torch.ones(3, device=DEVICE), torch.ones(3)
        with pytest.raises(RuntimeError, match="takes tensors of the host"):
            there + here
        with pytest.raises(RuntimeError, match="takes tensors of the host"):
            there[torch.tensor([0, 1])]  # CUDA allows it, and waits
        assert (there + here.to(DEVICE)).device == DEVICE
        assert (there + 1.0).cpu().tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("n", "given"),
    [
        (12, recipe(solver=COMPENSATED, n_features=64, ridge=1e-6)),
        (16, recipe(solver=IN_PAIRS, n_features=64, precision="float32", ridge=1e-6)),
    ],
    ids=["direct", "iterative"],
)
def test_a_fit_on_a_device_is_that_of_the_host(n, given, device):
    data = molecules(n)
    wanted = fit(data, given, kernels="reference").predict(data.structures).forces
    with device:
        found = fit(data, given, device=str(DEVICE))
    forces = found.predict(data.structures).forces
    assert (forces - wanted).abs().max() < 1e-3 * wanted.abs().max()


def test_a_refined_ridge_and_a_committee_stay_on_the_device(device):
    data = molecules(10)
    with device:
        found = fit(data, recipe(n_features=64), device=str(DEVICE), committee=4)
    assert found.committee is not None
    assert found.committee.deviations.is_cpu


@pytest.mark.parametrize("data", [molecules(8), crystals(6)], ids=["molecules", "crystals with stress"])
def test_a_prediction_on_a_device_is_that_of_the_host(data, device):
    potential = fit(data, recipe(n_features=64))
    wanted = potential.on("cpu", kernels="reference").predict(data.structures)
    with device:
        found = potential.on(DEVICE).predict(data.structures)
    names = ("energies", "forces") if wanted.stress is None else ("energies", "forces", "stress")
    for name in names:
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("here", [(), ("positions",), ("numbers",), ("cells", "batch", "periodic")], ids=str)
def test_a_module_takes_inputs_that_are_on_different_devices(here, device):
    data = crystals(4)
    some = data.structures.select([0, 1])
    potential = fit(data, recipe(n_features=64))
    inputs = {
        "positions": some.positions, "cells": some.cells, "numbers": some.numbers,
        "batch": some.structure_of_atom, "periodic": some.periodic,
    }  # fmt: skip
    wanted = with_gradients(potential.on("cpu", kernels="reference"), *inputs.values())
    with device:
        predictor = potential.on(DEVICE)
        given = {name: one if name in here else one.to(DEVICE) for name, one in inputs.items()}
        found = with_gradients(predictor, *given.values())
        for one, like in zip(found, ("positions", "positions", "cells"), strict=True):
            assert one.device == given[like].device
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-10, atol=1e-9)
