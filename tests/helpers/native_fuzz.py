"""A call of the C interface as data: made, watched, and broken in every way that its arguments allow."""

from __future__ import annotations

import copy
import ctypes
import json
import math
from collections.abc import Callable, Iterator
from ctypes import Structure, byref, c_double, c_int32, c_int64, c_void_p
from dataclasses import dataclass, field

import numpy as np
import torch

from qml_lightning.kernels.native.library import (
    DensityStruct,
    FCHL19Struct,
    FeatureMapStruct,
    ModelStruct,
    NeighbourListsStruct,
    RepresentationStruct,
    library,
)

LIBRARY = ctypes.CDLL(library()._name)
LIBRARY.qml_last_error.restype = ctypes.c_char_p
LIBRARY.qml_representation_size.restype = c_int64
LIBRARY.qml_predictor_lists_made.restype = c_int64
LIBRARY.qml_predictor_cutoff.restype = c_double
BEYOND = 33  # numbers around each output that must stay as they are; odd, so that outputs lie at odd addresses
REALS = {"f32": np.float32, "f64": np.float64}
# of what features are multiplied with; "mixed" are products in double with features in float
WIDE = {**REALS, "mixed": np.float64}
INSTRUCTION_SETS = ("baseline", "avx2", "avx512")


@dataclass
class Call:
    """A function and its arguments by name: numbers, arrays, None, or dicts that become structs."""

    function: str
    arguments: dict[str, object]
    outputs: tuple[str, ...]  # what it writes
    check: Callable[[dict[str, np.ndarray]], None]  # of the outputs of a sound call
    optional: tuple[str, ...] = ()  # pointers that may be null
    lengths: tuple[str, ...] = ()  # sizes that, when large, only mean longer arrays than there are
    words: dict[str, tuple] = field(default_factory=dict)  # wrong values of flags and of what has a range
    at_most: dict[str, int] = field(default_factory=dict)  # largest entry of index arrays
    ordered: tuple[str, ...] = ()  # index arrays that must not descend
    read: dict[str, np.ndarray] = field(default_factory=dict)  # entries that count, where not all do


STRUCTS: dict[str, type[Structure]] = {"representation": RepresentationStruct, "parameters": FCHL19Struct,
                                       "map": FeatureMapStruct, "model": ModelStruct,
                                       "lists": NeighbourListsStruct}  # fmt: skip
INT32 = ("threads", "kind", "n_elements", "n_radial2", "n_radial3", "n_angular", "angular", "cutoff_power", "reserved",
         "n_transforms", "paired", "precision", "mask", "n_pair", "n_radial", "l_max", "n_channels", "n_invariants",
         "n_intervals")  # fmt: skip


def places(call: Call) -> Iterator[tuple[dict, str, str]]:
    """(the dict that holds it, its key there, its whole name) of every argument and field."""

    def inside(holder: dict, prefix: str) -> Iterator[tuple[dict, str, str]]:
        for key, value in holder.items():
            yield holder, key, prefix + key
            if isinstance(value, dict):
                yield from inside(value, f"{prefix}{key}.")

    yield from inside(call.arguments, "")


# ---- breaking a call -------------------------------------------------------------------------------------------------


def ways_to_break(call: Call, random: np.random.Generator) -> list[tuple[str, str, object]]:
    """(whole name, what is done, new value): each makes the call one that must be refused."""
    out: list[tuple[str, str, object]] = []
    for _, key, name in places(call):
        value = dict_at(call.arguments, name)
        if key in call.words and not (key == "weights" and ".parameters." in name):  # those of a model
            out += [(name, "wrong", word) for word in call.words[key]]
        # without numbers there is nothing to point to
        points = isinstance(value, dict) or (isinstance(value, np.ndarray) and value.size > 0)
        if points and key not in call.optional:
            out.append((name, "null", None))
        if isinstance(value, float):
            out += [(name, "not finite", bad) for bad in (math.nan, math.inf, -math.inf)]
        elif isinstance(value, int):
            bits = 31 if key in INT32 else 63
            out += [(name, "negative", -1), (name, "negative", -(2**bits))]
            if key not in call.lengths:
                out += [(name, "huge", 2**bits - 1), (name, "huge", 2 ** (bits - 1))]
        elif isinstance(value, np.ndarray) and value.size and key not in call.outputs:
            entries = call.read.get(key, np.arange(value.size))
            if not entries.size:
                continue
            where = int(random.choice(entries))
            if value.dtype.kind == "f":
                bad = [(where, "not finite", math.nan), (where, "not finite", math.inf)]
            elif key in call.at_most:
                largest = np.iinfo(value.dtype).max
                bad = [(where, "out of range", entry) for entry in (-1, call.at_most[key] + 1, largest, -largest)]
            else:
                bad = []
            if key in call.ordered and key not in call.at_most:  # beginnings of segments
                bad = [(0, "begins late", 1), (-1, "ends before it begins", -1), (-1, "huge", 2**62)]
                if value.size > 2:
                    inner = int(random.integers(1, value.size - 1))
                    bad.append((inner, "overlaps the next", int(value[inner + 1]) + 1))
            for index, what, entry in bad:
                changed = value.copy()
                changed.flat[index] = entry
                out.append((name, what, changed))
            if key in call.ordered and value.flat[0] != value.flat[-1]:
                out.append((name, "descends", value[::-1].copy()))
    return out


def dict_at(arguments: dict, name: str) -> object:
    *path, key = name.split(".")
    for step in path:
        arguments = arguments[step]
    return arguments[key]


def changed(call: Call, name: str, value: object) -> Call:
    out = copy.copy(call)
    out.arguments = copy.deepcopy(call.arguments)
    *path, key = name.split(".")
    holder = out.arguments
    for step in path:
        if holder[step] is None:  # an earlier change took the whole struct away
            return out
        holder = holder[step]
    holder[key] = value
    return out


# ---- making a call ---------------------------------------------------------------------------------------------------


def as_c(key: str, value: object, alive: list) -> object:
    if isinstance(value, dict):
        key = key.rstrip("0123456789")
        struct = DensityStruct() if key == "parameters" and "l_max" in value else STRUCTS[key]()
        for name, entry in value.items():
            given = as_c(name, entry, alive)
            if isinstance(entry, dict):
                given = ctypes.addressof(given) if name == "parameters" else ctypes.pointer(given)
            elif name in ("maps", "weights", "neighbours") and isinstance(entry, list):
                given = lists_as_c(name, entry, alive)
            setattr(struct, name, given.value if isinstance(given, (c_int32, c_int64, c_double, c_void_p)) else given)
        alive.append(struct)
        return struct
    if value is None or isinstance(value, list):
        return c_void_p()
    if isinstance(value, np.ndarray):
        alive.append(value)
        return c_void_p(value.ctypes.data)
    if isinstance(value, float):
        return c_double(value)
    if isinstance(value, bytes):
        return ctypes.c_char_p(value)
    assert isinstance(value, int)
    return (c_int32 if key in INT32 else c_int64)(value)


def lists_as_c(name: str, entries: list, alive: list) -> object:
    if name == "maps":
        out = (FeatureMapStruct * len(entries))(*[as_c("map", entry, alive) for entry in entries])
    else:
        out = (c_void_p * len(entries))(*[as_c(name, entry, alive) for entry in entries])
    alive.append(out)
    return out


class Predictor:
    """A qml_predictor, destroyed with this."""

    def __init__(self, model: dict[str, object]) -> None:
        self.handle, alive = c_void_p(), []
        code = LIBRARY.qml_predictor_create(byref(as_c("model", model, alive)), byref(self.handle))
        assert code == 0, LIBRARY.qml_last_error().decode(errors="replace")

    def __deepcopy__(self, memo: dict) -> Predictor:
        return self

    def __del__(self) -> None:
        LIBRARY.qml_predictor_destroy(self.handle)


def make(call: Call) -> tuple[int, str, dict[str, np.ndarray]]:
    """Code and words of the library, and the outputs with what surrounds them."""
    alive: list = []
    wide: dict[str, np.ndarray] = {}
    given = []
    for key, value in call.arguments.items():
        if isinstance(value, np.ndarray) and key in call.outputs:
            surround = np.full(BEYOND, 7, value.dtype)
            wide[key] = np.concatenate([surround, value.ravel(), surround])
            given.append(c_void_p(wide[key].ctypes.data + BEYOND * value.itemsize))
        elif isinstance(value, dict):
            given.append(byref(as_c(key, value, alive)))
        elif key == "predictor" and isinstance(value, Predictor):
            given.append(value.handle)
        else:
            given.append(as_c(key, value, alive))
    code = getattr(LIBRARY, call.function)(*given)
    return code, LIBRARY.qml_last_error().decode(errors="replace"), wide


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def attempt(call: Call, about: str, wanted: str) -> None:
    """Make a call that is to be `sound`, `refused`, or `either`."""
    say(function=call.function, begun=about)
    before = {key: value.ravel().copy() for key, value in call.arguments.items() if isinstance(value, np.ndarray)}
    code, words, wide = make(call)
    for key, found in wide.items():
        if (found[:BEYOND] != 7).any() or (found[-BEYOND:] != 7).any():
            say(function=call.function, wrong=f"{about}: it wrote beyond {key}")
        if code and not np.array_equal(found[BEYOND:-BEYOND], before[key], equal_nan=True):
            say(function=call.function, wrong=f"{about}: it wrote to {key} and then refused")
    if (code == 0) != (words == "") or code not in range(6):
        say(function=call.function, wrong=f"{about}: code {code} with the words {words!r}")
    if wanted == "refused" and code == 0:
        say(function=call.function, wrong=f"{about}: was not refused")
    if wanted == "sound" and code:
        say(function=call.function, wrong=f"{about}: was refused: {words}")
    elif wanted == "sound":
        shaped = {key: found[BEYOND:-BEYOND].reshape(call.arguments[key].shape) for key, found in wide.items()}
        try:
            call.check(shaped)
        except AssertionError as error:
            say(function=call.function, wrong=f"{about}: {error}")


def sizes(call: Call) -> str:
    shown = {name: dict_at(call.arguments, name) for _, _, name in places(call)}
    return ", ".join(f"{name} {value}" for name, value in shown.items() if isinstance(value, (int, float)))


def fuzz(call: Call, random: np.random.Generator) -> None:
    """The call itself, the call broken in every way, in several ways at once, and with sizes of nothing."""
    attempt(call, f"sound call with {sizes(call)}", "sound")
    ways = ways_to_break(call, random)
    for name, what, value in ways:
        attempt(changed(call, name, value), f"{name} {what} ({brief(value)}) in a call with {sizes(call)}", "refused")
    for _ in range(len(ways) // 2):
        broken, about = call, []
        for pick in random.choice(len(ways), size=min(len(ways), 3), replace=False):
            name, what, value = ways[int(pick)]
            broken = changed(broken, name, value)
            about.append(f"{name} {what} ({brief(value)})")
        # one change may undo what is wrong with another: no tangents need no owners
        attempt(broken, f"{' and '.join(about)} in a call with {sizes(call)}", "either")
    for _, _, name in places(call):
        if isinstance(dict_at(call.arguments, name), int):
            attempt(changed(call, name, 0), f"{name} 0 in a call with {sizes(call)}", "either")


def brief(value: object) -> str:
    return np.array2string(value, threshold=12) if isinstance(value, np.ndarray) else str(value)


def close(found: np.ndarray, wanted: torch.Tensor, what: str) -> None:
    """Roughly: how exact the kernels are is said elsewhere. Here it is whether they read and write the right places."""
    exact = wanted.double().numpy()
    error = np.abs(found - exact).max(initial=0)
    allowed = (1e-3 if found.dtype == np.float32 else 1e-4) * max(np.abs(exact).max(initial=0), 1)
    assert error <= allowed, f"{what} is off by {error}"
