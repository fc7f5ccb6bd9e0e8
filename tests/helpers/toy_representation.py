"""A second kind of representation, small and with random weights: a kind needs nothing but its own files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class ToyArguments:
    """Weights (size, elements, 3) of three Gaussians of the distance to neighbours of each element."""

    kind: ClassVar[str] = "toy"

    n_elements: int
    cutoff: float
    weights: Tensor

    @property
    def size(self) -> int:
        return len(self.weights)

    def to(self, device, dtype) -> ToyArguments:
        return replace(self, weights=self.weights.to(device, dtype))


@dataclass(frozen=True)
class Toy:
    """Parameters of the representation."""

    kind: ClassVar[str] = ToyArguments.kind
    norm_to_lose: ClassVar[float] = 1e-6
    most_axes: ClassVar[int] = 1024

    cutoff: float = 4.0
    n_channels: int = 12

    def draw(self, n_elements: int, seed: int, sample: object = None) -> dict[str, Tensor]:
        normal = np.random.default_rng([seed, 1]).standard_normal((self.n_channels, n_elements, 3))
        return {"weights": torch.from_numpy(normal)}

    def shapes(self, n_elements: int) -> dict[str, tuple[int, ...]]:
        return {"weights": (self.n_channels, n_elements, 3)}

    def arguments(self, n_elements: int, drawn: Mapping[str, Tensor]) -> ToyArguments:
        return ToyArguments(n_elements, self.cutoff, drawn["weights"])

    def within(self, cutoff: float) -> Toy:
        return replace(self, cutoff=cutoff)

    def describe(self) -> str:
        return f"toy of {self.n_channels} channels, cutoff {self.cutoff:g} Å"


def environments(p: ToyArguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor:
    segment = torch.repeat_interleave(torch.arange(len(segments) - 1), segments.diff())
    out = vectors.new_zeros(n_atoms, p.size)
    return out.index_add(0, segment // p.n_elements, _pair_values(p, segment % p.n_elements, vectors))


def environments_pullback(
    p: ToyArguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor
) -> Tensor:
    vectors = vectors.detach().requires_grad_()
    total = (environments(p, n_atoms, segments, vectors) * cotangent).sum()
    return torch.autograd.grad(total, vectors)[0]


def environments_jacobian(
    p: ToyArguments, n_atoms: int, segments: Tensor, vectors: Tensor, centre_element: Tensor, projections: Tensor
) -> Tensor:
    segment = torch.repeat_interleave(torch.arange(len(segments) - 1), segments.diff())
    element = segment % p.n_elements
    slopes = []
    for along in torch.eye(3).to(vectors):
        move = along.expand_as(vectors).contiguous()
        slopes.append(torch.func.jvp(lambda v: _pair_values(p, element, v), (vectors,), (move,))[1])
    return torch.einsum("pas,psr->par", torch.stack(slopes, 1), projections[centre_element[segment // p.n_elements]])


def _pair_values(p: ToyArguments, element: Tensor, vectors: Tensor) -> Tensor:
    r = vectors.norm(dim=1)
    inside = torch.where(r < p.cutoff, 0.5 * (torch.cos(r * (torch.pi / p.cutoff)) + 1), torch.zeros_like(r))
    radial = torch.exp(-((r[:, None] - torch.tensor([1.0, 1.5, 2.0]).to(r)) ** 2)) * inside[:, None]
    return torch.einsum("psn,pn->ps", p.weights.transpose(0, 1)[element], radial)
