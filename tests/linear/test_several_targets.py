"""Several targets from one decomposition: weights and left-out errors as a fit of each target alone gives them."""

from __future__ import annotations

import pytest
import torch

from qml_lightning.errors import SolveError
from qml_lightning.linear.many_targets import Sample, Spectrum, solve_several
from qml_lightning.linear.normal_equations import Gram, Rows, append, as_gram

RIDGE = 0.3


def rows_of(n: int, columns: int, targets: int = 3) -> Rows:
    generator = torch.Generator().manual_seed(n)
    z = torch.randn(n, columns, generator=generator, dtype=torch.float64)
    y = z @ torch.randn(columns, targets, generator=generator, dtype=torch.float64)
    y += torch.randn(n, targets, generator=generator, dtype=torch.float64) * torch.tensor([0.01, 1.0, 20.0][:targets])
    made = Rows(columns, n, n_targets=targets)
    append(made, z, y)
    return made


def solved_alone(z: torch.Tensor, y: torch.Tensor, ridge: float) -> torch.Tensor:
    return torch.linalg.solve(z.T @ z + ridge * torch.eye(z.shape[1], dtype=torch.float64), z.T @ y)


@pytest.mark.parametrize(("n", "columns"), [(30, 12), (12, 30)])
def test_weights_are_those_of_each_target_alone(n, columns):
    rows = rows_of(n, columns)
    z, y = (part.clone() for part in rows.filled())
    part = as_gram(rows) if n > columns else rows
    found = Spectrum.of(part).weights([RIDGE, 1.0, 10.0])
    for k, ridge in enumerate((RIDGE, 1.0, 10.0)):
        assert torch.allclose(found[:, k], solved_alone(z, y[:, k], ridge), atol=1e-9)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("n", "columns"), [(30, 12), (12, 30)])
def test_left_out_errors_are_those_of_fits_without_the_rows(n, columns, size):
    rows = rows_of(n, columns)
    z, y = (part.clone() for part in rows.filled())
    numbers = torch.arange(size, 4 * size)
    residuals = []
    for group in numbers.split(size):
        kept = torch.ones(n, dtype=torch.bool)
        kept[group] = False
        residuals.append(y[group] - z[group] @ solved_alone(z[kept], y[kept], RIDGE))
    wanted = torch.cat(residuals).square().mean(0).sqrt()
    some = Rows(columns, len(numbers), n_targets=3)
    append(some, z[numbers], y[numbers])
    part = as_gram(rows) if n > columns else rows
    found = Spectrum.of(part).left_out([RIDGE], Sample(numbers, size, None if n <= columns else some))
    assert torch.allclose(found[0], wanted, rtol=1e-7)


def test_a_noisy_target_gets_a_larger_ridge_than_a_clean_one():
    found = solve_several(rows_of(60, 100), Sample(torch.arange(60)))
    assert found.ridges[0] < found.ridges[2]
    assert found.left_out[0] < found.left_out[2]


def test_a_given_ridge_holds_for_all_targets():
    assert solve_several(rows_of(20, 30), Sample(torch.arange(20)), ridge=RIDGE).ridges == [RIDGE] * 3


def test_rows_that_are_all_zero_are_refused_in_words():
    gram = Gram(4, n_targets=2)
    append(gram, torch.zeros(9, 4, dtype=torch.float64), torch.ones(9, 2, dtype=torch.float64))
    with pytest.raises(SolveError, match="nothing to learn"):
        Spectrum.of(gram)
