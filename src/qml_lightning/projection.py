"""Principal axes of the environments of each element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Projection:
    """ρ = matrices[element]ᵀ · representation: the leading axes of an uncentred SVD, one set for each element."""

    matrices: Tensor  # (elements, size, rank) float64; columns past the rank of the sample are zero
    explained: Tensor  # (elements,) part of the sample's squared norm that the axes keep

    @property
    def rank(self) -> int:
        return self.matrices.shape[2]


def principal_axes(samples: Sequence[Tensor], rank: int) -> Projection:
    """Projection onto the first `rank` right singular vectors of each element's sample (environments, size).

    Where the sample spans fewer directions (one-element systems, few structures) the rest is zero padding.
    """
    size = samples[0].shape[1]
    matrices = torch.zeros(len(samples), size, rank, dtype=torch.float64, device=samples[0].device)
    explained = torch.ones(len(samples), dtype=torch.float64)
    for element, sample in enumerate(samples):
        if len(sample) == 0:
            continue
        _, values, axes = torch.linalg.svd(sample.double(), full_matrices=False)
        # directions at rounding level are noise, not axes: the same bits would not come back from another LAPACK
        kept = min(rank, int((values > values[0] * 1e-12).sum()))
        sign = torch.sign(axes[:kept].gather(1, axes[:kept].abs().argmax(1, keepdim=True)))
        matrices[element, :, :kept] = (axes[:kept] * sign).T
        explained[element] = values[:kept].square().sum() / values.square().sum()
    return Projection(matrices, explained)


def project(matrices: Tensor, representation: Tensor, element: Tensor) -> Tensor:
    """Each environment on the axes of its own element: (atoms, size) → (atoms, rank)."""
    return _by_element(matrices, representation, element)


def lift(matrices: Tensor, cotangent: Tensor, element: Tensor) -> Tensor:
    """The transpose of `project`: (atoms, rank) → (atoms, size)."""
    return _by_element(matrices.transpose(1, 2), cotangent, element)


def _by_element(matrices: Tensor, x: Tensor, element: Tensor) -> Tensor:
    out = x.new_empty(len(x), matrices.shape[2])
    for e, matrix in enumerate(matrices):
        at = (element == e).nonzero()[:, 0]
        out[at] = x[at] @ matrix
    return out
