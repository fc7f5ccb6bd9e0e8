"""Rows of energies and forces in Triton: one program adds up all that goes to a tile of one row."""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import language as tl

from ..contract import FeatureMap
from .angles import amplitude_of, atoms_of_tile, linear, map_arguments, n_tiles, sine_and_cosine_of
from .key_runs import runs
from .launch import launch, registers


@triton.jit
def _rows(f, x, members, tangents, owner, out, stride, ATOMS: tl.constexpr):
    """out[row] += Σ features of its atoms, or Σ derivatives of the features of x[owner] along its tangents."""
    row, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    order, begins = members
    begin, end = tl.load(begins + row), tl.load(begins + row + 1)
    cosines, sines = tl.zeros((f.TILE,), tl.float64), tl.zeros((f.TILE,), tl.float64)
    amplitude = amplitude_of(f, tl.float64)
    for first in range(begin, end, ATOMS):
        place = first + tl.arange(0, ATOMS)
        keep = place < end
        member = tl.load(order + place, mask=keep, other=0)
        if tangents is None:
            sine, cosine = sine_and_cosine_of(f, x, member, keep, tile, ATOMS)
            along = (keep.to(cosine.dtype) * amplitude.to(cosine.dtype))[:, None]
            of_cosine, of_sine = cosine * along, sine * along
        else:
            atom = tl.load(owner + member, mask=keep, other=0)
            sine, cosine = sine_and_cosine_of(f, x, atom, keep, tile, ATOMS)
            along = linear(f, tangents, member, keep, tile, ATOMS)
            along *= amplitude.to(along.dtype)
            of_cosine, of_sine = -sine * along, cosine * along
        cosines += tl.sum(of_cosine.to(tl.float64), 0)
        if f.PAIRED:
            sines += tl.sum(of_sine.to(tl.float64), 0)
    at = tile * f.TILE + tl.arange(0, f.TILE)
    target = out + row * stride + at
    tl.store(target, tl.load(target, mask=at < f.n, other=0.0) + cosines, mask=at < f.n)
    if f.PAIRED:
        tl.store(target + f.n, tl.load(target + f.n, mask=at < f.n, other=0.0) + sines, mask=at < f.n)


def energy_rows(f: FeatureMap, x: Tensor, row: Tensor, out: Tensor) -> None:
    _add_rows(f, x, None, None, row, out)


def force_rows(f: FeatureMap, x: Tensor, tangents: Tensor, owner: Tensor, row: Tensor, out: Tensor) -> None:
    _add_rows(f, x, tangents.contiguous(), owner.contiguous(), row, out)


def _add_rows(
    f: FeatureMap, x: Tensor, tangents: Tensor | None, owner: Tensor | None, row: Tensor, out: Tensor
) -> None:
    arguments = map_arguments(f), x.contiguous(), runs(row, len(out)), tangents, owner, out, out.stride(0)
    wide = torch.float64 in (x.dtype, x.dtype if tangents is None else tangents.dtype)
    most = registers(128, wide and (tangents is None or f.n_transforms > 0))  # dense tangents take more
    launch(_rows, (len(out), n_tiles(f)), *arguments, **most, ATOMS=atoms_of_tile(f))
