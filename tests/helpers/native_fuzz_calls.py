"""Sound calls of every function of the C interface, with odd sizes; run as a program, it makes and breaks them.

`python native_fuzz_calls.py seed group ...` writes one line of JSON for each call begun, and one for each that
misbehaved. A call that ends the process is then the last one begun.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from ctypes import byref, c_int64, c_void_p
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

import native_fuzz_density
from native_fuzz import (
    INSTRUCTION_SETS,
    LIBRARY,
    REALS,
    WIDE,
    Call,
    Predictor,
    as_c,
    attempt,
    close,
    fuzz,
    say,
    sizes,
)
from native_fuzz_density import drawn_density
from places import ROOT
from qml_lightning.kernels import FCHL19Arguments, FeatureMap, RepresentationArguments, native, reference

# ---- feature maps ----------------------------------------------------------------------------------------------------


def drawn_map(random: np.random.Generator, real: type, rank: int = 0) -> tuple[dict[str, object], FeatureMap]:
    n_transforms = int(random.integers(0, 4)) if not rank or (rank & (rank - 1) == 0 and rank > 1) else 0
    if not rank:
        rank = 2 ** int(random.integers(1, 11)) if n_transforms else int(random.integers(1, 40))
    blocks = 1 if rank > 256 else int(random.integers(1, 4))
    n = blocks * rank if n_transforms else int(random.integers(1, 150))
    signs = random.choice([-1.0, 1.0], (blocks, n_transforms, rank)).astype(real) if n_transforms else None
    scale = random.uniform(0.1, 1, n).astype(real) * rank ** (-n_transforms / 2) if n_transforms else None
    matrix = None if n_transforms else random.normal(size=(n, rank)).astype(real)
    phases = random.uniform(0, 6, n).astype(real)
    scale = None if scale is None else scale.astype(real)
    paired = int(random.integers(2))
    twin = FeatureMap(*(None if a is None else torch.from_numpy(a).double() if isinstance(a, np.ndarray) else a
                        for a in (phases, bool(paired), signs, scale, matrix)))  # fmt: skip
    given = {"rank": rank, "n_frequencies": n, "n_transforms": n_transforms, "paired": paired,
             "amplitude": twin.amplitude, "signs": signs, "row_scale": scale, "matrix": matrix,
             "phases": phases}  # fmt: skip
    return given, twin


MAP_LENGTHS = ("n_transforms",)
MAP_WORDS = {"paired": (2, -1), "threads": (0,)}


def feature_calls(suffix: str, random: np.random.Generator) -> Iterator[Call]:
    real, wide = REALS.get(suffix, np.float32), WIDE[suffix]
    given, f = drawn_map(random, real)
    n_atoms = int(random.integers(1, 40))

    def normal(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(real)

    x, weights = normal(n_atoms, f.rank), normal(f.n_features).astype(wide)
    coefficients, tangents = normal(n_atoms).astype(wide), normal(n_atoms, f.rank).astype(wide)
    n, n_rows = int(random.integers(1, 60)), int(random.integers(1, 9))
    many = normal(n, f.rank).astype(wide)
    owner, row = np.sort(random.integers(n_atoms, size=n)), random.integers(n_rows, size=n)
    row_of_atom = random.integers(n_rows, size=n_atoms)
    stride = f.n_features + int(random.integers(0, 5))
    rows = random.normal(size=(n_rows, stride))
    doubles = {k: torch.from_numpy(v).double() for k, v in
               {"x": x, "w": weights, "a": coefficients, "t": tangents, "m": many, "rows": rows}.items()}  # fmt: skip
    shared = {"map": given, "n_atoms": n_atoms, "x": x}
    rules = {"optional": ("row_scale", "phases"), "lengths": MAP_LENGTHS, "words": MAP_WORDS}

    def right_features(out: dict[str, np.ndarray]) -> None:
        close(out["out"], reference.features(f, doubles["x"]), "features")

    if suffix in REALS:
        yield Call(f"qml_features_{suffix}", {**shared, "out": normal(n_atoms, f.n_features), "threads": 2}, ("out",),
                   right_features, **rules)  # fmt: skip

    def right_rows(out: dict[str, np.ndarray], of: np.ndarray, added: torch.Tensor) -> None:
        wanted = doubles["rows"].clone()
        wanted[:, : f.n_features].index_add_(0, torch.from_numpy(of), added)
        # rows are double also in float32, the error of what is added is not
        close(out["out"].astype(real), wanted, "rows")

    target = {"n_rows": n_rows, "out": rows, "stride": stride, "threads": 2}
    words = {**MAP_WORDS, "stride": (f.n_features - 1,)}
    arguments = {**shared, "row": row_of_atom, **target}
    more = {"words": words, "at_most": {"row": n_rows - 1}}
    if suffix in REALS:
        yield Call(f"qml_energy_rows_{suffix}", arguments, ("out",),
                   lambda out: right_rows(out, row_of_atom, reference.features(f, doubles["x"])),
                   **{**rules, **more})  # fmt: skip

    def derivatives() -> torch.Tensor:
        u, du = reference.linear(f, doubles["x"]) + f.phases, reference.linear(f, doubles["m"])
        parts = [-u.sin(), u.cos()] if f.paired else [-u.sin()]
        return torch.cat([part[owner] * du for part in parts], 1) * f.amplitude

    arguments = {**shared, "n_tangents": n, "tangents": many, "owner": owner, "row": row, **target}
    more = {"words": words, "at_most": {"owner": n_atoms - 1, "row": n_rows - 1}, "ordered": ("owner",)}
    yield Call(f"qml_force_rows_{suffix}", arguments, ("out",), lambda out: right_rows(out, row, derivatives()),
               **{**rules, **more})  # fmt: skip

    def right_energies(out: dict[str, np.ndarray]) -> None:
        energy, slope = reference.energy_and_slope(f, doubles["x"], doubles["w"])
        # energies are double also in float32, their error is not
        close(out["energy"].astype(real), energy, "energies")
        close(out["slope"].astype(real), slope, "slopes")

    arguments = {**shared, "weights": weights, "energy": random.normal(size=n_atoms),
                 "slope": normal(n_atoms, f.rank).astype(wide), "threads": 2}  # fmt: skip
    yield Call(f"qml_energy_and_slope_{suffix}", arguments, ("energy", "slope"), right_energies, **rules)

    moment = random.normal(size=f.n_features)

    def right_moment(out: dict[str, np.ndarray]) -> None:
        wanted = reference.feature_moment(f, doubles["x"], doubles["a"], doubles["t"])
        close((out["moment"] - moment).astype(real), wanted, "moment")

    arguments = {**shared, "coefficients": coefficients, "tangents": tangents, "moment": moment, "threads": 2}
    yield Call(f"qml_feature_moment_{suffix}", arguments, ("moment",), right_moment,
               **{**rules, "optional": ("row_scale", "phases", "coefficients", "tangents")})  # fmt: skip


# ---- tangents --------------------------------------------------------------------------------------------------------


def tangent_calls(suffix: str, random: np.random.Generator) -> Iterator[Call]:
    real, wide = REALS.get(suffix, np.float32), WIDE[suffix]
    rank, n, n_owners = int(random.integers(1, 70)), int(random.integers(1, 30)), int(random.integers(1, 9))
    tangents, x = random.normal(size=(n, rank)).astype(real), random.normal(size=(n_owners, rank)).astype(wide)
    owner, coefficients = np.sort(random.integers(n_owners, size=n)), random.normal(size=n)
    t, o = torch.from_numpy(tangents).double(), torch.from_numpy(owner)
    rules = {"words": {"threads": (0,), "rank": (0,)}, "at_most": {"owner": n_owners - 1}, "ordered": ("owner",)}
    shared = {"rank": rank, "n_tangents": n, "tangents": tangents, "owner": owner}

    def right_products(out: dict[str, np.ndarray]) -> None:
        close(out["out"], reference.tangent_products(t, o, torch.from_numpy(x).double()), "products")

    yield Call(f"qml_tangent_products_{suffix}",
               {**shared, "n_owners": n_owners, "x": x, "out": random.normal(size=n), "threads": 2}, ("out",),
               right_products, **rules)  # fmt: skip

    def right_sums(out: dict[str, np.ndarray]) -> None:
        close(out["out"], reference.tangent_sums(t, o, torch.from_numpy(coefficients), n_owners), "sums")

    yield Call(f"qml_tangent_sums_{suffix}",
               {**shared, "coefficients": coefficients, "n_owners": n_owners, "out": x.copy(), "threads": 2}, ("out",),
               right_sums, **rules)  # fmt: skip


# ---- representations -------------------------------------------------------------------------------------------------

FCHL19_LENGTHS = ("n_radial2", "n_radial3", "n_angular")
FCHL19_WORDS = {"cutoff": (0.0, -1.0, 1e200), "eta2": (0.0, -1.0), "eta3": (0.0, 1e6), "cutoff_power": (0, 3),
                "angular": (2, -1), "n_elements": (0, 119), "threads": (0,), "kind": (2, -1)}  # fmt: skip


def drawn_parameters(random: np.random.Generator) -> tuple[dict[str, object], FCHL19Arguments]:
    """FCHL19 as the C interface takes it, and as Python does."""
    angular = str(random.choice(["pair", "series"]))
    n = {"n_elements": int(random.integers(1, 4)), "n_radial2": int(random.integers(0, 20)),
         "n_radial3": int(random.integers(0, 20)),
         "n_angular": 2 if angular == "pair" else int(random.integers(1, 8))}  # fmt: skip
    reals = {"cutoff": float(random.uniform(3, 8)), "eta2": 0.3, "eta3": 2.7, "decay2": 1.8, "decay3": 0.6,
             "weight3": 13.0}  # fmt: skip
    parameters = {**n, "angular": ["pair", "series"].index(angular), "cutoff_power": 1, **reals}
    given = {"kind": 0, "reserved": 0, "parameters": parameters}
    return given, FCHL19Arguments(angular=angular, **n, **reals)  # type: ignore[arg-type]


def drawn_representation(
    random: np.random.Generator, real: type
) -> tuple[dict[str, object], RepresentationArguments, tuple[str, ...], dict[str, tuple]]:
    """A representation of one kind or the other, with the lengths and wrong words of its parameters."""
    if random.integers(2):
        return *drawn_density(random, real), native_fuzz_density.LENGTHS, native_fuzz_density.WORDS
    return *drawn_parameters(random), FCHL19_LENGTHS, FCHL19_WORDS


def drawn_pairs(p: RepresentationArguments, n_atoms: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    counts = random.integers(0, 7, n_atoms * p.n_elements)
    counts[-1] += 1
    segments = np.concatenate([[0], np.cumsum(counts)])
    vectors = random.normal(size=(segments[-1], 3))
    vectors *= random.uniform(0.9, 1.1 * p.cutoff, (len(vectors), 1)) / np.linalg.norm(vectors, axis=1, keepdims=True)
    return segments, vectors


def environment_calls(suffix: str, random: np.random.Generator) -> Iterator[Call]:
    real = REALS[suffix]
    given, p, lengths, wrong = drawn_representation(random, real)
    n_atoms, rank = int(random.integers(1, 6)), int(random.integers(1, 40))
    segments, vectors = drawn_pairs(p, n_atoms, random)
    vectors = vectors.astype(real)
    cotangent = random.normal(size=(n_atoms, p.size)).astype(real)
    projections = random.normal(size=(p.n_elements, p.size, rank)).astype(real)
    element = random.integers(0, p.n_elements, n_atoms)
    s, v = torch.from_numpy(segments), torch.from_numpy(vectors).double()
    shared = {"representation": given, "n_atoms": n_atoms, "segments": segments, "vectors": vectors}
    too_short = vectors.copy()
    too_short[-1] = [0.01, 0, -0.02]
    words = {**wrong, "vectors": (too_short,)}
    rules = {"words": words, "lengths": lengths, "ordered": ("segments",),
             "at_most": {"centre_element": p.n_elements - 1}}  # fmt: skip

    def right(name: str, wanted: torch.Tensor) -> Callable[[dict[str, np.ndarray]], None]:
        return lambda out: close(out["out"], wanted, name)

    def output(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(real)

    yield Call(f"qml_environments_{suffix}", {**shared, "out": output(n_atoms, p.size), "threads": 2}, ("out",),
               right("representation", reference.environments(p, n_atoms, s, v)), **rules)  # fmt: skip
    pulled = reference.environments_pullback(p, n_atoms, s, v, torch.from_numpy(cotangent).double())
    yield Call(f"qml_environments_pullback_{suffix}",
               {**shared, "cotangent": cotangent, "out": output(len(vectors), 3), "threads": 2}, ("out",),
               right("pullback", pulled),
               **rules)  # fmt: skip
    exact = reference.environments_jacobian(
        p, n_atoms, s, v, torch.from_numpy(element), torch.from_numpy(projections).double()
    )
    yield Call(f"qml_environments_jacobian_{suffix}",
               {**shared, "centre_element": element, "rank": rank, "projections": projections,
                "out": output(len(vectors), 3, rank), "threads": 2}, ("out",),
               right("Jacobian", exact), **rules)  # fmt: skip


# ---- predictor -------------------------------------------------------------------------------------------------------


def predictor_calls(suffix: str, random: np.random.Generator) -> Iterator[Call]:
    """A potential of several elements whose maps have different sizes, some with the same weights."""
    given, p, lengths, wrong = drawn_representation(random, np.float64)
    rank = int(random.choice([2, 5, 16, 64]))
    drawn = [drawn_map(random, np.float64, rank) for _ in range(p.n_elements)]
    weights = [random.normal(size=max(f.n_features for _, f in drawn))] * p.n_elements
    projections = random.normal(size=(p.n_elements, p.size, rank)) / (1 + p.size)
    baseline = random.normal(size=p.n_elements)
    model = {"representation": given, "rank": rank, "projections": projections, "maps": [m for m, _ in drawn],
             "weights": weights, "baseline": baseline, "precision": int(suffix[1:]), "reserved": 0,
             "skin": float(random.choice([0.0, 0.5]))}  # fmt: skip
    n_atoms, n = int(random.integers(1, 7)), int(random.integers(1, 4))
    offsets = np.sort(np.append(random.integers(0, n_atoms + 1, n - 1), [0, n_atoms]))
    element = random.integers(0, p.n_elements, n_atoms)
    grid = np.stack(np.meshgrid(*[np.arange(2)] * 3), -1).reshape(-1, 3)[:n_atoms]
    positions = 1.5 * grid + random.uniform(-0.3, 0.3, (n_atoms, 3))
    periodic = random.integers(0, 2, (n, 3)).astype(np.uint8)
    cells = np.tile(4.0 * np.eye(3), (n, 1, 1)) + random.uniform(-0.5, 0.5, (n, 3, 3))

    repeats = periodic.any(1) & (np.diff(offsets) > 0)

    def total(segments: np.ndarray, vectors: np.ndarray) -> torch.Tensor:
        rho = reference.environments(p, len(element), torch.from_numpy(segments), torch.from_numpy(vectors))
        out = torch.from_numpy(baseline[element])
        for e, (_, f) in enumerate(drawn):
            x = rho[element == e] @ torch.from_numpy(projections[e])
            w = torch.from_numpy(weights[e][: f.n_features])
            out[element == e] += reference.energy_and_slope(f, x, w)[0]
        return out

    predictor = Predictor(model)

    def right_sums(out: dict[str, np.ndarray]) -> None:
        atoms = torch.from_numpy(out["atom_energies"])
        close(out["energies"], torch.stack([atoms[a:b].sum() for a, b in pairwise(offsets)]), "energies")
        for a, b in pairwise(offsets):
            close(out["forces"][a:b].sum(0).astype(REALS[suffix]), torch.zeros(3), "total force")

    yield Call("qml_predictor_predict",
               {"predictor": predictor, "n_structures": n, "offsets": offsets, "element": element,
                "positions": positions, "cells": cells, "periodic": periodic, "energies": random.normal(size=n),
                "atom_energies": random.normal(size=n_atoms), "forces": random.normal(size=(n_atoms, 3)),
                "virial": random.normal(size=(n, 3, 3)), "threads": 2},
               ("energies", "atom_energies", "forces", "virial"), right_sums,
               optional=("atom_energies", "forces", "virial"), ordered=("offsets",),
               words={"threads": (0,), "predictor": (None,), "periodic": (np.full((n, 3), 2, np.uint8),),
                      "positions": (np.full((n_atoms, 3), 1e10),),
                      **({"cells": (np.full((n, 3, 3), 1e-3),)} if repeats.any() else {})},
               at_most={"element": p.n_elements - 1},
               read={"cells": np.flatnonzero(np.repeat(periodic.ravel(), 3))})  # fmt: skip

    segments, vectors = drawn_pairs(p, n_atoms, random)
    n_all = n_atoms + int(random.integers(0, 4))
    too_short, too_far = vectors.copy(), vectors.copy()
    too_short[0], too_far[0] = 0.01, 1e30

    def right_atoms(out: dict[str, np.ndarray]) -> None:
        close(out["atom_energies"].astype(REALS[suffix]), total(segments, vectors), "energies of atoms")
        close(out["forces"].sum(0).astype(REALS[suffix]), torch.zeros(3), "total force")

    yield Call("qml_predictor_predict_pairs",
               {"predictor": predictor, "n_centres": n_atoms, "n_all": n_all, "element": element, "segments": segments,
                "neighbour": random.integers(0, n_all, len(vectors)).astype(np.int32), "vectors": vectors,
                "atom_energies": random.normal(size=n_atoms), "forces": random.normal(size=(n_all, 3)),
                "virial": random.normal(size=(3, 3)), "threads": 2},
               ("atom_energies", "forces", "virial"), right_atoms, optional=("forces", "virial"),
               ordered=("segments",),
               words={"threads": (0,), "predictor": (None,), "n_all": (n_atoms - 1,), "vectors": (too_short, too_far)},
               at_most={"element": p.n_elements - 1, "neighbour": n_all - 1})  # fmt: skip

    yield list_call(predictor, p.n_elements, random)
    yield repulsion_call(predictor, p, random)
    yield crowding_call(predictor, p)
    yield gaps_call(predictor, p)
    same = {**model, "maps": [drawn[0][0]] * p.n_elements}
    structures = {"n_structures": n, "offsets": offsets, "element": element, "positions": positions, "cells": cells,
                  "periodic": periodic}  # fmt: skip
    yield from committee_calls(Predictor(same), structures, p.n_elements, drawn[0][1].n_features, random)

    broken_maps = [
        [*model["maps"][:-1], {**model["maps"][-1], **change}]  # type: ignore[misc]
        for change in (
            {"rank": 3 * rank},
            {"paired": 2},
            {"n_frequencies": 0},
            {"amplitude": math.inf},
            {"phases": None},
            {"signs": None, "matrix": None},
        )
    ]
    handle = np.zeros(1, np.int64)

    def right_handle(out: dict[str, np.ndarray]) -> None:
        made = c_void_p(int(out["out"][0]))
        assert made.value, "no predictor came"
        LIBRARY.qml_predictor_destroy(made)

    call = Call("qml_predictor_create", {"model": model, "out": handle}, ("out",), right_handle,
                lengths=lengths,
                words={**wrong, "precision": (0, 16), "skin": (-1.0, 1e10), "rank": (0, rank + 1),
                       "maps": (None, *broken_maps),
                       "weights": (None, [None] * p.n_elements, [np.full_like(weights[0], math.nan)] * p.n_elements),
                       })  # fmt: skip
    yield call


FLAG = 1 << 30  # as LAMMPS marks special neighbours


def list_call(predictor: Predictor, n_elements: int, random: np.random.Generator) -> Call:
    """Atoms on a grid, all of them centres in another order, with flags in their lists."""
    n = int(random.integers(2, 9))
    grid = np.stack(np.meshgrid(*[np.arange(2)] * 3), -1).reshape(-1, 3)[:n]
    positions = 1.7 * grid + random.uniform(-0.3, 0.3, (n, 3))
    element, centres = random.integers(0, n_elements, n), random.permutation(n).astype(np.int32)
    neighbours = [random.permutation(np.delete(np.arange(n), i)).astype(np.int32) for i in centres]
    for one in neighbours:
        one[0] |= FLAG
    lists = {"n_centres": n, "n_all": n, "centres": centres, "counts": np.full(n, n - 1, np.int32),
             "neighbours": neighbours, "mask": FLAG - 1, "reserved": 0, "element": element.astype(np.int32),
             "positions": positions}  # fmt: skip

    def right(out: dict[str, np.ndarray]) -> None:
        energies, forces, virial = np.zeros(n), np.zeros((n, 3)), np.zeros((3, 3))
        alone = [np.array([0, n]), element, positions, np.zeros((3, 3)), np.zeros(3, np.uint8), np.zeros(1)]
        given = [c_void_p(one.ctypes.data) for one in (*alone, energies, forces, virial)]
        assert LIBRARY.qml_predictor_predict(predictor.handle, c_int64(1), *given, 1) == 0
        close(out["atom_energies"], torch.from_numpy(energies[centres]), "energies of atoms")
        close(out["forces"], torch.from_numpy(forces), "forces")
        close(out["virial"], torch.from_numpy(virial), "virial")
        close(out["atom_virials"].sum(0), torch.from_numpy(virial), "virials of atoms")

    return Call("qml_predictor_predict_lists",
                {"predictor": predictor, "lists": lists, "atom_energies": random.normal(size=n),
                 "forces": random.normal(size=(n, 3)), "virial": random.normal(size=(3, 3)),
                 "atom_virials": random.normal(size=(n, 3, 3)), "threads": 2},
                ("atom_energies", "forces", "virial", "atom_virials"), right,
                optional=("forces", "virial", "atom_virials"),
                words={"threads": (0,), "predictor": (None,), "positions": (np.zeros((n, 3)),),
                       "counts": (np.full(n, -1, np.int32),), "neighbours": (None, [None] * n)},
                at_most={"element": n_elements - 1, "centres": n - 1})  # fmt: skip


def repulsion_call(predictor: Predictor, p: FCHL19Arguments, random: np.random.Generator) -> Call:
    """Distances below all those of the other calls; whether predictions are right is tested elsewhere."""
    n = p.n_elements
    outer = random.uniform(0.3, 0.5, (n, n))
    outer = np.minimum(outer, outer.T)
    numbers = random.integers(1, 119, n).astype(np.int32)
    lopsided = outer + 0.01 * np.arange(n * n).reshape(n, n)
    words = {"predictor": (None,), "inner": (outer, -outer, 0 * outer), "outer": (0.1 * outer, outer + p.cutoff),
             "atomic_numbers": (0 * numbers, numbers + 200)}  # fmt: skip
    words["outer"] += (lopsided,) if n > 1 else ()
    return Call("qml_predictor_set_repulsion",
                {"predictor": predictor, "atomic_numbers": numbers, "outer": outer, "inner": 0.7 * outer}, (),
                lambda _: None, words=words)  # fmt: skip


def gaps_call(predictor: Predictor, p: FCHL19Arguments) -> Call:
    """Gaps beyond all distances of the other calls, of a predictor whose repulsion was set."""
    n = p.n_elements
    low = np.full((n, n), 0.98 * p.cutoff)
    lopsided = low + 0.001 * np.arange(n * n).reshape(n, n)
    words = {
        "predictor": (None,),
        "low": (-low, 0 * low, 0.01 * low, 1.01 * low),
        "high": (0 * low, 0.9 * low, 2 * low),
    }
    words["low"] += (lopsided,) if n > 1 else ()
    return Call("qml_predictor_set_gaps", {"predictor": predictor, "low": low, "high": 1.01 * low}, (),
                lambda _: None, words=words)  # fmt: skip


def crowding_call(predictor: Predictor, p: FCHL19Arguments) -> Call:
    """An onset above all that the other calls have; whether predictions are right is tested elsewhere."""
    n = p.n_elements
    reach, onset = np.full((n, n), 0.5 * p.cutoff), np.linspace(100.0, 200.0, n)
    lopsided = reach + 0.01 * np.arange(n * n).reshape(n, n)
    words = {"predictor": (None,), "reach": (-reach, 0 * reach, 3 * reach), "onset": (-onset, 0 * onset, 3 * onset),
             "full": (onset, 0 * onset), "strength": (-onset,)}  # fmt: skip
    words["reach"] += (lopsided,) if n > 1 else ()
    return Call("qml_predictor_set_crowding",
                {"predictor": predictor, "reach": reach, "onset": onset, "full": 2 * onset, "strength": onset}, (),
                lambda _: None, words=words)  # fmt: skip


def committee_calls(
    predictor: Predictor, structures: dict[str, object], n_elements: int, n_features: int, random: np.random.Generator
) -> Iterator[Call]:
    """Members with all features; whether their deviations are right is tested elsewhere."""
    arrays = {"weights": random.normal(size=(3, n_elements, n_features)),
              "of_energies": np.array([0.5, 0.1, 0.8, 0.5]), "of_forces": np.full((n_elements, 3), 0.5)}  # fmt: skip
    committee = {"predictor": predictor, "n_members": 3, "n_force_members": 2, "n_features": n_features, **arrays}
    given = c_int64(3), c_int64(2), c_int64(n_features), *(c_void_p(one.ctypes.data) for one in arrays.values())
    assert LIBRARY.qml_predictor_set_committee(predictor.handle, *given) == 0
    yield Call("qml_predictor_set_committee", committee, (), lambda _: None,
               words={"predictor": (None,), "n_members": (0, -1, 5000), "n_force_members": (-1, 4),
                      "n_features": (0, -1, 2 * n_features + 2), "of_energies": (-np.ones(4), np.zeros(4)),
                      "of_forces": (-arrays["of_forces"], 3 * arrays["of_forces"])})  # fmt: skip
    n, n_atoms = len(structures["cells"]), len(structures["element"])  # type: ignore[arg-type]
    outputs = {"energies": (n,), "atom_energies": (n_atoms,), "forces": (n_atoms, 3), "virial": (n, 3, 3)}
    outputs |= {"energy_uncertainty": (n,), "atom_energy_uncertainty": (n_atoms,), "force_uncertainty": (n_atoms,)}
    yield Call("qml_predictor_predict_uncertain",
               {"predictor": predictor, **structures,
                **{key: random.normal(size=size) for key, size in outputs.items()}, "threads": 2},
               tuple(outputs), lambda _: None, optional=("atom_energies", "forces", "virial", "force_uncertainty"),
               ordered=("offsets",), words={"threads": (0,), "predictor": (None,)}, at_most={"element": n_elements - 1},
               read={"cells": np.flatnonzero(np.repeat(structures["periodic"].ravel(), 3))})  # type: ignore[attr-defined]  # fmt: skip
    lists = list_call(predictor, n_elements, random)
    uncertainty = random.normal(size=len(lists.arguments["atom_energies"]))  # type: ignore[arg-type]
    arguments = {**lists.arguments, "uncertainty": uncertainty}
    arguments["threads"] = arguments.pop("threads")
    outputs_too = (*lists.outputs, "uncertainty")
    yield replace(lists, function="qml_predictor_predict_lists_uncertain", arguments=arguments, outputs=outputs_too)


def load_calls(_: str, random: np.random.Generator) -> Iterator[Call]:
    """A model file; files that are damaged are in tests/kernels/test_native_files.py."""
    handle = np.zeros(1, np.int64)

    def right(out: dict[str, np.ndarray]) -> None:
        made = c_void_p(int(out["out"][0]))
        assert LIBRARY.qml_predictor_n_elements(made) == 2
        LIBRARY.qml_predictor_destroy(made)

    yield Call("qml_predictor_load",
               {"path": str(ROOT / "tests" / "data" / "water.safetensors").encode(), "precision": 64, "skin": 0.5,
                "out": handle}, ("out",), right,
               words={"path": (None, b"", b"/", b"/nowhere/%s%n", b"\xff" * 300, __file__.encode()),
                      "precision": (16, 1), "skin": (-1.0, 1e10)})  # fmt: skip


# ---- the rest --------------------------------------------------------------------------------------------------------


def small_calls(random: np.random.Generator) -> None:
    """Functions without arrays."""

    def expect(function: str, about: str, holds: bool) -> None:
        if not holds:
            say(function=function, wrong=about)

    given, p = drawn_parameters(random)
    parameters: dict[str, object] = given["parameters"]  # type: ignore[assignment]
    for function, value, wanted in [
        ("qml_representation_size", None, -1),
        ("qml_representation_size", given, p.size),
        ("qml_representation_size", {**given, "kind": 7}, -1),
        ("qml_representation_size", {**given, "parameters": {**parameters, "n_elements": 2**31 - 1}}, -1),
        ("qml_representation_size", {**given, "parameters": {**parameters, "n_elements": 119, "n_radial3": 0}}, -1),
        ("qml_representation_size", {**given, "parameters": {**parameters, "n_radial3": -5}}, -1),
        ("qml_predictor_lists_made", None, 0),
        ("qml_predictor_n_elements", None, 0),
        ("qml_predictor_cutoff", None, 0.0),
        ("qml_predictor_precision", None, 0),
        ("qml_predictor_n_members", None, 0),
        ("qml_predictor_atomic_number", (None, 0), 0),
        ("qml_predictor_destroy", None, None),
        ("qml_use_isa", None, 1),
        ("qml_use_isa", b"", 4),
        ("qml_use_isa", b"\xff%s%n" * 1000, 4),
    ]:
        say(function=function, begun=str(value)[:100])
        alive: list = []
        argument = byref(as_c("representation", value, alive)) if isinstance(value, dict) else value
        found = getattr(LIBRARY, function)(*argument if isinstance(argument, tuple) else (argument,))
        expect(function, f"{str(value)[:100]} gave {found}, not {wanted}", wanted is None or found == wanted)
    for function in ("qml_abi_version", "qml_isa", "qml_last_error"):
        say(function=function, begun="")
        expect(function, "gave nothing", bool(getattr(LIBRARY, function)) and native.instruction_set() != "")


GROUPS = {
    "features": feature_calls,
    "tangents": tangent_calls,
    "environments": environment_calls,
    "predictor": predictor_calls,
    "load": load_calls,
}


def main() -> None:
    seed, groups = int(sys.argv[1]), sys.argv[2:]
    random = np.random.default_rng(seed)
    serving = [name for name in INSTRUCTION_SETS if LIBRARY.qml_use_isa(name.encode()) == 0]
    for group in groups:
        say(group=group)
        if group == "small":
            small_calls(random)
            continue
        for suffix in WIDE if group in ("features", "tangents") else REALS:
            for name in serving:  # odd sizes on each; arguments are checked before an instruction set is chosen
                LIBRARY.qml_use_isa(name.encode())
                for _ in range(3):
                    for call in GROUPS[group](suffix, random):
                        attempt(call, f"sound call on {name} with {sizes(call)}", "sound")
            for call in GROUPS[group](suffix, random):
                fuzz(call, random)


if __name__ == "__main__":
    main()
