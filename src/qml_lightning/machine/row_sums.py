"""Sums into rows that come out the same every time, on every device."""

from __future__ import annotations

from torch import Tensor


def add_rows(out: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """out[index] += values, (rows, …), also if a row occurs several times in `index`; returns `out`.

    Additions of `index_add_` come in any order on a GPU, and their rounding differs from run to run.
    """
    if out.is_cpu:
        return out.index_add_(0, index, values)
    return out.index_put_((index,), values, accumulate=True)  # sorts the indices first
