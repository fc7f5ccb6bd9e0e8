"""Microseconds per atom of the fused energy and slope, and force rows per second, beside torch.cos in the same run."""

from __future__ import annotations

import torch
from common import best_of

from qml_lightning.kernels import FeatureMap, native

N_FEATURES, RANK, N_TRANSFORMS = 16384, 128, 2


def sorf(paired: bool) -> FeatureMap:
    generator = torch.Generator().manual_seed(0)
    n = N_FEATURES // (1 + paired)
    return FeatureMap(
        phases=torch.rand(n, generator=generator) * 6.28,
        paired=paired,
        signs=torch.randint(0, 2, (n // RANK, N_TRANSFORMS, RANK), generator=generator).float() * 2 - 1,
        row_scale=torch.full((n,), 0.01),
    )


def main() -> None:
    print(f"{native.instruction_set()}, {N_FEATURES} features, rank {RANK}, {N_TRANSFORMS} transforms, float32")
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(10500, RANK, generator=generator)
    weights = torch.randn(N_FEATURES, generator=generator)
    counts = {"C": 9, "H": 8, "O": 4}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        u = torch.randn(10500, N_FEATURES)
        out = torch.empty_like(u)
        floor = best_of(lambda u=u, out=out: torch.cos(u, out=out), 3)
        print(f"{threads} thread(s)  torch.cos alone, (10500, {N_FEATURES}): {floor / 10500 * 1e6:6.2f} µs/atom")
        del u, out
        for paired in (False, True):
            f = sorf(paired)
            name = "paired  " if paired else "unpaired"
            many = best_of(lambda f=f: native.energy_and_slope(f, x, weights), 5)
            molecule = best_of(lambda f=f: [native.energy_and_slope(f, x[:n], weights) for n in counts.values()], 200)
            few = best_of(lambda f=f: native.energy_and_slope(f, x[:21], weights), 200)
            print(
                f"  energy and slope, {name}: 10500 atoms {many / 10500 * 1e6:6.2f} µs/atom; "
                f"21 atoms {few * 1e6:6.1f} µs; aspirin as 9 + 8 + 4 atoms {molecule * 1e6:6.1f} µs"
            )
        n = 20 * 21 * 60  # tangents of 20 aspirin molecules
        owner = torch.arange(n) // 60
        row = owner // 21 * 63 + torch.randint(0, 63, (n,), generator=generator)
        tangents = torch.randn(n, RANK, generator=generator)
        for paired in (False, True):
            training(sorf(paired), x, tangents, owner, row)


def training(f: FeatureMap, x: torch.Tensor, tangents: torch.Tensor, owner: torch.Tensor, row: torch.Tensor) -> None:
    """The kernels of a fit, on the threads that torch has."""
    rows = torch.zeros(int(row.max()) + 1, N_FEATURES, dtype=torch.float64)
    seconds = best_of(lambda: native.force_rows(f, x[:420], tangents, owner, row, rows), 3)
    print(f"  force rows, {'paired' if f.paired else 'unpaired'}: {seconds / len(owner) * 1e6:6.2f} µs/tangent")
    seconds = best_of(lambda: native.feature_moment(f, x, x[:, 0].contiguous(), x), 3)
    print(f"  feature moment, values and tangents: {seconds / len(x) * 1e6:6.2f} µs/atom")
    seconds = best_of(lambda: native.features(f, x[:2100]), 3)
    print(f"  features: {seconds / 2100 * 1e6:6.2f} µs/atom")


if __name__ == "__main__":
    main()
