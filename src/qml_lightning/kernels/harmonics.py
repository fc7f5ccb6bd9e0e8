"""Real spherical harmonics, and the tensors that couple three of them to an invariant."""

from __future__ import annotations

import functools
import math
from itertools import combinations_with_replacement

import numpy as np
import torch
from torch import Tensor

MOST_DEGREE = 3
Term = tuple[int, int, int, float]  # three harmonics and a factor


def of_degree(l: int) -> slice:  # noqa: E741 (the letter of the field)
    """Places of the harmonics of degree l, m = −l … l."""
    return slice(l * l, (l + 1) ** 2)


def harmonics(u: Tensor, l_max: int) -> Tensor:
    """Harmonics of unit vectors up to degree `l_max`, (vectors, (l_max + 1)²).

    The squares of each degree add up to 1 (Racah's normalisation), so that Σ_m Y_lm(u) Y_lm(v) = P_l(u · v).
    """
    x, y, z = u.unbind(-1)
    xx, yy, zz, xy = x * x, y * y, z * z, x * y
    odd_y, odd_x = 3 * xx - yy, xx - 3 * yy
    s3, s15, e3, e5 = (math.sqrt(n) for n in (3, 15, 3 / 8, 5 / 8))
    degrees = [
        [torch.ones_like(x)],
        [y, z, x],
        [s3 * xy, s3 * y * z, 1.5 * zz - 0.5, s3 * x * z, s3 / 2 * (xx - yy)],
        [
            e5 * y * odd_y, s15 * xy * z, e3 * y * (5 * zz - 1), z * (2.5 * zz - 1.5), e3 * x * (5 * zz - 1),
            s15 / 2 * z * (xx - yy), e5 * x * odd_x,
        ],
    ]  # fmt: skip
    return torch.stack([one for degree in degrees[: l_max + 1] for one in degree], -1)


@functools.cache
def coupling(one: int, two: int, three: int) -> Tensor:
    """∫ Y Y Y over the sphere for three degrees, divided by its norm, (2 l₁ + 1, 2 l₂ + 1, 2 l₃ + 1) in float64.

    The integrand is a polynomial of degree 9 at most: the quadrature is exact.
    """
    height, weight = np.polynomial.legendre.leggauss(8)
    angle = 2 * np.pi * np.arange(16) / 16
    across = np.sqrt(1 - height**2)[:, None]
    flat = np.stack([across * np.cos(angle), across * np.sin(angle), np.repeat(height[:, None], 16, 1)], -1)
    values = harmonics(torch.from_numpy(flat.reshape(-1, 3)), MOST_DEGREE)
    parts = [values[:, of_degree(degree)] for degree in (one, two, three)]
    found: Tensor = torch.einsum("q,qa,qb,qc->abc", torch.from_numpy(np.repeat(weight, 16)), *parts)
    found[found.abs() < 1e-12] = 0.0
    norm: Tensor = found.norm()
    return found.div_(norm)


def paths(l_max: int) -> list[tuple[int, int, int]]:
    """Degrees l₁ ≤ l₂ ≤ l₃ ≤ l_max that couple to an invariant; those of a smaller l_max come first."""
    every = combinations_with_replacement(range(l_max + 1), 3)
    couple = [path for path in every if sum(path) % 2 == 0 and path[2] <= path[0] + path[1]]
    return sorted(couple, key=lambda path: path[::-1])


@functools.cache
def terms_of(path: tuple[int, int, int]) -> tuple[Term, ...]:
    """Terms of Σ G(l₁ l₂ l₃) M M M: harmonics in ascending order, each product once."""
    tensor, sums = coupling(*path), dict[tuple[int, ...], float]()
    for place in tensor.nonzero().tolist():
        key = tuple(sorted(of_degree(degree).start + i for degree, i in zip(path, place, strict=True)))
        sums[key] = sums.get(key, 0.0) + float(tensor[tuple(place)])
    return tuple((key[0], key[1], key[2], factor) for key, factor in sums.items())
