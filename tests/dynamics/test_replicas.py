"""Replicas are the runs alone with their seeds, go on to the same bits, and refuse what they cannot do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ase.io import read

from dynamics_systems import NVE, alloy, ethanol, log_of
from qml_lightning.dynamics.run import Run, RunPlan, run_dynamics
from qml_lightning.dynamics.watch import Unphysical
from qml_lightning.errors import InputError
from structures_for_tests import rattled


@pytest.mark.parametrize("ensemble", ["nve", "langevin", "bussi"])
@pytest.mark.parametrize("periodic", [False, True])
def test_a_replica_is_the_run_alone_with_its_seed(ensemble, periodic, model, crystal_model, tmp_path):
    path, make = (crystal_model, alloy) if periodic else (model, ethanol)
    settings = replace(NVE, ensemble=ensemble, seed=5)
    done = run_dynamics(Run(path, make(), settings, "float64", replicas=3), together(40, tmp_path, 3))
    for k in range(3):
        alone = tmp_path / f"alone{k}.extxyz"
        run_dynamics(Run(path, make(), replace(settings, seed=5 + k), "float64"), RunPlan(40, alone, every=5))
        one = tmp_path / f"run.{k}.extxyz"
        np.testing.assert_allclose(log_of(one), log_of(alone), rtol=0, atol=1e-6)
        for a, b in zip(read(one, ":"), read(alone, ":"), strict=True):
            np.testing.assert_allclose(a.positions, b.positions, rtol=0, atol=1e-6)
            np.testing.assert_allclose(a.get_forces(), b.get_forces(), rtol=0, atol=1e-5)
    assert done.ns_per_day == pytest.approx(3 * done.steps_per_second * NVE.timestep * 86400e-6)


def together(steps: int, folder: Path, count: int, **options) -> RunPlan:
    return RunPlan(steps, folder / "run.extxyz", every=5, replicas=count, **options)


@pytest.mark.parametrize("ensemble", ["nve", "langevin", "bussi"])
def test_replicas_in_two_parts_are_those_in_one(ensemble, model, tmp_path):
    settings, folders = replace(NVE, ensemble=ensemble), (tmp_path / "whole", tmp_path / "parts")
    for folder, stops in zip(folders, ((40,), (20, 40)), strict=True):
        folder.mkdir()
        for steps in stops:
            plan = together(steps, folder, 2, restart_every=20, resume=True)
            run_dynamics(Run(model, ethanol(), settings, replicas=2), plan)
    names = sorted(file.name for file in folders[0].iterdir())
    assert names == sorted(["run.extxyz.restart", *(f"run.{k}.extxyz{end}" for k in (0, 1) for end in ("", ".log"))])
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_replicas_refuse_what_they_cannot_do(model, crystal_model, tmp_path):
    from ase.constraints import FixAtoms

    with pytest.raises(InputError, match="Replicas share one cell"):
        Run(crystal_model, alloy(), replace(NVE, ensemble="npt"), replicas=2)
    held = ethanol()
    held.set_constraint(FixAtoms([0]))
    with pytest.raises(InputError, match="no constraints"):
        Run(model, held, NVE, replicas=2)
    run_dynamics(Run(model, ethanol(), NVE, replicas=2), together(10, tmp_path, 2))
    with pytest.raises(InputError, match="other atoms"):
        run_dynamics(Run(model, ethanol(), NVE, replicas=3), together(20, tmp_path, 3, resume=True))


def test_a_replica_that_flies_apart_is_named(model, tmp_path):
    with pytest.raises(Unphysical, match=r"Replica \d: Step \d+|one spot"):
        run_dynamics(Run(model, rattled(ethanol(), 1, 0.5), replace(NVE, timestep=5.0), replicas=2),
                     together(500, tmp_path, 2))  # fmt: skip
    assert len(read(tmp_path / "run.1.extxyz", ":")) >= 1


def test_a_restart_file_without_replicas_of_an_older_version_is_read(model, tmp_path, monkeypatch):
    from qml_lightning.dynamics import restart

    plan = RunPlan(10, tmp_path / "run.extxyz", resume=True)
    with monkeypatch.context() as older:
        older.setattr(restart, "VERSION", 1)
        write_new = restart.RestartPoint.write
        older.setattr(restart.RestartPoint, "write", lambda self, path, atoms: write_new(
            replace(self, random=self.random[0], files=self.files[0]), path, atoms))  # fmt: skip
        run_dynamics(Run(model, ethanol(), NVE), plan)
    assert run_dynamics(Run(model, ethanol(), NVE), replace(plan, steps=20)).steps == 20
