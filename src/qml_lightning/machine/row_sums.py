"""Sums into rows that come out the same every time, on every device."""

from __future__ import annotations

import torch
from torch import Tensor

# Rows that one sum takes in turn, if many go to one place of a device: the rest are summed beside it.
SERIES = 256


def add_rows(out: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """out[index] += values, (rows, …), also if a row occurs several times in `index`; returns `out`.

    Additions of `index_add_` come in any order on a GPU, and their rounding differs from run to run.
    """
    if out.is_cpu:
        return out.index_add_(0, index, values)
    return out.index_put_((index,), values, accumulate=True)  # sorts the indices first


def add_sorted_rows(out: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """`add_rows` for an ascending `index` with few and long runs, such as the structure of each atom.

    A GPU adds all that goes to one place in turn: for a large cell that is one sum after another over all of its atoms.
    """
    return out.index_add_(0, index, values) if out.is_cpu else add_by_series(out, index, values)


def add_by_series(out: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """`add_sorted_rows` in two steps: sums of at most SERIES rows, then their sums."""
    series = torch.arange(len(index), device=index.device) // SERIES
    place = index + series  # it grows with either of the two, so rows of different places never meet
    n = len(out) + len(index) // SERIES + 1
    parts = add_rows(values.new_zeros(n, *values.shape[1:]), place, values)
    owner = index.new_zeros(n).scatter_(0, place, index)
    return add_rows(out, owner, parts.to(out.dtype))
