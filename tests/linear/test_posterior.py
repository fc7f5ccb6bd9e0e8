"""The posterior of a linear model: draws, variances, rows left out, calibration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qml_lightning.linear.direct import Term, solve
from qml_lightning.linear.normal_equations import Rows, append
from qml_lightning.linear.posterior import (
    POWERS,
    WITHIN,
    calibrated,
    drawn,
    left_out_members,
    left_out_residuals,
    part_of_factor,
    variances,
)
from qml_lightning.linear.ridge import Ridge
from qml_lightning.training.choice.rules import refinement

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
    members = left_out_members(factor, z, drawn(factor, 40000, seed=3), groups)
    for group in groups:
        kept = torch.ones(len(z), dtype=torch.bool)
        kept[group] = False
        without = _factor(z[kept])
        alone = torch.cholesky_solve((z[kept].T @ y[kept])[:, None], without, upper=True)[:, 0]
        torch.testing.assert_close(residuals[group], y[group] - z[group] @ alone, rtol=1e-9, atol=1e-12)
        covariance = members[group] @ members[group].T / members.shape[1]
        wanted = z[group] @ torch.cholesky_solve(z[group].T, without, upper=True)
        assert float((covariance - wanted).abs().max()) < 0.03 * float(wanted.diagonal().max())


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
    found = solve(
        [Term(part)], Ridge(1e-2, refinement(0.0)), groups=[torch.arange(2), torch.arange(2, 4)], keep_factor=True
    )
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
    told = variance * torch.from_numpy(random.chisquare(8, 4000) / 8)  # by eight members
    assert _missed(errors, variance, calibrated(errors, variance)) < 0.03
    assert _missed(errors, told, calibrated(errors, told)) < 0.03


def _missed(errors, variance, calibration):
    """Greatest difference from the parts of a normal distribution within one and two deviations."""
    deviation = calibration.deviation(variance)
    parts = [float((errors.abs() < k * deviation).double().mean()) for k in (1, 2)]
    return max(abs(part - wanted) for part, wanted in zip(parts, WITHIN, strict=True))


def test_a_power_takes_the_scatter_out_of_variances_that_few_members_tell():
    random = np.random.default_rng(6)
    variance = torch.from_numpy(np.exp(random.normal(scale=1.5, size=(2, 6000))))
    told = variance * torch.from_numpy(random.chisquare(2, (2, 6000)) / 2)
    errors = torch.from_numpy(random.normal(size=(2, 6000))) * variance.sqrt()
    found = calibrated(errors[0], told[0], POWERS)
    assert found.power < 1
    # on errors that it has not seen
    deviations = [one.deviation(told[1]) for one in (found, calibrated(errors[0], told[0]))]
    with_power, without = ((0.5 * (errors[1] / d).square() + d.log()).mean() for d in deviations)
    assert with_power < without


def test_a_calibration_does_not_depend_on_the_unit_of_the_variance():
    random = np.random.default_rng(7)
    variance = torch.from_numpy(random.gamma(2.0, size=500))
    errors = torch.from_numpy(random.standard_t(4, size=500)) * variance.sqrt()
    one, other = calibrated(errors, variance, POWERS), calibrated(errors, 1e-6 * variance, POWERS)
    torch.testing.assert_close(one.deviation(variance), other.deviation(1e-6 * variance))


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
