"""Angles of random features inside a kernel: linear maps, their transposes, sine and cosine."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton import language as tl

from ..contract import FeatureMap
from .launch import constant, padded

# Numbers and atoms of a tile of vectors in one program, at most: what registers hold without spilling any.
SORF_NUMBERS, SORF_ATOMS = 1024, 32
DENSE_NUMBERS, DENSE_ATOMS = 4096, 16
DENSE_TILE = 16  # frequencies of a dense matrix in one tile
DENSE_CHUNK = tl.constexpr(32)  # entries of a vector that one product takes


class Map(NamedTuple):
    """A feature map as a kernel takes it; fields in capitals are part of its code."""

    phases: Any  # pointers
    signs: Any
    row_scale: Any
    matrix: Any
    amplitude: Any
    n: Any  # frequencies
    RANK: Any
    WIDTH: Any  # rank, padded to a power of two
    TILE: Any  # frequencies of a tile
    TRANSFORMS: Any  # Hadamard transforms; 0: a dense matrix
    PAIRED: Any


def map_arguments(f: FeatureMap) -> Map:
    """Arguments of a kernel for the map `f`. A tile of SORF is one block: the output of one chain of transforms."""
    width = padded(f.rank, least=1 if f.n_transforms else DENSE_CHUNK.value)
    tile = width if f.n_transforms else DENSE_TILE
    constants = (f.rank, width, tile, f.n_transforms, f.paired)
    # a number in memory: as a part of the code it would have every kernel compiled again for each number of features
    amplitude = _on_device(f.amplitude, f.phases.device)
    given = f.phases, f.signs, f.row_scale, f.matrix, amplitude, f.n_frequencies
    return Map(*given, *(constant(one) for one in constants))


@lru_cache(maxsize=64)
def _on_device(value: float, device: torch.device) -> Tensor:
    """A number as float64, (1,); it is written there, and nothing waits for it."""
    return torch.full((1,), value, dtype=torch.float64, device=device)


def atoms_of_tile(f: FeatureMap) -> int:
    """Atoms whose vectors a program holds at once."""
    numbers, most = (SORF_NUMBERS, SORF_ATOMS) if f.n_transforms else (DENSE_NUMBERS, DENSE_ATOMS)
    return min(most, max(1, numbers // padded(f.rank)))


def n_tiles(f: FeatureMap) -> int:
    """Tiles of frequencies."""
    tile = f.rank if f.n_transforms else DENSE_TILE
    return -(-f.n_frequencies // tile)


def as_given(tensor: Tensor | None) -> Tensor | None:
    """`tensor` with its rows one after the other."""
    return None if tensor is None else tensor.contiguous()


def _pi_in_parts(bits: int) -> tuple[float, float, float]:
    """π as a sum of three numbers; the first two have so few bits that their products with whole numbers are exact."""
    rest, parts = Fraction("3.14159265358979323846264338327950288419716939937510"), []
    for shift in (bits, 2 * bits):
        parts.append(Fraction(int(rest * 2**shift), 2**shift))
        rest -= parts[-1]
    return float(parts[0]), float(parts[1]), float(rest)


# Whole half turns up to 2¹³ in float32 and 2²⁶ in float64 are taken off without rounding.
_PI_SINGLE = tl.constexpr(_pi_in_parts(8))
_PI_DOUBLE = tl.constexpr(_pi_in_parts(25))
# Polynomials in the square of an angle in turns, up to a quarter turn: those of native/src/isa/sincos.hpp.
_SINE_SINGLE = tl.constexpr(
    (6.2831854820251465, -41.34172058105469, 81.6046371459961, -76.62500762939453, 40.059207916259766)
)
_COSINE_SINGLE = tl.constexpr(
    (1.0, -19.739208221435547, 64.93930053710938, -85.45152282714844, 60.107357025146484, -24.752763748168945)
)
_SINE_DOUBLE = tl.constexpr(
    (6.283185307179586, -41.34170224039958, 81.6052492760347, -76.70585974901546, 42.05869372681304,
     -15.09463578197732, 3.819828210620915, -0.7168337369355834, 0.09755157402866108)
)  # fmt: skip
_COSINE_DOUBLE = tl.constexpr(
    (1.0, -19.73920880217871, 64.93939402266425, -85.45681720600389, 60.24464131418398, -26.426254092894265,
     7.903462879915333, -1.7132214807793298, 0.2719558853918415)
)  # fmt: skip
_TURN = tl.constexpr(0.15915494309189535)  # 1 / 2π
_HALF_TURN = tl.constexpr(0.3183098861837907)  # 1 / π


@triton.jit
def polynomial(z, SERIES: tl.constexpr, DEGREE: tl.constexpr):
    """Σ SERIES[i] zⁱ, i ≤ DEGREE."""
    total = tl.full(z.shape, SERIES[DEGREE], z.dtype)
    for i in tl.static_range(DEGREE):
        total = total * z + SERIES[DEGREE - 1 - i]
    return total


@triton.jit
def sine_and_cosine(u):
    """Sine and cosine of u radians, good to two units in the last place of 1 up to 10,000 radians."""
    halves = tl.floor(u * _HALF_TURN + 0.5)
    sign = 1.0 - 2.0 * (halves - 2.0 * tl.floor(0.5 * halves))  # −1 after an odd number of half turns
    if u.dtype == tl.float64:
        t = (((u - halves * _PI_DOUBLE[0]) - halves * _PI_DOUBLE[1]) - halves * _PI_DOUBLE[2]) * _TURN
        return sign * t * polynomial(t * t, _SINE_DOUBLE, 8), sign * polynomial(t * t, _COSINE_DOUBLE, 8)
    else:
        t = (((u - halves * _PI_SINGLE[0]) - halves * _PI_SINGLE[1]) - halves * _PI_SINGLE[2]) * _TURN
        return sign * t * polynomial(t * t, _SINE_SINGLE, 4), sign * polynomial(t * t, _COSINE_SINGLE, 5)


@triton.jit
def hadamard(x, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """x H along the last axis, H with entries ±1: one butterfly for each bit of the column, in registers."""
    for bit in tl.static_range(20):
        if (1 << bit) < WIDTH:
            halves = tl.permute(tl.reshape(x, (ROWS, WIDTH // (2 << bit), 2, 1 << bit)), (0, 1, 3, 2))
            low, high = tl.split(halves)
            x = tl.reshape(tl.permute(tl.join(low + high, low - high), (0, 1, 3, 2)), (ROWS, WIDTH))
    return x


@triton.jit
def block_of(x, row, keep, column, f):
    """Entries x[row, column] of vectors, zero where `keep` is false and beyond the rank."""
    inside = keep[:, None] & (column < f.RANK)[None, :]
    return tl.load(x + row[:, None] * f.RANK + column[None, :], mask=inside, other=0.0)


@triton.jit
def matrix_block(f, tile, column):
    """Entries of the dense matrix in the rows of a tile, (TILE, columns)."""
    at = tile * f.TILE + tl.arange(0, f.TILE)
    return block_of(f.matrix, at, at < f.n, column, f)


@triton.jit
def linear(f, x, row, keep, tile, ROWS: tl.constexpr):
    """Linear part of x[row] for the frequencies of a tile, without phases, (ROWS, TILE)."""
    real = x.dtype.element_ty
    if f.TRANSFORMS == 0:
        product = tl.zeros((ROWS, f.TILE), real)
        # chunk by chunk: a loop that the compiler keeps, so that no operand fills the registers
        for first in range(0, f.WIDTH, DENSE_CHUNK):
            column = first + tl.arange(0, DENSE_CHUNK)
            matrix = tl.trans(matrix_block(f, tile, column).to(real))
            vectors = block_of(x, row, keep, column, f)
            product += tl.dot(vectors, matrix, input_precision="ieee", out_dtype=real)
        return product
    else:
        column = tl.arange(0, f.TILE)
        y = block_of(x, row, keep, column, f)
        for transform in tl.static_range(f.TRANSFORMS):
            sign = tl.load(f.signs + (tile * f.TRANSFORMS + transform) * f.WIDTH + column)
            y = hadamard(y * sign.to(real)[None, :], ROWS, f.WIDTH)
        return y * tl.load(f.row_scale + tile * f.TILE + column).to(real)[None, :]


@triton.jit
def linear_transposed(f, y, tile, ROWS: tl.constexpr):
    """Transpose of `linear`: (ROWS, TILE) → (ROWS, WIDTH)."""
    if f.TRANSFORMS == 0:
        matrix = matrix_block(f, tile, tl.arange(0, f.WIDTH)).to(y.dtype)
        return tl.dot(y, matrix, input_precision="ieee", out_dtype=y.dtype)
    else:
        column = tl.arange(0, f.TILE)
        y = y * tl.load(f.row_scale + tile * f.TILE + column).to(y.dtype)[None, :]
        for i in tl.static_range(f.TRANSFORMS):
            sign = tl.load(f.signs + (tile * f.TRANSFORMS + f.TRANSFORMS - 1 - i) * f.WIDTH + column)
            y = hadamard(y, ROWS, f.WIDTH) * sign.to(y.dtype)[None, :]
        return y


@triton.jit
def amplitude_of(f, like):
    """Amplitude of the features, in the precision of `like`."""
    return tl.load(f.amplitude).to(like)


@triton.jit
def sine_and_cosine_of(f, x, row, keep, tile, ROWS: tl.constexpr):
    """Sine and cosine of the angles of x[row] in a tile, (ROWS, TILE), in the precision of x."""
    at = tile * f.TILE + tl.arange(0, f.TILE)
    phase = tl.load(f.phases + at, mask=at < f.n, other=0.0)
    return sine_and_cosine(linear(f, x, row, keep, tile, ROWS) + phase[None, :])
