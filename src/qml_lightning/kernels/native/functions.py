"""The kernels of the native library as functions of torch tensors.

Each means what its namesake in `reference` means.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import Structure, addressof
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ..contract import DensityArguments, FCHL19Arguments, FeatureMap, RepresentationArguments
from .library import (
    DENSITY_PADDING,
    DensityStruct,
    FCHL19Struct,
    FeatureMapStruct,
    RepresentationStruct,
    address,
    call,
    shaped,
)

# ---- environments ----------------------------------------------------------------------------------------------------


def _fchl19(p: FCHL19Arguments) -> FCHL19Struct:
    counts = (p.n_elements, p.n_radial2, p.n_radial3, p.n_angular, {"pair": 0, "series": 1}[p.angular], p.cutoff_power)
    return FCHL19Struct(*counts, p.cutoff, p.eta2, p.eta3, p.decay2, p.decay3, p.weight3)


def _density(p: DensityArguments) -> DensityStruct:
    if len(p.pair_table) != len(p.radial_table):
        raise InputError(f"Both tables need as many intervals, got {len(p.pair_table)} and {len(p.radial_table)}.")
    kept = [_padded(p.pair_table), _padded(p.radial_table), p.mixing.contiguous(), p.weights.contiguous()]
    addresses = [address(tensor, p.mixing.dtype) for tensor in kept]
    counts = (p.n_elements, p.n_pair, p.n_radial, p.l_max, p.n_channels, p.n_invariants, len(p.pair_table), 0)
    struct = DensityStruct(*counts, p.density_cutoff, p.pair_cutoff, *addresses)
    struct.kept = kept  # alive as long as what points to it
    return struct


def _padded(table: Tensor) -> Tensor:
    """The table with its last dimension padded by zeros to whole vectors of any instruction set."""
    return torch.nn.functional.pad(table, (0, -table.shape[2] % DENSITY_PADDING)).contiguous()


# Number of each kind in the C header, and its parameters as a struct.
KINDS: dict[str, tuple[int, Callable[[Any], Structure]]] = {
    FCHL19Arguments.kind: (0, _fchl19),
    DensityArguments.kind: (1, _density),
}


def representation_struct(p: RepresentationArguments) -> RepresentationStruct:
    """Representation as the library takes it."""
    number, as_struct = KINDS[p.kind]
    parameters = as_struct(p)
    struct = RepresentationStruct(number, 0, addressof(parameters))
    struct.kept = parameters  # alive as long as what points to it
    return struct


def _pairs(p: RepresentationArguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> tuple[object, ...]:
    """Arguments that all three functions begin with."""
    shaped("segments", segments, n_atoms * p.n_elements + 1)
    shaped("vectors", vectors, int(segments[-1]), 3)
    return representation_struct(p), n_atoms, segments, vectors


def environments(p: RepresentationArguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor:
    out = vectors.new_empty(n_atoms, p.size)
    call("environments", vectors.dtype, *_pairs(p, n_atoms, segments, vectors), out)
    return out


def environments_pullback(
    p: RepresentationArguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor
) -> Tensor:
    shaped("cotangent", cotangent, n_atoms, p.size)
    out = torch.empty_like(vectors)
    call("environments_pullback", vectors.dtype, *_pairs(p, n_atoms, segments, vectors), cotangent, out)
    return out


def environments_jacobian(
    p: RepresentationArguments,
    n_atoms: int,
    segments: Tensor,
    vectors: Tensor,
    centre_element: Tensor,
    projections: Tensor,
) -> Tensor:
    rank = projections.shape[2]
    shaped("projections", projections, p.n_elements, p.size, rank)
    shaped("centre_element", centre_element, n_atoms)
    out = vectors.new_empty(len(vectors), 3, rank)
    pairs = _pairs(p, n_atoms, segments, vectors)
    call("environments_jacobian", vectors.dtype, *pairs, centre_element, rank, projections, out)
    return out


# ---- features --------------------------------------------------------------------------------------------------------


def map_struct(f: FeatureMap, dtype: torch.dtype) -> FeatureMapStruct:
    """Feature map as the library takes it; the caller keeps the map alive."""
    arrays = (address(one, dtype) for one in (f.signs, f.row_scale, f.matrix, f.phases))
    return FeatureMapStruct(f.rank, f.n_frequencies, f.n_transforms, f.paired, f.amplitude, *arrays)


def _atoms(f: FeatureMap, x: Tensor) -> tuple[object, ...]:
    """Arguments that all functions of features begin with."""
    shaped("x", x, len(x), f.rank)
    return map_struct(f, x.dtype), len(x), x


def _rows(f: FeatureMap, out: Tensor) -> tuple[int, int, int]:
    """Number, address and stride of rows that features are added to; they may be part of wider ones."""
    on_cpu = out.dtype == torch.float64 and out.device.type == "cpu"
    if not on_cpu or out.dim() != 2 or out.shape[1] != f.n_features or out.stride(1) != 1:
        raise InputError(
            f"out must be torch.float64 rows of {f.n_features} adjacent columns on the CPU, "
            f"got {out.dtype} of shape {tuple(out.shape)} and strides {out.stride()} on {out.device}."
        )
    # a single row may have any stride
    return len(out), out.data_ptr(), max(out.stride(0), f.n_features)


def features(f: FeatureMap, x: Tensor) -> Tensor:
    out = x.new_empty(len(x), f.n_features)
    call("features", x.dtype, *_atoms(f, x), out)
    return out


def energy_rows(f: FeatureMap, x: Tensor, row: Tensor, out: Tensor) -> None:
    shaped("row", row, len(x))
    call("energy_rows", x.dtype, *_atoms(f, x), row, *_rows(f, out))


def force_rows(f: FeatureMap, x: Tensor, tangents: Tensor, owner: Tensor, row: Tensor, out: Tensor) -> None:
    n = len(owner)
    shaped("tangents", tangents, n, f.rank)
    shaped("row", row, n)
    call("force_rows", x.dtype, *_atoms(f, x), n, tangents, owner, row, *_rows(f, out), wide=tangents.dtype)


def energy_and_slope(f: FeatureMap, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    shaped("weights", weights, f.n_features)
    energy, slope = x.new_empty(len(x), dtype=torch.float64), torch.empty_like(x, dtype=weights.dtype)
    call("energy_and_slope", x.dtype, *_atoms(f, x), weights, energy, slope, wide=weights.dtype)
    return energy, slope


def feature_moment(f: FeatureMap, x: Tensor, coefficients: Tensor | None, tangents: Tensor | None) -> Tensor:
    if coefficients is not None:
        shaped("coefficients", coefficients, len(x))
    if tangents is not None:
        shaped("tangents", tangents, len(x), f.rank)
    given = coefficients if tangents is None else tangents
    moment = x.new_zeros(f.n_features, dtype=torch.float64)
    wide = None if given is None else given.dtype
    call("feature_moment", x.dtype, *_atoms(f, x), coefficients, tangents, moment, wide=wide)
    return moment


# ---- tangents --------------------------------------------------------------------------------------------------------


def tangent_products(tangents: Tensor, owner: Tensor, x: Tensor) -> Tensor:
    n, rank = tangents.shape
    shaped("owner", owner, n)
    shaped("x", x, len(x), rank)
    out = torch.empty(n, dtype=torch.float64)
    call("tangent_products", tangents.dtype, rank, n, tangents, owner, len(x), x, out, wide=x.dtype)
    return out


def tangent_sums(
    tangents: Tensor, owner: Tensor, coefficients: Tensor, n_owners: int, dtype: torch.dtype | None = None
) -> Tensor:
    n, rank = tangents.shape
    shaped("owner", owner, n)
    shaped("coefficients", coefficients, n)
    out = tangents.new_empty(n_owners, rank, dtype=dtype or tangents.dtype)
    doubles = coefficients.double().contiguous()
    call("tangent_sums", tangents.dtype, rank, n, tangents, owner, doubles, n_owners, out, wide=out.dtype)
    return out
