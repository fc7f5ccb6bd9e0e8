"""The ASE calculator: forces and stress are derivatives of the energy, and the neighbour list is used again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from ase import Atoms, units
from ase.build import bulk
from ase.calculators import calculator
from ase.calculators.calculator import PropertyNotImplementedError
from ase.calculators.fd import calculate_numerical_forces, calculate_numerical_stress
from ase.calculators.lj import LennardJones
from ase.filters import FrechetCellFilter
from ase.md.langevin import Langevin
from ase.md.velocitydistribution import MaxwellBoltzmannDistribution
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS, FIRE
from ase.vibrations import Vibrations

from qml_lightning import Potential, Recipe, fit, load_dataset
from qml_lightning.adapters.ase import QMLLightning
from qml_lightning.errors import InputError
from qml_lightning.kernels import BACKENDS
from qml_lightning.model.features import FeatureSettings
from qml_lightning.model.representations.fchl19 import FCHL19
from small_models import labelled
from structures_for_tests import kinds, rattled

SMALL = Recipe(
    FCHL19(cutoff=5.0, n_radial2=12, n_radial3=6, weight3=0.2, angular="series", n_angular=3),
    rank=32,
    features=FeatureSettings(n_features=256),
    ridge=1e-8,
)
KINDS = kinds()
SIGMA = {"molecule": 0.9, "slab": 2.2, "skewed cell": 2.4, "cell smaller than the cutoff": 2.0, "wire": 2.0}  # Å


def lennard_jones(sigma: float) -> LennardJones:
    return LennardJones(sigma=sigma, epsilon=0.2, rc=3 * sigma, smooth=True)


@pytest.fixture(scope="module", params=KINDS)
def trained(request) -> tuple[Atoms, Potential]:
    atoms = KINDS[request.param]
    frames = [rattled(atoms, seed, 0.05) for seed in range(6)]
    return atoms, fit(labelled(frames, lennard_jones(SIGMA[request.param])), SMALL)


@pytest.fixture
def kind(trained) -> tuple[Atoms, Potential]:
    """A structure and a potential that has learnt something about its like."""
    return trained[0].copy(), trained[1]


@pytest.fixture(params=["reference", "native"])
def kernels(request) -> str:
    """Every back-end that serves on this machine keeps lists in its own way."""
    backend = next(backend for backend in BACKENDS if backend.name == request.param)
    reason = backend.why_not(torch.device("cpu"), torch.float64)
    if reason is not None:
        pytest.skip(reason)
    return request.param


@pytest.fixture(scope="module")
def ethanol() -> Potential:
    recipe = replace(SMALL, rank=64, features=FeatureSettings(n_features=512))
    return fit(load_dataset("ethanol:train").subsample(60, 0), recipe)


@pytest.fixture
def molecule() -> Atoms:
    structure = load_dataset("ethanol:test@0").structures
    return Atoms(structure.numbers.numpy(), structure.positions.numpy())


def test_forces_are_minus_the_gradient_of_the_energy(kind):
    atoms, potential = kind
    atoms.calc = QMLLightning(potential, precision="float64")
    forces = atoms.get_forces()
    assert np.abs(forces).max() > 0.01
    numerical = calculate_numerical_forces(atoms, eps=1e-5)
    assert np.abs(forces - numerical).max() <= 1e-6 * np.abs(forces).max()


def test_stress_is_the_derivative_of_the_energy_by_strain(kind):
    atoms, potential = kind
    atoms.calc = QMLLightning(potential, precision="float64")
    if not atoms.pbc.any():
        with pytest.raises(PropertyNotImplementedError, match="per volume"):
            atoms.get_stress()
        return
    stress = atoms.get_stress()
    numerical = calculate_numerical_stress(atoms, eps=1e-6)
    assert np.abs(stress - numerical).max() <= 1e-6 * np.abs(stress).max()


def test_energies_of_atoms_add_up_and_the_free_energy_is_the_energy(kind):
    atoms, potential = kind
    atoms.calc = potential.calculator()
    energy = atoms.get_potential_energy()
    assert atoms.get_potential_energies().sum() == pytest.approx(energy, rel=1e-12)
    assert atoms.get_potential_energy(force_consistent=True) == energy
    assert energy == pytest.approx(float(potential.predict(atoms).energies), rel=1e-12)


def test_lists_with_a_skin_give_the_forces_of_fresh_lists(kind, kernels):
    atoms, potential = kind
    reused, fresh = (potential.calculator(skin=skin, kernels=kernels) for skin in (1.0, 0.0))
    for step in range(12):
        atoms.positions += 0.04 * np.random.default_rng(step).normal(size=atoms.positions.shape)
        forces = [calc.get_forces(atoms) for calc in (reused, fresh)]
        np.testing.assert_allclose(*forces, rtol=1e-9, atol=1e-10)
    assert fresh.lists_made == 12
    assert reused.lists_made < 6


def test_a_list_serves_until_an_atom_has_moved_by_half_the_skin(ethanol, molecule, kernels):
    molecule.calc = ethanol.calculator(skin=0.6, kernels=kernels)
    molecule.get_forces()
    start = molecule.positions.copy()
    molecule.positions[3] = start[3] + [0.29, 0, 0]
    molecule.get_forces()
    assert molecule.calc.lists_made == 1
    molecule.positions[3] = start[3] + [0.31, 0, 0]
    molecule.get_forces()
    assert molecule.calc.lists_made == 2


@pytest.mark.parametrize("change", ["cell", "pbc", "numbers", "count"])
def test_a_list_does_not_serve_another_system(change, kernels):
    atoms = KINDS["skewed cell"].copy()
    potential = fit(labelled([rattled(atoms, seed, 0.05) for seed in range(3)], lennard_jones(2.4)), SMALL)
    atoms.calc = potential.calculator(kernels=kernels)
    before = atoms.get_potential_energy()
    if change == "cell":
        atoms.cell[2, 2] *= 1.0001
    elif change == "pbc":
        atoms.pbc = (True, True, False)
    elif change == "numbers":
        atoms.numbers = atoms.numbers[::-1]
    else:
        del atoms[-1]
    after = atoms.get_potential_energy()
    assert atoms.calc.lists_made == 2
    assert after != before
    assert after == pytest.approx(float(potential.predict(atoms).energies), rel=1e-12)


def test_changes_are_those_that_ase_finds(ethanol, molecule):
    molecule.calc = ethanol.calculator()
    molecule.get_forces()
    moved, turned, periodic, fewer = (molecule.copy() for _ in range(4))
    moved.positions[2, 1] += 1e-9
    turned.numbers[3:5] = turned.numbers[[4, 3]]
    periodic.set_cell([9, 9, 9])
    periodic.pbc = (True, False, False)
    del fewer[-1]
    charged = molecule.copy()
    charged.set_initial_charges(range(9))
    for one in (molecule, moved, turned, periodic, fewer, charged):
        assert set(molecule.calc.check_state(one)) == set(super(QMLLightning, molecule.calc).check_state(one))


def test_atoms_that_meet_on_one_spot_are_told_of_while_the_list_still_serves(ethanol, molecule, kernels):
    molecule.calc = ethanol.calculator(skin=20.0, kernels=kernels)
    molecule.get_forces()
    molecule.positions[1] = molecule.positions[0]
    with pytest.raises(InputError, match="one spot"):
        molecule.get_forces()
    assert molecule.calc.lists_made == 1


@pytest.mark.parametrize("optimiser", [BFGS, FIRE])
def test_an_optimiser_finds_a_minimum(ethanol, molecule, optimiser):
    molecule.calc = ethanol.calculator()
    before = molecule.get_potential_energy()
    assert optimiser(molecule, logfile=None).run(fmax=0.02, steps=300)
    assert molecule.get_potential_energy() < before
    assert molecule.get_distance(0, 1) == pytest.approx(1.52, abs=0.08)  # C–C of ethanol


def test_vibrations_have_the_stretch_of_the_hydroxyl_group_on_top(ethanol, molecule, tmp_path):
    molecule.calc = ethanol.calculator()
    BFGS(molecule, logfile=None).run(fmax=0.005, steps=300)
    vibrations = Vibrations(molecule, name=str(tmp_path / "vib"))
    vibrations.run()
    assert vibrations.get_frequencies()[-1].real == pytest.approx(3700, abs=250)  # cm⁻¹, PBE


@pytest.mark.filterwarnings("ignore:Use thermalize_momenta")
def test_molecular_dynamics_conserves_energy(ethanol, molecule):
    molecule.calc = ethanol.calculator()
    BFGS(molecule, logfile=None).run(fmax=0.05, steps=100)
    MaxwellBoltzmannDistribution(molecule, temperature_K=200, rng=np.random.default_rng(0))
    kinetic = molecule.get_kinetic_energy()
    dynamics = VelocityVerlet(molecule, timestep=0.2 * units.fs)
    totals = []
    dynamics.attach(lambda: totals.append(molecule.get_total_energy()))
    dynamics.run(150)
    assert np.ptp(totals) < 0.01 * kinetic
    assert molecule.calc.lists_made < 20


def test_langevin_dynamics_runs(ethanol, molecule):
    molecule.calc = ethanol.calculator(precision="float32")
    rng = np.random.default_rng(0)
    dynamics = Langevin(
        molecule, timestep=0.5 * units.fs, temperature_K=300, friction=0.01 / units.fs, fixcm=False, rng=rng
    )
    dynamics.run(20)
    assert np.isfinite(molecule.get_total_energy())


def test_a_cell_relaxes_to_the_lattice_constant_of_the_potential_it_learnt():
    perfect = bulk("Ar", "fcc", a=5.2, cubic=True)
    frames = []
    for seed, stretch in enumerate(np.linspace(0.95, 1.06, 12)):
        atoms = rattled(perfect, seed, 0.05)
        atoms.set_cell(atoms.cell * stretch, scale_atoms=True)
        frames.append(atoms)
    exact, found = lennard_jones(3.4), {}
    learnt = fit(labelled(frames, exact), SMALL).calculator()
    for name, calc in (("learnt", learnt), ("exact", exact)):
        atoms = perfect.copy()
        atoms.calc = calc
        assert BFGS(FrechetCellFilter(atoms), logfile=None).run(fmax=0.005, steps=200)
        found[name] = atoms.get_volume() ** (1 / 3)
    assert found["learnt"] == pytest.approx(found["exact"], rel=0.005)


def test_it_is_made_from_a_file_and_found_by_name(ethanol, molecule, tmp_path):
    ethanol.save(str(tmp_path / "ethanol.safetensors"))
    made = calculator.get_calculator_class("qml-lightning")(tmp_path / "ethanol.safetensors")
    assert isinstance(made, QMLLightning)
    assert made.name == "qml-lightning"
    molecule.calc = made
    assert molecule.get_potential_energy() == pytest.approx(float(ethanol.predict(molecule).energies), rel=1e-12)
    molecule.write(str(tmp_path / "frame.traj"))  # ASE asks for parameters and results


def test_ase_lists_it_among_its_plugins():
    pytest.importorskip("ase._4.plugins", reason="an experimental part of ASE 3.27 and later")
    from qml_lightning.adapters.ase_plugin import __ase_plugins__

    assert [plugin.implementation for plugin in __ase_plugins__] == [QMLLightning]


def test_a_skin_is_not_negative(ethanol):
    with pytest.raises(InputError, match="not negative"):
        ethanol.calculator(skin=-0.1)
