"""Products with tangents, the directions in which environments move, in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor


def tangent_products(tangents: Tensor, owner: Tensor, x: Tensor) -> Tensor:
    """tangents[t] · x[owner[t]], (tangents,) float64; x may be float64 where the tangents are float32."""
    return torch.cat(
        [(run * x[of]).double().sum(1) for run, of in zip(tangents.split(2**16), owner.split(2**16), strict=True)]
    )


def tangent_sums(
    tangents: Tensor, owner: Tensor, coefficients: Tensor, n_owners: int, dtype: torch.dtype | None = None
) -> Tensor:
    """Σ coefficients[t] tangents[t] over the tangents of each owner, (owners, rank): the transpose of the above.

    `dtype`: of products and sums, by default that of the tangents.
    """
    out = tangents.new_zeros(n_owners, tangents.shape[1], dtype=dtype or tangents.dtype)
    for run, of, by in zip(tangents.split(2**16), owner.split(2**16), coefficients.split(2**16), strict=True):
        out.index_add_(0, of, run * by[:, None].to(out))
    return out
