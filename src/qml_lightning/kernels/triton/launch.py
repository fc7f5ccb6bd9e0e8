"""Launches of Triton kernels: run on the device of their tensors, or recorded for a compiler without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from triton import language as tl

WARPS = 4  # of a program, 32 threads each, unless a kernel asks for another number
# Programs that keep a GPU busy; with fewer atoms than that, the frequencies are shared among several programs.
BUSY_PROGRAMS = 512


@dataclass(frozen=True)
class Launch:
    """One call of a kernel."""

    kernel: Any  # a function under triton.jit
    grid: tuple[int, ...]  # programs
    arguments: tuple[Any, ...]
    constants: dict[str, Any]  # known when the kernel is compiled
    warps: int


_recorded: list[Launch] | None = None


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, warps: int = WARPS, **constants: Any) -> None:
    """Run `kernel` in a grid of programs; `constants` become part of its code."""
    if 0 in grid:
        return
    if _recorded is not None:
        _recorded.append(Launch(kernel, grid, arguments, constants, warps))
        return
    device = next(one.device for one in flat(arguments) if isinstance(one, Tensor))
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        kernel[grid](*arguments, **constants, **options(warps))


def options(warps: int) -> dict[str, Any]:
    """Options of the compiler, here and ahead of time. Fused additions are its default, which a variable can change."""
    return {"num_warps": warps, "enable_fp_fusion": True}


def registers(most: int, wanted: bool = True) -> dict[str, int]:
    """Option of a launch: the most registers that a thread may use.

    By default the compiler uses fewer on some GPUs, to run more programs at once; a few numbers then go to memory.
    """
    return {"maxnreg": most} if wanted else {}


def flat(arguments: tuple[Any, ...]) -> Iterator[Any]:
    """Arguments one by one, also those inside tuples."""
    for one in arguments:
        if isinstance(one, tuple):
            yield from flat(one)
        else:
            yield one


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """Record launches instead of running them; outputs are not computed."""
    global _recorded
    before, _recorded = _recorded, []
    try:
        yield _recorded
    finally:
        _recorded = before


def constant(value: Any) -> Any:
    """`value` as a part of the code of a kernel, for a field of a tuple of arguments."""
    return tl.constexpr(value)


def padded(n: int, least: int = 1) -> int:
    """Smallest power of two that is not below `n` or `least`: arrays in a kernel have such sizes."""
    return max(least, 1 << max(0, n - 1).bit_length())


def divided(n: int, by: int) -> int:
    """n / by, rounded up."""
    return -(-n // by)
