"""Many-body invariants of the neighbour density: products of two and three moments of random channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...kernels import DensityArguments
from ...kernels.harmonics import MOST_DEGREE, paths
from ..field_checks import check_fields, check_positive

# Environments of each element of the data, (environments, size), by a representation with its tensors.
Sample = Callable[["Density", Mapping[str, Tensor]], Sequence[Tensor]]

INTERVALS = 256  # of the tables of radial functions: their error is below 1e-11
CHANNEL_UNIT = 16  # channels come in whole vectors of any instruction set
SOFT = 0.5  # Å, below which radial functions stop to grow


@dataclass(frozen=True)
class Density:
    """Parameters of the representation (docs/conventions.md)."""

    kind: ClassVar[str] = DensityArguments.kind
    # 256 axes instead of 128 make the forces of aspirin better by 6 % (128 axes lose 2e-6), those of toluene by 11 %
    # (1e-7), of ethanol by 6 % (3e-7).
    norm_to_lose: ClassVar[float] = 1e-9
    most_axes: ClassVar[int] = 256

    cutoff: float = 6.0  # Å, of the pair functions
    density_cutoff: float = 6.0  # Å, of the density, hence of three and more bodies
    n_pair: int = 10
    n_radial: int = 10
    pair_width: float = 0.65  # Å, standard deviation of the Gaussians
    width: float = 0.65
    pair_decay: float = 1.0  # powers of the distance
    decay: float = 1.0
    first_centre: float = 0.7  # Å, of the Gaussians
    l_max: int = 3
    n_channels: int = 64
    n_candidates: int = 0  # channels drawn, of which those are kept that differ most on the data; 0: all are kept
    # The three weights together set the kernel width that suits: forces of ethanol (900 structures, 8192 features) are
    # 9.7, 9.1 and 9.8 meV/Å with twice these weights, with these and with half of them.
    pair_weight: float = 1.7
    weight2: float = 0.16  # of products of two moments
    weight3: float = 0.03  # of products of three; 0: none, and no entries for them

    def __post_init__(self) -> None:
        check_fields(self, n_pair=0, n_radial=1, l_max=0)
        check_positive(self, "The density", "cutoff", "density_cutoff", "width", "pair_width")
        if self.density_cutoff > self.cutoff:
            raise InputError(
                f"The density reaches no further than pairs: density_cutoff {self.density_cutoff:g} is above "
                f"cutoff {self.cutoff:g}."
            )
        if self.l_max > MOST_DEGREE:
            raise InputError(f"Spherical harmonics go up to degree {MOST_DEGREE}, got l_max = {self.l_max}.")
        if self.n_channels < 1 or self.n_channels % CHANNEL_UNIT:
            raise InputError(f"The number of channels is a multiple of {CHANNEL_UNIT}, got {self.n_channels}.")
        if self.n_candidates and (self.n_candidates < self.n_channels or self.n_candidates % CHANNEL_UNIT):
            raise InputError(
                f"The channels are chosen from a multiple of {CHANNEL_UNIT} candidates, at least as many as there are "
                f"channels ({self.n_channels}), got {self.n_candidates}."
            )

    def within(self, cutoff: float) -> Density:
        """This representation with another cutoff, in Å; that of the density and all widths follow it."""
        factor = cutoff / self.cutoff
        names = ("density_cutoff", "pair_width", "width")
        return replace(self, cutoff=cutoff, **{name: factor * getattr(self, name) for name in names})

    def describe(self) -> str:
        """Parameters in words, for people."""
        of_candidates = f" of {self.n_candidates}" if self.n_candidates else ""
        return (
            f"density invariants, cutoffs {self.cutoff:g} and {self.density_cutoff:g} Å, {self.n_pair} + "
            f"{self.n_radial} radial functions, {self.n_channels}{of_candidates} channels, l ≤ {self.l_max}"
        )

    def draw(self, n_elements: int, seed: int, sample: Sample | None = None) -> dict[str, Tensor]:
        """Mixing of elements and radial functions into channels, tables of the radial functions, weights.

        Only the mixing is random. The rest is stored as well, so that a model needs no formula to be read.
        `sample` tells which candidates differ most; without it, the first ones are taken.
        """
        if sample is not None and self.n_candidates:
            wide = replace(self, n_channels=self.n_candidates, n_candidates=0)
            drawn = wide.draw(n_elements, seed)
            kept = distinct_channels(wide.arguments(n_elements, drawn), sample(wide, drawn), self.n_channels)
            return {**drawn, "mixing": drawn["mixing"][:, :, kept].contiguous()}
        random = np.random.default_rng([seed, 1])
        normal = random.standard_normal((n_elements, self.n_radial, self.n_channels))
        pair = self._functions(self.n_pair, self.pair_width, self.pair_decay, self.cutoff)
        radial = self._functions(self.n_radial, self.width, self.decay, self.density_cutoff)
        return {
            "mixing": torch.from_numpy(normal / math.sqrt(self.n_radial)),
            "pair_table": self.pair_weight * hermite_table(pair, self.cutoff),
            "radial_table": hermite_table(radial, self.density_cutoff),
            "weights": self._weights(),
        }

    def shapes(self, n_elements: int) -> dict[str, tuple[int, ...]]:
        """Shapes of these tensors."""
        return {
            "mixing": (n_elements, self.n_radial, self.n_channels),
            "pair_table": (INTERVALS, 6, self.n_pair),
            "radial_table": (INTERVALS, 6, self.n_radial),
            "weights": (len(self._weights()),),
        }

    def arguments(self, n_elements: int, drawn: Mapping[str, Tensor]) -> DensityArguments:
        """Arguments of the kernels, for `n_elements` elements."""
        return DensityArguments(
            self.density_cutoff,
            self.cutoff,
            self.l_max,
            drawn["pair_table"],
            drawn["radial_table"],
            drawn["mixing"],
            drawn["weights"],
        )

    def _weights(self) -> Tensor:
        """Weight of each invariant, (invariants,)."""
        roots = [math.sqrt(2 * degree + 1) for degree in range(self.l_max + 1)]
        weights = [self.weight2 * root for root in roots]
        if self.weight3:
            weights += [self.weight3 * math.prod(roots[degree] for degree in path) for path in paths(self.l_max)]
        return torch.tensor(weights, dtype=torch.float64)

    def _functions(self, count: int, width: float, decay: float, cutoff: float) -> Callable[[Tensor], Tensor]:
        """Gaussians on an even grid of centres, times a power of the distance, times a smooth cutoff."""
        centres = torch.linspace(self.first_centre, cutoff, max(count, 1), dtype=torch.float64)[:count]

        def functions(r: Tensor) -> Tensor:
            smooth = (0.5 * (torch.cos(r * (math.pi / cutoff)) + 1.0)) ** 2 * (r * r + SOFT**2) ** (-0.5 * decay)
            return smooth[:, None] * torch.exp(-((r[:, None] - centres) ** 2) / (2 * width**2))

        return functions


def hermite_table(functions: Callable[[Tensor], Tensor], cutoff: float) -> Tensor:
    """Polynomials that have the values and two derivatives of `functions` at the ends of each interval.

    Functions and their first two derivatives are continuous, (intervals, 6, functions) in float64.
    """
    step = cutoff / INTERVALS
    # not torch.func: it imports a compiler, which takes as long as all else that a program begins with
    with torch.inference_mode(False), torch.enable_grad():
        r = torch.linspace(0.0, cutoff, INTERVALS + 1, dtype=torch.float64, requires_grad=True)
        values = functions(r)
        first = _slopes(values, r)
        second = _slopes(first, r)
    f, d, s = values.detach(), first.detach() * step, second.detach() * step**2
    rise, d0, d1, s0, s1 = f[1:] - f[:-1], d[:-1], d[1:], s[:-1], s[1:]
    return torch.stack(
        [
            f[:-1],
            d0,
            0.5 * s0,
            10 * rise - 6 * d0 - 4 * d1 - 1.5 * s0 + 0.5 * s1,
            -15 * rise + 8 * d0 + 7 * d1 + 1.5 * s0 - s1,
            6 * rise - 3 * d0 - 3 * d1 - 0.5 * s0 + 0.5 * s1,
        ],
        1,
    )


def _slopes(values: Tensor, r: Tensor) -> Tensor:
    """Derivative of each column of `values` by the `r` of its row, as a graph that can be derived again."""
    slopes = [torch.autograd.grad(column.sum(), r, create_graph=True)[0] for column in values.unbind(1)]
    return torch.stack(slopes, 1) if slopes else values


def distinct_channels(p: DensityArguments, samples: Sequence[Tensor], n: int) -> Tensor:
    """The `n` channels whose invariants spread most beyond what the channels before them explain, (n,).

    Pivots of the covariance of the channels over the environments of all elements, (environments, size) for each.
    """
    rest = torch.zeros(p.n_channels, p.n_channels, dtype=torch.float64)
    for sample in samples:
        invariants = (sample - sample.mean(0))[:, p.pair_size :].reshape(-1, p.n_channels)
        rest += invariants.T @ invariants / max(len(sample), 1)
    kept: list[int] = []
    for _ in range(n):
        spread = rest.diagonal().clone()
        spread[kept] = -math.inf
        best = int(spread.argmax())
        kept.append(best)
        if spread[best] > 0:
            rest -= torch.outer(rest[best], rest[best]) / spread[best]
    return torch.tensor(kept)


# Two ranges: the data tell which suits them. Forces of toluene are a tenth better with the long one, those of aspirin
# with the short one (200 structures, 4096 features).
# 48 channels of 256 candidates are better than 64 drawn at random, by 2 % for the forces of aspirin, 6 % for those of
# malonaldehyde and 10 % for those of toluene (400 structures, 8192 features), and predict faster.
DENSITY = Density(n_channels=48, n_candidates=256)
SHORT_DENSITY = replace(DENSITY, cutoff=5.0, density_cutoff=5.0, pair_width=0.55, width=0.55)
PRESETS = {"density": DENSITY, "density-short": SHORT_DENSITY}
