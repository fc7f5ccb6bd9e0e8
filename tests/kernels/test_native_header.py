"""Signatures, structs and numbers in Python are those of the C header."""

from __future__ import annotations

import ctypes
import re

import pytest

from native_header import HEADER, declared_functions, declared_structs
from qml_lightning.kernels.native import library
from qml_lightning.kernels.native.functions import KINDS

STRUCTS = {
    "qml_representation": library.RepresentationStruct,
    "qml_fchl19": library.FCHL19Struct,
    "qml_density": library.DensityStruct,
    "qml_feature_map": library.FeatureMapStruct,
    "qml_model": library.ModelStruct,
    "qml_neighbour_lists": library.NeighbourListsStruct,
}
# Functions of a handle or a word, whose types are set by hand where they are loaded.
BY_HAND = {"qml_abi_version", "qml_last_error", "qml_isa", "qml_use_isa", "qml_predictor_destroy",
           "qml_predictor_atomic_number", "qml_representation_size"}  # fmt: skip
BY_HAND |= {f"qml_{name}" for name in library.ANSWERS}


def test_the_header_has_the_version_that_python_asks_for():
    assert f"#define QML_ABI_VERSION {library.ABI_VERSION}\n" in HEADER.read_text()


def test_every_function_of_the_header_is_known_with_the_types_of_its_parameters():
    declared = declared_functions()
    assert len(declared) == 2 * 5 + 3 * 5 + len(library.OTHERS) + len(BY_HAND)
    told = {name: parameters.split() for name, parameters in library.signatures().items()}
    assert told == {name: types for name, types in declared.items() if name not in BY_HAND}


@pytest.mark.parametrize("name", STRUCTS)
def test_a_struct_has_the_fields_of_the_header_in_its_order(name):
    types = {ctypes.c_int32: "int32", ctypes.c_int64: "int64", ctypes.c_double: "double"}
    told = [(field, types.get(kind, "void*")) for field, kind in STRUCTS[name]._fields_]
    assert told == declared_structs()[name]


def test_kinds_of_representation_have_the_numbers_of_the_header():
    listed = re.search(r"enum \{ (QML_FCHL19 = 0.*?) \};", HEADER.read_text()).group(1)
    numbers = {name.lower(): int(number) for name, number in re.findall(r"QML_(\w+) = (\d+)", listed)}
    assert {kind: number for kind, (number, _) in KINDS.items()} == numbers


def test_the_padding_of_tables_is_that_of_the_header():
    assert f"#define QML_DENSITY_PADDING {library.DENSITY_PADDING}\n" in HEADER.read_text()
