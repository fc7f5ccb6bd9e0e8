"""How rowsᵀ rows are summed: in float64, or by float32 products whose rounding is compensated. Knows no atoms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor

Accumulation = Literal["float64", "compensated"]
ACCUMULATIONS: tuple[Accumulation, ...] = ("float64", "compensated")

# CUDA devices whose float64 runs at half the rate of float32: P100, V100, A100, H100, B200. On others it is 32 or 64
# times slower, and even the six float32 products of the compensated sum are several times faster.
FAST_FLOAT64 = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))

# Rows of a block, and bits of a slice: two slices multiplied and 2⁸ products added need 8 + 8 + 8 of float32's 24 bits.
BLOCK = 256
SLICE_BITS = 8
SLICES = 2
# Rows of the Gram matrix formed at once, as in float64; and bytes of slices: all blocks of a chunk are added to a tile
# while it is in the cache.
TILE = 1024
CHUNK_BYTES = 256 * 1024**2


def suited_accumulation(device: str, capability: tuple[int, int] | None = None) -> Accumulation:
    """What a kind of device is faster with; `capability` is that of a CUDA device."""
    return "compensated" if device == "cuda" and capability not in FAST_FLOAT64 else "float64"


def accumulation_on(device: torch.device | str, wanted: Accumulation | None = None) -> Accumulation:
    """What is wanted, or else what suits the device."""
    device = torch.device(device)
    if wanted is not None:
        return wanted
    return suited_accumulation(device.type, torch.cuda.get_device_capability(device) if device.type == "cuda" else None)


def add_compensated(gram: Tensor, rows: Tensor, weight: float, slices: int = SLICES) -> None:
    """Lower triangle of gram += weight · rowsᵀ rows, from float32 products that are added up in float64.

    Of each block of rows the products of the leading bits have no rounding, and those of the rest are so much smaller
    that theirs does not matter: see `_factors`.
    """
    n = gram.shape[0]
    # of one row in all factors: a level after another has one slice more, twice, and the last one two
    factor_bytes = 4 * n * (slices + 1) * (slices + 2)
    chunk = max(1, CHUNK_BYTES // (BLOCK * factor_bytes)) * BLOCK
    space = torch.empty(min(TILE, n) * n, dtype=torch.float32, device=gram.device)
    with _whole_float32():
        for some in rows.split(chunk):
            factors = [pair for block in some.split(BLOCK) for pair in _factors(block, slices)]
            for first in range(0, n, TILE):
                last = min(first + TILE, n)
                product = space[: (last - first) * last].view(last - first, last)
                for left, right in factors:
                    torch.mm(left[:, first:last].T, right[:, :last], out=product)
                    gram[first:last, :last].add_(product, alpha=weight)


def _factors(block: Tensor, slices: int = SLICES) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs (left, right) in float32 whose leftᵀ right add up to blockᵀ block.

    block = S₀ + S₁ + … + rest: S₀ is each column in whole multiples of a unit of its own, at most 2⁸ of them, S₁ what
    is left in units 2⁸ times smaller, and so on. Σ SᵢᵀSⱼ with the same i + j < slices is one pair, and exact. The last
    pair is all others, and those with the rest: PᵀR + RᵀP with P = Σ Sᵢ + R/2. Its rounding is that of float32 on what
    is 2⁸ times smaller for each slice.
    """
    parts, rest, unit = [], block, _units(block)
    for _ in range(slices):
        parts.append(_whole(rest, unit))
        rest = rest - parts[-1]
        unit = unit * 2.0**-SLICE_BITS
    most = block - 0.5 * rest
    for level in range(slices):
        yield _stacked(parts[: level + 1]), _stacked(parts[level::-1])
    beyond = [torch.stack(parts[slices - i :]).sum(0) for i in range(1, slices)]
    yield _stacked([*parts[1:], rest, most]), _stacked([*beyond, most, rest])


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.float() for part in parts])


def _units(block: Tensor) -> Tensor:
    """Of each column a power of two, of which no number in it has more than 2⁸."""
    largest = block.abs().amax(0)
    # the quotient is exact, a computed power of two need not be
    power = torch.where(largest > 0, largest / largest.frexp().mantissa, 1.0)
    return power * 2.0**-SLICE_BITS


def _whole(numbers: Tensor, unit: Tensor) -> Tensor:
    """The nearest whole multiples of the unit of each column."""
    return (numbers / unit).round_().mul_(unit)


@contextmanager
def _whole_float32() -> Iterator[None]:
    """float32 products with all of their bits, whatever is allowed elsewhere: TF32 has 11."""
    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(allowed)
