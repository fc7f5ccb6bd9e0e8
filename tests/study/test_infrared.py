"""Infrared spectra, beside those that ASE finds by finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from ase.build import molecule
from ase.optimize import BFGS
from ase.vibrations import Infrared as FiniteDifferences

import qml_lightning as qml
from qml_lightning.adapters.dipoles import WithDipole
from qml_lightning.errors import InputError
from qml_lightning.study.infrared import KM_PER_MOL, infrared
from small_models import labelled, recipe
from structures_for_tests import rattled

CHARGE = {1: 0.35, 8: -0.7}


@pytest.fixture(scope="module")
def models():
    """A potential of water with EMT labels, a dipole of fixed charges, and the relaxed molecule."""
    frames = [rattled(molecule("H2O"), k, 0.08) for k in range(60)]
    potential = qml.fit(labelled(frames), recipe(n_features=512, rank=32))
    values = np.array([np.array([CHARGE[z] for z in atoms.numbers]) @ atoms.positions for atoms in frames])
    dipoles = qml.fit_properties(frames, {"dipole": values}, recipe=recipe(n_features=512, rank=32))
    atoms = molecule("H2O")
    atoms.calc = WithDipole(potential, dipoles)
    BFGS(atoms, logfile=None).run(fmax=1e-4, steps=500)
    return potential, dipoles, atoms


def test_the_calculator_gives_the_dipole_that_was_learnt(models):
    _, _, atoms = models
    assert np.allclose(atoms.get_dipole_moment(), [CHARGE[z] for z in atoms.numbers] @ atoms.positions, atol=2e-3)
    with pytest.raises(InputError, match="wanted a dipole"):
        WithDipole(models[0], models[1], "polarisability")


def test_frequencies_and_intensities_are_those_of_finite_differences(models, tmp_path):
    potential, dipoles, atoms = models
    found = infrared(potential, dipoles, atoms)
    assert found.modes.shape == (3, 3, 3)
    beside = FiniteDifferences(atoms, name=str(tmp_path / "ir"), delta=0.002)
    beside.run()
    # ASE's intensities are (D/Å)²/u, and its six lowest modes are translations and rotations
    frequencies, intensities = beside.get_frequencies().real[6:], beside.intensities[6:] * 42.2561
    assert np.allclose(found.frequencies, frequencies, rtol=2e-3)
    assert np.allclose(found.intensities, intensities, rtol=2e-2, atol=0.05)
    assert found.intensities.max() > 1.0


def test_the_unit_of_the_dipole_counts(models):
    potential, dipoles, atoms = models
    ratio = (
        infrared(potential, dipoles, atoms).intensities / infrared(potential, dipoles, atoms, unit="Debye").intensities
    )
    assert np.allclose(ratio, 4.80320**2, rtol=1e-4)
    assert pytest.approx(974.88, rel=1e-4) == KM_PER_MOL
    with pytest.raises(InputError, match="e Å or Debye"):
        infrared(potential, dipoles, atoms, unit="Coulomb")


def test_a_model_without_a_dipole_is_refused(models):
    potential, _, atoms = models
    frames = [rattled(molecule("H2O"), k, 0.08) for k in range(10)]
    scalar = qml.fit_properties(frames, {"alpha": np.arange(10.0)}, recipe=recipe(n_features=64))
    with pytest.raises(InputError, match="none, but alpha"):
        infrared(potential, scalar, atoms)


def test_a_linear_molecule_has_one_vibration_more():
    from qml_lightning.study.infrared import _inner_directions

    for name, n in (("CO2", 4), ("H2O", 3), ("CH4", 9)):
        atoms = molecule(name)
        inner = _inner_directions(atoms.positions, np.repeat(atoms.get_masses(), 3))
        assert inner.shape[1] == n
        assert np.allclose(inner.T @ inner, np.eye(n))
