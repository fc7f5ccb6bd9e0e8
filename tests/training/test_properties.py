"""Properties: sums, means and dipoles from one pass, with the symmetries that they have."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import molecule

import qml_lightning as qml
from qml_lightning.errors import InputError, ModelError
from qml_lightning.model.representations.density import Density
from small_models import recipe
from structures_for_tests import rattled

NAMES = ("CH3CH2OH", "H2O", "CH3OH", "C2H6", "CH3CHO", "CH4")
DENSITY = Density(cutoff=4.5, density_cutoff=4.0, n_pair=5, n_radial=4, n_channels=16)
CHARGES = {1: 0.4, 6: -0.1, 8: -0.7}


def frames_of(n: int, seed: int = 0, scale: float = 0.05) -> list[Atoms]:
    return [rattled(molecule(NAMES[k % len(NAMES)]), seed + k, scale) for k in range(n)]


def bond_sum(atoms: Atoms) -> float:
    """A sum over atoms that depends on the environment: Gaussians of all distances."""
    distances = atoms.get_all_distances()
    return float(np.exp(-(distances**2)).sum() + sum({1: 0.5, 6: 3.0, 8: 5.0}[z] for z in atoms.numbers))


def dipole(atoms: Atoms) -> np.ndarray:
    """Dipole of charges that depend on the element and on the distances to the neighbours, with a sum of zero."""
    charge = np.array([CHARGES[z] for z in atoms.numbers])
    charge = charge + 0.2 * np.exp(-0.5 * atoms.get_all_distances() ** 2).sum(1)
    return (charge - charge.mean()) @ atoms.positions


def properties_of(frames: list[Atoms]) -> dict[str, np.ndarray]:
    total = np.array([bond_sum(atoms) for atoms in frames])
    return {
        "total": total,
        "mean": total / np.array([len(atoms) for atoms in frames]),
        "dipole": np.array([dipole(atoms) for atoms in frames]),
    }


KINDS = {"mean": "intensive"}


@pytest.fixture(scope="module", params=["fchl19", "density"])
def model(request):
    frames = frames_of(120)
    chosen = recipe(n_features=512) if request.param == "fchl19" else recipe(n_features=512, representation=DENSITY)
    return qml.fit_properties(frames, properties_of(frames), kinds=KINDS, recipe=chosen)


def test_sums_means_and_dipoles_are_learnt_together(model):
    frames = frames_of(30, seed=1000)
    wanted, found = properties_of(frames), model.predict(frames)
    assert model.names == ("total", "mean", "dipole")
    for name, values in wanted.items():
        error = np.abs(found[name].numpy() - values).mean()
        assert error < 0.1 * values.std(), (name, error, values.std())


def test_a_sum_doubles_with_two_molecules_far_apart_and_a_mean_stays(model):
    one = rattled(molecule("CH3OH"), 3, 0.05)
    far = one.copy()
    far.translate([50.0, 0.0, 0.0])
    single, double = model.predict(one), model.predict(one + far)
    assert float(double["total"][0]) == pytest.approx(2 * float(single["total"][0]), rel=1e-6)
    assert float(double["mean"][0]) == pytest.approx(float(single["mean"][0]), rel=1e-6)


def test_dipoles_turn_with_the_molecule_and_stay_when_it_moves(model):
    atoms = rattled(molecule("CH3CH2OH"), 5, 0.05)
    before = model.predict(atoms)["dipole"][0].numpy()
    turned = atoms.copy()
    turned.rotate(70, (1, 2, 3))
    matrix = Atoms("H3", np.eye(3))
    matrix.rotate(70, (1, 2, 3))
    assert np.allclose(model.predict(turned)["dipole"][0], before @ matrix.positions, atol=1e-7)
    turned.translate([3.0, -2.0, 7.0])
    assert np.allclose(model.predict(turned)["dipole"][0], before @ matrix.positions, atol=1e-7)


def test_shares_of_atoms_add_up_and_charges_have_a_sum_of_zero(model):
    frames = frames_of(4, seed=77)
    shares, whole = model.of_atoms(frames), model.predict(frames)
    start = 0
    for k, atoms in enumerate(frames):
        own = slice(start, start + len(atoms))
        assert float(shares["total"][own].sum()) == pytest.approx(float(whole["total"][k]))
        assert float(shares["mean"][own].mean()) == pytest.approx(float(whole["mean"][k]))
        assert float(shares["dipole"][own].sum()) == pytest.approx(0.0, abs=1e-12)
        assert np.allclose(shares["dipole"][own].numpy() @ atoms.positions, whole["dipole"][k], atol=1e-9)
        start += len(atoms)


def test_derivatives_of_the_dipole_are_those_of_finite_differences(model):
    atoms = rattled(molecule("H2O"), 2, 0.05)
    found, step = model.dipole_derivatives(atoms).numpy(), 1e-4
    for atom in range(len(atoms)):
        for direction in range(3):
            ends = []
            for sign in (1, -1):
                moved = atoms.copy()
                moved.positions[atom, direction] += sign * step
                ends.append(model.predict(moved)["dipole"][0].numpy())
            assert np.allclose(found[:, atom, direction], (ends[0] - ends[1]) / (2 * step), atol=1e-6)


def test_more_rows_than_weights_give_the_model_of_a_dense_solution():
    frames = frames_of(60)
    values = properties_of(frames)
    small = recipe(n_features=32, ridge=1e-6)
    model = qml.fit_properties(frames, {"total": values["total"]}, recipe=small, ridge=1e-6)
    both = qml.fit_properties(frames, values, kinds=KINDS, recipe=small, ridge=1e-6)
    assert torch.allclose(model.predict(frames)["total"], both.predict(frames)["total"], atol=1e-7)
    # a mean times the number of atoms is the sum: with one ridge they have one solution
    counts = torch.tensor([len(atoms) for atoms in frames])
    learnt = both.predict(frames)["mean"] * counts
    shift = both.baseline[:, 1] - both.baseline[:, 0]
    assert not torch.allclose(shift, torch.zeros_like(shift))  # reference values differ, so predictions may a little
    assert float((learnt - both.predict(frames)["total"]).abs().mean()) < 0.05 * values["total"].std()


@pytest.mark.parametrize("kernels", ["native", "reference"])
def test_back_ends_agree(model, kernels):
    frames = frames_of(5, seed=9)
    found = model.on(kernels=kernels, precision="float64").predict(frames)
    for name, values in model.on(precision="float64").predict(frames).items():
        assert torch.allclose(found[name], values, atol=1e-8)


def test_a_model_file_gives_the_same_predictions_and_tells_its_origin(model, tmp_path):
    path = str(tmp_path / "properties.safetensors")
    model.save(path)
    again = qml.PropertyModel.load(path)
    frames = frames_of(4, seed=50)
    for name, values in model.predict(frames).items():
        assert torch.equal(again.predict(frames)[name], values)
    assert again.properties == model.properties
    assert again.provenance.structures == 120
    assert again.provenance.data["name"] == "ASE structures"
    assert "total (extensive), mean (intensive), dipole (dipole)" in repr(again)


def test_a_file_of_properties_is_no_potential_and_the_other_way_round(model, tmp_path):
    path = str(tmp_path / "properties.safetensors")
    model.save(path)
    with pytest.raises(InputError, match=r"PropertyModel\.load"):
        qml.load(path)
    frames = frames_of(6)
    for atoms in frames:
        atoms.info["energy"] = bond_sum(atoms)
    qml.fit(frames, recipe(n_features=64)).save(str(tmp_path / "potential.safetensors"))
    with pytest.raises(InputError, match="is a potential"):
        qml.PropertyModel.load(str(tmp_path / "potential.safetensors"))


def test_a_damaged_file_is_refused_in_words(model, tmp_path):
    path = tmp_path / "properties.safetensors"
    model.save(str(path))
    content = bytearray(path.read_bytes())
    content[-100] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ModelError, match="damaged"):
        qml.PropertyModel.load(str(path))


def test_columns_of_files_and_of_frames_are_read_by_name(tmp_path):
    from ase.io import write

    frames = frames_of(40)
    values = properties_of(frames)
    for k, atoms in enumerate(frames):
        atoms.info["Alpha"], atoms.info["mu"] = values["total"][k], values["dipole"][k]
    write(tmp_path / "set.extxyz", frames)
    data = qml.load_dataset(tmp_path / "set.extxyz", columns=["Alpha", "mu"], labels="ignored")
    assert np.allclose(data.columns["Alpha"], values["total"], atol=1e-6)
    assert data.columns["mu"].shape == (40, 3)
    train, test = data.split((30, 10), seed=0)
    assert len(train.columns["mu"]) == 30
    from_file = qml.fit_properties(train, ["Alpha", "mu"], recipe=recipe())
    assert [one.kind for one in from_file.properties] == ["extensive", "dipole"]
    assert qml.fit_properties(frames, ["Alpha"], recipe=recipe()).names == ("Alpha",)
    assert np.isfinite(from_file.predict(test.structures)["Alpha"]).all()


def test_the_recipe_is_chosen_for_the_first_scalar():
    frames = frames_of(60)
    model = qml.fit_properties(frames, {"total": properties_of(frames)["total"]}, n_features=256)
    assert model.provenance.choice is not None
    assert "sigma" in model.provenance.choice["chosen"]


FRAMES = frames_of(6)
WRONG = {
    "tensor": ({"alpha": np.zeros((6, 3, 3))}, {}, "polarisabilities"),
    "length": ({"alpha": np.zeros(5)}, {}, r"shape \(6,\), got \(5,\)"),
    "nan": ({"alpha": [1.0, np.nan, 1, 1, 1, 1]}, {}, "alpha of structure 1"),
    "kind": ({"alpha": np.zeros(6)}, {"alpha": "local"}, "extensive, intensive, dipole"),
    "stranger": ({"alpha": np.zeros(6)}, {"beta": "intensive"}, "beta"),
    "none": ({}, {}, "no property"),
    "text": ("alpha", {}, r"\['alpha'\]"),
    "no such key": (["alpha"], {}, "alpha"),
    "two dipoles": ({"a": np.zeros((6, 3)), "b": np.zeros((6, 3))}, {}, "One dipole"),
}


@pytest.mark.parametrize("case", WRONG)
def test_properties_that_cannot_be_learnt_are_refused_in_words(case):
    properties, kinds, words = WRONG[case]
    with pytest.raises(InputError, match=words):
        qml.fit_properties(FRAMES, properties, kinds=kinds, recipe=recipe())


def test_dipoles_of_periodic_structures_are_refused():
    frames = [atoms.copy() for atoms in FRAMES]
    for atoms in frames:
        atoms.center(vacuum=3.0)
        atoms.pbc = True
    with pytest.raises(InputError, match="periodic"):
        qml.fit_properties(frames, {"dipole": np.zeros((6, 3))}, recipe=recipe())


def test_an_unknown_option_is_named():
    with pytest.raises(TypeError, match="committee"):
        qml.fit_properties(FRAMES, {"alpha": np.zeros(6)}, recipe=recipe(), committee=8)
