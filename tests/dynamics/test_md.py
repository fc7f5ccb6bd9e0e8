"""Molecular dynamics conserves what it should, goes on after a kill to the same bits, and stops with words."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ase import units
from ase.build import bulk
from ase.io import read, write

from dynamics_systems import NVE, alloy, ethanol, log_of
from qml_lightning.dynamics.ensembles import CellRescaling, MDSettings, first_velocities
from qml_lightning.dynamics.run import Run, RunPlan, run_dynamics
from qml_lightning.dynamics.watch import Unphysical
from qml_lightning.errors import InputError
from structures_for_tests import rattled


def test_nve_conserves_energy_and_writes_what_it_did(model, tmp_path):
    out = tmp_path / "run.extxyz"
    done = run_dynamics(Run(model, ethanol(), NVE), RunPlan(200, out, every=10))
    table, frames = log_of(out), read(out, ":")
    assert len(table) == len(frames) == 21
    assert np.ptp(table[:, 4]) < 1e-3 * len(frames[0])
    assert np.ptp(table[:, 2]) > 10 * np.ptp(table[:, 4])
    assert frames[-1].info["step"] == 200
    assert frames[-1].get_potential_energy() == pytest.approx(table[-1, 2], abs=1e-6)
    assert frames[-1].get_kinetic_energy() == pytest.approx(table[-1, 3], rel=1e-4)
    assert done.steps == 200
    assert done.ns_per_day > 0


@pytest.mark.parametrize("ensemble", ["langevin", "bussi"])
def test_a_thermostat_brings_the_temperature_that_is_wanted(ensemble, model, tmp_path):
    settings = MDSettings(ensemble, temperature=100.0, timestep=0.5, friction=0.05, relaxation=10.0)
    out = tmp_path / "run.extxyz"
    run_dynamics(Run(model, ethanol(), settings), RunPlan(1500, out, every=5))
    # 9 atoms: fluctuations of √(2/27), in some tens of independent samples
    assert log_of(out)[100:, 5].mean() == pytest.approx(100.0, rel=0.25)


def test_npt_relaxes_the_volume(crystal_model, tmp_path):
    atoms = alloy()
    atoms.set_cell(atoms.cell.array * 0.97, scale_atoms=True)
    settings = MDSettings("npt", 100.0, 1.0, pressure_relaxation=100.0, compressibility=0.02)
    out = tmp_path / "run.traj"
    run_dynamics(Run(crystal_model, atoms, settings), RunPlan(300, out, every=5))
    table = log_of(out)
    assert table[0, 6] > 5  # GPa
    assert abs(table[-20:, 6].mean()) < 4
    assert table[-1, 7] > 1.03 * table[0, 7]
    assert len(read(out, ":")) == 61


def test_rescaling_samples_the_volume_of_an_ideal_gas(crystal_model):
    # without forces ⟨V⟩ = (N + 1) kT / P
    from ase.calculators.calculator import Calculator

    class Nothing(Calculator):
        implemented_properties = ["energy", "forces", "stress"]  # noqa: RUF012

        def calculate(self, atoms=None, properties=("energy",), system_changes=()):
            super().calculate(atoms, properties, system_changes)
            self.results = {"energy": 0.0, "forces": np.zeros((len(self.atoms), 3)), "stress": np.zeros(6)}

    atoms = bulk("Cu", cubic=True) * 2
    pressure = len(atoms) * units.kB * 300 / atoms.get_volume()
    settings = MDSettings("npt", 300.0, 5.0, relaxation=50.0, pressure=pressure / units.GPa, pressure_relaxation=50.0,
                          compressibility=units.GPa / pressure)  # fmt: skip
    atoms.calc, rng = Nothing(), np.random.default_rng(1)
    first_velocities(atoms, 300.0, rng)
    run, volumes, forces = CellRescaling(atoms, settings, rng), [], None
    for _ in range(6000):
        forces = run.step(forces)
        volumes.append(atoms.get_volume())
    # ideal: relative spread 1/√N; some hundred independent samples
    assert np.mean(volumes[500:]) == pytest.approx(33 / 32 * len(atoms) * units.kB * 300 / pressure, rel=0.1)
    assert np.std(volumes[500:]) / np.mean(volumes[500:]) == pytest.approx(1 / np.sqrt(32), rel=0.35)


@pytest.mark.parametrize("ensemble", ["nve", "langevin", "bussi", "npt"])
@pytest.mark.parametrize("ending", [".extxyz", ".traj"])
def test_a_run_in_two_parts_is_the_run_in_one(ensemble, ending, model, crystal_model, tmp_path):
    settings = replace(NVE, ensemble=ensemble)
    path, make = (crystal_model, alloy) if ensemble == "npt" else (model, ethanol)
    whole, parts = tmp_path / f"whole{ending}", tmp_path / f"parts{ending}"
    run_dynamics(Run(path, make(), settings), RunPlan(60, whole, every=7, restart_every=20))
    for steps in (20, 40, 60):
        run_dynamics(Run(path, make(), settings), RunPlan(steps, parts, 7, 20, resume=True))
    assert_same(whole, parts)


def assert_same(whole: Path, parts: Path) -> None:
    """Both runs ended with the same bits, and wrote the same frames and log."""
    for name in ("log", "restart"):
        assert (
            whole.with_name(f"{whole.name}.{name}").read_bytes() == parts.with_name(f"{parts.name}.{name}").read_bytes()
        )
    if whole.suffix == ".extxyz":
        assert whole.read_bytes() == parts.read_bytes()
    else:
        a, b = read(whole, ":"), read(parts, ":")
        assert len(a) == len(b)
        assert all(np.array_equal(one.positions, other.positions) for one, other in zip(a, b, strict=True))
        assert all(np.array_equal(one.get_forces(), other.get_forces()) for one, other in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("ensemble", "kills"),
    [
        ("nve", 3),
        pytest.param("nve", 10, marks=pytest.mark.slow),
        pytest.param("bussi", 10, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_killed_goes_on_to_the_same_bits(ensemble, kills, model, tmp_path):
    write(tmp_path / "ethanol.xyz", ethanol())
    command = [sys.executable, "-m", "qml_lightning", "md", str(model), "ethanol.xyz", "--ensemble", ensemble,
               "--steps", str(400 * kills), "--every", "3", "--restart-every", "10", "--threads", "1"]  # fmt: skip
    subprocess.run([*command, "-o", "whole.extxyz"], cwd=tmp_path, check=True, capture_output=True)
    draw, killed = random.Random(ensemble), 0
    restart = tmp_path / "parts.extxyz.restart"
    while True:
        process = subprocess.Popen(
            [*command, "-o", "parts.extxyz", "--resume"], cwd=tmp_path, stdout=subprocess.DEVNULL
        )
        written, seen = draw.randrange(1, 6), _time_of(restart)
        while process.poll() is None and killed < kills:
            if _time_of(restart) != seen:  # after some restart files, in the middle of anything
                written, seen = written - 1, _time_of(restart)
            if written == 0:
                time.sleep(draw.uniform(0, 0.01))
                process.kill()
                break
            time.sleep(0.0005)
        if process.wait() == 0:
            break
        assert process.returncode == -signal.SIGKILL
        killed += 1
    assert killed == kills
    assert_same(tmp_path / "whole.extxyz", tmp_path / "parts.extxyz")


def _time_of(path: Path) -> int:
    """Time of the last change of a file; 0 if there is none."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def test_atoms_that_fly_apart_end_the_run_with_words(model, tmp_path):
    out = tmp_path / "run.extxyz"
    with pytest.raises(Unphysical, match=r"Step \d+: .*(fly apart|left|one spot)"):
        run_dynamics(Run(model, rattled(ethanol(), 1, 0.5), replace(NVE, timestep=5.0)), RunPlan(500, out))
    assert len(read(out, ":")) >= 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ensemble": "nph"}, "one of nve, langevin, bussi, npt"),
        ({"timestep": 0.0}, "timestep must be positive"),
        ({"temperature": -1.0}, "0 K or more"),
        ({"ensemble": "npt"}, "NPT needs a cell"),
        ({"ensemble": "bussi", "temperature": 0.0}, "needs a temperature above 0 K"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, words, model, tmp_path):
    with pytest.raises(InputError, match=words):
        run_dynamics(Run(model, ethanol(), replace(NVE, **change)), RunPlan(10, tmp_path / "run.extxyz"))


def test_a_restart_file_of_another_run_is_refused(model, crystal_model, tmp_path):
    plan = RunPlan(10, tmp_path / "run.extxyz", resume=True)
    run_dynamics(Run(model, ethanol(), NVE), plan)
    with pytest.raises(InputError, match="other settings"):
        run_dynamics(Run(model, ethanol(), replace(NVE, timestep=0.5)), replace(plan, steps=20))
    with pytest.raises(InputError, match="other atoms"):
        run_dynamics(Run(crystal_model, alloy(), NVE), replace(plan, steps=20))
    plan.trajectory.write_text("")
    with pytest.raises(InputError, match="shorter than"):
        run_dynamics(Run(model, ethanol(), NVE), replace(plan, steps=20))


def test_velocities_of_the_structure_are_kept(model, tmp_path):
    atoms = ethanol()
    atoms.set_momenta(np.random.default_rng(0).normal(scale=0.1, size=(9, 3)))
    before = atoms.get_kinetic_energy()
    out = tmp_path / "run.extxyz"
    run_dynamics(Run(model, atoms, NVE), RunPlan(10, out))
    assert log_of(out)[0, 3] == pytest.approx(before, abs=1e-8)
