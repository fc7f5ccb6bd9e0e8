"""The kernels in plain torch: the definition of each, readable and differentiable, on any device."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from .arguments import FCHL19Arguments, FeatureMap

NAME = "reference"
predictor = None  # prediction walks through the kernels below

# Features in flight at once for each atom, numbers in one array of them, and in one of triples: they bound the memory,
# not the result.
FEATURE_TILE = 4096
TILE_NUMBERS = 8_000_000
TRIPLE_NUMBERS = 8_000_000


# ---- FCHL19 ----------------------------------------------------------------------------------------------------------


def fchl19(p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor:
    """Representation of every centre, (atoms, size), from its pair vectors (pairs, 3) in Å.

    Pairs of centre i with neighbours of element e are segments[i·n + e] ≤ pair < segments[i·n + e + 1].
    """
    chunks = [_values(p, chunk) for chunk in _Centres.chunks(p, n_atoms, segments, vectors)]
    return torch.cat(chunks) if chunks else vectors.new_zeros(0, p.size)


def fchl19_pullback(p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor) -> Tensor:
    """Gradient of Σ cotangent · fchl19 by each pair vector, (pairs, 3)."""
    gradients = []
    for chunk in _Centres.chunks(p, n_atoms, segments, vectors):
        with torch.enable_grad():
            chunk.vectors = chunk.vectors.detach().requires_grad_()
            total = (_values(p, chunk) * cotangent[chunk.first : chunk.last]).sum()
        gradients.append(
            torch.autograd.grad(total, chunk.vectors)[0] if len(chunk.vectors) else torch.zeros_like(chunk.vectors)
        )
    return torch.cat(gradients) if gradients else torch.zeros_like(vectors)


def fchl19_jacobian(
    p: FCHL19Arguments,
    n_atoms: int,
    segments: Tensor,
    vectors: Tensor,
    centre_element: Tensor,
    projections: Tensor,
) -> Tensor:
    """Derivative of the projected representation by each pair vector, (pairs, 3, rank).

    projections (elements, size, rank), the one of the centre's element applies.
    """
    out = vectors.new_empty(len(vectors), 3, projections.shape[2])
    done = 0
    for chunk in _Centres.chunks(p, n_atoms, segments, vectors, width=3 * p.size):
        dense = _dense_jacobian(p, chunk)
        element_of_pair = centre_element[chunk.first + chunk.centre]
        for element in range(p.n_elements):
            at = (element_of_pair == element).nonzero()[:, 0]
            out[done + at] = dense[at] @ projections[element]
        done += len(chunk.vectors)
    return out


class _Centres:
    """The pairs and triples of a run of centres."""

    def __init__(self, p: FCHL19Arguments, segments: Tensor, vectors: Tensor, first: int, last: int) -> None:
        n = p.n_elements
        bounds = segments[first * n : last * n + 1]
        start, stop = int(bounds[0]), int(bounds[-1])
        self.first, self.last = first, last
        self.vectors = vectors[start:stop]
        segment = torch.repeat_interleave(torch.arange((last - first) * n, device=vectors.device), bounds.diff())
        self.centre = segment // n  # (pairs,) counted from `first`
        self.element = segment % n  # (pairs,)
        # every pair with each later pair of the same centre: {j, k} once
        ends = (bounds - start)[n::n][self.centre]
        later = ends - 1 - torch.arange(len(self.vectors), device=vectors.device)
        self.one = torch.repeat_interleave(torch.arange(len(later), device=vectors.device), later)  # (triples,)
        run = later.cumsum(0) - later
        self.other = self.one + 1 + torch.arange(len(self.one), device=vectors.device) - run[self.one]
        low, high = self.element[self.one], self.element[self.other]
        self.block = high + n * low - low * (low + 1) // 2  # (triples,) pair of elements, low ≤ high: pairs are sorted

    @classmethod
    def chunks(
        cls, p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor, width: int = 0
    ) -> Iterator[_Centres]:
        """Runs of centres whose triples, and pairs times `width`, fit into memory."""
        counts = segments[:: p.n_elements].diff().double()
        cost = (counts * (counts - 1) / 2 * max(1, p.pair_block) + counts * (p.n_radial2 + width)).cumsum(0)
        first = 0
        while first < n_atoms:
            spent = cost[first - 1] if first else 0.0
            last = max(first + 1, int(torch.searchsorted(cost, spent + TRIPLE_NUMBERS)))
            yield cls(p, segments, vectors, first, min(last, n_atoms))
            first = last


def _cutoff(r: Tensor, cutoff: float) -> Tensor:
    """½ (cos(π r / cutoff) + 1) inside the cutoff, 0 outside."""
    return torch.where(r < cutoff, 0.5 * (torch.cos(r * (math.pi / cutoff)) + 1.0), torch.zeros_like(r))


def _grid(n: int, cutoff: float, like: Tensor) -> Tensor:
    """cutoff · k / n, k = 1..n: zero excluded, the cutoff included."""
    return torch.arange(1, n + 1, dtype=like.dtype, device=like.device) * (cutoff / max(n, 1))


def _two_body(p: FCHL19Arguments, vector: Tensor) -> Tensor:
    """Log-normal functions of the distance, (pairs, n_radial2)."""
    r = vector.norm(dim=-1, keepdim=True)
    grid = _grid(p.n_radial2, p.cutoff, vector)
    variance = torch.log1p(p.eta2 / r**2)
    mean = torch.log(r) - 0.5 * variance
    density = torch.exp(-((torch.log(grid) - mean) ** 2) / (2.0 * variance)) / (
        grid * torch.sqrt(2.0 * math.pi * variance)
    )
    out: Tensor = density * _cutoff(r, p.cutoff) * r ** (-p.decay2)
    return out


def _angular(p: FCHL19Arguments, cosine: Tensor, sine: Tensor) -> Tensor:
    """cos θ and sin θ, or the Chebyshev polynomials cos nθ, n < n_angular, (triples, n_angular)."""
    if p.angular == "pair":
        return torch.stack([cosine, sine], -1)
    series = [torch.ones_like(cosine), cosine]
    for _ in range(2, p.n_angular):
        series.append(2.0 * cosine * series[-1] - series[-2])
    return torch.stack(series[: p.n_angular], -1)


def _three_body(p: FCHL19Arguments, one: Tensor, other: Tensor) -> Tensor:
    """Axilrod–Teller weight × radial Gaussian × angular function, (triples, n_radial3 · n_angular)."""
    between = other - one
    r1, r2, r3 = one.norm(dim=-1), other.norm(dim=-1), between.norm(dim=-1)
    cos_centre = (one * other).sum(-1) / (r1 * r2)
    cos_one = -(one * between).sum(-1) / (r1 * r3)
    cos_other = (other * between).sum(-1) / (r2 * r3)
    cross = torch.linalg.cross(one, other).square().sum(-1)
    # the derivative of sin θ does not exist for collinear atoms: taken as 0, also where rounding leaves a residue
    bent = cross > (4.0 * torch.finfo(one.dtype).eps * r1 * r2) ** 2
    sin_centre = torch.where(bent, torch.sqrt(torch.where(bent, cross, 1.0)), 0.0) / (r1 * r2)
    weight = p.weight3 * (1.0 + 3.0 * cos_centre * cos_one * cos_other) * (r1 * r2 * r3) ** (-p.decay3)
    weight = weight * _cutoff(r1, p.cutoff) * _cutoff(r2, p.cutoff)
    grid = _grid(p.n_radial3, p.cutoff, one)
    radial = torch.exp(-p.eta3 * (0.5 * (r1 + r2)[:, None] - grid) ** 2)
    product: Tensor = (weight[:, None] * radial)[:, :, None] * _angular(p, cos_centre, sin_centre)[:, None, :]
    return product.flatten(1)


def _values(p: FCHL19Arguments, chunk: _Centres) -> Tensor:
    v = chunk.vectors
    n = chunk.last - chunk.first
    two = v.new_zeros(n * p.n_elements, p.n_radial2).index_add(
        0, chunk.centre * p.n_elements + chunk.element, _two_body(p, v)
    )
    blocks = chunk.centre[chunk.one] * p.n_element_pairs + chunk.block
    three = v.new_zeros(n * p.n_element_pairs, p.pair_block).index_add(
        0, blocks, _three_body(p, v[chunk.one], v[chunk.other])
    )
    return torch.cat([two.view(n, -1), three.view(n, -1)], 1)


def _dense_jacobian(p: FCHL19Arguments, chunk: _Centres) -> Tensor:
    """Derivative of the representation of a pair's centre by the pair's vector, (pairs, 3, size)."""
    v = chunk.vectors
    n = len(v)
    two = v.new_zeros(n, 3, p.n_elements, p.n_radial2)
    three = v.new_zeros(n, p.n_element_pairs, 3, p.pair_block)
    one, other = v[chunk.one], v[chunk.other]
    still = torch.zeros_like(one)
    for axis in range(3):
        along = torch.zeros(3, dtype=v.dtype, device=v.device)
        along[axis] = 1.0
        two[torch.arange(n, device=v.device), axis, chunk.element] = torch.func.jvp(
            lambda x: _two_body(p, x), (v,), (along.expand_as(v).contiguous(),)
        )[1]
        move = along.expand_as(one).contiguous()
        for pair, tangents in ((chunk.one, (move, still)), (chunk.other, (still, move))):
            slope = torch.func.jvp(lambda a, b: _three_body(p, a, b), (one, other), tangents)[1]
            flat = v.new_zeros(n * p.n_element_pairs, p.pair_block)
            flat.index_add_(0, pair * p.n_element_pairs + chunk.block, slope)
            three[:, :, axis] += flat.view(n, p.n_element_pairs, p.pair_block)
    return torch.cat([two.flatten(2), three.transpose(1, 2).flatten(2)], 2)


# ---- features --------------------------------------------------------------------------------------------------------


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


def _tiles(f: FeatureMap, n: int = 1) -> Iterator[tuple[int, int]]:
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
    for first, last in _tiles(f, len(x)):
        u = linear(f, x, first, last) + f.phases[first:last]
        for part, values in zip(_parts(f, out), (u.cos(), u.sin()), strict=False):
            part[:, first:last].index_add_(0, row, values.double(), alpha=f.amplitude)


def force_rows(f: FeatureMap, x: Tensor, tangents: Tensor, owner: Tensor, row: Tensor, out: Tensor) -> None:
    """out[row] += derivative of the features of x[owner] along each tangent, in float64.

    x (atoms, rank), tangents (n, rank), out (rows, n_features). Tangents may be float64 where x is float32: sines and
    cosines are then those of float32, products and sums float64.
    """
    for first, last in _tiles(f, len(tangents)):
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
    for first, last in _tiles(f):
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
    for first, last in _tiles(f):
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


# ---- tangents --------------------------------------------------------------------------------------------------------


def tangent_products(tangents: Tensor, owner: Tensor, x: Tensor) -> Tensor:
    """tangents[t] · x[owner[t]], (tangents,) float64; x may be float64 where the tangents are float32."""
    return torch.cat(
        [(run * x[of]).double().sum(1) for run, of in zip(tangents.split(2**16), owner.split(2**16), strict=True)]
    )


def tangent_sums(
    tangents: Tensor, owner: Tensor, coefficients: Tensor, n_owners: int, dtype: torch.dtype | None = None
) -> Tensor:
    """Σ coefficients[t] tangents[t] over the tangents of each owner, (owners, rank): the transpose of the above.

    `dtype`: of products and sums, by default that of the tangents.
    """
    out = tangents.new_zeros(n_owners, tangents.shape[1], dtype=dtype or tangents.dtype)
    for run, of, by in zip(tangents.split(2**16), owner.split(2**16), coefficients.split(2**16), strict=True):
        out.index_add_(0, of, run * by[:, None].to(out))
    return out
