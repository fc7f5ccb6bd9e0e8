"""FCHL19 in Triton: one program for each output block of a centre, and one for each pair whose vector moves.

A triple is visited once for the values, and from both of its neighbours for the derivatives: no two programs write to
one place, and sums have one order.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import language as tl

from ..contract import FCHL19Arguments
from .fchl19_functions import FCHL19, angular_functions, radial3, triple, two_body
from .fchl19_functions import arguments as fields
from .geometry import Pairs, centres_of_pairs, direction_of, dot3, element_at, plus, vector_at
from .launch import launch, registers

# Neighbours of a block and warps of its program. With one warp a thread has a triple of its own, where more of them all
# compute the same angles. In float64, and with more angular functions, registers do not hold so much without spilling
# any.
VALUES = (32, 1)
PULLBACK = {torch.float32: (32, 1), torch.float64: (32, 4)}
JACOBIAN = {torch.float32: (32, 1), torch.float64: (8, 4)}
FEW_ANGULAR = 4  # functions for which these sizes do; with more of them:
VALUES3_OF_MANY = {torch.float32: VALUES, torch.float64: (4, 1)}
PULLBACK_OF_MANY = {torch.float32: (32, 4), torch.float64: (16, 4)}
JACOBIAN_OF_MANY = {torch.float32: (8, 1), torch.float64: (4, 4)}


def _arguments(p: FCHL19Arguments, vectors: Tensor) -> FCHL19:
    return fields(p, torch.finfo(vectors.dtype).eps)


def environments(p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor:
    out = vectors.new_zeros(n_atoms, p.size)
    given = _arguments(p, vectors), segments.contiguous(), vectors.contiguous(), out
    if p.n_radial2:
        launch(_values2, (n_atoms, p.n_elements), *given, warps=VALUES[1], NEAR=VALUES[0])
    if p.n_radial3:
        near, warps = VALUES if p.n_angular <= FEW_ANGULAR else VALUES3_OF_MANY[vectors.dtype]
        launch(_values3, (n_atoms, p.n_elements, p.n_elements), *given, warps=warps, NEAR=near)
    return out


def environments_pullback(
    p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor
) -> Tensor:
    out = torch.empty_like(vectors, memory_format=torch.contiguous_format)
    centres = centres_of_pairs(segments, p.n_elements, 0, len(vectors))
    given = segments.contiguous(), vectors.contiguous(), centres, cotangent.contiguous(), out
    near, warps = (PULLBACK if p.n_angular <= FEW_ANGULAR else PULLBACK_OF_MANY)[vectors.dtype]
    launch(_pullback, (len(vectors),), _arguments(p, vectors), *given, warps=warps, NEAR=near)
    return out


def prepared(p: FCHL19Arguments, segments: Tensor, vectors: Tensor) -> None:
    """Nothing is needed before the rows of a Jacobian."""


def dense_jacobian(p: FCHL19Arguments, pairs: Pairs, prepared: None, out: Tensor) -> None:
    """Derivatives by the vectors of some pairs, written to the zeros of `out`, (pairs, 3, size)."""
    given = pairs.segments, pairs.vectors, pairs.centres, out, pairs.first
    most = registers(248, out.dtype == torch.float32)
    near, warps = (JACOBIAN if p.n_angular <= FEW_ANGULAR else JACOBIAN_OF_MANY)[out.dtype]
    launch(_jacobian, (len(out),), _arguments(p, pairs.vectors), *given, **most, warps=warps, NEAR=near)


@triton.jit
def block_at(p, one, other):
    """Place of the block of a pair of elements."""
    low, high = tl.minimum(one, other), tl.maximum(one, other)
    index = high + p.ELEMENTS * low - low * (low + 1) // 2
    return p.ELEMENTS * p.N2 + index * (p.N3 * p.N_ANGULAR)


@triton.jit
def zeros(p, COUNT: tl.constexpr, like):
    """COUNT vectors of WIDTH3 zeros."""
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (tl.zeros((p.WIDTH3,), like.dtype.element_ty),)
    return out


@triton.jit
def _values2(p, segments, vectors, out, NEAR: tl.constexpr):
    centre, element = tl.program_id(0).to(tl.int64), tl.program_id(1)
    begin = tl.load(segments + centre * p.ELEMENTS + element)
    end = tl.load(segments + centre * p.ELEMENTS + element + 1)
    total = tl.zeros((p.WIDTH2,), vectors.dtype.element_ty)
    for first in range(begin, end, NEAR):
        pair = first + tl.arange(0, NEAR)
        v = vector_at(vectors, pair, pair < end)
        value, _ = two_body(p, tl.sqrt(dot3(v, v)))
        total += tl.sum(tl.where((pair < end)[:, None], value, 0.0), 0)
    column = tl.arange(0, p.WIDTH2)
    tl.store(out + centre * p.SIZE + element * p.N2 + column, total, mask=column < p.N2)


@triton.jit
def _values3(p, segments, vectors, out, NEAR: tl.constexpr):
    centre, low, high = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    if low <= high:
        total = zeros(p, p.N_ANGULAR, vectors)
        begin = tl.load(segments + centre * p.ELEMENTS + low)
        end = tl.load(segments + centre * p.ELEMENTS + low + 1)
        other_begin = tl.load(segments + centre * p.ELEMENTS + high)
        other_end = tl.load(segments + centre * p.ELEMENTS + high + 1)
        for pair in range(begin, end):
            v, u, r = neighbour_at(vectors, pair)
            for first in range(tl.maximum(other_begin, pair + 1), other_end, NEAR):
                other = first + tl.arange(0, NEAR)
                found, _ = triple(p, v, r, u, vector_at(vectors, other, other < other_end), other < other_end)
                radial, _ = radial3(p, found[3])
                angular, _, _ = angular_functions(p, found[1], found[2])
                added = ()
                for m in tl.static_range(p.N_ANGULAR):
                    added = added + (total[m] + tl.sum((found[0] * angular[m])[:, None] * radial, 0),)
                total = added
        column = tl.arange(0, p.WIDTH3)
        for m in tl.static_range(p.N_ANGULAR):
            place = out + centre * p.SIZE + block_at(p, low, high) + column * p.N_ANGULAR + m
            tl.store(place, total[m], mask=column < p.N3)


@triton.jit
def neighbour_at(vectors, pair):
    """Vector, direction and length of a pair."""
    u, r = direction_of(vectors, pair)
    return vector_at(vectors, pair, True), u, r


@triton.jit
def own_two_body(p, r):
    """Two-body functions of one distance and their slopes, (WIDTH2,)."""
    value, slope = two_body(p, tl.zeros((1,), r.dtype) + r)
    return tl.sum(value, 0), tl.sum(slope, 0)


@triton.jit
def _pullback(p, segments, vectors, centres, cotangent, out, NEAR: tl.constexpr):
    pair = tl.program_id(0).to(tl.int64)
    centre = tl.load(centres + pair)
    element = element_at(segments, centre, pair, p.ELEMENTS)
    v, u, r = neighbour_at(vectors, pair)
    along = r * 0.0
    if p.N2 > 0:
        column = tl.arange(0, p.WIDTH2)
        weights = tl.load(cotangent + centre * p.SIZE + element * p.N2 + column, mask=column < p.N2, other=0.0)
        along = tl.sum(weights * own_two_body(p, r)[1], 0)
    none = tl.zeros((NEAR,), r.dtype)
    gradient = (none, none, none)  # of each place in a block: threads add up together once, at the end
    if p.N3 > 0:
        for z in range(p.ELEMENTS):
            begin = tl.load(segments + centre * p.ELEMENTS + z)
            end = tl.load(segments + centre * p.ELEMENTS + z + 1)
            block = cotangent + centre * p.SIZE + block_at(p, element, z)
            for first in range(begin, end, NEAR):
                other = first + tl.arange(0, NEAR)
                keep = (other < end) & (other != pair)
                found, slopes = triple(p, v, r, u, vector_at(vectors, other, keep), keep)
                gradient = plus(gradient, gradient_of_block(p, found, slopes, u, block))
    for axis in tl.static_range(3):
        tl.store(out + 3 * pair + axis, along * u[axis] + tl.sum(gradient[axis], 0))


@triton.jit
def gradient_of_block(p, found, slopes, u, block):
    """Gradient of cotangent · three-body functions of each triple, three vectors; `block` is their cotangent."""
    weight, cosine, sine, half_sum = found
    column = tl.arange(0, p.WIDTH3)
    radial, radial_slope = radial3(p, half_sum, True)
    angular, by_cosine, by_sine = angular_functions(p, cosine, sine)
    value, outward, of_cosine, of_sine = weight * 0.0, weight * 0.0, weight * 0.0, weight * 0.0
    for m in tl.static_range(p.N_ANGULAR):
        factor = tl.load(block + column * p.N_ANGULAR + m, mask=column < p.N3, other=0.0)[:, None]
        total = tl.sum(radial * factor, 0)
        value += angular[m] * total
        outward += angular[m] * tl.sum(radial_slope * factor, 0)
        of_cosine += by_cosine[m] * total
        of_sine += by_sine[m] * total
    gradient = ()
    for axis in tl.static_range(3):
        turned = of_cosine * slopes[1][axis] + of_sine * slopes[2][axis]
        gradient = gradient + (value * slopes[0][axis] + weight * (0.5 * outward * u[axis] + turned),)
    return gradient


@triton.jit
def _jacobian(p, segments, vectors, centres, out, first_pair, NEAR: tl.constexpr):
    place = tl.program_id(0).to(tl.int64)
    pair, centre = first_pair + place, tl.load(centres + place)
    element = element_at(segments, centre, pair, p.ELEMENTS)
    v, u, r = neighbour_at(vectors, pair)
    rows = out + 3 * place * p.SIZE
    if p.N2 > 0:
        column = tl.arange(0, p.WIDTH2)
        _, slope = own_two_body(p, r)
        for axis in tl.static_range(3):
            tl.store(rows + axis * p.SIZE + element * p.N2 + column, slope * u[axis], mask=column < p.N2)
    if p.N3 > 0:
        column = tl.arange(0, p.WIDTH3)
        for z in range(p.ELEMENTS):
            begin = tl.load(segments + centre * p.ELEMENTS + z)
            end = tl.load(segments + centre * p.ELEMENTS + z + 1)
            total = zeros(p, 3 * p.N_ANGULAR, vectors)
            for first in range(begin, end, NEAR):
                other = first + tl.arange(0, NEAR)
                keep = (other < end) & (other != pair)
                found, slopes = triple(p, v, r, u, vector_at(vectors, other, keep), keep)
                total = added_slopes(p, total, found, slopes, u)
            for axis in tl.static_range(3):
                for m in tl.static_range(p.N_ANGULAR):
                    entries = rows + axis * p.SIZE + block_at(p, element, z) + column * p.N_ANGULAR + m
                    tl.store(entries, total[axis * p.N_ANGULAR + m], mask=column < p.N3)


@triton.jit
def added_slopes(p, total, found, slopes, u):
    """`total` with the derivatives of the three-body functions of some triples added, axis by axis."""
    weight, cosine, sine, half_sum = found
    radial, radial_slope = radial3(p, half_sum)
    angular, by_cosine, by_sine = angular_functions(p, cosine, sine)
    added = ()
    for axis in tl.static_range(3):
        for m in tl.static_range(p.N_ANGULAR):
            turned = by_cosine[m] * slopes[1][axis] + by_sine[m] * slopes[2][axis]
            of_radial = slopes[0][axis] * angular[m] + weight * turned
            of_slope = 0.5 * u[axis] * weight * angular[m]
            part = tl.sum(of_radial[:, None] * radial + of_slope[:, None] * radial_slope, 0)
            added = added + (total[axis * p.N_ANGULAR + m] + part,)
    return added
