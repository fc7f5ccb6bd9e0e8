"""The whole prediction path as one call of the native library, in an object that keeps its memory between calls."""

from __future__ import annotations

import os
import weakref
from ctypes import byref, c_int32, c_void_p, pointer
from pathlib import Path

import torch
from torch import Tensor

from ...errors import InputError
from ..contract import PredictorModel, Uncertainties, Whole
from .functions import map_struct, representation_struct
from .library import OTHERS, FeatureMapStruct, ModelStruct, address, addresses, check, library, shaped

_DOUBLE = torch.float64


class NativePredictor:
    """qml_predictor of the C header: one potential in one precision, with a skin in Å around its neighbour list."""

    def __init__(self, model: PredictorModel, dtype: torch.dtype, skin: float) -> None:
        p, n, rank = model.representation, model.representation.n_elements, model.projections.shape[2]
        self._n_elements = n
        shaped("projections", model.projections, n, p.size, rank)
        shaped("baseline", model.baseline, n)
        for f, weights in zip(model.maps, model.weights, strict=True):
            shaped("weights", weights, f.n_features)
        representation = representation_struct(p)
        # the library copies what these point to
        struct = ModelStruct(
            pointer(representation),
            rank,
            address(model.projections, _DOUBLE),
            (FeatureMapStruct * n)(*[map_struct(f, _DOUBLE) for f in model.maps]),
            (c_void_p * n)(*[address(weights, _DOUBLE) for weights in model.weights]),
            address(model.baseline, _DOUBLE),
            {torch.float32: 32, torch.float64: 64}[dtype],
            0,
            skin,
        )
        self._handle = c_void_p()
        check(library().qml_predictor_create(byref(struct), byref(self._handle)))
        self._destroy_at_the_end()
        if model.repulsion is not None:
            numbers, outer, inner = model.repulsion
            for name, distances in {"outer": outer, "inner": inner}.items():
                shaped(name, distances, n, n)
            given = (c_int32 * n)(*numbers), address(outer, _DOUBLE), address(inner, _DOUBLE)
            check(library().qml_predictor_set_repulsion(self._handle, *given))
        if model.gaps is not None:
            for name, distances in zip(("low", "high"), model.gaps, strict=True):
                shaped(name, distances, n, n)
            ends = [address(distances, _DOUBLE) for distances in model.gaps]
            check(library().qml_predictor_set_gaps(self._handle, *ends))
        if model.crowding is not None:
            shaped("reach", model.crowding[0], n, n)
            for name, tensor in zip(("onset", "full", "strength"), model.crowding[1:], strict=True):
                shaped(name, tensor, n)
            numbers_of = [address(tensor, _DOUBLE) for tensor in model.crowding]
            check(library().qml_predictor_set_crowding(self._handle, *numbers_of))
        if model.committee is not None:
            self._set_committee(*model.committee)

    def _set_committee(self, weights: Tensor, n_forces: int, of_energies: Tensor, of_forces: Tensor) -> None:
        members, _, n_features = weights.shape
        shaped("committee", weights, members, self._n_elements, n_features)
        shaped("of_energies", of_energies, 4)
        shaped("of_forces", of_forces, self._n_elements, 3)
        given = members, n_forces, n_features, *(address(one, _DOUBLE) for one in (weights, of_energies, of_forces))
        check(library().qml_predictor_set_committee(self._handle, *given))

    @classmethod
    def load(cls, path: str | Path, dtype: torch.dtype | None = None, skin: float = 0.0) -> NativePredictor:
        """Predictor of a model file that the library reads by itself, as engines written in C++ have it read.

        `dtype`: None for the precision that the file asks for.
        """
        made = cls.__new__(cls)
        made._handle = c_void_p()
        bits = {None: 0, torch.float32: 32, torch.float64: 64}[dtype]
        check(library().qml_predictor_load(os.fsencode(path), bits, skin, byref(made._handle)))
        made._n_elements = int(library().qml_predictor_n_elements(made._handle))
        made._destroy_at_the_end()
        return made

    def _destroy_at_the_end(self) -> None:
        weakref.finalize(self, library().qml_predictor_destroy, c_void_p(self._handle.value))

    @property
    def elements(self) -> tuple[int, ...]:
        """Atomic numbers of a predictor from a file; zeros if it was made from tensors."""
        number = library().qml_predictor_atomic_number
        return tuple(int(number(self._handle, element)) for element in range(self._n_elements))

    @property
    def cutoff(self) -> float:
        """Largest distance of a neighbour that counts, in Å."""
        return float(library().qml_predictor_cutoff(self._handle))

    @property
    def precision(self) -> int:
        """Bits of the numbers that it computes with, 32 or 64."""
        return int(library().qml_predictor_precision(self._handle))

    def _run(self, name: str, *arguments: int | Tensor | None) -> None:
        given = addresses(OTHERS[name].split()[1:], arguments)
        check(getattr(library(), f"qml_{name}")(self._handle, *given, torch.get_num_threads()))

    @property
    def lists_made(self) -> int:
        """Number of neighbour lists made so far."""
        return int(library().qml_predictor_lists_made(self._handle))

    def predict(
        self, offsets: Tensor, element: Tensor, positions: Tensor, cells: Tensor, periodic: Tensor, *,
        forces: bool, virial: bool,
    ) -> Whole:  # fmt: skip
        """Energies (structures,), those of atoms (atoms,), forces (atoms, 3) and virials (structures, 3, 3).

        A virial is the derivative of the energy by strain, symmetric.
        """
        given = offsets, element, positions, cells, periodic
        out = self._room(*given, forces, virial)
        self._run("predictor_predict", len(cells), *given, *out)
        return out

    def predict_uncertain(
        self, offsets: Tensor, element: Tensor, positions: Tensor, cells: Tensor, periodic: Tensor, *,
        forces: bool, virial: bool,
    ) -> tuple[Whole, Uncertainties]:  # fmt: skip
        """The prediction, and standard deviations of energies, atomic energies and forces from the committee."""
        given = offsets, element, positions, cells, periodic
        out = self._room(*given, forces, virial)
        told = torch.empty_like(out[0]), torch.empty_like(out[1]), torch.empty_like(out[1]) if forces else None
        self._run("predictor_predict_uncertain", len(cells), *given, *out, *told)
        return out, told

    @staticmethod
    def _room(
        offsets: Tensor, element: Tensor, positions: Tensor, cells: Tensor, periodic: Tensor, forces: bool, virial: bool
    ) -> Whole:
        """Memory for a prediction of these structures, whose shapes are checked."""
        n, n_atoms = len(cells), len(element)
        shaped("offsets", offsets, n + 1)
        shaped("positions", positions, n_atoms, 3)
        shaped("cells", cells, n, 3, 3)
        shaped("periodic", periodic, n, 3)
        if offsets[-1] != n_atoms:
            raise InputError(f"offsets must end with the number of atoms, {n_atoms}, got {int(offsets[-1])}.")
        energies, atom_energies = torch.empty(n, dtype=_DOUBLE), torch.empty(n_atoms, dtype=_DOUBLE)
        force = torch.empty(n_atoms, 3, dtype=_DOUBLE) if forces else None
        strain = torch.empty(n, 3, 3, dtype=_DOUBLE) if virial else None
        return energies, atom_energies, force, strain

    def predict_pairs(
        self, element: Tensor, n_all: int, segments: Tensor, neighbour: Tensor, vectors: Tensor, *,
        forces: bool, virial: bool,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
        """Energies of the centres, forces on all atoms and the virial (3, 3), from pairs that are known already.

        Of `n_all` atoms the first ones are the centres, one for each entry of `element`; neighbours are int32.
        """
        n = len(element)
        shaped("segments", segments, n * self._n_elements + 1)
        shaped("neighbour", neighbour, len(vectors))
        shaped("vectors", vectors, int(segments[-1]), 3)
        atom_energies = torch.empty(n, dtype=_DOUBLE)
        force = torch.empty(n_all, 3, dtype=_DOUBLE) if forces else None
        strain = torch.empty(3, 3, dtype=_DOUBLE) if virial else None
        given = (element, segments, neighbour, vectors, atom_energies, force, strain)
        self._run("predictor_predict_pairs", n, n_all, *given)
        return atom_energies, force, strain
