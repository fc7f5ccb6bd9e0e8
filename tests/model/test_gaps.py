"""Distances that no two atoms of the data have, between bonds and all longer ones, are kept free by a barrier."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.fd import calculate_numerical_forces

from kernel_tables import ON_CPU
from qml_lightning import fit, load, load_dataset
from qml_lightning.atoms.neighbours import element_indices, pairs_within
from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.kernels.native.predictor import NativePredictor
from qml_lightning.model.file import read_header
from qml_lightning.model.gaps import LEAST, SHARE, STRETCH, Gaps, seen_distances
from qml_lightning.model.repulsion import Repulsion
from small_models import recipe
from structures_for_tests import rattled

ELEMENTS = (1, 6, 8)
OXYGEN, HYDROGEN = ELEMENTS.index(8), ELEMENTS.index(1)


@pytest.fixture(scope="module")
def ethanol():
    return load_dataset("ethanol:train").subsample(40, seed=0)


@pytest.fixture(scope="module")
def model(ethanol):
    return fit(ethanol, recipe())


def gaps_of(frames: list[Atoms]) -> Gaps | None:
    structures = structures_from_ase(frames)
    return Repulsion.below(structures, structures.elements, 6.0).gaps


def pulled(gaps: Gaps) -> Atoms:
    """Ethanol whose hydroxyl hydrogen lies in the gap between bonded and other oxygen–hydrogen distances."""
    atoms = rattled(molecule("CH3CH2OH"), 3, 0.03)
    low, high = gaps.low[HYDROGEN, OXYGEN].item(), gaps.high[HYDROGEN, OXYGEN].item()
    atoms.set_distance(2, 3, 0.6 * low + 0.4 * high, fix=0)
    return atoms


def test_a_gap_lies_within_the_distances_that_no_structure_has(ethanol, model):
    data, gaps = ethanol.structures, model.repulsion.gaps
    lengths = []
    for a, b in zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True):
        numbers, positions = data.numbers[a:b].numpy(), data.positions[a:b].numpy()
        apart = np.linalg.norm(positions[:, None] - positions[None], axis=2)
        lengths.append(apart[np.ix_(numbers == 1, numbers == 8)].ravel())
    lengths = np.sort(np.concatenate(lengths))
    widest = np.diff(lengths).argmax()
    bond, other = lengths[widest], lengths[widest + 1]
    assert bond < 1.2
    assert other > 1.6
    assert gaps.low[HYDROGEN, OXYGEN].item() == pytest.approx(bond + STRETCH, abs=0.02)
    assert gaps.high[HYDROGEN, OXYGEN].item() == pytest.approx(other - SHARE * (other - bond), abs=0.02)


def test_hot_structures_of_a_molecule_are_in_no_gap_of_cold_ones(shared_data):
    cold, hot = (load_dataset(f"3bpa:{name}", data_folder=shared_data) for name in ("train_300K", "test_mixedT"))
    elements = cold.structures.elements
    gaps = Repulsion.below(cold.structures, elements, 5.0).gaps
    assert gaps is not None
    pairs = pairs_within(hot.structures, 4.0, elements)
    element = element_indices(hot.structures.numbers, elements)
    squares = pairs.vector.square().sum(1)
    assert not gaps.inside(element[pairs.centre], element[pairs.neighbour], squares).any()


def test_data_in_which_a_bond_breaks_have_no_gap():
    stretched = []
    for distance in np.arange(0.9, 2.0, 0.1):
        atoms = molecule("CH3CH2OH")
        atoms.set_distance(2, 3, distance, fix=0)
        stretched.append(atoms)
    assert gaps_of([molecule("CH3CH2OH")]).high[HYDROGEN, OXYGEN] > 0
    assert gaps_of(stretched).high[HYDROGEN, OXYGEN] == 0


def test_a_metal_has_none_and_data_of_many_molecules_neither():
    assert gaps_of([bulk("Cu", cubic=True).repeat(2)]) is None  # in a perfect crystal there are few distances
    assert gaps_of([molecule(name) for name in ("CH3CH2OH", "CH3OH", "CH4")]) is not None
    many = ("CH3CH2OH", "CH3OH", "CH4", "H2O", "C2H6", "C2H4", "C2H2", "CH3CHO", "C6H6", "HCOOH", "H2CO", "CO2", "C3H8")
    assert gaps_of([molecule(name) for name in many]) is None


def test_distances_are_those_of_all_pairs_in_either_order():
    shortest, occupied = seen_distances(structures_from_ase([molecule("CH3CH2OH")]), ELEMENTS, 4.0)
    assert torch.equal(shortest, shortest.T)
    assert torch.equal(occupied, occupied.transpose(0, 1))
    assert shortest[HYDROGEN, OXYGEN].item() == pytest.approx(molecule("CH3CH2OH").get_distance(2, 3), rel=1e-12)


def test_the_barrier_rises_from_zero_on_both_sides_and_has_the_slope_that_it_tells():
    gaps = Gaps(torch.full((1, 1), 1.2, dtype=torch.float64), torch.full((1, 1), 1.6, dtype=torch.float64))
    place = torch.zeros(401, dtype=torch.int64)
    r = torch.linspace(1.1, 1.7, 401).double().requires_grad_()
    energy, slope = gaps.barrier(place, place, r)
    assert torch.all(energy[(r <= 1.2) | (r >= 1.6)] == 0)
    assert energy.max().item() == pytest.approx(40 * 0.4**2, rel=1e-3)
    (found,) = torch.autograd.grad(energy.sum(), r)
    torch.testing.assert_close(slope, found)


@pytest.mark.parametrize("kernels", ON_CPU)
def test_a_hydrogen_on_its_way_to_another_atom_is_held_back(model, kernels):
    atoms = pulled(model.repulsion.gaps)
    without = replace(model, repulsion=replace(model.repulsion, gaps=None))
    predict = {"kernels": kernels, "precision": "float64"}
    raised = [one.on(**predict).predict(atoms).energies.item() for one in (model, without)]
    assert raised[0] - raised[1] > 1.0
    atoms.calc = model.calculator(**predict)
    exact = calculate_numerical_forces(atoms, eps=1e-5)
    np.testing.assert_allclose(atoms.get_forces(), exact, rtol=0, atol=2e-6 * np.abs(exact).max())


@pytest.mark.skipif("native" not in ON_CPU, reason="the native kernels are not built")
def test_native_and_reference_kernels_agree_on_pairs_in_a_gap(model):
    atoms = pulled(model.repulsion.gaps)
    found, wanted = (model.on(kernels=name, precision="float64").predict(atoms) for name in ("native", "reference"))
    assert found.energies.item() == pytest.approx(wanted.energies.item(), rel=1e-12)
    np.testing.assert_allclose(found.forces, wanted.forces, rtol=1e-9, atol=1e-9 * float(wanted.forces.abs().max()))


def test_a_file_keeps_gaps_and_older_packages_refuse_it(model, tmp_path):
    path = tmp_path / "with.safetensors"
    model.save(path)
    assert read_header(path)["format_version"] == 7
    read = load(path)
    assert torch.equal(read.repulsion.gaps.low, model.repulsion.gaps.low)
    assert torch.equal(read.repulsion.gaps.high, model.repulsion.gaps.high)
    without = replace(model, repulsion=replace(model.repulsion, gaps=None))
    without.save(tmp_path / "without.safetensors")
    assert read_header(tmp_path / "without.safetensors")["format_version"] == 5
    assert load(tmp_path / "without.safetensors").repulsion.gaps is None


@pytest.mark.skipif("native" not in ON_CPU, reason="the native kernels are not built")
def test_the_library_reads_gaps_from_a_file(model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    atoms = pulled(model.repulsion.gaps)
    structures = structures_from_ase(atoms)
    native = NativePredictor.load(tmp_path / "model.safetensors", torch.float64)
    element = torch.searchsorted(torch.tensor(model.elements), structures.numbers)
    energies = native.predict(structures.offsets, element, structures.positions, structures.cells,
                              structures.periodic, forces=False, virial=False)[0]  # fmt: skip
    assert energies.item() == pytest.approx(model.on(precision="float64").predict(atoms).energies.item(), rel=1e-12)


def test_what_two_fits_leave_free_is_a_gap_of_both():
    def gaps(low: float, high: float) -> Gaps:
        return Gaps(torch.full((1, 1), low, dtype=torch.float64), torch.full((1, 1), high, dtype=torch.float64))

    both = gaps(1.2, 1.6).and_of(gaps(1.3, 1.7))
    assert both is not None
    assert (both.low.item(), both.high.item()) == (1.3, 1.6)
    assert gaps(1.2, 1.6).and_of(gaps(1.6 - 0.9 * LEAST, 1.9)) is None  # too narrow
    assert gaps(1.2, 1.6).and_of(None) is None


def test_an_update_with_structures_in_a_gap_takes_it_away(model):
    new = structures_from_ase([pulled(model.repulsion.gaps), molecule("CH3CH2OH")])
    updated = model.repulsion.and_below(new, 6.0)
    gaps = updated.gaps
    assert gaps is None or not gaps.inside(
        torch.tensor([HYDROGEN]), torch.tensor([OXYGEN]), torch.tensor([new.positions[2].dist(new.positions[3]) ** 2])
    )
