"""A run stops or is flagged where forces become too uncertain, and the atom is named."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ase.build import molecule
from ase.io import read, write
from typer.testing import CliRunner

from qml_lightning import fit
from qml_lightning.adapters.ase import QMLLightning
from qml_lightning.cli import app
from qml_lightning.dynamics.ensembles import MDSettings
from qml_lightning.dynamics.known_ground import KnownGround, LeftKnownGround
from qml_lightning.dynamics.run import Run, RunPlan, run_dynamics
from qml_lightning.errors import InputError
from small_models import molecules, recipe


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    fit(molecules(40), recipe(n_features=256, ridge=1e-4), committee=4).save(str(path))
    return path


def _run(model, tmp_path, ground, steps=20):
    settings = MDSettings(ensemble="nve", temperature=50.0, timestep=0.2)
    return run_dynamics(Run(model, molecule("CH3CH2OH"), settings, None, ground), RunPlan(steps, tmp_path / "run.traj"))


def test_a_run_beyond_the_limit_stops_and_names_the_atom(model, tmp_path):
    with pytest.raises(LeftKnownGround, match=r"Step 10: the force on atom \d \((C|H|O)\) is uncertain by"):
        _run(model, tmp_path, KnownGround(1e-6))
    assert len(read(tmp_path / "run.traj", ":")) == 2  # the first frame and the last one


def test_a_run_that_is_flagged_goes_on(model, tmp_path):
    with pytest.warns(UserWarning, match="leaves what the model knows"):
        done = _run(model, tmp_path, KnownGround(1e-6, "flag"))
    assert done.flagged == (10, 20)
    assert done.largest_uncertainty > 1e-6


def test_a_run_on_known_ground_is_the_run_without_a_limit(model, tmp_path):
    plain = _run(model, tmp_path, None)
    watched = _run(model, tmp_path, KnownGround(1e6))
    assert watched.drift == plain.drift
    assert watched.flagged == ()


@pytest.mark.parametrize(("limit", "words"), [("1e6", "never beyond 1e+06"), ("1e-6", "at 2 looks, first at step 10")])
def test_the_command_tells_the_largest_uncertainty_of_a_run(model, tmp_path, limit, words):
    write(tmp_path / "one.xyz", molecule("CH3CH2OH"))
    given = ["md", str(model), str(tmp_path / "one.xyz"), "-o", str(tmp_path / "run.traj"), "--steps", "20"]
    given += ["--temperature", "50", "--timestep", "0.2", "--uncertainty-limit", limit, "--beyond", "flag"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert words in " ".join(done.output.split())


@pytest.mark.parametrize(("limit", "action", "words"), [(-1.0, "stop", "above 0"), (1.0, "jump", "stop or flag")])
def test_a_limit_that_makes_no_sense_is_refused(model, limit, action, words):
    with pytest.raises(InputError, match=words):
        Run(model, molecule("CH3CH2OH"), MDSettings(), None, KnownGround(limit, action))


def test_the_calculator_and_the_command_line_tell_the_same_uncertainty(model, tmp_path):
    atoms = molecule("CH3CH2OH")
    write(tmp_path / "one.xyz", atoms)
    atoms.calc = QMLLightning(model, uncertainty=True)
    atoms.get_forces()
    results = atoms.calc.results
    assert atoms.calc.get_property("energy_uncertainty", atoms) == results["energy_uncertainty"]
    for ending in ("extxyz", "traj"):
        output = tmp_path / f"out.{ending}"
        given = ["predict", str(model), str(tmp_path / "one.xyz"), "-o", str(output), "--uncertainty", "--json"]
        done = CliRunner().invoke(app, given)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["structures"] == 1
        found = read(output)
        assert found.info["energy_uncertainty"] == pytest.approx(results["energy_uncertainty"], rel=1e-4)
        numbers = found.arrays if ending == "extxyz" else found.info
        for name in ("energies_uncertainty", "forces_uncertainty"):
            np.testing.assert_allclose(numbers[name], results[name], rtol=1e-4, atol=1e-9)


def test_a_calculator_without_a_committee_cannot_tell(tmp_path):
    potential = fit(molecules(12), recipe(n_features=64))
    with pytest.raises(InputError, match="--committee 8"):
        QMLLightning(potential, uncertainty=True)
