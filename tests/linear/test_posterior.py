"""The posterior of a linear model: draws, variances, rows left out, calibration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qml_lightning.linear.direct import Term, solve
from qml_lightning.linear.normal_equations import Rows, append
from qml_lightning.linear.posterior import (
    calibrated,
    drawn,
    left_out_residuals,
    left_out_variances,
    part_of_factor,
    sampled,
    variances,
)
from qml_lightning.linear.ridge import Ridge

RIDGE = 0.3


def _rows(n=60, columns=12):
    random = np.random.default_rng(0)
    return torch.from_numpy(random.normal(size=(n, columns))), torch.from_numpy(random.normal(size=n))


def _factor(z, ridge=RIDGE):
    return torch.linalg.cholesky(z.T @ z + ridge * torch.eye(z.shape[1], dtype=z.dtype), upper=True)


def test_draws_have_the_covariance_of_the_posterior():
    z, _ = _rows()
    wanted = torch.linalg.inv(z.T @ z + RIDGE * torch.eye(12, dtype=z.dtype))
    draws = drawn(_factor(z), 20000, seed=1)
    assert draws.shape == (20000, 12)
    assert float((draws.T @ draws / len(draws) - wanted).abs().max()) < 0.03 * float(wanted.diagonal().max())


def test_variances_are_those_of_the_inverse_written_out():
    z, _ = _rows()
    inverse = np.linalg.inv((z.T @ z).numpy() + RIDGE * np.eye(12))
    new = torch.from_numpy(np.random.default_rng(5).normal(size=(7, 12)))
    wanted = np.einsum("ij,jk,ik->i", new, inverse, new)
    np.testing.assert_allclose(variances(_factor(z), new).numpy(), wanted, rtol=1e-10)


def test_groups_left_out_give_what_a_fit_without_them_gives():
    z, y = _rows()
    factor, groups = _factor(z), [torch.arange(0, 5), torch.arange(20, 27)]
    weights = torch.cholesky_solve((z.T @ y)[:, None], factor, upper=True)[:, 0]
    residuals = left_out_residuals(factor, z, y - z @ weights, groups)
    variance = left_out_variances(factor, z, groups)
    for group in groups:
        kept = torch.ones(len(z), dtype=torch.bool)
        kept[group] = False
        without = _factor(z[kept])
        alone = torch.cholesky_solve((z[kept].T @ y[kept])[:, None], without, upper=True)[:, 0]
        torch.testing.assert_close(residuals[group], y[group] - z[group] @ alone, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(variance[group], variances(without, z[group]), rtol=1e-9, atol=1e-12)


def test_a_part_of_a_factor_is_the_gram_matrix_of_some_columns():
    z, _ = _rows()
    columns = torch.tensor([1, 4, 9])
    wanted = z[:, columns].T @ z[:, columns] + RIDGE * torch.eye(3, dtype=z.dtype)
    full = _factor(z) + torch.ones(12, 12, dtype=z.dtype).tril(-1)  # below the diagonal there is something else
    torch.testing.assert_close(part_of_factor(full, columns), wanted)


@pytest.mark.parametrize("n", [8, 60])
def test_a_solution_keeps_the_factor_of_its_own_ridge(n):
    z, y = _rows(n)
    part = Rows(12, n)
    append(part, z, y)
    found = solve([Term(part)], Ridge(1e-2, 0.0), groups=[torch.arange(2), torch.arange(2, 4)], keep_factor=True)
    matrix = z @ z.T if n <= 12 else z.T @ z
    wanted = matrix + found.ridge * torch.eye(len(matrix), dtype=z.dtype)
    assert found.factor is not None
    torch.testing.assert_close(found.factor.triu().T @ found.factor.triu(), wanted)
    assert (found.dual is not None) is (n <= 12)


def test_calibrated_intervals_hold_the_parts_of_a_normal_distribution():
    random = np.random.default_rng(3)
    variance = torch.from_numpy(random.gamma(2.0, size=4000))
    errors = torch.from_numpy(random.normal(size=4000)) * (0.09 * variance + 0.04).sqrt()
    found = calibrated(errors, variance)
    assert found.scale == pytest.approx(0.3, rel=0.15)
    assert found.noise == pytest.approx(0.2, rel=0.2)
    for told in (variance, sampled(variance, 8, seed=0)):
        deviation = calibrated(errors, told).deviation(told)
        for k, part in ((1, 0.683), (2, 0.954)):
            assert float((errors.abs() < k * deviation).double().mean()) == pytest.approx(part, abs=0.03)


def test_long_tails_take_as_much_from_two_deviations_as_they_add_to_one():
    random = np.random.default_rng(4)
    errors = torch.from_numpy(random.standard_t(2.5, size=4000))
    variance = torch.ones(4000, dtype=torch.float64)
    deviation = calibrated(errors, variance).deviation(variance)
    one, two = (float((errors.abs() < k * deviation).double().mean()) for k in (1, 2))
    assert one - 0.6827 == pytest.approx(0.9545 - two, abs=1e-3)
    assert one > 0.69


def test_errors_without_a_posterior_are_noise():
    found = calibrated(torch.tensor([0.1, -0.1, 0.1, -0.1]), torch.zeros(4))
    assert found.scale == 0.0
    assert found.noise == pytest.approx(0.1)
