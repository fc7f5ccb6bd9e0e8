"""What the kernels are told besides tensors: the shape of FCHL19 and one cosine feature map."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

Angular = Literal["pair", "series"]


@dataclass(frozen=True)
class FCHL19Arguments:
    """Parameters of FCHL19 for a number of elements; which ones they are the kernels need not know.

    Vector: [two-body of element 0 | … | two-body of element n−1 | one block for each pair of elements p ≤ q],
    a pair block holds n_radial3 × n_angular entries, angular index fastest.
    """

    n_elements: int
    n_radial2: int
    n_radial3: int
    angular: Angular  # "pair": cos θ, sin θ; "series": cos nθ, n < n_angular
    n_angular: int
    cutoff: float  # Å
    eta2: float
    eta3: float  # Å⁻²
    decay2: float
    decay3: float
    weight3: float  # the whole constant factor of the three-body part

    @property
    def n_element_pairs(self) -> int:
        return self.n_elements * (self.n_elements + 1) // 2

    @property
    def pair_block(self) -> int:
        """Entries of one pair of elements."""
        return self.n_radial3 * self.n_angular

    @property
    def size(self) -> int:
        return self.n_elements * self.n_radial2 + self.n_element_pairs * self.pair_block


@dataclass(frozen=True)
class FeatureMap:
    """The features of one element: a linear map followed by a cosine.

    u = row_scale ⊙ (H D_n … H D_1 ρ) + phases with entries ±1 in H, or u = matrix ρ + phases;
    z = amplitude · cos u, or amplitude · [cos u | sin u] when paired.
    """

    phases: Tensor  # (frequencies,)
    paired: bool
    signs: Tensor | None = None  # (frequencies / rank, transforms, rank), ±1
    row_scale: Tensor | None = None  # (frequencies,), goes with signs
    matrix: Tensor | None = None  # (frequencies, rank)

    @property
    def rank(self) -> int:
        tensor = self.signs if self.matrix is None else self.matrix
        assert tensor is not None
        return tensor.shape[-1]

    @property
    def n_transforms(self) -> int:
        """Hadamard transforms in a row; 0 for a dense matrix."""
        return 0 if self.signs is None else self.signs.shape[1]

    @property
    def n_frequencies(self) -> int:
        return len(self.phases)

    @property
    def n_features(self) -> int:
        return self.n_frequencies * (1 + self.paired)

    @property
    def amplitude(self) -> float:
        """√(2/N_F), paired or not."""
        return math.sqrt(2.0 / self.n_features)

    def part(self, first: int, last: int) -> FeatureMap:
        """The map of the features from `first` to `last`, with the amplitude of a map of that many."""
        begin, end = first // (1 + self.paired), last // (1 + self.paired)
        return replace(
            self,
            phases=self.phases[begin:end],
            signs=None if self.signs is None else self.signs[begin // self.rank : end // self.rank],
            row_scale=None if self.row_scale is None else self.row_scale[begin:end],
            matrix=None if self.matrix is None else self.matrix[begin:end],
        )

    def to(self, device: torch.device | str, dtype: torch.dtype) -> FeatureMap:
        """The same map with its tensors on `device` and in `dtype`."""

        def moved(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device, dtype).contiguous()

        return replace(
            self,
            phases=self.phases.to(device, dtype),
            signs=moved(self.signs),
            row_scale=moved(self.row_scale),
            matrix=moved(self.matrix),
        )
