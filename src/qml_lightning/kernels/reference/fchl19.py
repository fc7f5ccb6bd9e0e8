"""FCHL19 in plain torch."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ..contract import FCHL19Arguments
from .pullback import pullback

# Numbers in one array of triples: it bounds the memory, not the result.
TRIPLE_NUMBERS = 8_000_000


def environments(p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor:
    """FCHL19 of every centre, (atoms, size)."""
    chunks = [_values(p, chunk) for chunk in _Centres.chunks(p, n_atoms, segments, vectors)]
    return torch.cat(chunks) if chunks else vectors.new_zeros(0, p.size)


def environments_pullback(
    p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor
) -> Tensor:
    """Gradient by automatic differentiation, (pairs, 3)."""
    runs = _Centres.chunks(p, n_atoms, segments, vectors)
    return pullback(lambda run: _values(p, run), runs, vectors, cotangent)


def environments_jacobian(
    p: FCHL19Arguments,
    n_atoms: int,
    segments: Tensor,
    vectors: Tensor,
    centre_element: Tensor,
    projections: Tensor,
) -> Tensor:
    """Dense Jacobian times the projection of the centre's element, (pairs, 3, rank)."""
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


def _cutoff(p: FCHL19Arguments, r: Tensor) -> Tensor:
    """[½ (cos(π r / cutoff) + 1)]^cutoff_power inside the cutoff, 0 outside."""
    inside = (0.5 * (torch.cos(r * (math.pi / p.cutoff)) + 1.0)) ** p.cutoff_power
    return torch.where(r < p.cutoff, inside, torch.zeros_like(r))


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
    out: Tensor = density * _cutoff(p, r) * r ** (-p.decay2)
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
    weight = weight * _cutoff(p, r1) * _cutoff(p, r2)
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
