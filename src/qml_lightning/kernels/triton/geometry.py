"""Pairs and their directions inside a kernel, and which centre a pair belongs to."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor
from triton import language as tl


class Pairs(NamedTuple):
    """Some pairs of a list, from `first` on."""

    segments: Tensor
    vectors: Tensor  # of the whole list
    centres: Tensor  # of these pairs
    first: int


def centres_of_pairs(segments: Tensor, n_elements: int, first: int, last: int) -> Tensor:
    """Centre of each pair from `first` to `last`, (pairs,); nothing waits for the device."""
    ends = segments[n_elements::n_elements].contiguous()
    pairs = torch.arange(first, last, device=segments.device, dtype=segments.dtype)
    return torch.searchsorted(ends, pairs, right=True)


@triton.jit
def element_at(segments, centre, pair, ELEMENTS: tl.constexpr):
    """Element of the neighbour of a pair: its place among the segments of its centre."""
    element = 0
    for z in range(1, ELEMENTS):
        element += (pair >= tl.load(segments + centre * ELEMENTS + z)).to(tl.int32)
    return element


@triton.jit
def vector_at(vectors, pair, keep):
    """Components of pair vectors; (1, 0, 0) where `keep` is false, so that nothing divides by zero."""
    x = tl.load(vectors + 3 * pair, mask=keep, other=1.0)
    y = tl.load(vectors + 3 * pair + 1, mask=keep, other=0.0)
    z = tl.load(vectors + 3 * pair + 2, mask=keep, other=0.0)
    return x, y, z


@triton.jit
def dot3(a, b):
    """a · b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@triton.jit
def cross3(a, b):
    """a × b."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@triton.jit
def scaled(a, factor):
    """a · factor."""
    return a[0] * factor, a[1] * factor, a[2] * factor


@triton.jit
def plus(a, b):
    """a + b."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@triton.jit
def direction_of(vectors, pair):
    """Unit vector and length of a pair vector."""
    v = vector_at(vectors, pair, True)
    r = tl.sqrt(dot3(v, v))
    return scaled(v, 1.0 / r), r
