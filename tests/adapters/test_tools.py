"""Programs that take an ASE calculator take ours unchanged: ASE, phonopy, matcalc. EMT is learnt, and the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.filters import FrechetCellFilter
from ase.optimize import BFGS
from ase.phonons import Phonons
from ase.vibrations import Vibrations

from qml_lightning import fit, recipes
from small_models import labelled
from structures_for_tests import rattled

LATTICE = 3.59  # Å, of EMT's copper


@pytest.fixture(scope="module")
def model():
    random, frames = np.random.default_rng(0), []
    for k in range(40):
        # an equation of state by matcalc strains each axis by up to 10 %
        atoms = bulk("Cu", a=3.6 * random.uniform(0.9, 1.1), cubic=True)
        atoms.set_cell(atoms.cell.array @ (np.eye(3) + random.normal(0, 0.02, (3, 3))), scale_atoms=True)
        frames.append(rattled(atoms, k, 0.08))
    return fit(labelled(frames), recipes.DEFAULT, n_features=512, rank=64)


@pytest.fixture
def calculator(model):
    return model.calculator(precision="float64")


def test_ase_relaxes_a_cell(calculator):
    atoms = rattled(bulk("Cu", a=3.75, cubic=True), 0, 0.05)
    atoms.calc = calculator
    BFGS(FrechetCellFilter(atoms), logfile=None).run(fmax=1e-3, steps=200)
    assert atoms.get_volume() == pytest.approx(LATTICE**3, rel=0.005)


def test_ase_finds_the_phonons_of_emt(calculator, tmp_path):
    highest = []
    for name, one in (("model", calculator), ("emt", EMT())):
        found = Phonons(bulk("Cu", a=LATTICE), one, supercell=(4, 4, 4), delta=0.01, name=str(tmp_path / name))
        found.run()
        found.read(acoustic=True)
        highest.append(found.band_structure([[0.5, 0.0, 0.5], [0.5, 0.5, 0.5]]).real)
    np.testing.assert_allclose(highest[0], highest[1], rtol=0.05)


def test_ase_finds_the_vibrations_of_an_atom_in_its_crystal(calculator, tmp_path):
    wavenumbers = []
    for name, one in (("model", calculator), ("emt", EMT())):
        atoms = bulk("Cu", a=LATTICE, cubic=True).repeat(2)
        atoms.calc = one
        found = Vibrations(atoms, indices=[0], name=str(tmp_path / name))
        found.run()
        wavenumbers.append(found.get_frequencies().real)
    np.testing.assert_allclose(wavenumbers[0], wavenumbers[1], rtol=0.05)


def test_phonopy_finds_the_phonons_of_emt(calculator):
    phonopy = pytest.importorskip("phonopy", reason="phonopy is not installed: pip install phonopy")
    from phonopy.structure.atoms import PhonopyAtoms

    primitive, highest = bulk("Cu", a=LATTICE), []
    for one in (calculator, EMT()):
        cell = PhonopyAtoms(primitive.get_chemical_symbols(), cell=primitive.cell.array,
                            scaled_positions=primitive.get_scaled_positions())  # fmt: skip
        phonons = phonopy.Phonopy(cell, supercell_matrix=np.diag([4, 4, 4]))
        phonons.generate_displacements(distance=0.01)
        forces = []
        for moved in phonons.supercells_with_displacements:
            atoms = primitive.repeat(4)
            atoms.set_cell(moved.cell)
            atoms.set_scaled_positions(moved.scaled_positions)
            atoms.calc = one
            forces.append(atoms.get_forces())
        phonons.forces = forces
        phonons.produce_force_constants()
        phonons.run_qpoints([[0.5, 0.0, 0.5], [0.5, 0.5, 0.5]])
        highest.append(np.asarray(phonons.qpoints.frequencies))
    np.testing.assert_allclose(highest[0], highest[1], rtol=0.05)
    assert 6 < highest[0].max() < 10  # THz


@pytest.mark.slow
def test_matcalc_relaxes_and_finds_moduli_and_phonons_also_in_two_processes(calculator, tmp_path, monkeypatch):
    matcalc = pytest.importorskip("matcalc", reason="matcalc is not installed: pip install matcalc")
    monkeypatch.chdir(tmp_path)
    crystal = bulk("Cu", a=3.65, cubic=True)
    relaxed = matcalc.RelaxCalc(calculator, fmax=1e-3).calc(crystal)
    assert relaxed["final_structure"].volume == pytest.approx(LATTICE**3, rel=0.005)
    state = {
        name: matcalc.EOSCalc(one, fmax=1e-3).calc(crystal)["bulk_modulus_bm"]
        for name, one in (("model", calculator), ("emt", EMT()))
    }
    assert state["model"] == pytest.approx(state["emt"], rel=0.05)
    moduli = [matcalc.ElasticityCalc(one, fmax=1e-3).calc(crystal)["bulk_modulus_vrh"] for one in (calculator, EMT())]
    assert moduli[0] == pytest.approx(moduli[1], rel=0.05)
    phonons = matcalc.PhononCalc(calculator, fmax=1e-3, write_phonon=False).calc(crystal)
    assert np.isfinite(np.asarray(phonons["thermal_properties"]["free_energy"])).all()
    crystals = [crystal, bulk("Cu", a=3.6, cubic=True)]
    two = list(matcalc.EOSCalc(calculator, fmax=1e-3).calc_many(crystals, n_jobs=2))
    alone = [matcalc.EOSCalc(calculator, fmax=1e-3).calc(one) for one in crystals]
    assert [one["bulk_modulus_bm"] for one in two] == [one["bulk_modulus_bm"] for one in alone]
