"""The exact posterior of equations: that of the inverse written out, and near the errors that are made."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qml_lightning.errors import InputError
from qml_lightning.machine.compute import Compute
from qml_lightning.study.posterior import exact_uncertainty
from qml_lightning.training.equations_file import load_equations, save_equations
from qml_lightning.training.problem import Problem
from qml_lightning.training.solvers.direct import solved
from qml_lightning.training.sweep import equations_of
from qml_lightning.training.uncertainty import _rows_of
from small_models import molecules, recipe

SETTINGS = recipe(n_features=256, ridge=1e-4)


def test_it_is_the_posterior_of_the_inverse_written_out(tmp_path):
    data, new = molecules(30), molecules(4, seed=500)
    equations = equations_of(data, SETTINGS)
    basis = equations.basis.ready(Compute())
    problem = Problem.of(data)
    rows, targets = (one.numpy() for one in _rows_of(basis, problem, SETTINGS))
    covariance = np.linalg.inv(rows.T @ rows + SETTINGS.ridge * np.eye(256))
    weights = covariance @ rows.T @ targets
    squares = np.square(rows @ weights - targets).sum() + SETTINGS.ridge * weights @ weights
    of_new = _rows_of(basis, Problem.of(new), SETTINGS)[0].numpy()
    # weighted rows: the noise has the variance 1, and a weight makes the deviation smaller
    whole = np.sqrt(squares / len(rows) * (np.einsum("ij,jk,ik->i", of_new, covariance, of_new) + 1))
    size = new.structures.counts.numpy() ** SETTINGS.size_exponent
    save_equations(equations, tmp_path / "equations")
    for one in (equations, load_equations(tmp_path / "equations")):
        found = exact_uncertainty(one, new.structures)
        np.testing.assert_allclose(found.energies, whole[:4] * size / SETTINGS.energy_weight, rtol=1e-4)
        np.testing.assert_allclose(found.forces.ravel(), whole[4:] / SETTINGS.force_weight, rtol=1e-4)


def test_errors_are_about_as_large_and_the_equations_stay_as_they_are():
    equations, new = equations_of(molecules(60), SETTINGS), molecules(40, seed=500)
    found = exact_uncertainty(equations, new.structures)
    forces = solved(equations).predict(new.structures).forces
    normalised = (forces - new.labels.forces) / found.forces
    assert 0.5 < float(normalised.square().mean().sqrt()) < 2
    assert torch.equal(found.forces, exact_uncertainty(equations, new.structures).forces)


def test_a_posterior_without_a_ridge_is_refused():
    with pytest.raises(InputError, match="positive ridge"):
        exact_uncertainty(equations_of(molecules(12), SETTINGS), molecules(1).structures, ridge=0.0)
