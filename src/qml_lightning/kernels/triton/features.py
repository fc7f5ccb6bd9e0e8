"""Random features in Triton: their values, the energy with its slope, and moments over atoms.

Each means what its namesake in `reference` means. Features live in registers, tile by tile.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import language as tl

from ..contract import FeatureMap
from .angles import (
    amplitude_of,
    as_given,
    atoms_of_tile,
    linear,
    linear_transposed,
    map_arguments,
    n_tiles,
    sine_and_cosine_of,
)
from .launch import BUSY_PROGRAMS, divided, launch, registers
from .two_sum import two_sum


def shares(programs: int, work: int) -> int:
    """Number of programs that share the work of one, so that a GPU is busy; their sums are added up afterwards."""
    return max(1, min(work, BUSY_PROGRAMS // max(1, programs)))


@triton.jit
def _features(f, x, out, n, ATOMS: tl.constexpr):
    tile = tl.program_id(1)
    atom = tl.program_id(0).to(tl.int64) * ATOMS + tl.arange(0, ATOMS)
    at = tile * f.TILE + tl.arange(0, f.TILE)
    sine, cosine = sine_and_cosine_of(f, x, atom, atom < n, tile, ATOMS)
    place = out + atom[:, None] * (f.n * (1 + f.PAIRED)) + at[None, :]
    inside = (atom < n)[:, None] & (at < f.n)[None, :]
    amplitude = amplitude_of(f, cosine.dtype)
    tl.store(place, cosine * amplitude, mask=inside)
    if f.PAIRED:
        tl.store(place + f.n, sine * amplitude, mask=inside)


def features(f: FeatureMap, x: Tensor) -> Tensor:
    x, atoms = x.contiguous(), atoms_of_tile(f)
    out = x.new_empty(len(x), f.n_features)
    most = registers(128, x.dtype == torch.float64)
    launch(_features, (divided(len(x), atoms), n_tiles(f)), map_arguments(f), x, out, len(x), **most, ATOMS=atoms)
    return out


@triton.jit
def _energy_and_slope(f, x, weights, energy, slope, n, ATOMS: tl.constexpr):
    atom = tl.program_id(0).to(tl.int64) * ATOMS + tl.arange(0, ATOMS)
    share, tiles = tl.program_id(1), tl.cdiv(f.n, f.TILE)
    each = tl.cdiv(tiles, tl.num_programs(1))
    gradient = tl.zeros((ATOMS, f.WIDTH), weights.dtype.element_ty)
    # Weights are many times larger than the energy: terms are added up to the digits of float64, frequency by
    # frequency, and all of them once at the end. Cards for games have next to no units of float64.
    total, rest = tl.zeros((ATOMS, f.TILE), gradient.dtype), tl.zeros((ATOMS, f.TILE), gradient.dtype)
    for tile in range(share * each, min(tiles, share * each + each)):
        at = tile * f.TILE + tl.arange(0, f.TILE)
        sine, cosine = sine_and_cosine_of(f, x, atom, atom < n, tile, ATOMS)
        sine, cosine = sine.to(gradient.dtype), cosine.to(gradient.dtype)
        w = tl.load(weights + at, mask=at < f.n, other=0.0)[None, :]
        terms, derivative = cosine * w, -sine * w
        if f.PAIRED:
            w = tl.load(weights + f.n + at, mask=at < f.n, other=0.0)[None, :]
            terms, derivative = terms + sine * w, derivative + cosine * w
        if gradient.dtype == tl.float64:
            total += terms
        else:
            total, lost = two_sum(total, terms)
            rest += lost
        gradient += linear_transposed(f, derivative, tile, ATOMS)
    place = share.to(tl.int64) * n + atom
    column = tl.arange(0, f.WIDTH)
    inside = (atom < n)[:, None] & (column < f.RANK)[None, :]
    amplitude = amplitude_of(f, tl.float64)
    tl.store(energy + place, tl.sum(total.to(tl.float64) + rest, 1) * amplitude, mask=atom < n)
    gradient *= amplitude.to(gradient.dtype)
    tl.store(slope + place[:, None] * f.RANK + column[None, :], gradient, mask=inside)


def energy_and_slope(f: FeatureMap, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    narrow = weights.dtype == torch.float32
    x, atoms = x.contiguous(), min(8, atoms_of_tile(f)) if narrow else atoms_of_tile(f)
    tiles = divided(len(x), atoms)
    parts = shares(tiles, n_tiles(f))
    energy = x.new_empty(parts, len(x), dtype=torch.float64)
    slope = x.new_empty(parts, *x.shape, dtype=weights.dtype)
    arguments = map_arguments(f), x, weights.contiguous(), energy, slope, len(x)
    most = registers(128 if f.n_transforms else 192, narrow)  # dense maps of a high rank take more
    launch(_energy_and_slope, (tiles, parts), *arguments, **most, ATOMS=atoms)
    return energy.sum(0), slope.sum(0)


@triton.jit
def _moment(f, x, coefficients, tangents, moment, n, ATOMS: tl.constexpr):
    tile, share = tl.program_id(0), tl.program_id(1)
    blocks = tl.cdiv(n, ATOMS)
    each = tl.cdiv(blocks, tl.num_programs(1))
    cosines, sines = tl.zeros((f.TILE,), tl.float64), tl.zeros((f.TILE,), tl.float64)
    for block in range(share * each, min(blocks, share * each + each)):
        atom = block * ATOMS + tl.arange(0, ATOMS).to(tl.int64)
        keep = atom < n
        sine, cosine = sine_and_cosine_of(f, x, atom, keep, tile, ATOMS)
        sine, cosine = sine.to(tl.float64), cosine.to(tl.float64)
        if coefficients is not None:
            a = tl.load(coefficients + atom, mask=keep, other=0.0).to(tl.float64)[:, None]
            cosines += tl.sum(a * cosine, 0)
            if f.PAIRED:
                sines += tl.sum(a * sine, 0)
        if tangents is not None:
            along = linear(f, tangents, atom, keep, tile, ATOMS).to(tl.float64)
            cosines -= tl.sum(along * sine, 0)
            if f.PAIRED:
                sines += tl.sum(along * cosine, 0)
    at = tile * f.TILE + tl.arange(0, f.TILE)
    place = moment + share * (f.n * (1 + f.PAIRED)) + at
    amplitude = amplitude_of(f, tl.float64)
    tl.store(place, cosines * amplitude, mask=at < f.n)
    if f.PAIRED:
        tl.store(place + f.n, sines * amplitude, mask=at < f.n)


def feature_moment(f: FeatureMap, x: Tensor, coefficients: Tensor | None, tangents: Tensor | None) -> Tensor:
    x, atoms = x.contiguous(), atoms_of_tile(f)
    parts = shares(n_tiles(f), divided(len(x), atoms))
    moment = x.new_zeros(parts, f.n_features, dtype=torch.float64)
    arguments = map_arguments(f), x, as_given(coefficients), as_given(tangents), moment, len(x)
    launch(_moment, (n_tiles(f), parts), *arguments, ATOMS=atoms)
    return moment.sum(0)
