"""Atoms more crowded than any in the data repel each other; all others do not notice."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk
from ase.calculators.fd import calculate_numerical_forces, calculate_numerical_stress
from ase.neighborlist import neighbor_list

from kernel_tables import ON_CPU
from qml_lightning import fit, load, structures_from_ase
from qml_lightning.errors import InputError, ModelError
from qml_lightning.kernels.native.predictor import NativePredictor
from qml_lightning.model import crowding_fit
from qml_lightning.model.crowding import REACH, WIDTH, Crowding
from qml_lightning.model.crowding_fit import MARGINS, STRENGTHS, Path, best_pair, lattices, with_crowding
from qml_lightning.study.vibrations import hessian
from small_models import argon, crystals, molecules, recipe
from structures_for_tests import rattled


@pytest.fixture(scope="module")
def fitted():
    return fit(crystals(20), recipe(), committee=3)


@pytest.fixture(scope="module")
def model(fitted):
    """A model with an onset near the data, so that little compression is enough for the tests."""
    crowding = fitted.repulsion.crowding
    near = crowding.at(crowding.most(crystals(20).structures, fitted.elements), 1.3, 30.0)
    return replace(fitted, repulsion=replace(fitted.repulsion, crowding=near))


def crystal(scale: float, seed: int = 2) -> Atoms:
    atoms = rattled(bulk("Cu", cubic=True), seed, 0.05)
    atoms.symbols[0] = "Au"
    atoms.set_cell(atoms.cell.array * scale, scale_atoms=True)
    return atoms


def crowding_of(crowding: Crowding, elements: tuple[int, ...], atoms: Atoms) -> np.ndarray:
    """Crowding of each atom, by a loop over all images."""
    out = np.zeros(len(atoms))
    shifts = [np.array(one) for one in np.ndindex(5, 5, 5)]
    for i, z in enumerate(atoms.numbers):
        for j, other in enumerate(atoms.numbers):
            reach = crowding.reach[elements.index(z), elements.index(other)].item()
            for shift in shifts:
                away = atoms.positions[j] + (shift - 2) @ atoms.cell.array - atoms.positions[i]
                ratio = away @ away / reach**2
                out[i] += (1 - ratio) ** 4 if 0 < ratio < 1 else 0.0
    return out


def test_crowding_counts_the_neighbours_within_reach(model):
    atoms, crowding = crystal(0.95), model.repulsion.crowding
    cutoff = model.recipe.representation.cutoff
    assert torch.allclose(crowding.reach, (REACH * model.repulsion.shortest).clamp(max=cutoff))
    wanted = crowding_of(crowding, model.elements, atoms)
    found = crowding.most(structures_from_ase(atoms), model.elements)
    for e, z in enumerate(model.elements):
        assert found[e].item() == pytest.approx(wanted[atoms.numbers == z].max(), rel=1e-12)


def test_no_structure_of_the_data_is_crowded(model):
    data, without = crystals(20).structures, replace(model, repulsion=None)
    assert bool((model.repulsion.crowding.most(data, model.elements) < model.repulsion.crowding.onset).all())
    for name in ON_CPU:
        a, b = (one.on(kernels=name).predict(data, uncertainty=True) for one in (model, without))
        assert torch.equal(a.energies, b.energies)
        assert torch.equal(a.forces, b.forces)
        assert torch.equal(a.stress, b.stress)
        assert torch.equal(a.force_uncertainty, b.force_uncertainty)


def test_the_energy_of_a_crowded_atom_is_that_of_the_formula(model):
    atoms, crowding = crystal(0.87), model.repulsion.crowding
    learnt = replace(model, repulsion=None).on(precision="float64").predict(atoms).atom_energies.numpy()
    lone = np.array([model.baseline.energies[model.elements.index(z)].item() for z in atoms.numbers])
    at = [model.elements.index(z) for z in atoms.numbers]
    onset, full, strength = (one.numpy()[at] for one in (crowding.onset, crowding.full, crowding.strength))
    y = np.maximum(0, (crowding_of(crowding, model.elements, atoms) - onset) / (full - onset))
    assert 0 < y.min() < 1
    w = np.minimum(y, 1)
    wanted = lone + (1 - w**3 * (10 - 15 * w + 6 * w**2)) * (learnt - lone) + strength * y**3 / (1 + y**2)
    pairs_alone = replace(model.repulsion, outer=0.5 * model.repulsion.outer, inner=0.5 * model.repulsion.inner)
    for name in ON_CPU:
        found = replace(model, repulsion=pairs_alone).on(kernels=name, precision="float64").predict(atoms)
        np.testing.assert_allclose(found.atom_energies.numpy(), wanted, rtol=1e-11)


@pytest.mark.parametrize("kernels", ON_CPU)
@pytest.mark.parametrize("scale", [0.9, 0.8, 0.6])
def test_forces_and_stress_are_gradients_of_the_energy(model, kernels, scale):
    atoms = crystal(scale)
    atoms.calc = model.calculator(kernels=kernels, precision="float64")
    exact = calculate_numerical_forces(atoms, eps=1e-5)
    np.testing.assert_allclose(atoms.get_forces(), exact, rtol=0, atol=1e-6 * max(1, np.abs(exact).max()))
    exact = calculate_numerical_stress(atoms, eps=1e-6)
    np.testing.assert_allclose(atoms.get_stress(), exact, rtol=0, atol=1e-6 * max(1, np.abs(exact).max()))


@pytest.mark.skipif("native" not in ON_CPU, reason="the native kernels are not built")
@pytest.mark.parametrize("scale", [0.9, 0.8, 0.6])
def test_native_and_reference_kernels_agree_on_crowded_atoms_and_their_uncertainty(model, scale):
    atoms = crystal(scale)
    found, wanted = (
        model.on(kernels=name, precision="float64").predict(atoms, uncertainty=True) for name in ("native", "reference")
    )
    for name in ("atom_energies", "forces", "stress", "atom_energy_uncertainty", "force_uncertainty"):
        a, b = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * float(b.abs().max()))
    coarse = model.on(kernels="native", precision="float32").predict(atoms)
    np.testing.assert_allclose(coarse.forces, wanted.forces, rtol=0, atol=1e-3 * float(wanted.forces.abs().max()))


def test_a_hole_on_compression_is_closed():
    # weights with the wrong sign: the model then falls when atoms come together
    bad = fit(crystals(20), recipe(), repulsion=False)
    right = fit(crystals(20), recipe()).repulsion
    bad = replace(bad, weights=-5 * bad.weights, repulsion=replace(right, crowding=None))
    scales = np.arange(0.94, 0.3, -0.02)

    def curve(one) -> np.ndarray:
        return np.array([one.predict(crystal(scale), forces=False).energies.item() for scale in scales])

    assert np.diff(curve(bad)).min() < -5
    held = with_crowding(bad, crystals(20).structures)
    beyond = scales < 0.8  # well beyond the data in any case
    assert np.diff(curve(held)[beyond]).min() > 0
    assert curve(held)[-1] > curve(held)[0] + 100


def test_the_onset_lies_no_nearer_to_the_data_than_needed(fitted):
    crowding = fitted.repulsion.crowding
    most = crowding.most(crystals(20).structures, fitted.elements)
    ratio = crowding.onset / most
    assert min(abs(ratio[0].item() - margin) for margin in MARGINS) < 1e-9
    assert torch.allclose(crowding.full, (1 + WIDTH) * crowding.onset)


def test_simple_lattices_of_a_crystal_of_one_element_are_compressed_too(monkeypatch):
    frames = [rattled(bulk("Si", a=a, cubic=True), k, 0.05) for k, a in enumerate((5.2, 5.47))]
    found = lattices(structures_from_ase([*frames, bulk("Si", a=5.6)]))
    assert {name: one.get_volume() for name, one in found.items()} == pytest.approx(dict.fromkeys(found, 5.6**3 / 8))
    # neighbours of an atom, and their distance, are those of the lattice
    for name, (n, distance) in {
        "sc": (6, 1.0),
        "bcc": (8, 0.75**0.5 * 2 ** (1 / 3)),
        "fcc": (12, 2 ** (1 / 6)),
    }.items():
        near = neighbor_list("d", found[name], 1.05 * distance * 5.6 / 2)
        np.testing.assert_allclose(near, distance * 5.6 / 2)
        assert len(near) == n
    assert not lattices(molecules(3).structures)
    assert not lattices(crystals(3).structures)
    seen = []
    monkeypatch.setattr(crowding_fit, "_path", lambda _, one, *rest: seen.append(one.n_atoms) or Path([], [], []))
    with_crowding(fit(argon(5), recipe(n_features=32)), argon(5).structures)
    assert seen[-3:] == [1, 1, 1]


def falls_of(others: dict[tuple[float, float], float]) -> dict[tuple[float, float], float]:
    """A fall of 50 eV per atom with all pairs of margin and strength but others."""
    return {pair: others.get(pair, 50.0) for pair in product(MARGINS, STRENGTHS)}


def test_energies_without_meaning_right_beyond_the_data_are_pushed_up_there():
    assert best_pair(falls_of({(2.0, 300.0): 0.0, (1.01, 30.0): 0.0})) == (2.0, 300.0)
    # 47 eV at 1.2 times the crowding of the data: less than the fall that it closes, not less than a fall of 20
    assert best_pair(falls_of({(1.01, 1000.0): 0.0, (1.01, 3000.0): 0.0})) == (1.01, 1000.0)
    assert best_pair(falls_of({(1.01, 1000.0): 0.0, (1.2, 10000.0): 20.0})) == (1.2, 10000.0)
    assert best_pair(falls_of({(1.3, 3000.0): 40.0})) == (1.3, 3000.0)


def test_a_file_keeps_it_for_python_and_for_the_native_reader(model, tmp_path):
    model.save(tmp_path / "with.safetensors")
    read, atoms = load(tmp_path / "with.safetensors"), crystal(0.8)
    assert torch.equal(read.repulsion.crowding.onset, model.repulsion.crowding.onset)
    assert read.predict(atoms).energies.item() == model.predict(atoms).energies.item()
    if "native" not in ON_CPU:
        pytest.skip("the native kernels are not built")
    from qml_lightning.atoms.neighbours import element_indices

    s = structures_from_ase(atoms)
    given = s.offsets, element_indices(s.numbers, model.elements), s.positions, s.cells, s.periodic
    found = NativePredictor.load(tmp_path / "with.safetensors").predict(*given, forces=True, virial=False)
    assert torch.equal(found[2], model.on(kernels="native").predict(s).forces)


@pytest.mark.parametrize("change", ["reach", "onset", "full", "strength"])
def test_numbers_that_make_no_sense_are_refused(model, tmp_path, change):
    crowding = model.repulsion.crowding
    crowding = replace(crowding, **{change: -getattr(crowding, change)})
    replace(model, repulsion=replace(model.repulsion, crowding=crowding)).save(tmp_path / "broken.safetensors")
    with pytest.raises(ModelError, match="crowding"):
        load(tmp_path / "broken.safetensors")
    with pytest.raises((ModelError, InputError), match=r"reach|onset"):
        NativePredictor.load(tmp_path / "broken.safetensors")


def test_new_structures_are_left_alone_after_an_update(model):
    dense = crystals(5, seed=100).structures
    dense = replace(dense, positions=dense.positions * 0.9, cells=dense.cells * 0.9)
    wider = model.repulsion.and_below(dense, model.recipe.representation.cutoff).crowding
    assert bool((wider.most(dense, model.elements) <= wider.onset).all())
    assert bool((wider.onset > model.repulsion.crowding.onset).any())


def test_second_derivatives_of_crowded_atoms_are_refused(model):
    with pytest.raises(InputError, match="relax"):
        hessian(model, crystal(0.8))


def test_molecules_have_it_too():
    model = fit(molecules(40), recipe())
    assert bool((model.repulsion.crowding.onset > 0).all())
