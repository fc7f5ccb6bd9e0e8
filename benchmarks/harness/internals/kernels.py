"""The kernels of the package by themselves: which ones are in use, and calls of them to be timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from qml_lightning import Structures
from qml_lightning.atoms.neighbours import pairs_within
from qml_lightning.kernels import FeatureMap, kernels_for, native
from qml_lightning.model.representations import fchl19 as representations

Representation = representations.FCHL19


def kernels_in_use() -> str:
    """Name of the kernels that float32 on a CPU gets."""
    return kernels_for("cpu", torch.float32).NAME


def represented(
    structures: Structures, representation: Representation, kernels: str, dtype: torch.dtype
) -> Callable[[], object]:
    """FCHL19 of all atoms and the pullback of a cotangent, which is what forces need, by these kernels."""
    p = representation.arguments(len(structures.elements))
    pairs = pairs_within(structures, p.cutoff, structures.elements)
    table, vectors, n = kernels_for("cpu", dtype, kernels), pairs.vector.to(dtype), structures.n_atoms
    cotangent = torch.randn(n, p.size, dtype=dtype)
    return lambda: (
        table.environments(p, n, pairs.segments, vectors),
        table.environments_pullback(p, n, pairs.segments, vectors, cotangent),
    )


@dataclass(frozen=True)
class NativeFeatures:
    """The native kernels of a SORF map with random signs, in float32, on random environments of a rank."""

    n_features: int
    rank: int
    n_transforms: int
    paired: bool

    @property
    def map(self) -> FeatureMap:
        generator = torch.Generator().manual_seed(0)
        n, rank = self.n_features // (1 + self.paired), self.rank
        return FeatureMap(
            phases=torch.rand(n, generator=generator) * 6.28,
            paired=self.paired,
            signs=torch.randint(0, 2, (n // rank, self.n_transforms, rank), generator=generator).float() * 2 - 1,
            row_scale=torch.full((n,), 0.01),
        )

    def calls(self, n_atoms: int, n_tangents_of_atom: int = 60) -> dict[str, tuple[Callable[[], object], int]]:
        """Kernel → call, and the atoms or tangents of it."""
        generator = torch.Generator().manual_seed(1)
        f, x = self.map, torch.randn(n_atoms, self.rank, generator=generator)
        weights = torch.randn(self.n_features, generator=generator)
        few, fewer = max(1, n_atoms // 5), max(21, n_atoms // 25 // 21 * 21)
        n = fewer * n_tangents_of_atom
        owner = torch.arange(n) // n_tangents_of_atom
        row = owner // 21 * 63 + torch.randint(0, 63, (n,), generator=generator)
        tangents = torch.randn(n, self.rank, generator=generator)
        rows = torch.zeros(int(row.max()) + 1, self.n_features, dtype=torch.float64)
        aspirin = (9, 8, 4)  # atoms of C, H and O
        return {
            "energy_and_slope": (lambda: native.energy_and_slope(f, x, weights), n_atoms),
            "energy_and_slope of 21 atoms": (lambda: native.energy_and_slope(f, x[:21], weights), 21),
            "energy_and_slope of 9 + 8 + 4 atoms": (
                lambda: [native.energy_and_slope(f, x[:m], weights) for m in aspirin], sum(aspirin),
            ),
            "force_rows, per tangent": (lambda: native.force_rows(f, x[:fewer], tangents, owner, row, rows), n),
            "feature_moment": (lambda: native.feature_moment(f, x, x[:, 0].contiguous(), x), n_atoms),
            "features": (lambda: native.features(f, x[:few]), few),
        }  # fmt: skip


def instruction_set() -> str:
    """Instruction set that the native kernels run with."""
    return native.instruction_set()
