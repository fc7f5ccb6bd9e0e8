"""Sums of an iteration as pairs of float32, for devices with slow float64, in plain torch.

A pair (high, low) stands for high + low, with about 48 bits. Additions and products are error-free transformations:
what a float32 operation rounds off is computed exactly, and kept in `low`. Numbers come in and go out as float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..contract import FeatureMap
from .features import linear, tiles

Pair = tuple[Tensor, Tensor]

# Keeps the sign, the exponent and the upper 12 of the 24 bits of a float32: products of such halves are exact.
UPPER = -4096


def pair_of(x: Tensor) -> Pair:
    """float64 as a pair."""
    high = x.float()
    return high, (x - high.double()).float()


def number(x: Pair) -> Tensor:
    """A pair as float64."""
    return x[0].double() + x[1].double()


def two_sum(a: Tensor, b: Tensor) -> Pair:
    """a + b without error (Knuth)."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


def add(x: Pair, y: Pair) -> Pair:
    """x + y; its error is below 2⁻⁴⁶ (|x| + |y|)."""
    s, e = two_sum(x[0], y[0])
    e = e + (x[1] + y[1])
    high = s + e
    return high, e - (high - s)


def times(x: Pair, y: Tensor) -> Pair:
    """x · y for a float32 y; all products of halves are exact, so it does not matter whether they are fused."""
    a, b = _upper(x[0]), _upper(y)
    c, d = x[0] - a, y - b
    s, e = two_sum(a * b, a * d)
    s, more = two_sum(s, c * b)
    e = e + more + c * d + x[1] * y
    high = s + e
    return high, e - (high - s)


def _upper(x: Tensor) -> Tensor:
    return (x.contiguous().view(torch.int32) & UPPER).view(torch.float32)


def total(x: Pair, dim: int) -> Pair:
    """Sum along one direction, by halves."""
    high, low = x
    while (n := high.shape[dim]) > 1:
        half = n // 2
        one, other, rest = (tuple(v.narrow(dim, first, m) for v in (high, low)) for first, m in
                            ((0, half), (half, half), (2 * half, n - 2 * half)))  # fmt: skip
        high, low = (torch.cat(both, dim) for both in zip(add(one, other), rest, strict=True))  # type: ignore[arg-type]
    if n == 0:
        shape = [m for d, m in enumerate(high.shape) if d != dim % high.dim()]
        return high.new_zeros(shape), low.new_zeros(shape)
    return high.squeeze(dim), low.squeeze(dim)


def _hadamard(x: Pair) -> Pair:
    """x H along the last axis, as for single numbers."""
    shape, step = x[0].shape, 1
    while step < shape[-1]:
        low, high = ([v.unflatten(-1, (-1, 2, step))[..., k, :] for v in x] for k in (0, 1))
        both = zip(add((low[0], low[1]), (high[0], high[1])), add((low[0], low[1]), (-high[0], -high[1])), strict=True)
        one, other = (torch.stack(halves, -2).reshape(shape) for halves in both)
        x, step = (one, other), 2 * step
    return x


def _linear(f: FeatureMap, x: Pair, first: int, last: int) -> Pair:
    """Linear part of pairs (n, rank) → (n, last − first)."""
    assert f.signs is not None
    assert f.row_scale is not None
    high, low = (v[:, None, :] for v in x)
    for transform in range(f.n_transforms):
        signs = f.signs[first // f.rank : last // f.rank, transform]
        high, low = _hadamard((high * signs, low * signs))
    return times((high.flatten(1), low.flatten(1)), f.row_scale[first:last].expand(len(high), -1))


def _linear_transposed(f: FeatureMap, y: Pair, first: int, last: int) -> Pair:
    """Transpose of `_linear`: (n, last − first) → (n, rank)."""
    assert f.signs is not None
    assert f.row_scale is not None
    x = times(y, f.row_scale[first:last].expand(len(y[0]), -1))
    high, low = (v.unflatten(1, (-1, f.rank)) for v in x)
    for transform in reversed(range(f.n_transforms)):
        signs = f.signs[first // f.rank : last // f.rank, transform]
        high, low = _hadamard((high, low))
        high, low = high * signs, low * signs
    return total((high, low), 1)


def energy_and_slope(f: FeatureMap, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Energies and slopes of its namesake, for float64 weights, float32 x and a map of Hadamard transforms."""
    w = pair_of(weights)
    energy = x.new_zeros(len(x)), x.new_zeros(len(x))
    slope = torch.zeros_like(x), torch.zeros_like(x)
    for first, last in tiles(f):
        u = linear(f, x, first, last) + f.phases[first:last]
        cosine, sine = u.cos(), u.sin()
        here = w[0][first:last].expand_as(u), w[1][first:last].expand_as(u)
        terms, derivative = times(here, cosine), times(here, -sine)
        if f.paired:
            at = slice(f.n_frequencies + first, f.n_frequencies + last)
            here = w[0][at].expand_as(u), w[1][at].expand_as(u)
            terms, derivative = add(terms, times(here, sine)), add(derivative, times(here, cosine))
        energy = add(energy, total(terms, 1))
        slope = add(slope, _linear_transposed(f, derivative, first, last))
    return f.amplitude * number(energy), f.amplitude * number(slope)


def feature_moment(f: FeatureMap, x: Tensor, coefficients: Tensor | None, tangents: Tensor | None) -> Tensor:
    """Moment of its namesake, for float64 coefficients and tangents."""
    a = None if coefficients is None else pair_of(coefficients)
    t = None if tangents is None else pair_of(tangents)
    moments: list[list[Tensor]] = [[] for _ in range(1 + f.paired)]
    for first, last in tiles(f, len(x)):
        u = linear(f, x, first, last) + f.phases[first:last]
        parts = [(u.cos(), -u.sin()), (u.sin(), u.cos())][: 1 + f.paired]
        along = None if t is None else _linear(f, t, first, last)
        for moment, (part, slope) in zip(moments, parts, strict=True):
            terms = u.new_zeros(u.shape), u.new_zeros(u.shape)
            if a is not None:
                terms = times((a[0][:, None].expand_as(u), a[1][:, None].expand_as(u)), part)
            if along is not None:
                terms = add(terms, times(along, slope))
            moment.append(number(total(terms, 0)))
    return f.amplitude * torch.cat([torch.cat(moment) for moment in moments])


def tangent_products(tangents: Tensor, owner: Tensor, x: Tensor) -> Tensor:
    """Products of its namesake, for float64 x."""
    high, low = pair_of(x)
    runs = zip(tangents.split(2**16), owner.split(2**16), strict=True)
    return torch.cat([number(total(times((high[of], low[of]), run), 1)) for run, of in runs])


def tangent_sums(
    tangents: Tensor, owner: Tensor, coefficients: Tensor, n_owners: int, dtype: torch.dtype | None = None
) -> Tensor:
    """Sums of its namesake, for float64 coefficients and owners that ascend; float64 whatever `dtype` says."""
    n, high, low = len(tangents), *pair_of(coefficients)
    terms = times((high[:, None].expand_as(tangents), low[:, None].expand_as(tangents)), tangents)
    sums, step = terms, 1
    # each entry takes in the one `step` further on, as long as both have the same owner: log₂ of the longest run
    while step < n:
        same = (owner[step:] == owner[:-step])[:, None]
        if not bool(same.any()):
            break
        later = tuple(torch.where(same, v[step:], 0.0) for v in sums)
        joined = add((sums[0][:-step], sums[1][:-step]), (later[0], later[1]))
        sums = tuple(torch.cat([new, old[n - step :]]) for new, old in zip(joined, sums, strict=True))  # type: ignore[assignment]
        step *= 2
    starts = torch.searchsorted(owner, torch.arange(n_owners, device=owner.device))
    there = torch.isin(torch.arange(n_owners, device=owner.device), owner)
    out = torch.zeros(n_owners, tangents.shape[1], dtype=torch.float64, device=tangents.device)
    out[there] = number((sums[0][starts[there]], sums[1][starts[there]]))
    return out
