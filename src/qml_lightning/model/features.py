"""Random features. RFF, ORF and SORF draw their linear map in different ways and share all the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..kernels import FeatureMap
from .field_checks import check_fields

Method = Literal["sorf", "rff", "orf"]


@dataclass(frozen=True)
class FeatureSettings:
    """Kind, number and width of the random features. They are drawn for each element."""

    method: Method = "sorf"
    n_features: int = 8192
    sigma: float = 8.0  # width of the Gaussian kernel that the features approximate
    n_transforms: int = 2  # Hadamard transforms of SORF; one is not enough: inputs from PCA have few large components
    chi_scaled: bool = False  # SORF: rows as long as those of a Gaussian matrix, instead of all √d/σ
    paired: bool = False  # cosine and sine of the same frequency, instead of a cosine with a random phase
    blocks: bool = False  # each element has weights of its own, instead of one vector for all

    def __post_init__(self) -> None:
        if self.method not in LINEAR_MAPS:
            raise InputError(f"Unknown feature map {self.method!r}. Known are {', '.join(LINEAR_MAPS)}.")

    def describe(self) -> str:
        """Settings in words, such as `8,192 SORF features, σ = 8, cos and sin pairs`."""
        words = f"{self.n_features:,} {self.method.upper()} features, σ = {self.sigma:g}"
        words += ", cos and sin pairs" if self.paired else ""
        return words + (", own weights for each element" if self.blocks else "")

    def weights_of_each(self, n_elements: int) -> int:
        """Number of weights that each feature has: one for all elements together, or one for each element."""
        return n_elements if self.blocks else 1

    def n_weights(self, n_elements: int) -> int:
        """Length of the weight vector."""
        return self.n_features * self.weights_of_each(n_elements)

    def unit(self, rank: int) -> int:
        """The number of features is a multiple of this."""
        return (rank if self.method == "sorf" else 1) * (1 + self.paired)

    def check(self, rank: int) -> None:
        """Raise an InputError if a field is out of range or does not go with `rank`."""
        check_fields(self)
        if not self.sigma > 0:
            raise InputError(f"The kernel width sigma must be positive, got {self.sigma}.")
        if self.n_features < 1 or (self.paired and self.n_features % 2):
            even = "even and " if self.paired else ""
            raise InputError(f"The number of features must be {even}positive, got {self.n_features}.")
        if self.method != "sorf":
            return
        power = 2 ** math.ceil(math.log2(max(rank, 2)))
        if rank != power:
            raise InputError(f'SORF needs a power-of-two rank, got {rank}. Use rank={power}, or method="rff".')
        if self.n_features % (unit := self.unit(rank)):
            near = max(unit, round(self.n_features / unit) * unit)
            raise InputError(
                f"SORF with rank {rank} needs a multiple of {unit} features, got {self.n_features}. Use {near}."
            )
        if self.n_transforms < 1:
            raise InputError(f"SORF needs at least one Hadamard transform, got {self.n_transforms}. Use 2.")


# Linear part of the feature map of one element, by the names in FeatureMap: a matrix, or signs and row scales.
Linear = dict[str, Tensor]


def _chi(rank: int, n: int, random: np.random.Generator) -> np.ndarray:
    """Lengths of `n` Gaussian vectors of dimension `rank`."""
    return np.sqrt(random.chisquare(rank, n))


def _gaussian(settings: FeatureSettings, rank: int, n: int, random: np.random.Generator) -> Linear:
    """RFF: a matrix with entries ~ N(0, 1/σ²)."""
    return {"matrix": torch.from_numpy(random.standard_normal((n, rank)) / settings.sigma)}


def _orthogonal(settings: FeatureSettings, rank: int, n: int, random: np.random.Generator) -> Linear:
    """ORF: S Q / σ, blocks of orthogonal rows Q with the lengths S of Gaussian vectors."""
    blocks = []
    for _ in range(math.ceil(n / rank)):
        q, r = np.linalg.qr(random.standard_normal((rank, rank)))
        blocks.append(q * np.sign(np.diag(r)))  # the sign makes Q uniform over the orthogonal group
    q = np.concatenate(blocks)[:n]
    return {"matrix": torch.from_numpy(_chi(rank, n, random)[:, None] * q / settings.sigma)}


def _structured(settings: FeatureSettings, rank: int, n: int, random: np.random.Generator) -> Linear:
    """SORF: blocks (√d/σ) H D_t … H D_1 of d rows, with orthonormal H and random signs D; `chi_scaled`: χ_d for √d."""
    signs = random.integers(0, 2, (n // rank, settings.n_transforms, rank)) * 2.0 - 1.0
    length = _chi(rank, n, random) if settings.chi_scaled else np.full(n, math.sqrt(rank))
    # H has entries ±1 in the kernels, hence 1/√d for each transform
    scale = length / settings.sigma / rank ** (settings.n_transforms / 2)
    return {"signs": torch.from_numpy(signs), "row_scale": torch.from_numpy(scale)}


LINEAR_MAPS: dict[str, Callable[[FeatureSettings, int, int, np.random.Generator], Linear]] = {
    "sorf": _structured,
    "rff": _gaussian,
    "orf": _orthogonal,
}


def draw_maps(
    settings: FeatureSettings, n_elements: int, rank: int, random: np.random.Generator
) -> tuple[FeatureMap, ...]:
    """Feature maps drawn at random, one for each element, in float64 on the CPU."""
    settings.check(rank)
    n = settings.n_features // (1 + settings.paired)
    maps = []
    for _ in range(n_elements):
        linear = LINEAR_MAPS[settings.method](settings, rank, n, random)
        phases = np.zeros(n) if settings.paired else random.uniform(0.0, 2.0 * math.pi, n)
        maps.append(FeatureMap(torch.from_numpy(phases), settings.paired, **linear))
    return tuple(maps)


def columns_of(maps: Sequence[FeatureMap], element: int, blocks: bool) -> slice:
    """Weights that belong to `element`: a block of its own, or all of them if they are shared."""
    n = maps[0].n_features
    return slice(element * n, (element + 1) * n) if blocks else slice(0, n)
