"""The whole prediction path as one call of the native library, in an object that keeps its memory between calls."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_double, c_int32, c_int64, c_void_p, pointer
from threading import Lock

import torch
from torch import Tensor

from ..errors import InputError
from .arguments import FCHL19Arguments, FeatureMap
from .native import FCHL19Struct, FeatureMapStruct, _address, _check, _library, _map, _parameters, _shaped

_P = c_void_p
_DOUBLE = torch.float64


class _Model(Structure):
    """qml_model of the C header."""

    _fields_ = [
        ("representation", POINTER(FCHL19Struct)),
        ("rank", c_int64),
        ("projections", c_void_p),
        ("maps", POINTER(FeatureMapStruct)),
        ("weights", POINTER(c_void_p)),
        ("baseline", c_void_p),
        ("precision", c_int32),
        ("reserved", c_int32),
        ("skin", c_double),
    ]


class NativePredictor:
    """qml_predictor of the C header: one potential in one precision."""

    def __init__(
        self,
        p: FCHL19Arguments,
        projections: Tensor,
        maps: Sequence[FeatureMap],
        weights: Sequence[Tensor],
        baseline: Tensor,
        *,
        dtype: torch.dtype,
        skin: float,
    ) -> None:
        n, rank = p.n_elements, projections.shape[2]
        self._n_elements = n
        _shaped("projections", projections, n, p.size, rank)
        _shaped("baseline", baseline, n)
        for f, of_element in zip(maps, weights, strict=True):
            _shaped("weights", of_element, f.n_features)
        # the library copies what these point to
        model = _Model(
            pointer(_parameters(p)),
            rank,
            _address(projections, _DOUBLE),
            (FeatureMapStruct * n)(*[_map(f, _DOUBLE) for f in maps]),
            (c_void_p * n)(*[_address(of_element, _DOUBLE) for of_element in weights]),
            _address(baseline, _DOUBLE),
            {torch.float32: 32, torch.float64: 64}[dtype],
            0,
            skin,
        )
        library = _library()
        self._handle = c_void_p()
        self._predict = library.qml_predictor_predict
        self._predict.argtypes = [_P, c_int64, _P, _P, _P, _P, _P, _P, _P, _P, _P, c_int32]
        self._predict_pairs = library.qml_predictor_predict_pairs
        self._predict_pairs.argtypes = [_P, c_int64, c_int64, _P, _P, _P, _P, _P, _P, _P, c_int32]
        library.qml_predictor_lists_made.argtypes, library.qml_predictor_lists_made.restype = [_P], c_int64
        library.qml_predictor_destroy.argtypes, library.qml_predictor_destroy.restype = [_P], None
        _check(library.qml_predictor_create(byref(model), byref(self._handle)))
        weakref.finalize(self, library.qml_predictor_destroy, ctypes.c_void_p(self._handle.value))
        # its memory serves one call at a time, and Python's threads run side by side inside the library
        self._lock = Lock()

    @property
    def lists_made(self) -> int:
        """How often pairs of atoms were listed."""
        return int(_library().qml_predictor_lists_made(self._handle))

    def predict(
        self, offsets: Tensor, element: Tensor, positions: Tensor, cells: Tensor, periodic: Tensor, *,
        forces: bool, virial: bool,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
        """Energies (structures,), those of atoms (atoms,), forces (atoms, 3) and virials (structures, 3, 3).

        A virial is the derivative of the energy by strain, symmetric.
        """
        n, n_atoms = len(cells), len(element)
        _shaped("offsets", offsets, n + 1)
        _shaped("positions", positions, n_atoms, 3)
        _shaped("cells", cells, n, 3, 3)
        _shaped("periodic", periodic, n, 3)
        if offsets[-1] != n_atoms:
            raise InputError(f"offsets must end with the number of atoms, {n_atoms}, got {int(offsets[-1])}.")
        energies, atom_energies = torch.empty(n, dtype=_DOUBLE), torch.empty(n_atoms, dtype=_DOUBLE)
        force = torch.empty(n_atoms, 3, dtype=_DOUBLE) if forces else None
        strain = torch.empty(n, 3, 3, dtype=_DOUBLE) if virial else None
        arrays = (
            (offsets, torch.int64), (element, torch.int64), (positions, _DOUBLE), (cells, _DOUBLE),
            (periodic, torch.bool), (energies, _DOUBLE), (atom_energies, _DOUBLE), (force, _DOUBLE), (strain, _DOUBLE),
        )  # fmt: skip
        addresses = [_address(tensor, dtype) for tensor, dtype in arrays]
        with self._lock:
            _check(self._predict(self._handle, n, *addresses, torch.get_num_threads()))
        return energies, atom_energies, force, strain

    def predict_pairs(
        self, element: Tensor, n_all: int, segments: Tensor, neighbour: Tensor, vectors: Tensor, *,
        forces: bool, virial: bool,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
        """Energies of the centres, forces on all atoms and the virial (3, 3), from pairs that are known already.

        Of `n_all` atoms the first ones are the centres, one for each entry of `element`; neighbours are int32.
        """
        n = len(element)
        _shaped("segments", segments, n * self._n_elements + 1)
        _shaped("neighbour", neighbour, len(vectors))
        _shaped("vectors", vectors, int(segments[-1]), 3)
        atom_energies = torch.empty(n, dtype=_DOUBLE)
        force = torch.empty(n_all, 3, dtype=_DOUBLE) if forces else None
        strain = torch.empty(3, 3, dtype=_DOUBLE) if virial else None
        arrays = (
            (element, torch.int64), (segments, torch.int64), (neighbour, torch.int32), (vectors, _DOUBLE),
            (atom_energies, _DOUBLE), (force, _DOUBLE), (strain, _DOUBLE),
        )  # fmt: skip
        addresses = [_address(tensor, dtype) for tensor, dtype in arrays]
        with self._lock:
            _check(self._predict_pairs(self._handle, n, n_all, *addresses, torch.get_num_threads()))
        return atom_energies, force, strain
