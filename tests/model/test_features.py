"""Random features approximate the Gaussian kernel, each map in its own way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import hadamard as hadamard_matrix

from kernel_tables import CPU, ON_CPU
from qml_lightning.errors import InputError
from qml_lightning.kernels import kernels_for, reference
from qml_lightning.model.features import FeatureSettings, draw_maps

SIGMA = 3.0


@pytest.fixture(params=ON_CPU)
def kernels(request):
    return kernels_for(CPU, torch.float64, request.param)


def _points(n: int, rank: int, spread: float = 1.0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).normal(size=(n, rank)) * spread * SIGMA / np.sqrt(2 * rank))


def _kernel_error(kernels, settings: FeatureSettings, rank: int) -> float:
    """Mean absolute error of z·z′ against the Gaussian over pairs about σ apart."""
    x = _points(60, rank)
    (feature_map,) = draw_maps(settings, 1, rank, np.random.default_rng(0))
    z = kernels.features(feature_map, x)
    exact = torch.exp(-torch.cdist(x, x).square() / (2 * SIGMA**2))
    return float((z @ z.T - exact).abs().mean())


METHODS = {
    "rff": FeatureSettings("rff", sigma=SIGMA),
    "rff paired": FeatureSettings("rff", sigma=SIGMA, paired=True),
    "orf": FeatureSettings("orf", sigma=SIGMA),
    "sorf": FeatureSettings("sorf", sigma=SIGMA),
    "sorf paired": FeatureSettings("sorf", sigma=SIGMA, paired=True),
    "sorf scaled": FeatureSettings("sorf", sigma=SIGMA, chi_scaled=True),
    "sorf of three transforms": FeatureSettings("sorf", sigma=SIGMA, n_transforms=3),
}


@pytest.mark.parametrize("name", METHODS)
def test_features_approximate_the_gaussian_kernel(kernels, name):
    # 8192 features: the Monte Carlo error is about 1/√8192 = 0.011 for each pair
    assert _kernel_error(kernels, METHODS[name], 64) < 0.012


@pytest.mark.parametrize("name", METHODS)
def test_the_error_falls_as_one_over_the_root_of_the_number_of_features(kernels, name):
    from dataclasses import replace

    few = np.mean([_kernel_error(kernels, replace(METHODS[name], n_features=512), 128)])
    many = np.mean([_kernel_error(kernels, replace(METHODS[name], n_features=16 * 512), 128)])
    assert many < few / 2


def test_orthogonal_features_are_better_than_independent_ones(kernels):
    # paired: a random phase would add the same noise to both
    orf, rff = (FeatureSettings(method, sigma=SIGMA, n_features=512, paired=True) for method in ("orf", "rff"))
    assert _kernel_error(kernels, orf, 64) < 0.8 * _kernel_error(kernels, rff, 64)


def test_one_transform_fails_for_concentrated_inputs_and_two_do_not(kernels):
    # all of the distance in one coordinate, as principal axes make it: exact kernel exp(−2) at r = 2σ
    x = torch.zeros(2, 128, dtype=torch.float64)
    x[1, 0] = 2 * SIGMA
    values = {}
    for n in (1, 2):
        (feature_map,) = draw_maps(
            FeatureSettings("sorf", sigma=SIGMA, n_transforms=n, paired=True, n_features=16384), 1, 128,
            np.random.default_rng(0),
        )  # fmt: skip
        z = kernels.features(feature_map, x)
        values[n] = float(z[0] @ z[1])
    assert values[1] == pytest.approx(-0.416, abs=0.01)
    assert values[2] == pytest.approx(0.135, abs=0.02)


def test_scaling_by_chi_turns_the_bessel_kernel_into_the_gaussian(kernels):
    # at d = 128 and r = 2σ: 0.1311 with rows of one length, 0.1353 with χ-distributed ones
    # averaged over directions, so that the noise of the draw is below their difference
    direction = _points(1000, 128)
    x = torch.cat(
        [torch.zeros(1, 128, dtype=torch.float64), 2 * SIGMA * direction / direction.norm(dim=1, keepdim=True)]
    )
    found = {}
    for scaled in (False, True):
        settings = FeatureSettings("sorf", n_features=2**13, sigma=SIGMA, chi_scaled=scaled, paired=True)
        (feature_map,) = draw_maps(settings, 1, 128, np.random.default_rng(3))
        z = kernels.features(feature_map, x)
        found[scaled] = float((z[1:] @ z[0]).mean())
    assert found[False] == pytest.approx(0.1311, abs=1e-3)
    assert found[True] == pytest.approx(0.1353, abs=1e-3)


@pytest.mark.parametrize("name", METHODS)
def test_every_map_is_its_dense_matrix_and_a_cosine(kernels, name):
    rank = 16
    settings = METHODS[name]
    (f,) = draw_maps(settings, 1, rank, np.random.default_rng(0))
    x = _points(5, rank)
    if f.matrix is None:
        h = hadamard_matrix(rank).astype(float)
        blocks = []
        for signs in f.signs.numpy():
            block = np.eye(rank)
            for diagonal in signs:
                block = h @ np.diag(diagonal) @ block
            blocks.append(block)
        matrix = f.row_scale.numpy()[:, None] * np.concatenate(blocks)
    else:
        matrix = f.matrix.numpy()
    u = x.numpy() @ matrix.T + f.phases.numpy()
    expected = np.concatenate([np.cos(u), np.sin(u)], 1) if f.paired else np.cos(u)
    z = kernels.features(f, x)
    assert np.abs(z.numpy() - np.sqrt(2 / settings.n_features) * expected).max() < 1e-13


@pytest.mark.parametrize("name", METHODS)
def test_energy_slope_rows_and_moment_are_one_linear_map(kernels, name):
    """energy = z·w, slope its gradient, force rows the directional derivative, the moment their transpose."""
    rank, n = 16, 7
    (f,) = draw_maps(METHODS[name], 1, rank, np.random.default_rng(0))
    random = np.random.default_rng(2)
    x = _points(n, rank)
    weights = torch.from_numpy(random.normal(size=f.n_features))
    energy, slope = kernels.energy_and_slope(f, x, weights)
    z = kernels.features(f, x)
    assert torch.allclose(energy, z @ weights, atol=1e-12)
    differentiable = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((reference.features(f, differentiable) @ weights).sum(), differentiable)
    assert torch.allclose(slope, gradient, atol=1e-12)

    owner = torch.tensor([0, 0, 1, 3, 3, 6])
    row = torch.tensor([0, 1, 1, 0, 2, 2])
    tangents = torch.from_numpy(random.normal(size=(6, rank)))
    rows = torch.zeros(3, f.n_features, dtype=torch.float64)
    kernels.force_rows(f, x, tangents, owner, row, rows)
    expected = torch.zeros(3, dtype=torch.float64).index_add(0, row, (slope[owner] * tangents).sum(1))
    assert torch.allclose(rows @ weights, expected, atol=1e-12)

    sums = torch.zeros(3, f.n_features, dtype=torch.float64)
    of_atom = torch.tensor([2, 0, 0, 2, 0, 2, 2])
    kernels.energy_rows(f, x, of_atom, sums)
    assert torch.allclose(sums @ weights, torch.zeros(3, dtype=torch.float64).index_add(0, of_atom, energy), atol=1e-12)

    coefficients = torch.from_numpy(random.normal(size=n))
    moves = torch.from_numpy(random.normal(size=(n, rank)))
    moment = kernels.feature_moment(f, x, coefficients, moves)
    assert float(moment @ weights) == pytest.approx(float(coefficients @ energy + (moves * slope).sum()), abs=1e-11)


def test_what_cannot_be_drawn_is_refused_with_the_remedy():
    random = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"power-of-two rank, got 100\. Use rank=128"):
        draw_maps(FeatureSettings("sorf", 1000), 1, 100, random)
    with pytest.raises(InputError, match=r"multiple of 128 features, got 1000\. Use 1024"):
        draw_maps(FeatureSettings("sorf", 1000), 1, 128, random)
    with pytest.raises(InputError, match="sigma must be positive"):
        draw_maps(FeatureSettings(sigma=0.0), 1, 128, random)
    with pytest.raises(InputError, match="Unknown feature map 'sor'"):
        draw_maps(FeatureSettings("sor"), 1, 128, random)
