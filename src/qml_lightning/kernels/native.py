"""The kernels in C++, reached through their C interface by ctypes: torch tensors on the CPU in and out.

The meaning of each function is that of its namesake in `reference`.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import InputError, QMLError, ResourceError
from .arguments import FCHL19Arguments, FeatureMap

if TYPE_CHECKING:
    from .native_predictor import NativePredictor

NAME = "native"

ABI_VERSION = 2
_LIBRARY = "libqml_lightning.so"
_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}
# of products with features, by the type of the features and of what they are multiplied with
_PRODUCT_SUFFIX = {(one, one): suffix for one, suffix in _SUFFIX.items()} | {(torch.float32, torch.float64): "mixed"}
_ANGULAR = {"pair": 0, "series": 1}
_ERRORS: dict[int, type[QMLError]] = {1: InputError, 2: InputError, 3: ResourceError}


class FCHL19Struct(Structure):
    """qml_fchl19 of the C header."""

    _fields_ = [
        ("n_elements", c_int32),
        ("n_radial2", c_int32),
        ("n_radial3", c_int32),
        ("n_angular", c_int32),
        ("angular", c_int32),
        ("reserved", c_int32),
        ("cutoff", c_double),
        ("eta2", c_double),
        ("eta3", c_double),
        ("decay2", c_double),
        ("decay3", c_double),
        ("weight3", c_double),
    ]


class FeatureMapStruct(Structure):
    """qml_feature_map of the C header."""

    _fields_ = [
        ("rank", c_int64),
        ("n_frequencies", c_int64),
        ("n_transforms", c_int32),
        ("paired", c_int32),
        ("amplitude", c_double),
        ("signs", c_void_p),
        ("row_scale", c_void_p),
        ("matrix", c_void_p),
        ("phases", c_void_p),
    ]


_P, _I = c_void_p, c_int64
_SIGNATURES: dict[str, list[type]] = {
    "fchl19_values": [POINTER(FCHL19Struct), _I, _P, _P, _P, c_int32],
    "fchl19_pullback": [POINTER(FCHL19Struct), _I, _P, _P, _P, _P, c_int32],
    "fchl19_jacobian": [POINTER(FCHL19Struct), _I, _P, _P, _P, _I, _P, _P, c_int32],
    "features": [POINTER(FeatureMapStruct), _I, _P, _P, c_int32],
    "energy_rows": [POINTER(FeatureMapStruct), _I, _P, _P, _I, _P, _I, c_int32],
}
_PRODUCTS: dict[str, list[type]] = {
    "force_rows": [POINTER(FeatureMapStruct), _I, _P, _I, _P, _P, _P, _I, _P, _I, c_int32],
    "energy_and_slope": [POINTER(FeatureMapStruct), _I, _P, _P, _P, _P, c_int32],
    "feature_moment": [POINTER(FeatureMapStruct), _I, _P, _P, _P, _P, c_int32],
    "tangent_products": [_I, _I, _P, _P, _I, _P, _P, c_int32],
    "tangent_sums": [_I, _I, _P, _P, _P, _I, _P, c_int32],
}


@functools.cache
def _library() -> ctypes.CDLL:
    """The shared library: that of the environment variable QML_LIGHTNING_LIBRARY, or the one inside this package.

    torch is imported above it, so that both use the OpenMP runtime which torch brought.
    """
    wanted = os.environ.get("QML_LIGHTNING_LIBRARY")
    # an editable install has the package's sources in one folder and what was built in another
    folders = sys.modules[__name__.split(".")[0]].__path__
    built = [Path(folder) / "_native" / _LIBRARY for folder in folders]
    path = Path(wanted) if wanted else next((path for path in built if path.is_file()), built[0])
    if not path.is_file():
        raise ImportError(
            f"The native kernels are not built: there is no {path}. Install the wheel, or build them with "
            "cmake -S . -B build/native && cmake --build build/native and set QML_LIGHTNING_LIBRARY to the library."
        )
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"{path} cannot be loaded: {error}. If it is libgomp.so.1 that is missing, install it (Debian: libgomp1, "
            "Fedora: libgomp) or a torch that brings it."
        ) from error
    library.qml_abi_version.restype = c_int32
    found = library.qml_abi_version()
    if found != ABI_VERSION:
        raise ImportError(
            f"{path} has version {found} of the C interface, this package needs {ABI_VERSION}. Rebuild it."
        )
    library.qml_last_error.restype = c_char_p
    library.qml_isa.restype = c_char_p
    library.qml_use_isa.argtypes = [c_char_p]
    library.qml_use_isa.restype = c_int32
    for signatures, suffixes in ((_SIGNATURES, _SUFFIX), (_PRODUCTS, _PRODUCT_SUFFIX)):
        for (name, arguments), suffix in itertools.product(signatures.items(), suffixes.values()):
            function = getattr(library, f"qml_{name}_{suffix}", None)
            if function is None:
                raise ImportError(f"{path} has no qml_{name}_{suffix}: it is older than this package. Build it anew.")
            function.argtypes, function.restype = arguments, c_int32
    return library


def why_not(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why these kernels do not serve, or None."""
    if device.type != "cpu":
        return "they run on the CPU."
    if dtype not in _SUFFIX:
        return "they know float32 and float64."
    try:
        _library()
    except (ImportError, OSError) as error:
        _tell_once(str(error))
        return str(error)
    return None


@functools.cache
def _tell_once(reason: str) -> None:
    """What is slower by far must not come by itself unseen."""
    warnings.warn(f"Plain torch takes the place of the native kernels, which cannot be used: {reason}", stacklevel=3)


def instruction_set() -> str:
    """The one in use: "avx512", "avx2" or "baseline"."""
    name: bytes = _library().qml_isa()
    return name.decode()


def use_instruction_set(name: str) -> None:
    """Serve with this one from now on, or an InputError where the processor has not got it."""
    _check(_library().qml_use_isa(name.encode()))


def _check(code: int) -> None:
    if code != 0:
        raise _ERRORS.get(code, InputError)(_library().qml_last_error().decode())


def _call(name: str, dtype: torch.dtype, *arguments: object) -> None:
    if dtype not in _SUFFIX:
        raise InputError(f"The native kernels know float32 and float64, got {dtype}.")
    _run(f"qml_{name}_{_SUFFIX[dtype]}", *arguments)


def _call_product(name: str, dtype: torch.dtype, wide: torch.dtype, *arguments: object) -> None:
    if (dtype, wide) not in _PRODUCT_SUFFIX:
        raise InputError(
            f"The native kernels multiply float32 with either precision and float64 with float64, got {dtype}, {wide}."
        )
    _run(f"qml_{name}_{_PRODUCT_SUFFIX[dtype, wide]}", *arguments)


def _run(name: str, *arguments: object) -> None:
    function: Callable[..., int] = getattr(_library(), name)
    _check(function(*arguments, torch.get_num_threads()))


def _address(tensor: Tensor | None, dtype: torch.dtype) -> int | None:
    """Where the numbers lie; the caller keeps the tensor alive."""
    if tensor is None:
        return None
    if tensor.dtype != dtype or tensor.device.type != "cpu" or not tensor.is_contiguous():
        layout = "contiguous" if tensor.is_contiguous() else "strided"
        raise InputError(
            f"The native kernels need contiguous {dtype} on the CPU, got {layout} {tensor.dtype} on {tensor.device}."
        )
    return tensor.data_ptr()


def _shaped(name: str, tensor: Tensor, *shape: int) -> None:
    if tuple(tensor.shape) != shape:
        raise InputError(f"{name} must have the shape {shape}, got {tuple(tensor.shape)}.")


def _map(f: FeatureMap, dtype: torch.dtype) -> FeatureMapStruct:
    return FeatureMapStruct(
        f.rank,
        f.n_frequencies,
        f.n_transforms,
        f.paired,
        f.amplitude,
        _address(f.signs, dtype),
        _address(f.row_scale, dtype),
        _address(f.matrix, dtype),
        _address(f.phases, dtype),
    )


def _parameters(p: FCHL19Arguments) -> FCHL19Struct:
    return FCHL19Struct(
        p.n_elements,
        p.n_radial2,
        p.n_radial3,
        p.n_angular,
        _ANGULAR[p.angular],
        0,
        p.cutoff,
        p.eta2,
        p.eta3,
        p.decay2,
        p.decay3,
        p.weight3,
    )


# ---- FCHL19 ----------------------------------------------------------------------------------------------------------


def _pairs(p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> tuple[object, ...]:
    """The arguments that all three functions begin with."""
    _shaped("segments", segments, n_atoms * p.n_elements + 1)
    _shaped("vectors", vectors, int(segments[-1]), 3)
    return byref(_parameters(p)), n_atoms, _address(segments, torch.int64), _address(vectors, vectors.dtype)


def fchl19(p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor:
    out = vectors.new_empty(n_atoms, p.size)
    dtype = vectors.dtype
    _call("fchl19_values", dtype, *_pairs(p, n_atoms, segments, vectors), _address(out, dtype))
    return out


def fchl19_pullback(p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor) -> Tensor:
    _shaped("cotangent", cotangent, n_atoms, p.size)
    out = torch.empty_like(vectors)
    dtype = vectors.dtype
    pairs = _pairs(p, n_atoms, segments, vectors)
    _call("fchl19_pullback", dtype, *pairs, _address(cotangent, dtype), _address(out, dtype))
    return out


def fchl19_jacobian(
    p: FCHL19Arguments,
    n_atoms: int,
    segments: Tensor,
    vectors: Tensor,
    centre_element: Tensor,
    projections: Tensor,
) -> Tensor:
    rank = projections.shape[2]
    _shaped("projections", projections, p.n_elements, p.size, rank)
    _shaped("centre_element", centre_element, n_atoms)
    out = vectors.new_empty(len(vectors), 3, rank)
    dtype = vectors.dtype
    _call(
        "fchl19_jacobian",
        dtype,
        *_pairs(p, n_atoms, segments, vectors),
        _address(centre_element, torch.int64),
        rank,
        _address(projections, dtype),
        _address(out, dtype),
    )
    return out


# ---- features --------------------------------------------------------------------------------------------------------


def features(f: FeatureMap, x: Tensor) -> Tensor:
    _shaped("x", x, len(x), f.rank)
    out = x.new_empty(len(x), f.n_features)
    dtype = x.dtype
    _call("features", dtype, byref(_map(f, dtype)), len(x), _address(x, dtype), _address(out, dtype))
    return out


def energy_rows(f: FeatureMap, x: Tensor, row: Tensor, out: Tensor) -> None:
    _shaped("x", x, len(x), f.rank)
    _shaped("row", row, len(x))
    dtype = x.dtype
    _call(
        "energy_rows",
        dtype,
        byref(_map(f, dtype)),
        len(x),
        _address(x, dtype),
        _address(row, torch.int64),
        *_rows(f, out),
    )


def force_rows(f: FeatureMap, x: Tensor, tangents: Tensor, owner: Tensor, row: Tensor, out: Tensor) -> None:
    _shaped("x", x, len(x), f.rank)
    _shaped("tangents", tangents, len(owner), f.rank)
    _shaped("row", row, len(owner))
    dtype, wide = x.dtype, tangents.dtype
    _call_product(
        "force_rows",
        dtype,
        wide,
        byref(_map(f, dtype)),
        len(x),
        _address(x, dtype),
        len(owner),
        _address(tangents, wide),
        _address(owner, torch.int64),
        _address(row, torch.int64),
        *_rows(f, out),
    )


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


def energy_and_slope(f: FeatureMap, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    _shaped("x", x, len(x), f.rank)
    _shaped("weights", weights, f.n_features)
    dtype, wide = x.dtype, weights.dtype
    energy, slope = x.new_empty(len(x), dtype=torch.float64), torch.empty_like(x, dtype=wide)
    _call_product(
        "energy_and_slope",
        dtype,
        wide,
        byref(_map(f, dtype)),
        len(x),
        _address(x, dtype),
        _address(weights, wide),
        _address(energy, torch.float64),
        _address(slope, wide),
    )
    return energy, slope


def feature_moment(f: FeatureMap, x: Tensor, coefficients: Tensor | None, tangents: Tensor | None) -> Tensor:
    _shaped("x", x, len(x), f.rank)
    if coefficients is not None:
        _shaped("coefficients", coefficients, len(x))
    if tangents is not None:
        _shaped("tangents", tangents, len(x), f.rank)
    given = coefficients if tangents is None else tangents
    moment = x.new_zeros(f.n_features, dtype=torch.float64)
    dtype, wide = x.dtype, x.dtype if given is None else given.dtype
    _call_product(
        "feature_moment",
        dtype,
        wide,
        byref(_map(f, dtype)),
        len(x),
        _address(x, dtype),
        _address(coefficients, wide),
        _address(tangents, wide),
        _address(moment, torch.float64),
    )
    return moment


# ---- prediction ------------------------------------------------------------------------------------------------------


def predictor(
    p: FCHL19Arguments,
    projections: Tensor,
    maps: Sequence[FeatureMap],
    weights: Sequence[Tensor],
    baseline: Tensor,
    *,
    dtype: torch.dtype,
    skin: float,
) -> NativePredictor:
    """A model made ready for prediction in `dtype`; its tensors are float64."""
    from .native_predictor import NativePredictor

    return NativePredictor(p, projections, maps, weights, baseline, dtype=dtype, skin=skin)


# ---- tangents --------------------------------------------------------------------------------------------------------


def tangent_products(tangents: Tensor, owner: Tensor, x: Tensor) -> Tensor:
    n, rank = tangents.shape
    _shaped("owner", owner, n)
    _shaped("x", x, len(x), rank)
    out = torch.empty(n, dtype=torch.float64)
    dtype, wide = tangents.dtype, x.dtype
    _call_product(
        "tangent_products",
        dtype,
        wide,
        rank,
        n,
        _address(tangents, dtype),
        _address(owner, torch.int64),
        len(x),
        _address(x, wide),
        _address(out, torch.float64),
    )
    return out


def tangent_sums(
    tangents: Tensor, owner: Tensor, coefficients: Tensor, n_owners: int, dtype: torch.dtype | None = None
) -> Tensor:
    n, rank = tangents.shape
    _shaped("owner", owner, n)
    _shaped("coefficients", coefficients, n)
    narrow, wide = tangents.dtype, dtype or tangents.dtype
    out = tangents.new_empty(n_owners, rank, dtype=wide)
    doubles = coefficients.double().contiguous()  # by name: it must live until the call returns
    _call_product(
        "tangent_sums",
        narrow,
        wide,
        rank,
        n,
        _address(tangents, narrow),
        _address(owner, torch.int64),
        _address(doubles, torch.float64),
        n_owners,
        _address(out, wide),
    )
    return out
