"""`qml-lightning check` finds holes, wrong gradients and drift, and passes sound models."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from ase.build import bulk, molecule
from ase.io import write

from places import SHARED_DATA as SHARED
from qml_lightning import fit, load_dataset, recipes
from qml_lightning.cli import main
from qml_lightning.dynamics.checks import check_model, first_hole
from small_models import crystals, recipe


@pytest.fixture(scope="module")
def model():
    return fit(load_dataset("ethanol:train").subsample(200, 0), recipe(n_features=1024, rank=64))


def test_a_sound_model_passes(model):
    found = check_model(model, molecule("CH3CH2OH"))
    assert {one.name for one in found} >= {"dimer H–O", "compressed", "stretched", "finite differences", "NVE"}
    bonded = {"dimer H–C", "dimer H–O", "dimer C–C", "dimer C–O"}
    whole = {"compressed", "stretched", "finite differences", "NVE"}
    assert {one.name for one in found if one.passed} >= {*bonded, *whole}


def test_stress_is_among_the_gradients_of_a_crystal():
    atoms = bulk("Cu", cubic=True)
    atoms.symbols[0] = "Au"
    found = {one.name: one for one in check_model(fit(crystals(20), recipe()), atoms)}
    assert found["finite differences"].passed
    assert "stress" in found["finite differences"].words


def test_a_hole_between_two_atoms_is_found(model):
    # an attraction that grows without end: weights of the opposite sign of a repulsive fit, and no repulsion
    bad = replace(model, weights=-3 * model.weights, repulsion=None)
    failed = [one for one in check_model(bad) if not one.passed]
    assert failed
    assert all("attractive" in one.words for one in failed)


@pytest.fixture(scope="module")
def silicon():
    path = SHARED / "zuo2020" / "Si.npz"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    features = replace(recipes.DEFAULT.features, n_features=1024)
    return fit(load_dataset(f"{path}:train").subsample(60, 0), replace(recipes.DEFAULT, features=features))


def test_compressed_silicon_has_no_hole(silicon):
    crystal = bulk("Si", a=5.47)
    found = {one.name: one for one in check_model(silicon, crystal)}
    assert found["compressed"].passed, found["compressed"].words
    assert found["dimer Si–Si"].passed
    dense, relaxed = (silicon.predict(bulk("Si", a=a), forces=False).energies.item() for a in (3.0, 5.47))
    assert dense > relaxed + 100
    # without the repulsion of crowded atoms there is one
    holed = replace(silicon, repulsion=replace(silicon.repulsion, crowding=None))
    found = {one.name: one for one in check_model(holed, crystal)}
    assert not found["compressed"].passed
    assert "hole at a scale" in found["compressed"].words


@pytest.mark.parametrize("kind", ["sc", "bcc", "fcc"])
def test_compressed_lattices_of_silicon_have_no_hole(silicon, kind):
    """None of the training structures has their symmetry; a hot and dense sample may come near to it."""
    name = f"compressed {kind}"
    found = {one.name: one for one in check_model(silicon, bulk("Si", a=5.47))}
    assert found[name].passed, found[name].words
    atoms = {"sc": 1, "bcc": 2, "fcc": 4}[kind]
    dense, relaxed = (
        silicon.predict(bulk("Si", kind, a=(atoms * v) ** (1 / 3)), forces=False).energies.item() for v in (5.0, 16.0)
    )
    assert dense > relaxed + 50
    holed = replace(silicon, repulsion=replace(silicon.repulsion, crowding=None))
    found = {one.name: one for one in check_model(holed, bulk("Si", a=5.47))}
    assert not found[name].passed


def test_forces_that_are_no_gradient_are_found(model, monkeypatch):
    from qml_lightning.adapters.ase import QMLLightning

    right = QMLLightning.calculate

    def wrong(self, *given):
        right(self, *given)
        if "forces" in self.results:
            self.results["forces"] = self.results["forces"] * 1.01

    monkeypatch.setattr(QMLLightning, "calculate", wrong)
    found = {one.name: one for one in check_model(model, molecule("CH3CH2OH"))}
    assert not found["finite differences"].passed
    assert not found["NVE"].passed or "drift" in found["NVE"].words


@pytest.mark.parametrize(
    ("curve", "barrier", "place"),
    [
        ([0, 1, 2, 3], np.inf, None),
        ([0, 2, 0.5, 3], np.inf, 2),
        ([0, 1, 0.5, 3], np.inf, None),
        ([0, 20, -100], 10.0, None),
        ([0, 5, -100], 10.0, 2),
    ],
)
def test_a_hole_is_a_fall_before_the_barrier(curve, barrier, place):
    assert first_hole(curve, barrier) == place


def test_the_command_tells_what_it_found(model, tmp_path, capsys):
    model.save(tmp_path / "good.safetensors")
    replace(model, weights=-3 * model.weights, repulsion=None).save(tmp_path / "bad.safetensors")
    write(tmp_path / "ethanol.xyz", molecule("CH3CH2OH"))
    assert torch.get_num_threads() > 0
    main(["check", str(tmp_path / "good.safetensors")])
    assert "repulsive from" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "bad.safetensors")]) == 5
    assert "checks failed" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "bad.safetensors"), "--json"]) == 5
    assert json.loads(capsys.readouterr().out)["passed"] is False
