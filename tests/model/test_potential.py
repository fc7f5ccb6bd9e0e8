"""A potential obeys the symmetries of physics, and comes back from its file as it was."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import make_supercell

import qml_lightning
from altered_files import alter, alter_entries
from kernel_tables import ON_CPU
from qml_lightning import Potential, fit
from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.errors import InputError, ModelError
from qml_lightning.model.file import FORMAT_VERSION
from small_models import SMALL, crystals, molecules, recipe
from structures_for_tests import rattled, strained


@pytest.fixture(scope="module")
def molecular() -> Potential:
    return fit(molecules(20), SMALL)


@pytest.fixture(scope="module")
def crystalline() -> Potential:
    return fit(crystals(12), SMALL)


def _ethanol(seed: int = 77) -> Atoms:
    from ase.build import molecule

    return rattled(molecule("CH3CH2OH"), seed)


def _crystal(seed: int = 5) -> Atoms:
    atoms = Atoms(
        "Cu3Au", [[0, 0, 0], [0.1, 1.8, 1.8], [1.8, 0, 1.9], [1.8, 1.8, 0]],
        cell=[[3.7, 0.1, 0], [0.3, 3.6, 0.2], [0.1, 0.2, 3.8]], pbc=True,
    )  # fmt: skip
    return rattled(atoms, seed, 0.05)


def _slab() -> Atoms:
    atoms = _crystal()
    atoms.pbc = (True, True, False)
    atoms.cell[2] = (0, 0, 14.0)
    return atoms


PERIODIC = {"crystal smaller than the cutoff": _crystal, "slab": _slab}


@pytest.mark.parametrize("name", ON_CPU)
@pytest.mark.parametrize("kind", ["molecule", *PERIODIC])
def test_forces_are_minus_the_gradient_of_the_energy(molecular, crystalline, kind, name):
    potential = (molecular if kind == "molecule" else crystalline).on(kernels=name)
    atoms = _ethanol() if kind == "molecule" else PERIODIC[kind]()
    forces = potential.predict(atoms).forces.numpy()
    step = 1e-4
    numerical = np.zeros_like(forces)
    for index in np.ndindex(forces.shape):
        energies = []
        for sign in (2, 1, -1, -2):
            moved = atoms.copy()
            moved.positions[index] += sign * step
            energies.append(float(potential.predict(moved, forces=False, stress=False).energies[0]))
        numerical[index] = (energies[0] - 8 * energies[1] + 8 * energies[2] - energies[3]) / (12 * step)
    assert np.abs(forces - numerical).max() <= 1e-6 * np.abs(forces).max()


@pytest.mark.parametrize("name", ON_CPU)
@pytest.mark.parametrize("kind", PERIODIC)
def test_stress_is_the_strain_derivative_of_the_energy(crystalline, kind, name):
    potential = crystalline.on(kernels=name)
    atoms = PERIODIC[kind]()
    stress = potential.predict(atoms).stress[0].numpy()
    step = 1e-5
    for a in range(3):
        for b in range(a, 3):
            energies = [float(potential.predict(strained(atoms, a, b, by)).energies[0]) for by in (step, -step)]
            numerical = (energies[0] - energies[1]) / (2 * step) / atoms.get_volume()
            assert stress[a, b] == pytest.approx(numerical, abs=2e-6 * np.abs(stress).max())


def test_rotation_translation_and_permutation_leave_the_energy_and_turn_the_forces(molecular):
    atoms = _ethanol()
    before = molecular.predict(atoms)
    order = np.random.default_rng(0).permutation(len(atoms))
    turned = atoms[order]
    turned.rotate(61, (3, 1, 2), center=(1, 1, 1))
    turned.positions += [150.0, -70.0, 33.0]
    after = molecular.predict(turned)
    assert float(after.energies) == pytest.approx(float(before.energies), abs=1e-9)
    rotated = atoms.copy()
    rotated.set_array("forces", before.forces.numpy().copy())
    vectors = Atoms("X9", before.forces.numpy()[order])
    vectors.rotate(61, (3, 1, 2))
    assert np.abs(after.forces.numpy() - vectors.positions).max() < 1e-9


def test_a_supercell_has_n_times_the_energy_and_the_same_stress(crystalline):
    atoms = _crystal()
    large = make_supercell(atoms, [[2, 0, 0], [1, 1, 0], [0, 0, 2]])
    one, many = crystalline.predict(atoms), crystalline.predict(large)
    assert float(many.energies) == pytest.approx(4 * float(one.energies), rel=1e-12)
    assert np.allclose(many.stress, one.stress, atol=1e-12)


def test_the_energy_is_smooth_through_the_cutoff(molecular):
    cutoff = SMALL.representation.cutoff

    def energy_and_force(distance):
        prediction = molecular.predict(Atoms("HO", [[0, 0, 0], [0, 0, distance]]))
        return float(prediction.energies), float(prediction.forces[1, 2])

    inside, outside = energy_and_force(cutoff - 1e-4), energy_and_force(cutoff + 1e-4)
    assert inside[0] == pytest.approx(outside[0], abs=1e-6)
    assert inside[1] == pytest.approx(outside[1], abs=1e-3)
    assert outside[1] == 0.0


@pytest.mark.parametrize("name", ON_CPU)
def test_a_batch_predicts_what_each_structure_predicts_alone(crystalline, monkeypatch, name):
    import qml_lightning.model.predictor as module

    potential = crystalline.on(kernels=name)
    frames = [_crystal(k) for k in range(6)] + [_slab()]
    alone = [potential.predict(atoms) for atoms in frames]
    monkeypatch.setattr(module, "ATOMS_AT_ONCE", 9)
    together = potential.predict(frames)
    assert torch.allclose(together.energies, torch.cat([p.energies for p in alone]), rtol=0, atol=1e-11)
    assert torch.allclose(together.forces, torch.cat([p.forces for p in alone]), rtol=0, atol=1e-11)
    assert torch.allclose(together.stress, torch.cat([p.stress for p in alone]), rtol=0, atol=1e-12)


def test_atom_energies_add_up(crystalline):
    prediction = crystalline.predict(_crystal())
    assert float(prediction.atom_energies.sum()) == pytest.approx(float(prediction.energies))


def test_a_lone_atom_has_an_energy_and_no_force(molecular):
    prediction = molecular.predict(Atoms("H"))
    assert np.isfinite(float(prediction.energies))
    assert prediction.forces.tolist() == [[0.0, 0.0, 0.0]]


def test_a_molecule_has_no_stress(molecular):
    assert molecular.predict(_ethanol()).stress is None
    assert bool(molecular.predict(_ethanol(), stress=True).stress.isnan().all())


def test_a_batch_has_a_volume_if_a_periodic_cell_of_it_has_one():
    cell = [3.0, 4.0, 5.0]
    boxed, wire = Atoms("H", cell=cell), Atoms("H", cell=[3.0, 0.0, 0.0], pbc=(True, False, False))
    slab = Atoms("H", cell=cell, pbc=(True, True, False))
    assert not structures_from_ase([boxed, wire]).has_volume
    mixed = structures_from_ase([boxed, wire, slab])
    assert mixed.has_volume
    assert mixed.volumes.isfinite().tolist() == [False, False, True]
    assert float(mixed.volumes[2]) == pytest.approx(60.0)


def test_single_precision_prediction_stays_near_double(molecular):
    double, single = molecular.predict(_ethanol()), molecular.on(precision="float32").predict(_ethanol())
    assert float(single.energies) == pytest.approx(float(double.energies), abs=1e-3)
    assert (single.forces - double.forces).abs().max() < 1e-2 * double.forces.abs().max()


@pytest.mark.parametrize(
    "changes", [{}, {"method": "orf"}, {"paired": True}, {"blocks": True}, {"chi_scaled": True}], ids=str
)
def test_a_model_comes_back_from_its_file_bit_for_bit(tmp_path, changes):
    potential = fit(molecules(4), recipe(**changes))
    potential.save(str(tmp_path / "model.qml"))
    again = qml_lightning.load(str(tmp_path / "model.qml"))
    assert again.recipe == potential.recipe
    assert again.elements == potential.elements
    assert again.provenance.as_dict() == json.loads(json.dumps(potential.provenance.as_dict()))
    one, two = potential.predict(_ethanol()), again.predict(_ethanol())
    assert torch.equal(one.energies, two.energies)
    assert torch.equal(one.forces, two.forces)


def test_an_existing_model_is_not_overwritten_unless_told(tmp_path, molecular):
    path = tmp_path / "model.qml"
    path.write_text("precious")
    with pytest.raises(InputError):
        molecular.save(str(path))
    assert path.read_text() == "precious"
    molecular.save(str(path), overwrite=True)
    assert qml_lightning.load(str(path)).elements == (1, 6, 8)


def test_truncated_foreign_and_newer_files_are_told_apart(tmp_path, molecular):
    path = tmp_path / "model.qml"

    def fresh():
        molecular.save(str(path), overwrite=True)

    fresh()
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ModelError, match="truncated"):
        qml_lightning.load(str(path))
    path.write_bytes(b"not a model at all")
    with pytest.raises(ModelError, match="not a complete safetensors file"):
        qml_lightning.load(str(path))

    fresh()
    alter_entries(path, lambda entries: entries.__setitem__("__metadata__", {"format": "pt"}))
    with pytest.raises(ModelError, match="not a qml-lightning model file"):
        qml_lightning.load(str(path))

    fresh()
    alter(path, lambda header: header.__setitem__("format_version", FORMAT_VERSION + 1))
    with pytest.raises(ModelError, match="Update it"):
        qml_lightning.load(str(path))

    fresh()
    alter(path, lambda header: header.pop("recipe"))
    with pytest.raises(ModelError, match="part missing"):
        qml_lightning.load(str(path))

    fresh()
    alter(path, lambda header: header["recipe"]["features"].__setitem__("n_features", 128))
    with pytest.raises(ModelError, match=r"phases of shape \(3, 128\), found \(3, 256\)"):
        qml_lightning.load(str(path))
    with pytest.raises(InputError, match="no model file"):
        qml_lightning.load(str(tmp_path / "absent.qml"))


def test_an_element_that_the_model_never_saw_is_refused(molecular):
    with pytest.raises(InputError, match="Elements Cl are not among"):
        molecular.predict(Atoms("HCl", [[0, 0, 0], [0, 0, 1.3]]))


def test_structures_that_cannot_be_are_refused(molecular):
    with pytest.raises(InputError, match="NaN or infinite"):
        molecular.predict(Atoms("H2", [[0, 0, 0], [0, 0, np.nan]]))
    with pytest.raises(InputError, match="has no atoms"):
        molecular.predict(Atoms())
    with pytest.raises(InputError, match="no structure"):
        molecular.predict([])
    with pytest.raises(InputError, match="does not span"):
        molecular.predict(Atoms("H2", [[0, 0, 0], [0, 0, 1]], pbc=True))


def test_potential_knows_where_it_came_from(molecular):
    assert molecular.provenance.structures == 20
    assert molecular.provenance.targets == {"energies": 20, "forces": 20 * 27}
    assert structures_from_ase(_ethanol()).elements == molecular.elements
