"""Memory of a device: batches, portions and the place of the equations follow a number that stands for what is free."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from qml_lightning import fit
from qml_lightning.errors import ResourceError
from qml_lightning.linear import normal_equations
from qml_lightning.machine import memory
from qml_lightning.machine.compute import Compute
from qml_lightning.machine.memory import room_on
from qml_lightning.model import batching as portioning
from qml_lightning.model.batching import bytes_of, portions
from qml_lightning.model.recipe import SolverSettings
from qml_lightning.training import rows as rows_module
from qml_lightning.training.costs import batch_limit
from qml_lightning.training.outputs import Keep
from qml_lightning.training.plan import plan_fit
from qml_lightning.training.problem import Problem
from small_models import crystals, molecules, recipe

MIB = 1024**2
DIRECT = SolverSettings("direct")


@pytest.fixture
def free(monkeypatch):
    """Let the CPU stand for a device with so many free bytes."""

    def set_to(n: int) -> None:
        for module in ("machine.compute", "model.batching", "atoms.linked_cells"):
            monkeypatch.setattr(f"qml_lightning.{module}.room_on", lambda device: n)

    return set_to


def test_the_cpu_has_no_memory_of_its_own():
    assert room_on("cpu") is None
    assert Compute().room == pytest.approx(memory.available_memory(), rel=0.2)


def test_what_torch_keeps_for_itself_counts_as_free(monkeypatch):
    class Device:
        mem_get_info = staticmethod(lambda device: (100, 1000))
        memory_reserved = staticmethod(lambda device: 50)
        memory_allocated = staticmethod(lambda device: 20)

    monkeypatch.setattr(torch, "get_device_module", lambda device: Device)
    assert room_on("cuda:1") == 130


def test_batches_of_rows_shrink_with_the_free_memory_of_a_device(free):
    problem = Problem.of(molecules(30))
    assert batch_limit(4096, problem, Compute()) is None
    found = []
    for room in (64 * 1024**3, 2 * 1024**3, 64 * MIB):
        free(room)
        found.append(batch_limit(4096, problem, Compute()))
    assert found[0] == rows_module.BATCH_NUMBERS
    assert found[0] > found[1] > found[2]
    assert 24 * found[1] <= 2 * 1024**3 // 8


def test_portions_hold_what_fits_into_a_part_of_a_device(free):
    data = molecules(40)
    basis = fit(data, recipe(n_features=64)).basis.ready(Compute())
    assert [len(one) for one in portions(basis, data.structures, 90)] == [10] * 4
    each = float(bytes_of(basis, data.structures)[0])
    free(int(portioning.PART * each * 7.5))
    assert [len(one) for one in portions(basis, data.structures, 90)] == [7] * 5 + [5]
    with_tangents = [len(one) for one in portions(basis, data.structures, 90, tangents=True)]
    assert sum(with_tangents) == 40
    assert max(with_tangents) < 7
    free(1)
    assert [len(one) for one in portions(basis, data.structures, 90)] == [1] * 40


@pytest.mark.parametrize("data", [molecules(6), crystals(4)], ids=["molecules", "crystals"])
def test_the_estimate_of_neighbours_is_not_below_the_mean(data):
    from qml_lightning.atoms.cells import expected_neighbours
    from qml_lightning.atoms.neighbours import pairs_within

    for cutoff in (3.0, 6.0):
        found = len(pairs_within(data.structures, cutoff, data.structures.elements).centre)
        told = float((data.structures.counts * expected_neighbours(data.structures, cutoff)).sum())
        assert found <= 1.3 * told
        assert told <= 20 * found + 100


def test_a_prediction_in_portions_is_that_of_the_whole(free):
    data = crystals(6)
    potential = fit(data, recipe(n_features=64))
    whole = potential.on("cpu", kernels="reference").predict(data.structures)
    free(1)
    few = potential.on("cpu", kernels="reference").predict(data.structures)
    torch.testing.assert_close(few.energies, whole.energies, rtol=1e-12, atol=0)
    torch.testing.assert_close(few.forces, whole.forces, rtol=0, atol=1e-10)


def test_a_plan_keeps_equations_on_the_host_if_the_device_is_too_small(free):
    problem, given = Problem.of(molecules(30)), recipe(n_features=512, solver=DIRECT)
    free(4 * 1024**3)
    plan = plan_fit(problem, given)
    assert (plan.solver, plan.on_host, plan.reason) == (
        "direct",
        False,
        "its equations fit in the memory of the device",
    )
    free(400 * MIB)
    plan = plan_fit(problem, given)
    assert (plan.solver, plan.on_host) == ("direct", True)
    assert "do not fit in the memory of the device, 0.39 GiB, and the host keeps their tiles" in plan.reason
    free(1000)
    with pytest.raises(ResourceError, match=r"The iterative solver needs .* and 0\.00 GiB are free"):
        plan_fit(problem, replace(given, solver=SolverSettings("iterative")))


@pytest.mark.parametrize("accumulation", ["float64", "compensated"])
@pytest.mark.parametrize("n_features", [128, 2048], ids=["Gram matrices", "rows"])
def test_equations_kept_by_the_host_give_the_same_potential(n_features, accumulation, free, monkeypatch):
    data = molecules(24)
    given = recipe(n_features=n_features, ridge=1e-6, solver=replace(DIRECT, accumulation=accumulation))
    wanted = fit(data, given)
    monkeypatch.setattr(normal_equations, "GRAM_TILE", 50)
    used = []
    by_tiles = normal_equations.add_by_tiles
    monkeypatch.setattr(normal_equations, "add_by_tiles", lambda *given: (used.append(len(given[1])), by_tiles(*given)))
    # rows are written elsewhere than where they are kept
    monkeypatch.setattr(rows_module, "_written", lambda place, basis: torch.full_like(place, torch.nan))
    free(MIB if n_features == 128 else 8 * MIB)
    found = fit(data, given)
    assert found.provenance.plan["on_host"]
    assert (len(used) > 1) == (n_features == 128)
    one, other = (p.predict(data.structures) for p in (found, wanted))
    torch.testing.assert_close(one.energies, other.energies, rtol=0, atol=1e-6)
    torch.testing.assert_close(one.forces, other.forces, rtol=0, atol=1e-5)


def test_equations_kept_by_the_host_go_on_from_a_checkpoint_and_have_a_committee(free, tmp_path, monkeypatch):
    data, given = molecules(24), recipe(n_features=128, ridge=1e-6, solver=DIRECT)
    free(2 * MIB)
    found = fit(data, given, checkpoint=tmp_path / "c", committee=4)
    wanted = found.predict(data.structures, uncertainty=True)
    assert found.provenance.plan["on_host"]
    assert bool((wanted.energy_uncertainty > 0).all())


def test_a_plan_of_the_cpu_is_as_it_was():
    plan = plan_fit(Problem.of(molecules(30)), recipe(n_features=512), Compute(), Keep())
    assert plan.reason == "its equations fit in memory"
    assert not plan.on_host
