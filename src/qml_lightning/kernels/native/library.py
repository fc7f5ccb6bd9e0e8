"""The native library: found, loaded and called through its C interface by ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import warnings
from collections.abc import Sequence
from ctypes import Structure, byref, c_char_p, c_double, c_int32, c_int64, c_void_p
from pathlib import Path

import torch
from torch import Tensor

from ...errors import InputError, ModelError, QMLError, ResourceError

ABI_VERSION = 8
DENSITY_PADDING = 16  # QML_DENSITY_PADDING of the C header
_LIBRARY = "libqml_lightning.so"
_ERRORS: dict[int, type[QMLError]] = {1: InputError, 2: InputError, 3: ResourceError, 5: ModelError}
# Suffixes of kernels, by the type of the environments and of what features and tangents are multiplied with.
SUFFIXES = {
    (torch.float32, torch.float32): "f32",
    (torch.float64, torch.float64): "f64",
    (torch.float32, torch.float64): "mixed",
}

# Parameters of each function in the order of the C header, which tests/kernels/test_native_header.py compares with it.
# A tensor is passed for a type with a star: int64*, double*, or real* and wide*, the two types of the suffix.
_PAIRS = "struct* int64 int64* real*"
_MAP = "struct* int64 real*"
KERNELS = {
    "environments": f"{_PAIRS} real* int32",
    "environments_pullback": f"{_PAIRS} real* real* int32",
    "environments_jacobian": f"{_PAIRS} int64* int64 real* real* int32",
    "features": f"{_MAP} real* int32",
    "energy_rows": f"{_MAP} int64* int64 double* int64 int32",
}
PRODUCTS = {
    "force_rows": f"{_MAP} int64 wide* int64* int64* int64 double* int64 int32",
    "energy_and_slope": f"{_MAP} wide* double* wide* int32",
    "feature_moment": f"{_MAP} wide* wide* double* int32",
    "tangent_products": "int64 int64 real* int64* int64 wide* double* int32",
    "tangent_sums": "int64 int64 real* int64* double* int64 wide* int32",
}
OTHERS = {
    "predictor_create": "struct* struct*",
    "predictor_load": "char* int32 double struct*",
    "predictor_set_repulsion": "struct* int32* double* double*",
    "predictor_set_gaps": "struct* double* double*",
    "predictor_set_crowding": "struct* double* double* double* double*",
    "predictor_set_committee": "struct* int64 int64 int64 double* double* double*",
    "predictor_predict": "struct* int64 int64* int64* double* double* uint8* double* double* double* double* int32",
    "predictor_predict_uncertain": "struct* int64 int64* int64* double* double* uint8* "
    "double* double* double* double* double* double* double* int32",
    "predictor_predict_pairs": "struct* int64 int64 int64* int64* int32* double* double* double* double* int32",
    "predictor_predict_lists": "struct* struct* double* double* double* double* int32",
    "predictor_predict_lists_uncertain": "struct* struct* double* double* double* double* double* int32",
}
# Questions about a predictor: what the answer is.
ANSWERS = {
    "predictor_lists_made": c_int64,
    "predictor_n_elements": c_int32,
    "predictor_cutoff": c_double,
    "predictor_precision": c_int32,
    "predictor_n_members": c_int32,
}
_NUMBERS = {"int64": c_int64, "int32": c_int32, "double": c_double, "char*": c_char_p}
_TENSORS = {"int64*": torch.int64, "int32*": torch.int32, "double*": torch.float64, "uint8*": torch.bool}


class RepresentationStruct(Structure):
    """qml_representation of the C header."""

    _fields_ = [("kind", c_int32), ("reserved", c_int32), ("parameters", c_void_p)]


class FCHL19Struct(Structure):
    """qml_fchl19 of the C header."""

    _fields_ = [
        *((name, c_int32) for name in ("n_elements", "n_radial2", "n_radial3", "n_angular", "angular", "cutoff_power")),
        *((name, c_double) for name in ("cutoff", "eta2", "eta3", "decay2", "decay3", "weight3")),
    ]


class DensityStruct(Structure):
    """qml_density of the C header."""

    _fields_ = [
        *(
            (name, c_int32)
            for name in (
                "n_elements", "n_pair", "n_radial", "l_max", "n_channels", "n_invariants", "n_intervals", "reserved",
            )
        ),
        *((name, c_double) for name in ("cutoff", "pair_cutoff")),
        *((name, c_void_p) for name in ("pair_table", "radial_table", "mixing", "weights")),
    ]  # fmt: skip


class FeatureMapStruct(Structure):
    """qml_feature_map of the C header."""

    _fields_ = [
        *((name, c_int64) for name in ("rank", "n_frequencies")),
        *((name, c_int32) for name in ("n_transforms", "paired")),
        ("amplitude", c_double),
        *((name, c_void_p) for name in ("signs", "row_scale", "matrix", "phases")),
    ]


class ModelStruct(Structure):
    """qml_model of the C header."""

    _fields_ = [
        ("representation", ctypes.POINTER(RepresentationStruct)),
        ("rank", c_int64),
        ("projections", c_void_p),
        ("maps", ctypes.POINTER(FeatureMapStruct)),
        ("weights", ctypes.POINTER(c_void_p)),
        ("baseline", c_void_p),
        ("precision", c_int32),
        ("reserved", c_int32),
        ("skin", c_double),
    ]


class NeighbourListsStruct(Structure):
    """qml_neighbour_lists of the C header."""

    _fields_ = [
        *((name, c_int64) for name in ("n_centres", "n_all")),
        *((name, c_void_p) for name in ("centres", "counts")),
        ("neighbours", ctypes.POINTER(c_void_p)),
        *((name, c_int32) for name in ("mask", "reserved")),
        *((name, c_void_p) for name in ("element", "positions")),
    ]


@functools.cache
def library() -> ctypes.CDLL:
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
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"{path} cannot be loaded: {error}. If it is libgomp.so.1 that is missing, install it (Debian: libgomp1, "
            "Fedora: libgomp) or a torch that brings it."
        ) from error
    found = loaded.qml_abi_version()
    if found != ABI_VERSION:
        raise ImportError(
            f"{path} has version {found} of the C interface, this package needs {ABI_VERSION}. Rebuild it."
        )
    loaded.qml_last_error.restype = loaded.qml_isa.restype = c_char_p
    loaded.qml_use_isa.argtypes = [c_char_p]
    for name, answer in ANSWERS.items():
        question = getattr(loaded, f"qml_{name}")
        question.argtypes, question.restype = [c_void_p], answer
    loaded.qml_predictor_atomic_number.argtypes = [c_void_p, c_int32]
    loaded.qml_predictor_destroy.argtypes, loaded.qml_predictor_destroy.restype = [c_void_p], None
    for name, parameters in signatures().items():
        function = getattr(loaded, name, None)
        if function is None:
            raise ImportError(f"{path} has no {name}: it is older than this package. Build it anew.")
        function.argtypes = [_NUMBERS.get(one, c_void_p) for one in parameters.split()]
    return loaded


def signatures() -> dict[str, str]:
    """Parameters of each function of the library, by its whole name."""
    whole = {f"qml_{name}": parameters for name, parameters in OTHERS.items()}
    for table, suffixes in ((KERNELS, ("f32", "f64")), (PRODUCTS, ("f32", "f64", "mixed"))):
        whole |= {f"qml_{name}_{suffix}": parameters for name, parameters in table.items() for suffix in suffixes}
    return whole


def why_not(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why these kernels do not serve, or None."""
    if device.type != "cpu":
        return "they run on the CPU."
    if (dtype, dtype) not in SUFFIXES:
        return "they know float32 and float64."
    try:
        library()
    except (ImportError, OSError) as error:
        _warn_once(str(error))
        return str(error)
    return None


@functools.cache
def _warn_once(reason: str) -> None:
    """Warn that slower kernels serve: this must not happen unseen."""
    warnings.warn(f"Plain torch takes the place of the native kernels, which cannot be used: {reason}", stacklevel=3)


def instruction_set() -> str:
    """Instruction set in use: "avx512", "avx2" or "baseline"."""
    name: bytes = library().qml_isa()
    return name.decode()


def use_instruction_set(name: str) -> None:
    """Serve with this instruction set from now on; an InputError if the processor does not have it."""
    check(library().qml_use_isa(name.encode()))


def check(code: int) -> None:
    """Raise the error that the library reported, if any."""
    if code != 0:
        raise _ERRORS.get(code, InputError)(library().qml_last_error().decode(errors="replace"))


def call(name: str, dtype: torch.dtype, *arguments: object, wide: torch.dtype | None = None) -> None:
    """Run a kernel for environments of `dtype`; tensors are checked, and the number of threads is added."""
    types = (dtype, wide or dtype)
    if types not in SUFFIXES:
        raise InputError(
            "The native kernels know float32 and float64, and multiply float32 with either and float64 with float64; "
            f"got {' and '.join(str(one) for one in dict.fromkeys(types))}."
        )
    given = addresses((KERNELS.get(name) or PRODUCTS[name]).split(), arguments, *types)
    check(getattr(library(), f"qml_{name}_{SUFFIXES[types]}")(*given, torch.get_num_threads()))


def addresses(parameters: Sequence[str], arguments: Sequence[object], *types: torch.dtype) -> list[object]:
    """Arguments as C takes them: tensors, of the types of their parameters, and structs by their addresses."""
    wanted = _TENSORS | dict(zip(("real*", "wide*"), types, strict=False))
    given: list[object] = []
    for parameter, argument in zip(parameters, arguments, strict=False):  # the threads are not among the arguments
        if argument is None or isinstance(argument, Tensor):
            given.append(address(argument, wanted[parameter]))
        else:
            given.append(byref(argument) if isinstance(argument, Structure) else argument)
    return given


def address(tensor: Tensor | None, dtype: torch.dtype) -> int | None:
    """Address of the numbers of a tensor, which the caller keeps alive."""
    if tensor is None:
        return None
    if tensor.dtype != dtype or tensor.device.type != "cpu" or not tensor.is_contiguous():
        layout = "contiguous" if tensor.is_contiguous() else "strided"
        raise InputError(
            f"The native kernels need contiguous {dtype} on the CPU, got {layout} {tensor.dtype} on {tensor.device}."
        )
    return tensor.data_ptr()


def shaped(name: str, tensor: Tensor, *shape: int) -> None:
    """Raise an error unless the tensor has this shape."""
    if tuple(tensor.shape) != shape:
        raise InputError(f"{name} must have the shape {shape}, got {tuple(tensor.shape)}.")
