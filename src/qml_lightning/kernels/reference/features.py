"""Random features and their derivatives in plain torch."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..contract import FeatureMap

# Features in flight at once for each atom, and numbers in one array of them: they bound the memory, not the result.
FEATURE_TILE = 4096
TILE_NUMBERS = 8_000_000


def hadamard(x: Tensor) -> Tensor:
    """x H along the last axis (a power of two), H with entries ±1."""
    n = x.shape[-1]
    shape = x.shape
    step = 1
    while step < n:
        pairs = x.reshape(*shape[:-1], n // (2 * step), 2, step)
        low, high = pairs[..., 0, :], pairs[..., 1, :]
        x = torch.stack([low + high, low - high], -2).reshape(shape)
        step *= 2
    return x


def linear(f: FeatureMap, x: Tensor, first: int = 0, last: int | None = None) -> Tensor:
    """The linear part for the frequencies first:last, without phases: (n, rank) → (n, last − first)."""
    last = f.n_frequencies if last is None else last
    if f.matrix is not None:
        return x @ f.matrix[first:last].T.to(x)
    assert f.signs is not None
    assert f.row_scale is not None
    y = x[:, None, :]
    for transform in range(f.n_transforms):
        y = hadamard(y * f.signs[first // f.rank : last // f.rank, transform])
    return y.flatten(1) * f.row_scale[first:last]


def linear_transposed(f: FeatureMap, y: Tensor, first: int = 0, last: int | None = None) -> Tensor:
    """The transpose of `linear`: (n, last − first) → (n, rank)."""
    last = f.n_frequencies if last is None else last
    if f.matrix is not None:
        return y @ f.matrix[first:last].to(y)
    assert f.signs is not None
    assert f.row_scale is not None
    x: Tensor = (y * f.row_scale[first:last]).unflatten(1, (-1, f.rank))
    for transform in reversed(range(f.n_transforms)):
        x = hadamard(x) * f.signs[first // f.rank : last // f.rank, transform]
    return x.sum(1)


def tiles(f: FeatureMap, n: int = 1) -> Iterator[tuple[int, int]]:
    """Runs of frequencies, for `n` vectors at once."""
    step = max(f.rank, min(FEATURE_TILE, TILE_NUMBERS // max(1, n)) // f.rank * f.rank)
    for first in range(0, f.n_frequencies, step):
        yield first, min(first + step, f.n_frequencies)


def features(f: FeatureMap, x: Tensor) -> Tensor:
    """z(ρ), (atoms, n_features)."""
    u = linear(f, x) + f.phases
    return f.amplitude * (torch.cat([u.cos(), u.sin()], 1) if f.paired else u.cos())


def energy_rows(f: FeatureMap, x: Tensor, row: Tensor, out: Tensor) -> None:
    """out[row] += features of each x, in float64: x (atoms, rank), out (rows, n_features)."""
    for first, last in tiles(f, len(x)):
        u = linear(f, x, first, last) + f.phases[first:last]
        for part, values in zip(_parts(f, out), (u.cos(), u.sin()), strict=False):
            part[:, first:last].index_add_(0, row, values.double(), alpha=f.amplitude)


def force_rows(f: FeatureMap, x: Tensor, tangents: Tensor, owner: Tensor, row: Tensor, out: Tensor) -> None:
    """out[row] += derivative of the features of x[owner] along each tangent, in float64.

    x (atoms, rank), tangents (n, rank), out (rows, n_features). Tangents may be float64 where x is float32: sines and
    cosines are then those of float32, products and sums float64.
    """
    for first, last in tiles(f, len(tangents)):
        u = linear(f, x, first, last) + f.phases[first:last]
        along = linear(f, tangents, first, last).mul_(f.amplitude)
        for part, slopes in zip(_parts(f, out), (-u.sin(), u.cos()), strict=False):
            part[:, first:last].index_add_(0, row, (slopes[owner] * along).double())


def _parts(f: FeatureMap, out: Tensor) -> tuple[Tensor, ...]:
    """The columns of cosines, and those of sines when paired."""
    n = f.n_frequencies
    return (out[:, :n], out[:, n:]) if f.paired else (out,)


def energy_and_slope(f: FeatureMap, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_f w_f z_f(ρ) of each atom, (atoms,) float64, and its gradient by ρ, (atoms, rank), in the type of the weights.

    Weights may be float64 where x is float32: sines and cosines are then those of float32, products and sums float64.
    """
    energy = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    slope = torch.zeros_like(x, dtype=weights.dtype)
    cos_weights = weights[: f.n_frequencies]
    sin_weights = weights[f.n_frequencies :]
    for first, last in tiles(f):
        u = linear(f, x, first, last) + f.phases[first:last]
        cosine, sine = u.cos().to(weights), u.sin().to(weights)
        w = cos_weights[first:last]
        terms, derivative = cosine * w, -sine * w
        if f.paired:
            w = sin_weights[first:last]
            terms, derivative = terms + sine * w, derivative + cosine * w
        # float64: weights are many times larger than the energy
        energy = energy + f.amplitude * terms.double().sum(1)
        slope = slope + linear_transposed(f, f.amplitude * derivative, first, last)
    return energy, slope


def feature_moment(f: FeatureMap, x: Tensor, coefficients: Tensor | None, tangents: Tensor | None) -> Tensor:
    """Σ_i a_i z(ρ_i) + z′(ρ_i) t_i, (n_features,) float64: the transpose of `energy_and_slope` and of `force_rows`.

    a and t may be float64 where x is float32, as the weights there.
    """
    moment = torch.zeros(1 + f.paired, f.n_frequencies, dtype=torch.float64, device=x.device)
    for first, last in tiles(f):
        u = linear(f, x, first, last) + f.phases[first:last]
        cosine, sine = u.cos().double(), u.sin().double()
        parts = [cosine, sine] if f.paired else [cosine]
        slopes = [-sine, cosine] if f.paired else [-sine]
        along = None if tangents is None else linear(f, tangents, first, last).double()
        for k, (part, slope) in enumerate(zip(parts, slopes, strict=True)):
            if coefficients is not None:
                moment[k, first:last] += coefficients.double() @ part
            if along is not None:
                moment[k, first:last] += (slope * along).sum(0)
    return f.amplitude * moment.flatten()
