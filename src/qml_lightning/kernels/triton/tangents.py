"""Products with tangents in Triton, the directions in which environments move."""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import language as tl

from .key_runs import runs
from .launch import divided, launch, padded

TILE_NUMBERS = 2048  # of a tile of tangents in one program


def _rows_of_tile(rank: int) -> int:
    return max(1, TILE_NUMBERS // padded(rank))


@triton.jit
def _products(tangents, owner, x, out, n, rank, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    inside = (row < n)[:, None] & (column < rank)[None, :]
    atom = tl.load(owner + row, mask=row < n, other=0)
    one = tl.load(tangents + row[:, None] * rank + column[None, :], mask=inside, other=0.0)
    other = tl.load(x + atom[:, None] * rank + column[None, :], mask=inside, other=0.0)
    tl.store(out + row, tl.sum((one * other).to(tl.float64), 1), mask=row < n)


def tangent_products(tangents: Tensor, owner: Tensor, x: Tensor) -> Tensor:
    n, rank = tangents.shape
    out = x.new_empty(n, dtype=torch.float64)
    arguments = tangents.contiguous(), owner.contiguous(), x.contiguous(), out, n, rank
    rows = _rows_of_tile(rank)
    launch(_products, (divided(n, rows),), *arguments, ROWS=rows, WIDTH=padded(rank))
    return out


@triton.jit
def _sums(tangents, members, coefficients, out, rank, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    atom = tl.program_id(0).to(tl.int64)
    order, begins = members
    begin, end = tl.load(begins + atom), tl.load(begins + atom + 1)
    column = tl.arange(0, WIDTH)
    real = out.dtype.element_ty
    total = tl.zeros((WIDTH,), real)
    for first in range(begin, end, ROWS):
        place = first + tl.arange(0, ROWS)
        keep = place < end
        member = tl.load(order + place, mask=keep, other=0)
        inside = keep[:, None] & (column < rank)[None, :]
        one = tl.load(tangents + member[:, None] * rank + column[None, :], mask=inside, other=0.0).to(real)
        by = tl.load(coefficients + member, mask=keep, other=0.0).to(real)
        total += tl.sum(one * by[:, None], 0)
    tl.store(out + atom * rank + column, total, mask=column < rank)


def tangent_sums(
    tangents: Tensor, owner: Tensor, coefficients: Tensor, n_owners: int, dtype: torch.dtype | None = None
) -> Tensor:
    rank = tangents.shape[1]
    out = tangents.new_empty(n_owners, rank, dtype=dtype or tangents.dtype)
    arguments = tangents.contiguous(), runs(owner, n_owners), coefficients.contiguous(), out, rank
    launch(_sums, (n_owners,), *arguments, ROWS=_rows_of_tile(rank), WIDTH=padded(rank))
    return out
