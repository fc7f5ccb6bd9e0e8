"""Times: the fastest of several calls, the rates of the machine, the floor of a fit, stages and peak memory."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

GIB = 2**30
FLOOR_OF_FIT = "half a matrix product and a Cholesky factorisation"  # of which `floor_of_fit` tells the time


def best_of(function: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of several calls: the machine may be shared, and nothing makes code faster than it is."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def best_in_turn(functions: Mapping[str, Callable[[], object]], rounds: int, seconds: float = 0.2) -> dict[str, float]:
    """Seconds of the fastest call of each function, in turns of `seconds` or one call.

    A load that slows the machine for a while then hits all of them, and no function finds the caches of another.
    """
    best = dict.fromkeys(functions, math.inf)
    for _ in range(rounds):
        for name, function in functions.items():
            end = time.perf_counter() + seconds
            while True:
                best[name] = min(best[name], best_of(function, 1))
                if time.perf_counter() > end:
                    break
    return best


def cosine_floor(n_atoms: int, n_features: int, dtype: torch.dtype = torch.float32) -> Callable[[], object]:
    """`torch.cos` over (atoms, features), to be timed: the features of a prediction cost at least that."""
    u = torch.randn(n_atoms, n_features, dtype=dtype)
    out = torch.empty_like(u)
    return lambda: torch.cos(u, out=out)


def product_rate(dtype: torch.dtype, *, quick: bool = False) -> float:
    """GFLOP/s of a square matrix product: what this machine can do at the time."""
    n = 256 if quick else 4096
    a, b, out = (torch.randn(n, n, dtype=dtype) for _ in range(3))
    return 2 * n**3 / best_of(lambda: torch.mm(a, b, out=out), 3) / 1e9


def rates(n: int) -> dict[str, float]:
    """GFLOP/s in float64 of the best matrix product of rows (long tile, square), and of a Cholesky factorisation."""
    rows = torch.randn(4096, n, dtype=torch.float64)
    product = 0.0
    for height, width in ((min(n, 1024), n), (min(n, 4096), min(n, 4096))):
        out = torch.empty(height, width, dtype=torch.float64)
        seconds = best_of(lambda out=out: torch.mm(rows[:, : len(out)].T, rows[:, : out.shape[1]], out=out), 3)
        product = max(product, 2 * 4096 * height * width / seconds / 1e9)
    small = min(n, 8192)
    matrix = torch.eye(small, dtype=torch.float64) * small + torch.rand(small, small, dtype=torch.float64)
    cholesky = best_of(lambda: torch.linalg.cholesky_ex(matrix), 2)
    return {"product": product, "cholesky": small**3 / 3 / cholesky / 1e9}


def floor_of_fit(n_rows: int, n_features: int, rate: Mapping[str, float]) -> float:
    """Seconds of half a matrix product and a Cholesky factorisation of the smaller form, at these `rates`.

    No direct fit of so many rows and features can be faster: large · small² / product + small³ / 3 / cholesky.
    """
    small, large = sorted((n_rows, n_features))
    return large * small**2 / rate["product"] / 1e9 + small**3 / 3 / rate["cholesky"] / 1e9


class Stages:
    """Seconds of each stage of a fit, from the progress that it tells; a stage lasts until the next one is named."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, first: str = "environments") -> None:
        self.seconds: dict[str, float] = {}
        self.clock, self.now, self.since = clock, first, clock()

    def tell(self, what: str, done: int, of: int, remark: str = "", /) -> None:
        """Progress of a fit, to be given to it."""
        if what != self.now:
            self.end()
            self.now = what

    def end(self) -> dict[str, float]:
        """Close the stage that is running; the seconds of all."""
        now = self.clock()
        self.seconds[self.now] = self.seconds.get(self.now, 0.0) + now - self.since
        self.since = now
        return self.seconds


def memory(name: str) -> int:
    """Bytes of this process under a name of /proc, such as VmRSS, or VmHWM for the most that it ever had."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
