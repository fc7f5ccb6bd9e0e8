"""Invariants of the neighbour density in Triton: one program for each centre.

Channels lie side by side in the threads of a program. Neighbours come one after the other, so sums have one order and
no two programs write to one place. Moments live in registers, as a tuple of one vector of channels for each harmonic.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton import language as tl

from ..contract import DensityArguments
from ..harmonics import of_degree, paths, terms_of
from .geometry import Pairs, direction_of, element_at
from .harmonics import axis_of, harmonics, harmonics_along
from .launch import constant, launch, padded, registers

CHANNELS_OF_THREAD = {torch.float32: 2, torch.float64: 1}  # what registers hold without spilling any


class Density(NamedTuple):
    """The representation as a kernel takes it; fields in capitals are part of its code."""

    pair_table: Any  # pointers
    radial_table: Any
    mixing: Any
    weights: Any
    ELEMENTS: Any
    SIZE: Any
    N_PAIR: Any
    N_RADIAL: Any
    CHANNELS: Any
    PAIR_WIDTH: Any  # padded to powers of two
    RADIAL_WIDTH: Any
    WIDTH: Any
    HARMONICS: Any
    INVARIANTS: Any
    PAIR_STEPS: Any  # intervals of a table in 1 Å
    RADIAL_STEPS: Any
    INTERVALS: Any
    TERMS: Any  # of the invariants
    FIRST: Any
    SLOPE_TERMS: Any  # of their derivatives by the moments
    SLOPE_FIRST: Any


Term = tuple[int, int, int, float]


@functools.cache
def terms(l_max: int, n_invariants: int) -> tuple[tuple[tuple[Term, ...], tuple[int, ...]], ...]:
    """Terms of all invariants, and terms of the derivatives by all moments, each with the places where they begin.

    A term (a, b, c, factor) of an invariant is factor · M_a M_b M_c. A term (i, b, c, factor) of the derivative by a
    moment is factor · M_b M_c, a part of the derivative of invariant i. A moment of number −1 stands for the factor 1.
    """
    squares = [[(m, m, -1, 1.0) for m in range(*of_degree(degree).indices(99))] for degree in range(l_max + 1)]
    every: list[list[Term]] = [*squares, *([*terms_of(path)] for path in paths(l_max))][:n_invariants]
    slopes: list[list[Term]] = [[] for _ in range((l_max + 1) ** 2)]
    for i, invariant in enumerate(every):
        for a, b, c, factor in invariant:
            slopes[a].append((i, b, c, factor))
            slopes[b].append((i, a, c, factor))
            if c >= 0:
                slopes[c].append((i, a, b, factor))
    return _end_to_end(every), _end_to_end(slopes)


def _end_to_end(lists: list[list[Term]]) -> tuple[tuple[Term, ...], tuple[int, ...]]:
    """All lists as one, and where each of them begins."""
    first = [sum(len(one) for one in lists[:i]) for i in range(len(lists) + 1)]
    return tuple(term for one in lists for term in one), tuple(first)


def arguments(p: DensityArguments) -> Density:
    """`p` as a kernel takes it."""
    steps = len(p.pair_table) / p.pair_cutoff, len(p.radial_table) / p.density_cutoff
    constants = (
        p.n_elements, p.size, p.n_pair, p.n_radial, p.n_channels, padded(p.n_pair), padded(p.n_radial),
        padded(p.n_channels), p.n_harmonics, p.n_invariants, *steps, len(p.pair_table),
        *(part for both in terms(p.l_max, p.n_invariants) for part in both),
    )  # fmt: skip
    tables = (one.contiguous() for one in (p.pair_table, p.radial_table, p.mixing, p.weights))
    return Density(*tables, *(constant(one) for one in constants))


def warps_of(p: DensityArguments, dtype: torch.dtype) -> int:
    """Warps of a program: few, as what belongs to all channels is computed by each of them."""
    return max(1, padded(p.n_channels) // (32 * CHANNELS_OF_THREAD[dtype]))


def environments(p: DensityArguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor:
    out = vectors.new_zeros(n_atoms, p.size)
    given = segments.contiguous(), vectors.contiguous(), out
    most = registers(168, vectors.dtype == torch.float64)
    launch(_values, (n_atoms,), arguments(p), *given, warps=warps_of(p, vectors.dtype), **most)
    return out


def environments_pullback(
    p: DensityArguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor
) -> Tensor:
    out = vectors.new_zeros(vectors.shape)
    given = segments.contiguous(), vectors.contiguous(), cotangent.contiguous(), out
    launch(_pullback, (n_atoms,), arguments(p), *given, warps=warps_of(p, vectors.dtype))
    return out


def prepared(p: DensityArguments, segments: Tensor, vectors: Tensor) -> Tensor:
    """Moments of all centres, (atoms, harmonics, channels), which every row of the Jacobian needs."""
    n_atoms = (len(segments) - 1) // p.n_elements
    out = vectors.new_empty(n_atoms, p.n_harmonics, p.n_channels)
    launch(_moments, (n_atoms,), arguments(p), segments, vectors, out, warps=warps_of(p, vectors.dtype))
    return out


def dense_jacobian(p: DensityArguments, pairs: Pairs, moments: Tensor, out: Tensor) -> None:
    """Derivatives by the vectors of some pairs, written to the zeros of `out`, (pairs, 3, size)."""
    given = pairs.segments, pairs.vectors, pairs.centres, moments, out, pairs.first
    launch(_jacobian, (len(out), 3), arguments(p), *given, warps=warps_of(p, out.dtype))


@triton.jit
def tabulated(table, r, STEPS: tl.constexpr, INTERVALS: tl.constexpr, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """Values and slopes of all functions of a table at r, (WIDTH,); zeros from the cutoff on."""
    along = r * STEPS
    interval = tl.minimum(along.to(tl.int32), INTERVALS - 1)
    x = along - interval.to(r.dtype)
    column = tl.arange(0, WIDTH)
    inside = column < tl.where(along < INTERVALS, COUNT, 0)
    row = table + interval * (6 * COUNT) + column
    value = tl.load(row + 5 * COUNT, mask=inside, other=0.0)
    slope = tl.zeros((WIDTH,), value.dtype)
    for i in tl.static_range(5):
        slope = slope * x + value
        value = value * x + tl.load(row + (4 - i) * COUNT, mask=inside, other=0.0)
    return value, slope * STEPS


@triton.jit
def mixing_of(p, z):
    """Mixing of the radial functions of an element into channels, (RADIAL_WIDTH, WIDTH)."""
    n, k = tl.arange(0, p.RADIAL_WIDTH)[:, None], tl.arange(0, p.WIDTH)[None, :]
    inside = (n < p.N_RADIAL) & (k < p.CHANNELS)
    return tl.load(p.mixing + (z * p.N_RADIAL + n) * p.CHANNELS + k, mask=inside, other=0.0)


@triton.jit
def channels_at(p, mixing, r):
    """Radial functions of all channels at r, and their slopes, (WIDTH,)."""
    value, slope = tabulated(p.radial_table, r, p.RADIAL_STEPS, p.INTERVALS, p.N_RADIAL, p.RADIAL_WIDTH)
    return tl.sum(mixing * value[:, None], 0), tl.sum(mixing * slope[:, None], 0)


@triton.jit
def pair_functions(p, r):
    """Pair functions at r, and their slopes, (PAIR_WIDTH,)."""
    return tabulated(p.pair_table, r, p.PAIR_STEPS, p.INTERVALS, p.N_PAIR, p.PAIR_WIDTH)


@triton.jit
def moments_of(p, segments, vectors, centre):
    """Moments of a centre: a tuple of one vector of channels for each harmonic."""
    real = vectors.dtype.element_ty
    moments = ()
    for h in tl.static_range(p.HARMONICS):
        moments = moments + (tl.zeros((p.WIDTH,), real),)
    for z in range(p.ELEMENTS):
        mixing = mixing_of(p, z)
        begin, end = tl.load(segments + centre * p.ELEMENTS + z), tl.load(segments + centre * p.ELEMENTS + z + 1)
        for pair in range(begin, end):
            u, r = direction_of(vectors, pair)
            radial, _ = channels_at(p, mixing, r)
            angular = harmonics(u)
            added = ()
            for h in tl.static_range(p.HARMONICS):
                added = added + (moments[h] + radial * angular[h],)
            moments = added
    return moments


@triton.jit
def invariant_along(p, moments, moves, INVARIANT: tl.constexpr):
    """An invariant without its weight, and its change as the moments move by `moves`, (WIDTH,)."""
    value, change = moments[0] * 0.0, moments[0] * 0.0
    first: tl.constexpr = p.FIRST[INVARIANT]
    last: tl.constexpr = p.FIRST[INVARIANT + 1]
    for t in tl.static_range(first, last):
        one, two = moments[p.TERMS[t][0]], moments[p.TERMS[t][1]]
        d_one, d_two = moves[p.TERMS[t][0]], moves[p.TERMS[t][1]]
        if p.TERMS[t][2] < 0:
            value += p.TERMS[t][3] * one * two
            change += p.TERMS[t][3] * (one * d_two + d_one * two)
        else:
            three, d_three = moments[p.TERMS[t][2]], moves[p.TERMS[t][2]]
            value += p.TERMS[t][3] * one * two * three
            change += p.TERMS[t][3] * ((d_one * two + one * d_two) * three + one * two * d_three)
    return value, change


@triton.jit
def slopes_of(p, moments, cotangent):
    """Derivative of Σ cotangent · invariants by each moment of a centre: a tuple as `moments`."""
    channel = tl.arange(0, p.WIDTH)
    factors = ()
    for i in tl.static_range(p.INVARIANTS):
        place = cotangent + p.ELEMENTS * p.N_PAIR + i * p.CHANNELS + channel
        factors = factors + (tl.load(p.weights + i) * tl.load(place, mask=channel < p.CHANNELS, other=0.0),)
    slopes = ()
    for h in tl.static_range(p.HARMONICS):
        slopes = slopes + (slope_by(p, moments, factors, h),)
    return slopes


@triton.jit
def slope_by(p, moments, factors, H: tl.constexpr):
    """Derivative of Σ factors · invariants by the moment of one harmonic, (WIDTH,)."""
    slope = moments[0] * 0.0
    first: tl.constexpr = p.SLOPE_FIRST[H]
    last: tl.constexpr = p.SLOPE_FIRST[H + 1]
    for t in tl.static_range(first, last):
        product = p.SLOPE_TERMS[t][3] * factors[p.SLOPE_TERMS[t][0]] * moments[p.SLOPE_TERMS[t][1]]
        if p.SLOPE_TERMS[t][2] >= 0:
            product *= moments[p.SLOPE_TERMS[t][2]]
        slope += product
    return slope


@triton.jit
def _values(p, segments, vectors, out):
    centre = tl.program_id(0).to(tl.int64)
    column, channel = tl.arange(0, p.PAIR_WIDTH), tl.arange(0, p.WIDTH)
    for z in range(p.ELEMENTS):
        begin, end = tl.load(segments + centre * p.ELEMENTS + z), tl.load(segments + centre * p.ELEMENTS + z + 1)
        total = tl.zeros((p.PAIR_WIDTH,), vectors.dtype.element_ty)
        for pair in range(begin, end):
            _, r = direction_of(vectors, pair)
            total += pair_functions(p, r)[0]
        tl.store(out + centre * p.SIZE + z * p.N_PAIR + column, total, mask=column < p.N_PAIR)
    moments = moments_of(p, segments, vectors, centre)
    for i in tl.static_range(p.INVARIANTS):
        value, _ = invariant_along(p, moments, moments, i)
        place = out + centre * p.SIZE + p.ELEMENTS * p.N_PAIR + i * p.CHANNELS + channel
        tl.store(place, tl.load(p.weights + i) * value, mask=channel < p.CHANNELS)


@triton.jit
def _pullback(p, segments, vectors, cotangent, out):
    centre = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, p.PAIR_WIDTH)
    slopes = slopes_of(p, moments_of(p, segments, vectors, centre), cotangent + centre * p.SIZE)
    for z in range(p.ELEMENTS):
        mixing = mixing_of(p, z)
        place = cotangent + centre * p.SIZE + z * p.N_PAIR + column
        of_pairs = tl.load(place, mask=column < p.N_PAIR, other=0.0)
        begin, end = tl.load(segments + centre * p.ELEMENTS + z), tl.load(segments + centre * p.ELEMENTS + z + 1)
        for pair in range(begin, end):
            u, r = direction_of(vectors, pair)
            radial, radial_slope = channels_at(p, mixing, r)
            outward = radial_slope * total_of(p, slopes, harmonics(u))
            along = tl.sum(outward, 0) + tl.sum(of_pairs * pair_functions(p, r)[1], 0)
            for axis in tl.static_range(3):
                turned = total_of(p, slopes, harmonics_along(u, axis_of(u, r, axis)))
                tl.store(out + 3 * pair + axis, along * u[axis] + tl.sum(radial * turned, 0))


@triton.jit
def total_of(p, slopes, angular):
    """Σ slopes · angular over the harmonics, (WIDTH,)."""
    total = slopes[0] * angular[0]
    for h in tl.static_range(1, p.HARMONICS):
        total += slopes[h] * angular[h]
    return total


@triton.jit
def _moments(p, segments, vectors, out):
    centre = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, p.WIDTH)
    moments = moments_of(p, segments, vectors, centre)
    for h in tl.static_range(p.HARMONICS):
        place = out + (centre * p.HARMONICS + h) * p.CHANNELS + channel
        tl.store(place, moments[h], mask=channel < p.CHANNELS)


@triton.jit
def _jacobian(p, segments, vectors, centres, moments_at, out, first):
    """Row of one axis of one pair: derivatives of the environment of its centre, (SIZE,)."""
    place, axis = tl.program_id(0).to(tl.int64), tl.program_id(1)
    pair, centre = first + place, tl.load(centres + place)
    z = element_at(segments, centre, pair, p.ELEMENTS)
    column, channel = tl.arange(0, p.PAIR_WIDTH), tl.arange(0, p.WIDTH)
    u, r = direction_of(vectors, pair)
    radial, radial_slope = channels_at(p, mixing_of(p, z), r)
    along = tl.where(axis == 0, u[0], tl.where(axis == 1, u[1], u[2]))
    angular, turned = harmonics(u), harmonics_along(u, axis_of(u, r, axis))
    moments, moves = (), ()
    for h in tl.static_range(p.HARMONICS):
        moment = moments_at + (centre * p.HARMONICS + h) * p.CHANNELS + channel
        moments = moments + (tl.load(moment, mask=channel < p.CHANNELS, other=0.0),)
        moves = moves + (radial_slope * (along * angular[h]) + radial * turned[h],)
    row = out + (3 * place + axis) * p.SIZE
    tl.store(row + z * p.N_PAIR + column, pair_functions(p, r)[1] * along, mask=column < p.N_PAIR)
    for i in tl.static_range(p.INVARIANTS):
        _, change = invariant_along(p, moments, moves, i)
        entries = row + p.ELEMENTS * p.N_PAIR + i * p.CHANNELS + channel
        tl.store(entries, tl.load(p.weights + i) * change, mask=channel < p.CHANNELS)
