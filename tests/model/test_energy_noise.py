"""Energies can be differentiated: one energy for each structure, and float64 where float32 is too coarse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk

from qml_lightning import fit, load, load_dataset, recipes
from qml_lightning.atoms.structures import structures_from_ase
from small_models import crystals, recipe
from structures_for_tests import rattled


def measured_noise(potential, structures) -> float:
    """Difference between float32 and float64, eV per √atom, without what all structures have in common."""
    coarse, fine = (
        potential.on(precision=p).predict(structures, forces=False).energies for p in ("float32", "float64")
    )
    difference = (coarse - fine) / structures.counts.sqrt()
    return float((difference - difference.mean()).square().mean().sqrt())


def stiff_crystals(ridge: float) -> object:
    """A potential for copper-gold whose weights are the larger the smaller the ridge is."""
    return fit(crystals(24), recipe(ridge=ridge, paired=True, n_features=1024, sigma=8.0, precision="float32"))


@pytest.fixture(scope="module")
def ethanol():
    settings = replace(recipes.DEFAULT, features=replace(recipes.DEFAULT.features, n_features=1024))
    return fit(load_dataset("ethanol:train@0:60"), settings)


@pytest.mark.parametrize("method", ["sorf", "rff"])
@pytest.mark.parametrize("rank", [64, 128])
def test_an_energy_is_the_same_alone_in_a_batch_and_with_any_number_of_threads(method, rank):
    data = load_dataset("ethanol:train@0:60")
    changes = {"rank": rank, "features": replace(recipes.DEFAULT.features, n_features=1024, method=method)}
    potential = fit(data, replace(recipes.DEFAULT, **changes)).on(precision="float32")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = potential.predict(data.structures).energies
        torch.set_num_threads(2)
        two = potential.predict(data.structures).energies
        alone = [potential.predict(data.structures.select(torch.tensor([k]))).energies for k in range(20)]
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(one, two)
    assert (torch.cat(alone) - one[:20]).abs().max() < 1e-9  # eV


def test_a_large_cell_has_the_same_energy_with_one_thread_and_with_two():
    potential = stiff_crystals(1e-10).on(precision="float32")
    large = structures_from_ase(rattled(bulk("Cu", cubic=True) * (6, 6, 6), 3, 0.05))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = potential.predict(large).energies
        torch.set_num_threads(2)
        two = potential.predict(large).energies
    finally:
        torch.set_num_threads(threads)
    assert abs(float(one - two)) < 1e-9 * large.n_atoms


@pytest.mark.parametrize("ridge", [1e-6, 1e-12])
def test_the_noise_of_float32_is_told_within_a_factor_of_four(ridge):
    potential = stiff_crystals(ridge)
    ratio = measured_noise(potential, crystals(24, seed=50).structures) / potential.energy_noise
    assert 0.25 < ratio < 4.0


def test_the_noise_of_ethanol_is_told_within_a_factor_of_four(ethanol):
    ratio = measured_noise(ethanol, load_dataset("ethanol:test@0:50").structures) / ethanol.energy_noise
    assert 0.25 < ratio < 4.0


def test_molecules_are_predicted_in_float32(ethanol):
    assert ethanol.prediction_precision == "float32"
    assert ethanol.on().basis.projections.dtype == torch.float32


def test_a_model_with_large_weights_predicts_in_float64_unless_told_otherwise(tmp_path):
    soft, stiff = stiff_crystals(1e-6), stiff_crystals(1e-12)
    assert soft.prediction_precision == "float32"
    assert stiff.prediction_precision == "float64"
    stiff.save(tmp_path / "stiff.safetensors")
    read = load(tmp_path / "stiff.safetensors")
    atoms = rattled(bulk("Cu", cubic=True), 1)
    fine = read.on(precision="float64").predict(atoms).energies
    assert torch.equal(read.predict(atoms).energies, fine)
    assert not torch.equal(read.on(precision="float32").predict(atoms).energies, fine)


@pytest.fixture(scope="module")
def silicon(shared_data):
    """Silicon with 1024 features and the ridge that the choice finds for it."""
    settings = replace(recipes.DEFAULT, features=replace(recipes.DEFAULT.features, n_features=1024))
    return fit(load_dataset(f"{shared_data}/zuo2020/Si.npz:train"), settings)


def strained(atoms: Atoms, scale: float) -> Atoms:
    out = atoms.copy()
    out.set_cell(atoms.cell * scale, scale_atoms=True)
    return out


def bulk_modulus(potential, precision=None) -> float:
    """From energies of cells strained by up to 1 %, eV/Å³."""
    atoms = bulk("Si", cubic=True, a=5.469) * 2
    cells = [strained(atoms, 1 + s) for s in np.linspace(-0.01, 0.01, 7)]
    energies = potential.on(precision=precision).predict(cells, forces=False).energies.numpy()
    volumes = np.array([cell.get_volume() for cell in cells])
    energy = np.polynomial.Polynomial.fit(volumes, energies, 3)
    lowest = next(v.real for v in energy.deriv().roots() if abs(v.imag) < 1e-6 and energy.deriv(2)(v.real) > 0)
    return float(lowest * energy.deriv(2)(lowest))


def test_silicon_has_the_bulk_modulus_of_float64(silicon):
    assert bulk_modulus(silicon) == pytest.approx(bulk_modulus(silicon, "float64"), rel=0.01)


def test_numerical_forces_of_silicon_are_its_forces(silicon):
    from ase.calculators.fd import calculate_numerical_forces

    atoms = bulk("Si", cubic=True, a=5.43) * 2
    atoms.rattle(0.05, seed=1)
    atoms.calc = silicon.calculator()
    numerical = calculate_numerical_forces(atoms, eps=1e-3, iatoms=range(4))
    assert np.abs(numerical - atoms.get_forces()[:4]).max() < 5e-3  # eV/Å


OPTIMISERS = (
    "BFGS", "LBFGS", "BFGSLineSearch", "LBFGSLineSearch", "QuasiNewton", "GoodOldQuasiNewton", "RFO", "FIRE", "FIRE2",
    "GPMin", "MDMin", "ODE12r",
)  # fmt: skip


def test_every_optimiser_of_ase_for_positions_is_tried():
    import ase.optimize

    others = {"RestartError", "CellAwareBFGS"}
    assert {name for name in dir(ase.optimize) if name[0].isupper()} - others == {*OPTIMISERS}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_relax_silicon(silicon, name):
    import ase.optimize

    atoms = bulk("Si", cubic=True, a=5.43) * 2
    atoms.rattle(0.02, seed=2)
    atoms.calc = silicon.calculator()
    assert getattr(ase.optimize, name)(atoms, logfile=None).run(fmax=0.02, steps=200)


def test_the_optimiser_of_cell_and_positions_relaxes_silicon(silicon):
    from ase.filters import FrechetCellFilter
    from ase.optimize import CellAwareBFGS

    atoms = bulk("Si", cubic=True, a=5.40) * 2
    atoms.rattle(0.02, seed=2)
    atoms.calc = silicon.calculator()
    assert CellAwareBFGS(FrechetCellFilter(atoms, exp_cell_factor=1.0), logfile=None).run(fmax=0.02, steps=200)


@pytest.mark.parametrize("name", ["SciPyFminCG", "SciPyFminBFGS"])
def test_optimisers_of_scipy_relax_silicon(silicon, name):
    from ase.optimize import sciopt

    atoms = bulk("Si", cubic=True, a=5.43) * 2
    atoms.rattle(0.02, seed=2)
    atoms.calc = silicon.calculator()
    assert getattr(sciopt, name)(atoms, logfile=None).run(fmax=0.02, steps=200)
