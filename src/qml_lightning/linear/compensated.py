"""Gram matrices from float32 products whose rounding is compensated, for devices with slow float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor

from ..machine.memory import room_on

Accumulation = Literal["float64", "compensated"]
ACCUMULATIONS: tuple[Accumulation, ...] = ("float64", "compensated")

# CUDA devices whose float64 runs at half the rate of float32: P100, V100, A100, H100, B200. On others it is 32 or 64
# times slower, and even the six float32 products of the compensated sum are several times faster.
FAST_FLOAT64 = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))

# Rows of a block, and bits of a slice: two slices multiplied and 2⁸ products added need 8 + 8 + 8 of float32's 24 bits.
BLOCK = 256
SLICE_BITS = 8
SLICES = 2
# Blocks whose products of the rest are one: these are rounded as it is, and each addition in float64 reads and writes
# the Gram matrix. Random rows: the largest error of an entry grows 1.5 to 2 times, the mean one 1.1 to 1.3 times.
BLOCKS_OF_REST = 4
# Rows of the Gram matrix formed at once; and bytes of slices: all blocks of a chunk are added to a tile while it is in
# the cache. A device with room for them has chunks of several blocks also with many features.
TILE = 1024
CHUNK_BYTES = 256 * 1024**2
MOST_CHUNK_BYTES = 4 * CHUNK_BYTES


def accumulation_on(device: torch.device | str, wanted: Accumulation | None = None) -> Accumulation:
    """`wanted`, or else the faster one on this device."""
    return accumulation_and_reason(device, wanted)[0]


def accumulation_and_reason(device: torch.device | str, wanted: Accumulation | None = None) -> tuple[Accumulation, str]:
    """`wanted`, or else the faster one on this device, and the reason in words."""
    device = torch.device(device)
    if wanted is not None:
        return wanted, "the recipe asks for it"
    if device.type != "cuda":
        return "float64", f"it is fast on the {device.type.upper()}"
    major, minor = torch.cuda.get_device_capability(device)
    if (major, minor) in FAST_FLOAT64:
        return "float64", f"it is fast on a GPU of compute capability {major}.{minor}"
    return "compensated", f"float64 is slow on a GPU of compute capability {major}.{minor}"


def add_compensated(gram: Tensor, rows: Tensor, weight: float, slices: int = SLICES) -> None:
    """Lower triangle of gram += weight · rowsᵀ rows, from float32 products that are added up in float64.

    In each block of rows, products of the leading bits are exact. Products of the rest are so small that their rounding
    does not matter, also over several blocks: see `_factors`. `gram` may be the last rows of a triangle.
    """
    n = gram.shape[1]
    left = n - len(gram)
    # bytes of one row in all factors: each level has one slice more than the last, on both sides
    factor_bytes = 4 * n * (slices + 1) * (slices + 2)
    blocks = max(1, _chunk_bytes(gram.device) // (BLOCK * factor_bytes))
    chunk = (blocks - blocks % BLOCKS_OF_REST or blocks) * BLOCK
    space = torch.empty(min(TILE, n) * n, dtype=torch.float32, device=gram.device)
    with _full_float32():
        for some in rows.split(chunk):
            factors = list(_factors_of_blocks(some, slices))
            for first in range(left, n, TILE):
                last = min(first + TILE, n)
                product = space[: (last - first) * last].view(last - first, last)
                for one, other in factors:
                    torch.mm(one[:, first:last].T, other[:, :last], out=product)
                    gram[first - left : last - left, :last].add_(product, alpha=weight)


def _chunk_bytes(device: torch.device) -> int:
    """Bytes of slices at once: on a device with a memory of its own up to a quarter of what is free there."""
    room = room_on(device)
    return CHUNK_BYTES if room is None else max(CHUNK_BYTES, min(MOST_CHUNK_BYTES, room // 4))


def _factors_of_blocks(rows: Tensor, slices: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs (left, right) whose leftᵀ right add up to rowsᵀ rows: of each block, and of the rest of several blocks."""
    for some in rows.split(BLOCKS_OF_REST * BLOCK):
        rests = []
        for block in some.split(BLOCK):
            *exact, rest = _factors(block, slices)
            yield from exact
            rests.append(rest)
        yield torch.cat([left for left, _ in rests]), torch.cat([right for _, right in rests])


def _factors(block: Tensor, slices: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs (left, right) in float32 whose leftᵀ right add up to blockᵀ block.

    block = S₀ + S₁ + … + R. S₀ holds each column in whole multiples of a unit of its own, at most 2⁸ of them; S₁ holds
    the rest in units 2⁸ times smaller, and so on. Σ SᵢᵀSⱼ with the same i + j < slices is one pair, and exact. The last
    pair holds all other products, with PᵀR + RᵀP for P = Σ Sᵢ + R/2. It is 2⁸ times smaller for each slice, and so is
    its rounding in float32.
    """
    parts, rest, unit = [], block, _units(block)
    for _ in range(slices):
        parts.append((rest / unit).round_().mul_(unit))
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
    """Unit of each column: a power of two such that no entry is above 2⁸ units, (columns,)."""
    largest = block.abs().amax(0)
    # the quotient is exact, a computed power of two need not be
    power = torch.where(largest > 0, largest / largest.frexp().mantissa, 1.0)
    return power * 2.0**-SLICE_BITS


@contextmanager
def _full_float32() -> Iterator[None]:
    """Float32 products with all of their 24 bits, whatever is allowed elsewhere: TF32 has 11."""
    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(allowed)
