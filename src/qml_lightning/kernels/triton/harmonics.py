"""Real spherical harmonics inside a kernel, as in `kernels/harmonics`, and their change along a direction."""

from __future__ import annotations

import math

import triton
from triton import language as tl

_S3 = tl.constexpr(math.sqrt(3))
_S15 = tl.constexpr(math.sqrt(15))
_E3 = tl.constexpr(math.sqrt(3 / 8))
_E5 = tl.constexpr(math.sqrt(5 / 8))


@triton.jit
def harmonics(u):
    """Harmonics of the unit vector u up to degree 3, sixteen numbers; those of lower degrees come first."""
    x, y, z = u
    across, odd_y, odd_x, long = x * x - y * y, 3.0 * x * x - y * y, x * x - 3.0 * y * y, 5.0 * z * z - 1.0
    one = x * 0.0 + 1.0
    first = (one, y, z, x)
    second = (_S3 * x * y, _S3 * y * z, 1.5 * z * z - 0.5, _S3 * x * z, 0.5 * _S3 * across)
    third = (
        _E5 * y * odd_y, _S15 * x * y * z, _E3 * y * long, z * (2.5 * z * z - 1.5), _E3 * x * long,
        0.5 * _S15 * z * across, _E5 * x * odd_x,
    )  # fmt: skip
    return first + second + third


@triton.jit
def harmonics_along(u, d):
    """Change of the harmonics as u moves along d: the derivative of each of the formulas above."""
    x, y, z = u
    dx, dy, dz = d
    across, odd_y, odd_x, long = x * x - y * y, 3.0 * x * x - y * y, x * x - 3.0 * y * y, 5.0 * z * z - 1.0
    d_across, d_long = 2.0 * (x * dx - y * dy), 10.0 * z * dz
    first = (x * 0.0, dy, dz, dx)
    second = (
        _S3 * (dx * y + x * dy), _S3 * (dy * z + y * dz), 3.0 * z * dz, _S3 * (dx * z + x * dz), 0.5 * _S3 * d_across,
    )  # fmt: skip
    third = (
        _E5 * (dy * odd_y + y * (6.0 * x * dx - 2.0 * y * dy)),
        _S15 * (dx * y * z + x * dy * z + x * y * dz),
        _E3 * (dy * long + y * d_long),
        dz * (7.5 * z * z - 1.5),
        _E3 * (dx * long + x * d_long),
        0.5 * _S15 * (dz * across + z * d_across),
        _E5 * (dx * odd_x + x * (2.0 * x * dx - 6.0 * y * dy)),
    )
    return first + second + third


@triton.jit
def axis_of(u, r, axis):
    """Change of the unit vector u of a vector of length r as the vector moves along an axis: (e − u (u · e)) / r."""
    one, other, third = tl.where(axis == 0, 1.0, 0.0), tl.where(axis == 1, 1.0, 0.0), tl.where(axis == 2, 1.0, 0.0)
    along = one * u[0] + other * u[1] + third * u[2]
    return (one - along * u[0]) / r, (other - along * u[1]) / r, (third - along * u[2]) / r
