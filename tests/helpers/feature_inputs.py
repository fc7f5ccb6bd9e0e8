"""Feature maps, inputs of the feature kernels, and their results from explicit matrices and cosines."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.linalg import hadamard
from torch import Tensor

from qml_lightning.kernels import FeatureMap, Kernels


@functools.cache
def feature_map(n_transforms: int, rank: int, paired: bool, dtype: torch.dtype, n_blocks: int = 3) -> FeatureMap:
    """A map whose angles are of the size met in practice, several radians."""
    g = torch.Generator().manual_seed(17 * rank + n_transforms)
    n = n_blocks * rank if n_transforms else 77  # dense maps come with any number of rows
    return FeatureMap(
        phases=2 * math.pi * torch.rand(n, generator=g),
        paired=paired,
        signs=2.0 * torch.randint(0, 2, (n_blocks, n_transforms, rank), generator=g) - 1 if n_transforms else None,
        row_scale=(0.5 + torch.rand(n, generator=g)) * 3 * rank ** (-n_transforms / 2) if n_transforms else None,
        matrix=None if n_transforms else 3 * torch.randn(n, rank, generator=g) / rank**0.5,
    ).to("cpu", dtype)


@functools.cache
def matrix_of(f: FeatureMap) -> np.ndarray:
    """The linear part without its row scale as one explicit matrix, (frequencies, rank): whole numbers or as given."""
    if f.matrix is not None:
        return f.matrix.double().numpy()
    assert f.signs is not None
    h = hadamard(f.rank).astype(np.float64)
    blocks = []
    for signs in f.signs.double().numpy():
        product = np.eye(f.rank)
        for diagonal in signs:
            product = h @ (diagonal[:, None] * product)
        blocks.append(product)
    return np.concatenate(blocks)


@dataclass(frozen=True)
class Inputs:
    """One call of every kernel."""

    x: Tensor
    weights: Tensor
    coefficients: Tensor
    tangents: Tensor  # one for each atom, for the moment
    many: Tensor  # some for each atom, for the force rows
    owner: Tensor
    row: Tensor
    n_rows: int = 7

    @property
    def row_of_atom(self) -> Tensor:
        return self.row[: len(self.x)]

    @classmethod
    def drawn(cls, f: FeatureMap, n_atoms: int, draw: int = 0) -> Inputs:
        g = torch.Generator().manual_seed(n_atoms + 1000 * draw)
        owner = torch.randint(0, max(n_atoms, 1), (5 * n_atoms,), generator=g).sort().values

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=g).to(f.phases.dtype)

        return cls(
            normal(n_atoms, f.rank),
            normal(f.n_features),
            normal(n_atoms),
            normal(n_atoms, f.rank),
            normal(len(owner), f.rank),
            owner,
            torch.randint(0, cls.n_rows, (len(owner),), generator=g),
        )


def exact(f: FeatureMap, i: Inputs) -> dict[str, np.ndarray]:
    """Every kernel from the explicit matrix, in a precision beyond that of the map."""
    wide = np.float64 if f.phases.dtype == torch.float32 else np.longdouble
    x, weights, coefficients, tangents, many, phases = (
        v.numpy().astype(wide) for v in (i.x, i.weights, i.coefficients, i.tangents, i.many, f.phases)
    )
    w = matrix_of(f).astype(wide)
    if f.row_scale is not None:
        w *= f.row_scale.numpy().astype(wide)[:, None]
    u = x @ w.T + phases
    z = wide(f.amplitude) * (np.concatenate([np.cos(u), np.sin(u)], 1) if f.paired else np.cos(u))
    slope = wide(f.amplitude) * (np.concatenate([-np.sin(u), np.cos(u)], 1) if f.paired else -np.sin(u))
    ww = np.concatenate([w, w]) if f.paired else w
    rows, sums = np.zeros((i.n_rows, len(ww)), wide), np.zeros((i.n_rows, len(ww)), wide)
    np.add.at(rows, i.row.numpy(), slope[i.owner.numpy()] * (many @ ww.T))
    np.add.at(sums, i.row_of_atom.numpy(), z)
    return {
        "features": z,
        "energy": z @ weights,
        "slope": (slope * weights) @ ww,
        "moment": coefficients @ z + (slope * (tangents @ ww.T)).sum(0),
        "energy rows": sums,
        "force rows": rows,
    }


def naive(f: FeatureMap, i: Inputs) -> dict[str, Tensor]:
    """Every kernel from the explicit matrix, in torch and in the precision of the map."""
    w = torch.from_numpy(matrix_of(f)).to(f.phases.dtype)
    if f.row_scale is not None:
        w = f.row_scale[:, None] * w
    u = i.x @ w.T + f.phases
    z = f.amplitude * (torch.cat([u.cos(), u.sin()], 1) if f.paired else u.cos())
    slope = f.amplitude * (torch.cat([-u.sin(), u.cos()], 1) if f.paired else -u.sin())
    ww = torch.cat([w, w]) if f.paired else w
    rows, sums = (torch.zeros(i.n_rows, f.n_features, dtype=i.x.dtype) for _ in range(2))
    rows.index_add_(0, i.row, slope[i.owner] * (i.many @ ww.T))
    sums.index_add_(0, i.row_of_atom, z)
    return {
        "features": z,
        "energy": z @ i.weights,
        "slope": (slope * i.weights) @ ww,
        "moment": i.coefficients @ z + (slope * (i.tangents @ ww.T)).sum(0),
        "energy rows": sums,
        "force rows": rows,
    }


def fast(kernels: Kernels, f: FeatureMap, i: Inputs) -> dict[str, Tensor]:
    """Every kernel of a back-end."""
    energy, slope = kernels.energy_and_slope(f, i.x, i.weights)
    rows, sums = (torch.zeros(i.n_rows, f.n_features, dtype=torch.float64) for _ in range(2))
    kernels.energy_rows(f, i.x, i.row_of_atom, sums)
    kernels.force_rows(f, i.x, i.many, i.owner, i.row, rows)
    return {
        "features": kernels.features(f, i.x),
        "energy": energy,
        "slope": slope,
        "moment": kernels.feature_moment(f, i.x, i.coefficients, i.tangents),
        "energy rows": sums,
        "force rows": rows,
    }


def widened(i: Inputs) -> Inputs:
    """The same with all but x in float64: products with features of float32."""
    return replace(i, **{name: getattr(i, name).double() for name in ("weights", "coefficients", "tangents", "many")})
