"""The feature kernels in Triton, interpreted on the CPU, against explicit matrices and cosines."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from feature_inputs import Inputs, exact, fast, feature_map, naive, widened
from few_and_all import few_and_all
from qml_lightning.kernels import FeatureMap, kernels_for, reference

pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled here: pytest -m gpu")


FLOAT, DOUBLE = torch.float32, torch.float64
# precision, wide products, transforms (0: a dense matrix), rank, paired, atoms: sizes that are no multiples of a tile
CASES = few_and_all(
    [
        (FLOAT, False, 2, 16, False, 35),
        (FLOAT, True, 2, 32, True, 5),
        (DOUBLE, False, 3, 16, True, 7),
        (FLOAT, False, 0, 5, True, 3),
        (FLOAT, True, 0, 40, False, 3),
        (DOUBLE, False, 0, 5, False, 3),
    ],
    [
        (dtype, wide, transforms, rank, paired, atoms)
        for dtype, wide in ((FLOAT, False), (FLOAT, True), (DOUBLE, False))
        for transforms, rank in ((0, 5), (0, 100), (1, 2), (1, 128), (2, 64), (2, 128), (2, 256), (3, 16), (2, 1024))
        for paired in (False, True)
        for atoms in ((1, 37) if rank < 256 else (3,))
    ],
)


@pytest.fixture(scope="module")
def triton():
    return kernels_for("cpu", torch.float64, "triton")


# Beyond twice the error of plain torch, in units of the last place: as for the native kernels.
MARGIN = {FLOAT: 0.5, DOUBLE: 2.0}


# Draws of an input of one atom, for plain torch and for the kernels: one rounding error may be next to nothing by luck.
DRAWS_OF_PLAIN, DRAWS = 64, 4


@pytest.mark.parametrize(("dtype", "wide", "transforms", "rank", "paired", "atoms"), CASES)
def test_errors_are_at_most_twice_those_of_plain_torch(triton, dtype, wide, transforms, rank, paired, atoms):
    f = feature_map(transforms, rank, paired, dtype, n_blocks=2)
    drawn = [Inputs.drawn(f, atoms, k) for k in range(DRAWS_OF_PLAIN if atoms == 1 else 1)]
    truths, plain = [exact(f, one) for one in drawn], [naive(f, one) for one in drawn]
    found = [fast(triton, f, widened(one) if wide else one) for one in drawn[:DRAWS]]
    for name, value in truths[0].items():
        # an energy cancels: its error is that of the sum of its terms
        sizes = [
            truth[name] if name != "energy" else f.amplitude * one.weights.double().norm().numpy() + 0 * value
            for truth, one in zip(truths, drawn, strict=True)
        ]
        error, allowed = (mean_length([one[name].numpy() - truth[name] for one, truth in zip(by, truths, strict=False)])
                          for by in (found, plain))  # fmt: skip
        assert error <= 2 * allowed + MARGIN[dtype] * torch.finfo(dtype).eps * mean_length(sizes), name


def mean_length(vectors: list[np.ndarray]) -> float:
    """Root mean square of the lengths."""
    return float(np.sqrt(np.mean([np.square(one).sum() for one in vectors])))


@pytest.mark.parametrize(("rank", "atoms"), few_and_all([(16, 5)], [(128, 45), (1024, 3)]))
def test_products_in_double_with_features_in_float_are_those_of_one_matrix(triton, rank, atoms):
    """The iterative solver needs Zᵀ to be the transpose of Z to the last digits of double."""
    f = feature_map(2, rank, False, FLOAT, n_blocks=2)
    narrow = Inputs.drawn(f, atoms)
    i = widened(narrow)
    found = fast(triton, f, i)
    along = triton.tangent_products(narrow.many, i.owner, found["slope"])
    by_row = torch.zeros(i.n_rows, dtype=DOUBLE).index_add_(0, i.row, along)
    size = f.amplitude * f.n_features**0.5 * (1 + i.many.norm() * i.x.norm())
    assert (found["force rows"] @ i.weights - by_row).abs().max() < 1e-13 * size
    one = found["energy"] @ i.coefficients + (found["slope"] * i.tangents).sum()
    assert (found["moment"] @ i.weights - one).abs() < 1e-13 * size * atoms


@pytest.mark.parametrize(("rank", "wide"), few_and_all([(5, False), (16, True)], [(128, False), (300, True)]))
def test_tangents_are_those_of_plain_torch(triton, rank, wide):
    f = feature_map(0, rank, False, FLOAT)
    i = Inputs.drawn(f, 11)
    x = i.x.double() if wide else i.x
    torch.testing.assert_close(
        triton.tangent_products(i.many, i.owner, x), reference.tangent_products(i.many, i.owner, x), rtol=0, atol=1e-12
    )
    given = i.many, i.owner, i.many[:, 0].contiguous(), 13, DOUBLE if wide else None  # two owners have none
    torch.testing.assert_close(triton.tangent_sums(*given), reference.tangent_sums(*given), rtol=1e-6, atol=1e-6)


def test_rows_may_be_part_of_wider_ones_and_add_to_what_is_there(triton):
    f = feature_map(2, 16, True, DOUBLE, n_blocks=1)
    i = Inputs.drawn(f, 4)
    n, found = f.n_features, fast(reference, f, i)
    for name, add in (
        ("energy rows", lambda out: triton.energy_rows(f, i.x, i.row_of_atom, out)),
        ("force rows", lambda out: triton.force_rows(f, i.x, i.many, i.owner, i.row, out)),
    ):
        wide = torch.ones(i.n_rows, n + 20, dtype=DOUBLE)
        add(wide[:, 10 : n + 10])
        torch.testing.assert_close(wide[:, 10 : n + 10] - 1, found[name])
        assert (wide[:, :10] == 1).all()
        assert (wide[:, n + 10 :] == 1).all()


def test_no_atoms_give_nothing_and_moments_come_in_parts(triton):
    f = feature_map(2, 16, True, FLOAT, n_blocks=1)
    nothing = fast(triton, f, Inputs.drawn(f, 0))
    assert nothing["features"].shape == (0, f.n_features)
    assert nothing["slope"].shape == (0, 16)
    assert not any(nothing[name].any() for name in ("moment", "energy rows", "force rows"))
    i = Inputs.drawn(f, 5)
    both = triton.feature_moment(f, i.x, i.coefficients, i.tangents)
    one, other = (triton.feature_moment(f, i.x, *given) for given in ((i.coefficients, None), (None, i.tangents)))
    torch.testing.assert_close(one + other, both)


def test_sine_and_cosine_are_good_up_to_ten_thousand_radians(triton):
    for dtype in (FLOAT, DOUBLE):
        f = FeatureMap(torch.zeros(2, dtype=dtype), True, matrix=torch.ones(2, 2, dtype=dtype))
        u = torch.cat([torch.linspace(-1e4, 1e4, 301), torch.linspace(-10, 10, 101)]).to(dtype)
        z = triton.features(f, torch.stack([u, 0 * u], 1)).double() / f.amplitude
        bound = 2.5 * torch.finfo(dtype).eps
        assert ((z[:, 0] - u.double().cos()).abs() <= bound).all()
        assert ((z[:, 2] - u.double().sin()).abs() <= bound).all()
