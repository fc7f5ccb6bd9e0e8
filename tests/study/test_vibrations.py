"""Second derivatives agree with finite differences of the forces, and frequencies with those of ASE."""

from __future__ import annotations

import numpy as np
import pytest
from ase.build import molecule
from ase.vibrations import VibrationsData

from qml_lightning import fit
from qml_lightning.errors import InputError
from qml_lightning.model.recipe import DEFAULT
from qml_lightning.study.vibrations import frequencies, hessian
from small_models import crystals, molecules, recipe

STEP = 1e-4  # Å


def _differences(potential, atoms) -> np.ndarray:
    ready, rows = potential.on(precision="float64"), []
    for k in range(3 * len(atoms)):
        forces = []
        for sign in (1, -1):
            moved = atoms.copy()
            moved.positions.flat[k] += sign * STEP
            forces.append(ready.predict(moved).forces.numpy().ravel())
        rows.append((forces[1] - forces[0]) / (2 * STEP))
    return np.array(rows)


@pytest.mark.parametrize("representation", ["FCHL19", "density"])
def test_second_derivatives_are_differences_of_forces(representation):
    other = {"representation": DEFAULT.representation} if representation == "density" else {}
    potential = fit(molecules(20), recipe(n_features=128, ridge=1e-4, **other))
    atoms = molecule("CH3CH2OH")
    found, wanted = hessian(potential, atoms), _differences(potential, atoms)
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()
    assert np.abs(found.reshape(27, 9, 3).sum(1)).max() < 1e-8 * np.abs(found).max()  # translations cost nothing


def test_second_derivatives_of_a_crystal_see_its_images():
    data = crystals(12)
    potential = fit(data, recipe(n_features=128, ridge=1e-4))
    from ase.build import bulk

    atoms = bulk("Cu", cubic=True)
    atoms.symbols[0] = "Au"
    atoms.rattle(0.03, seed=1)
    wanted = _differences(potential, atoms)
    assert np.abs(hessian(potential, atoms) - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_frequencies_are_those_of_ase_from_finite_differences():
    potential = fit(molecules(40), recipe(n_features=128, ridge=1e-4))
    atoms = molecule("CH3CH2OH")
    differences = _differences(potential, atoms)
    theirs = VibrationsData.from_2d(atoms, 0.5 * (differences + differences.T)).get_frequencies()
    wanted, found = np.sort(theirs.real - theirs.imag), frequencies(potential, atoms)
    assert len(found) == 27
    clear = np.abs(wanted) > 200  # others are the square roots of rounding
    assert clear.sum() > 15
    np.testing.assert_allclose(found[clear], wanted[clear], rtol=1e-3)


def test_atoms_that_are_too_close_are_refused():
    potential = fit(molecules(12), recipe(n_features=64))
    atoms = molecule("CH3CH2OH")
    atoms.set_distance(2, 3, 0.4, fix=0)
    with pytest.raises(InputError, match="relax the structure first"):
        hessian(potential, atoms)
