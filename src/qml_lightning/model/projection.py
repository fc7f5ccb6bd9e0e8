"""Projection of environments onto the principal axes of their element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..machine.waits import sent


@dataclass(frozen=True)
class Projection:
    """Principal axes of each element, from an SVD without centring: ρ = matrices[element]ᵀ · representation."""

    matrices: Tensor  # (elements, size, rank) float64; columns beyond the rank of the sample are zero
    explained: Tensor  # (elements,) part of the squared norm of the sample that the axes keep

    @property
    def rank(self) -> int:
        return self.matrices.shape[2]


@dataclass(frozen=True)
class Directions:
    """Right singular vectors of the sample of one element, and their singular values, largest first."""

    values: Tensor  # (directions,)
    vectors: Tensor  # (directions, size)

    def lost(self, rank: int) -> float:
        """Part of the squared norm of the sample that the first `rank` directions lose."""
        squares = self.values.square()
        return float(squares[rank:].sum() / squares.sum()) if len(squares) else 0.0


# Up to this length of the representation directions come from an SVD, which takes five times as long as the
# eigenvectors of the Gram matrix and tells directions apart that are 1e-8 times smaller than the first.
SVD_SIZE = 768


def directions(samples: Sequence[Tensor]) -> list[Directions]:
    """Directions of each element, from its sample (environments, size)."""
    return [_directions_of(sample.double()) for sample in samples]


def _directions_of(sample: Tensor) -> Directions:
    if sample.shape[1] <= SVD_SIZE:
        return Directions(*torch.linalg.svd(sample, full_matrices=False)[1:])
    squares, vectors = torch.linalg.eigh(sample.T @ sample)
    kept = squares > torch.finfo(squares.dtype).eps * len(squares) * squares[-1]  # the others are rounding
    return Directions(squares[kept].flip(0).sqrt(), vectors[:, kept].T.flip(0).contiguous())


def principal_axes(found: Sequence[Directions], rank: int) -> Projection:
    """Projection onto the first `rank` directions of each element; zeros if the sample spans fewer.

    Samples of few structures, or of systems with one element, span few directions.
    """
    size = found[0].vectors.shape[1]
    matrices = torch.zeros(len(found), size, rank, dtype=torch.float64, device=found[0].vectors.device)
    explained = torch.ones(len(found), dtype=torch.float64)
    for element, one in enumerate(found):
        if len(one.values) == 0:
            continue
        # directions at the level of rounding are noise: another LAPACK would give other ones
        kept = min(rank, int((one.values > one.values[0] * 1e-12).sum()))
        axes = one.vectors[:kept]
        sign = torch.sign(axes.gather(1, axes.abs().argmax(1, keepdim=True)))
        matrices[element, :, :kept] = (axes * sign).T
        explained[element] = 1 - one.lost(kept)
    return Projection(matrices, explained)


def atoms_of_elements(element: Tensor, n_elements: int, device: torch.device) -> list[Tensor]:
    """Atoms of each element, on `device`; found where `element` is, so nothing waits for the device."""
    return [sent((element == e).nonzero()[:, 0], device) for e in range(n_elements)]


def project(matrices: Tensor, representation: Tensor, atoms: Sequence[Tensor]) -> Tensor:
    """Environments projected onto the axes of their element: (atoms, size) → (atoms, rank).

    `atoms`: those of each element.
    """
    return _by_element(matrices, representation, atoms)


def lift(matrices: Tensor, cotangent: Tensor, atoms: Sequence[Tensor]) -> Tensor:
    """Transpose of `project`, for gradients: (atoms, rank) → (atoms, size)."""
    return _by_element(matrices.transpose(1, 2), cotangent, atoms)


def _by_element(matrices: Tensor, x: Tensor, atoms: Sequence[Tensor]) -> Tensor:
    out = x.new_empty(len(x), matrices.shape[2])
    for matrix, at in zip(matrices, atoms, strict=True):
        out[at] = x[at] @ matrix
    return out
