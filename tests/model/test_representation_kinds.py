"""A representation is a value: a second kind needs its own files alone, and models of earlier versions still load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from ase.build import molecule

import toy_representation
from places import ROOT
from qml_lightning import fit, load
from qml_lightning.errors import InputError
from qml_lightning.kernels import kernels_for, reference
from qml_lightning.model import representations
from qml_lightning.model.basis import Basis
from small_models import labelled, recipe
from toy_representation import Toy


@pytest.fixture
def toy(monkeypatch):
    """The toy as one row in each of the two tables that a kind must stand in."""
    monkeypatch.setitem(representations.KINDS, Toy.kind, Toy)
    monkeypatch.setitem(reference.KINDS, Toy.kind, toy_representation)
    return recipe(representation=Toy(), rank=8, n_features=64)


def water(count: int = 6):
    random = np.random.default_rng(3)
    frames = [molecule("H2O") for _ in range(count)]
    for atoms in frames:
        atoms.positions += 0.05 * random.normal(size=(3, 3))
    return frames


def test_a_model_of_another_kind_has_forces_that_are_the_slope_of_its_energy(toy):
    model = fit(labelled(water()), toy)
    atoms = molecule("H2O")
    forces = model.predict(atoms).forces
    step = 1e-4
    for atom, axis in [(0, 2), (1, 1), (2, 2)]:
        energies = []
        for sign in (1, -1):
            moved = atoms.copy()
            moved.positions[atom, axis] += sign * step
            energies.append(float(model.predict(moved).energies))
        assert (energies[1] - energies[0]) / (2 * step) == pytest.approx(float(forces[atom, axis]), abs=1e-5)


def test_random_tensors_of_a_representation_are_stored_with_the_model(toy, tmp_path, monkeypatch):
    model = fit(labelled(water()), toy)
    model.save(str(tmp_path / "toy.safetensors"))
    monkeypatch.setattr(Toy, "draw", lambda *_: pytest.fail("the tensors are in the file"))
    again = load(str(tmp_path / "toy.safetensors"))
    assert torch.equal(again.basis.drawn["weights"], model.basis.drawn["weights"])
    assert torch.equal(again.predict(water()).forces, model.predict(water()).forces)


def test_random_tensors_follow_the_seed_and_tell_bases_apart(toy):
    structures = labelled(water()).structures
    one, same = Basis.draw(structures, toy), Basis.draw(structures, toy)
    other = Basis.draw(structures, replace(toy, seed=1))
    assert one.difference(same) == ""
    assert torch.equal(one.drawn["weights"], same.drawn["weights"])
    assert "drawn at random" in replace(one, drawn=other.drawn).difference(one)


def test_kernels_that_lack_a_kind_are_passed_over_or_refused_with_the_reason(toy):
    assert kernels_for("cpu", torch.float64, kind="toy").NAME == "reference"
    if kernels_for("cpu", torch.float64).NAME == "native":
        with pytest.raises(InputError, match="do not compute the representation 'toy'"):
            kernels_for("cpu", torch.float64, "native", "toy")


def test_a_model_file_from_before_representations_had_a_kind_predicts_what_it_did():
    model = load(str(ROOT / "tests" / "data" / "water.safetensors"))  # format 1, written by commit df681ca
    found = model.predict(molecule("H2O"))
    assert float(found.energies) == pytest.approx(2.619352814487229, abs=1e-12)
    expected = [[0.0, 0.0, 8.108117820580112], [0.0, 5.202025411148068, -4.054058910290056]]
    np.testing.assert_allclose(found.forces[:2], expected, atol=1e-11)


def test_models_and_training_name_no_kind_of_representation():
    package = ROOT / "src" / "qml_lightning"
    rooms = [*(package / "model").glob("*.py"), *(package / "training").rglob("*.py")]
    named = {path.name for path in rooms if "fchl19" in path.read_text().lower()}
    assert named == {"recipe.py", "rules.py"}  # presets, and those that the choice tries
