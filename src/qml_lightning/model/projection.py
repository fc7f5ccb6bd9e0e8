"""Projection of environments onto the principal axes of their element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..machine.transfers import sent


@dataclass(frozen=True)
class Projection:
    """Principal axes of each element, from an SVD without centring: ρ = matrices[element]ᵀ · representation."""

    matrices: Tensor  # (elements, size, rank) float64; columns beyond the rank of the sample are zero
    explained: Tensor  # (elements,) part of the squared norm of the sample that the axes keep

    @property
    def rank(self) -> int:
        return self.matrices.shape[2]


@dataclass(frozen=True)
class Classes:
    """Bonding classes of the sample of one element."""

    shares: Tensor  # (classes,) part of the sample
    means: Tensor  # (classes, size) mean environment


@dataclass(frozen=True)
class Directions:
    """Right singular vectors of the sample of one element, and their singular values, largest first."""

    values: Tensor  # (directions,)
    vectors: Tensor  # (directions, size)
    n_samples: int = 0
    classes: Classes | None = None  # None: they are not known, or there are not several

    def lost(self, rank: int) -> float:
        """Part of the squared norm of the sample that the first `rank` directions lose."""
        squares = self.values.square()
        return float(squares[rank:].sum() / squares.sum()) if len(squares) else 0.0


# Up to this length of the representation directions come from an SVD, which takes five times as long as the
# eigenvectors of the Gram matrix and tells directions apart that are 1e-8 times smaller than the first.
SVD_SIZE = 768


# Bonding classes are told apart along at most so many axes of an element, and only where their means are so many times
# further apart than environments of one class: in a melt, where bonds come and go, they are not.
MOST_CLASS_AXES = 16
LEAST_APART = 10.0
LEAST_SPREAD = 0.01  # within a class along any direction, as a part of the mean one: samples are finite


def directions(samples: Sequence[Tensor], classes: Sequence[Tensor] | None = None) -> list[Directions]:
    """Directions of each element, from its sample (environments, size). `classes`: bonding class of each of these."""
    found = [_directions_of(sample.double()) for sample in samples]
    if classes is None:
        return found
    means = [_class_means(sample.double(), its) for sample, its in zip(samples, classes, strict=True)]
    return [
        replace(one, n_samples=len(sample), classes=its) for one, sample, its in zip(found, samples, means, strict=True)
    ]


def _class_means(sample: Tensor, classes: Tensor) -> Classes | None:
    names, of_class, counts = classes.unique(return_inverse=True, return_counts=True)
    if len(names) < 2:
        return None
    sums = torch.zeros(len(names), sample.shape[1], dtype=sample.dtype).index_add_(0, of_class, sample)
    return Classes(counts.double() / counts.sum(), sums / counts[:, None])


def _directions_of(sample: Tensor) -> Directions:
    if sample.shape[1] <= SVD_SIZE:
        return Directions(*torch.linalg.svd(sample, full_matrices=False)[1:])
    squares, vectors = torch.linalg.eigh(sample.T @ sample)
    kept = squares > torch.finfo(squares.dtype).eps * len(squares) * squares[-1]  # the others are rounding
    return Directions(squares[kept].flip(0).sqrt(), vectors[:, kept].T.flip(0).contiguous())


def principal_axes(found: Sequence[Directions], rank: int, class_spread: float = 0.0) -> Projection:
    """Projection onto the first `rank` directions of each element; zeros if the sample spans fewer.

    Samples of few structures, or of systems with one element, span few directions. `class_spread`: if not zero, the
    last axes are replaced by those that tell bonding classes apart, along which their means spread by so much.
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
        if class_spread and one.classes is not None:
            apart = class_spread * _class_axes(one, matrices[element, :, :kept])
            matrices[element, :, rank - apart.shape[1] :] = apart
    return Projection(matrices, explained)


def _class_axes(one: Directions, axes: Tensor) -> Tensor:
    """Linear discriminants of the bonding classes, (size, discriminants), along which their means have a spread of 1.

    Along these axes the means are furthest apart, compared with the spread within the classes.
    """
    assert one.classes is not None
    share, means = one.classes.shares, one.classes.means @ axes
    between = share.sqrt()[:, None] * (means - share @ means)
    # environments along the axes: the mean of their squares is known from the singular values
    within = torch.diag(one.values[: axes.shape[1]].square() / one.n_samples) - (share[:, None] * means).T @ means
    within += LEAST_SPREAD * within.diagonal().mean() * torch.eye(len(within), dtype=within.dtype)
    factor = torch.linalg.cholesky(within)
    _, apart, turned = torch.linalg.svd(torch.linalg.solve_triangular(factor, between.T, upper=False).T)
    n = min(int((apart > LEAST_APART).sum()), MOST_CLASS_AXES, len(share) - 1, len(within) // 4)
    found = torch.linalg.solve_triangular(factor.T, turned[:n].T, upper=True)
    matrix: Tensor = axes @ (found / (between @ found).norm(dim=0))
    return matrix


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
