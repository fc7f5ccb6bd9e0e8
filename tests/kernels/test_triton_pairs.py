"""Sums as pairs of float32: as exact as float64 sums of the same float32 numbers, in plain torch and in Triton."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from feature_inputs import Inputs, feature_map, widened
from few_and_all import few_and_all
from qml_lightning.kernels import reference
from qml_lightning.kernels.reference import pairs

FLOAT = torch.float32
# Part of the sum of sizes that a sum of pairs may be off by.
ROUNDING = 2.0**-42


def triton_pairs():
    pytest.importorskip("triton", reason="Triton is not installed")
    if torch.cuda.is_available():
        pytest.skip("kernels are compiled here: pytest -m gpu")
    from qml_lightning.kernels.triton import pairs as in_triton

    return in_triton


def drawn(n: int, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, generator=g) * 10.0 ** (8 * torch.rand(n, generator=g) - 4)


def test_a_sum_of_two_numbers_is_exact():
    a, b = drawn(500, 1), drawn(500, 2)
    high, low = pairs.two_sum(a, b)
    for x, y, h, e in zip(*(v.tolist() for v in (a, b, high, low)), strict=True):
        assert Fraction(x) + Fraction(y) == Fraction(h) + Fraction(e)


def test_a_product_of_two_numbers_is_exact_but_for_the_last_bits():
    a, b = drawn(500, 3), drawn(500, 4)
    high, low = pairs.times((a, torch.zeros_like(a)), b)
    for x, y, h, e in zip(*(v.tolist() for v in (a, b, high, low)), strict=True):
        exact = Fraction(x) * Fraction(y)
        assert abs(Fraction(h) + Fraction(e) - exact) <= abs(exact) / 2**46


def test_a_float64_goes_into_a_pair_and_back_with_48_bits():
    x = torch.randn(1000, dtype=torch.float64)
    assert float((pairs.number(pairs.pair_of(x)) - x).abs().max()) <= 2.0**-48 * float(x.abs().max())


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 64, 1001])
def test_a_sum_of_many_that_cancel_keeps_its_digits(n):
    x = drawn(n, n)
    x = torch.cat([x, -x * (1 + 1e-6)])
    high, low = pairs.total((x, torch.zeros_like(x)), 0)
    exact = sum(map(Fraction, x.tolist()))
    assert abs(Fraction(float(high)) + Fraction(float(low)) - exact) <= Fraction(2) ** -44 * sum(
        abs(Fraction(v)) for v in x.tolist()
    )


CASES = few_and_all(
    [("reference", 2, 32, True, 37), ("triton", 2, 16, True, 5), ("triton", 1, 4, False, 3)],
    [
        (which, transforms, rank, paired, atoms)
        for which in ("reference", "triton")
        for transforms, rank in ((1, 2), (1, 64), (2, 32), (3, 16), (2, 128))
        for paired in (False, True)
        for atoms in (1, 13)
    ],
)


@pytest.mark.parametrize(("which", "transforms", "rank", "paired", "atoms"), CASES)
def test_sums_are_those_of_float64(which, transforms, rank, paired, atoms):
    """Sines and cosines are those of float32; Triton has its own, and so its sums may differ by their last place."""
    table = pairs if which == "reference" else triton_pairs()
    f = feature_map(transforms, rank, paired, FLOAT, n_blocks=2)
    i = widened(Inputs.drawn(f, atoms))
    narrow = i.many.float()
    if which == "reference":
        beside = reference
    else:
        from qml_lightning.kernels import triton as beside

    def results(kernels):
        energy, slope = kernels.energy_and_slope(f, i.x, i.weights)
        return {
            "energy": energy,
            "slope": slope,
            "moment": kernels.feature_moment(f, i.x, i.coefficients, i.tangents),
            "of energies": kernels.feature_moment(f, i.x, i.coefficients, None),
            "of forces": kernels.feature_moment(f, i.x, None, i.tangents),
            "products": kernels.tangent_products(narrow, i.owner, i.tangents),
            "sums": kernels.tangent_sums(narrow, i.owner, i.many[:, 0].contiguous(), atoms + 2, torch.float64),
        }

    found, wanted = results(table), results(beside)
    for name, value in wanted.items():
        size = max(float(value.abs().max()), float(f.amplitude * i.weights.norm()))
        assert found[name].dtype == torch.float64
        assert float((found[name] - value).abs().max()) <= ROUNDING * f.n_features * size, name


def test_single_float32_sums_would_fail_the_same_test():
    f = feature_map(2, 32, True, FLOAT, n_blocks=2)
    i = Inputs.drawn(f, 13)
    wide, plain = (
        reference.energy_and_slope(f, i.x, i.weights.double())[1],
        reference.energy_and_slope(f, i.x, i.weights)[1],
    )
    assert float((wide - plain).abs().max()) > 100 * ROUNDING * f.n_features * float(f.amplitude * i.weights.norm())
