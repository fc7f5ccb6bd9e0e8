"""Sums of an iteration as pairs of float32 in Triton, for GPUs with slow float64: see its namesake in `reference`.

Products of halves are exact, so that it does not matter whether the compiler fuses them with additions. A number that
is split must not be a product itself: fused with the subtraction of its upper half, it would keep other bits.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import language as tl

from ..contract import FeatureMap
from ..reference.pairs import UPPER, Pair, number, pair_of
from .angles import atoms_of_tile, map_arguments, n_tiles, sine_and_cosine_of
from .features import shares
from .key_runs import runs
from .launch import divided, launch, padded, registers
from .two_sum import two_sum

_UPPER = tl.constexpr(UPPER)
MOST_ATOMS = 4  # of a program: pairs take twice the registers of single numbers
TILE_NUMBERS = 1024  # of a tile of tangents in one program


@triton.jit
def add(xh, xl, yh, yl):
    """Sum of two pairs."""
    s, e = two_sum(xh, yh)
    e = e + (xl + yl)
    high = s + e
    return high, e - (high - s)


@triton.jit
def upper(x):
    """x without the lower 12 of its 24 bits."""
    return (x.to(tl.int32, bitcast=True) & _UPPER).to(tl.float32, bitcast=True)


@triton.jit
def times(xh, xl, y):
    """Product of a pair and a single number."""
    xh, xl, y = tl.broadcast_to(xh, (xh + y).shape), xl, tl.broadcast_to(y, (xh + y).shape)
    a, b = upper(xh), upper(y)
    c, d = xh - a, y - b
    s, e = two_sum(a * b, a * d)
    s, more = two_sum(s, c * b)
    e = e + more + c * d + xl * y
    high = s + e
    return high, e - (high - s)


@triton.jit
def halves(x, BIT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Entries with and without one bit of the column."""
    return tl.split(tl.permute(tl.reshape(x, (ROWS, WIDTH // (2 << BIT), 2, 1 << BIT)), (0, 1, 3, 2)))


@triton.jit
def whole(one, other, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Inverse of `halves`."""
    return tl.reshape(tl.permute(tl.join(one, other), (0, 1, 3, 2)), (ROWS, WIDTH))


@triton.jit
def hadamard(h, l, ROWS: tl.constexpr, WIDTH: tl.constexpr):  # noqa: E741
    """x H along the last axis."""
    for bit in tl.static_range(20):
        if (1 << bit) < WIDTH:
            ah, bh = halves(h, bit, ROWS, WIDTH)
            al, bl = halves(l, bit, ROWS, WIDTH)
            sh, sl = add(ah, al, bh, bl)
            dh, dl = add(ah, al, -bh, -bl)
            h, l = whole(sh, dh, ROWS, WIDTH), whole(sl, dl, ROWS, WIDTH)  # noqa: E741
    return h, l


@triton.jit
def rounded_sine_and_cosine_of(f, x, atom, keep, tile, ATOMS: tl.constexpr):
    """Sine and cosine within [−1, 1]: the compiler does not fuse through these bounds, so both are float32 numbers."""
    sine, cosine = sine_and_cosine_of(f, x, atom, keep, tile, ATOMS)
    return _bounded(sine), _bounded(cosine)


@triton.jit
def _bounded(x):
    above = tl.maximum(x, -1.0, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(above, 1.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def signs_of(f, tile, transform, column):
    return tl.load(f.signs + (tile * f.TRANSFORMS + transform) * f.WIDTH + column)[None, :]


@triton.jit
def _pair_energy_and_slope(f, x, weights, energy, slope, n, ATOMS: tl.constexpr):
    """Pairs of each share: `energy` and `slope` have all high parts, then all low ones; without the amplitude."""
    atom = tl.program_id(0).to(tl.int64) * ATOMS + tl.arange(0, ATOMS)
    share, tiles = tl.program_id(1), tl.cdiv(f.n, f.TILE)
    each, column = tl.cdiv(tiles, tl.num_programs(1)), tl.arange(0, f.WIDTH)
    high, low = weights
    eh, el = tl.zeros((ATOMS,), tl.float32), tl.zeros((ATOMS,), tl.float32)
    gh, gl = tl.zeros((ATOMS, f.WIDTH), tl.float32), tl.zeros((ATOMS, f.WIDTH), tl.float32)
    for tile in range(share * each, min(tiles, share * each + each)):
        at = tile * f.TILE + column
        sine, cosine = rounded_sine_and_cosine_of(f, x, atom, atom < n, tile, ATOMS)
        wh, wl = tl.load(high + at)[None, :], tl.load(low + at)[None, :]
        th, tlow = times(wh, wl, cosine)
        dh, dl = times(wh, wl, -sine)
        if f.PAIRED:
            wh, wl = tl.load(high + f.n + at)[None, :], tl.load(low + f.n + at)[None, :]
            mh, ml = times(wh, wl, sine)
            th, tlow = add(th, tlow, mh, ml)
            mh, ml = times(wh, wl, cosine)
            dh, dl = add(dh, dl, mh, ml)
        th, tlow = tl.reduce((th, tlow), 1, add)
        eh, el = add(eh, el, th, tlow)
        dh, dl = times(dh, dl, tl.load(f.row_scale + at)[None, :])
        for i in tl.static_range(f.TRANSFORMS):
            dh, dl = hadamard(dh, dl, ATOMS, f.WIDTH)
            sign = signs_of(f, tile, f.TRANSFORMS - 1 - i, column)
            dh, dl = dh * sign, dl * sign
        gh, gl = add(gh, gl, dh, dl)
    place, lower = share.to(tl.int64) * n + atom, tl.num_programs(1).to(tl.int64) * n
    tl.store(energy + place, eh, mask=atom < n)
    tl.store(energy + lower + place, el, mask=atom < n)
    target = slope + place[:, None] * f.RANK + column[None, :]
    tl.store(target, gh, mask=(atom < n)[:, None])
    tl.store(target + lower * f.RANK, gl, mask=(atom < n)[:, None])


def energy_and_slope(f: FeatureMap, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    x, atoms = x.contiguous(), min(MOST_ATOMS, atoms_of_tile(f))
    tiles = divided(len(x), atoms)
    parts = shares(tiles, n_tiles(f))
    energy, slope = x.new_empty(2, parts, len(x)), x.new_empty(2, parts, *x.shape)
    arguments = map_arguments(f), x, pair_of(weights.contiguous()), energy, slope, len(x)
    launch(_pair_energy_and_slope, (tiles, parts), *arguments, **registers(192), ATOMS=atoms)
    return f.amplitude * _number(energy), f.amplitude * _number(slope)


def _number(shares_of: Tensor) -> Tensor:
    """float64 from high and low parts of all shares, (2, shares, …)."""
    return number((shares_of[0], shares_of[1])).sum(0)


@triton.jit
def _pair_moment(f, x, coefficients, tangents, moment, n, ATOMS: tl.constexpr):
    """Pairs of each share, high parts first; without the amplitude."""
    tile, share = tl.program_id(0), tl.program_id(1)
    blocks, column = tl.cdiv(n, ATOMS), tl.arange(0, f.TILE)
    each = tl.cdiv(blocks, tl.num_programs(1))
    ch, cl = tl.zeros((f.TILE,), tl.float32), tl.zeros((f.TILE,), tl.float32)
    sh, sl = tl.zeros((f.TILE,), tl.float32), tl.zeros((f.TILE,), tl.float32)
    for block in range(share * each, min(blocks, share * each + each)):
        atom = block * ATOMS + tl.arange(0, ATOMS).to(tl.int64)
        keep = atom < n
        sine, cosine = rounded_sine_and_cosine_of(f, x, atom, keep, tile, ATOMS)
        if coefficients is not None:
            ah = tl.load(coefficients[0] + atom, mask=keep, other=0.0)[:, None]
            al = tl.load(coefficients[1] + atom, mask=keep, other=0.0)[:, None]
            th, tlow = times(ah, al, cosine)
            th, tlow = tl.reduce((th, tlow), 0, add)
            ch, cl = add(ch, cl, th, tlow)
            if f.PAIRED:
                th, tlow = times(ah, al, sine)
                th, tlow = tl.reduce((th, tlow), 0, add)
                sh, sl = add(sh, sl, th, tlow)
        if tangents is not None:
            inside, place = keep[:, None], atom[:, None] * f.RANK + column[None, :]
            yh = tl.load(tangents[0] + place, mask=inside, other=0.0)
            yl = tl.load(tangents[1] + place, mask=inside, other=0.0)
            for transform in tl.static_range(f.TRANSFORMS):
                sign = signs_of(f, tile, transform, column)
                yh, yl = hadamard(yh * sign, yl * sign, ATOMS, f.WIDTH)
            yh, yl = times(yh, yl, tl.load(f.row_scale + tile * f.TILE + column)[None, :])
            th, tlow = times(yh, yl, -sine)
            th, tlow = tl.reduce((th, tlow), 0, add)
            ch, cl = add(ch, cl, th, tlow)
            if f.PAIRED:
                th, tlow = times(yh, yl, cosine)
                th, tlow = tl.reduce((th, tlow), 0, add)
                sh, sl = add(sh, sl, th, tlow)
    size = f.n * (1 + f.PAIRED)
    place, lower = moment + share * size + tile * f.TILE + column, tl.num_programs(1) * size
    tl.store(place, ch)
    tl.store(place + lower, cl)
    if f.PAIRED:
        tl.store(place + f.n, sh)
        tl.store(place + lower + f.n, sl)


def feature_moment(f: FeatureMap, x: Tensor, coefficients: Tensor | None, tangents: Tensor | None) -> Tensor:
    x, atoms = x.contiguous(), min(MOST_ATOMS, atoms_of_tile(f))
    parts = shares(n_tiles(f), divided(len(x), atoms))
    moment = x.new_zeros(2, parts, f.n_features)
    arguments = map_arguments(f), x, _pair_or_none(coefficients), _pair_or_none(tangents), moment, len(x)
    launch(_pair_moment, (n_tiles(f), parts), *arguments, ATOMS=atoms)
    return f.amplitude * _number(moment)


def _pair_or_none(x: Tensor | None) -> Pair | None:
    return None if x is None else pair_of(x.contiguous())


@triton.jit
def _pair_products(tangents, owner, x, out, n, rank, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    inside = (row < n)[:, None] & (column < rank)[None, :]
    atom = tl.load(owner + row, mask=row < n, other=0)
    one = tl.load(tangents + row[:, None] * rank + column[None, :], mask=inside, other=0.0)
    place = atom[:, None] * rank + column[None, :]
    high, low = tl.load(x[0] + place, mask=inside, other=0.0), tl.load(x[1] + place, mask=inside, other=0.0)
    high, low = times(high, low, one)
    high, low = tl.reduce((high, low), 1, add)
    tl.store(out + row, high, mask=row < n)
    tl.store(out + n + row, low, mask=row < n)


def tangent_products(tangents: Tensor, owner: Tensor, x: Tensor) -> Tensor:
    n, rank = tangents.shape
    out = tangents.new_empty(2, n)
    arguments = tangents.contiguous(), owner.contiguous(), pair_of(x.contiguous()), out, n, rank
    rows = _rows_of_tile(rank)
    launch(_pair_products, (divided(n, rows),), *arguments, ROWS=rows, WIDTH=padded(rank))
    return number((out[0], out[1]))


def _rows_of_tile(rank: int) -> int:
    return max(1, TILE_NUMBERS // padded(rank))


@triton.jit
def _pair_sums(tangents, members, coefficients, out, size, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    atom = tl.program_id(0).to(tl.int64)
    order, begins = members
    begin, end = tl.load(begins + atom), tl.load(begins + atom + 1)
    column = tl.arange(0, WIDTH)
    n, rank = size
    high, low = tl.zeros((WIDTH,), tl.float32), tl.zeros((WIDTH,), tl.float32)
    for first in range(begin, end, ROWS):
        place = first + tl.arange(0, ROWS)
        keep = place < end
        member = tl.load(order + place, mask=keep, other=0)
        inside = keep[:, None] & (column < rank)[None, :]
        one = tl.load(tangents + member[:, None] * rank + column[None, :], mask=inside, other=0.0)
        ah = tl.load(coefficients[0] + member, mask=keep, other=0.0)[:, None]
        al = tl.load(coefficients[1] + member, mask=keep, other=0.0)[:, None]
        th, tlow = times(ah, al, one)
        th, tlow = tl.reduce((th, tlow), 0, add)
        high, low = add(high, low, th, tlow)
    target = out + atom * rank + column
    tl.store(target, high, mask=column < rank)
    tl.store(target + n * rank, low, mask=column < rank)


def tangent_sums(
    tangents: Tensor, owner: Tensor, coefficients: Tensor, n_owners: int, dtype: torch.dtype | None = None
) -> Tensor:
    rank = tangents.shape[1]
    out, by = tangents.new_empty(2, n_owners, rank), pair_of(coefficients.contiguous())
    arguments = tangents.contiguous(), runs(owner, n_owners), by, out, (n_owners, rank)
    launch(_pair_sums, (n_owners,), *arguments, ROWS=_rows_of_tile(rank), WIDTH=padded(rank))
    return number((out[0], out[1]))
