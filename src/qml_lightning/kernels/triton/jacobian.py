"""Projected Jacobians in Triton: dense rows of some pairs at a time, each times the axes of its centre's element."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor
from triton import language as tl

from ..contract import RepresentationArguments
from .geometry import Pairs, centres_of_pairs
from .launch import divided, launch, padded, registers

# Numbers of dense rows in memory at once: they bound the memory, not the result.
DENSE_NUMBERS = 2**25
ROWS, MOST_AXES, WARPS = 32, 64, 8  # rows and axes of a tile of the product, and warps of its program
CHUNK = tl.constexpr(32)  # entries of a row that one product takes


@triton.jit
def _projected(dense, element, projections, out, n, shape, ROWS: tl.constexpr, AXES: tl.constexpr):
    """out[row] = dense[row] @ projections[element of the row's centre]; three rows for each pair."""
    elements, size, rank = shape
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    axis = tl.program_id(1) * AXES + tl.arange(0, AXES)
    own = tl.load(element + row // 3, mask=row < n, other=-1)
    total = tl.zeros((ROWS, AXES), dense.dtype.element_ty)
    for e in range(elements):
        # rows of one centre lie together: a tile rarely meets more than two elements
        if tl.sum((own == e).to(tl.int32), 0) > 0:
            for first in range(0, size, CHUNK):
                column = first + tl.arange(0, CHUNK)
                inside = (own == e)[:, None] & (column < size)[None, :]
                entries = tl.load(dense + row[:, None] * size + column[None, :], mask=inside, other=0.0)
                place = projections + (e * size + column)[:, None] * rank + axis[None, :]
                matrix = tl.load(place, mask=(column < size)[:, None] & (axis < rank)[None, :], other=0.0)
                total += tl.dot(entries, matrix, input_precision="ieee", out_dtype=total.dtype)
    tl.store(out + row[:, None] * rank + axis[None, :], total, mask=(row < n)[:, None] & (axis < rank)[None, :])


def projected_jacobian(
    kind: Any, p: RepresentationArguments, segments: Tensor, vectors: Tensor, centre_element: Tensor,
    projections: Tensor,
) -> Tensor:  # fmt: skip
    """Derivative of the projected representation by each pair vector, (pairs, 3, rank); `kind` forms the dense rows."""
    rank = projections.shape[2]
    out = vectors.new_empty(len(vectors), 3, rank)
    axes, projections = min(MOST_AXES, padded(rank, least=16)), projections.contiguous()
    segments, vectors = segments.contiguous(), vectors.contiguous()
    step, prepared = max(1, DENSE_NUMBERS // (3 * p.size)), kind.prepared(p, segments, vectors)
    for first in range(0, len(vectors), step):
        part = out[first : first + step]
        dense = vectors.new_zeros(len(part), 3, p.size)
        centres = centres_of_pairs(segments, p.n_elements, first, first + len(part))
        kind.dense_jacobian(p, Pairs(segments, vectors, centres, first), prepared, dense)
        given = dense, centre_element[centres], projections, part, 3 * len(part), (p.n_elements, p.size, rank)
        grid = divided(3 * len(part), ROWS), divided(rank, axes)
        most = registers(96, dense.dtype == torch.float32)
        launch(_projected, grid, *given, warps=WARPS, **most, ROWS=ROWS, AXES=axes)
    return out
