"""Sums of two float32 numbers without error, inside a kernel."""

from __future__ import annotations

import triton
import triton.language as tl  # noqa: F401 (the interpreter looks for it beside each kernel)


@triton.jit
def two_sum(a, b):
    """Rounded a + b, and what rounding took off: together they are a + b."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)
