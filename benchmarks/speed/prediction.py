"""Prediction beside `torch.cos`: a batch of aspirin, one molecule, a box of water, and boxes of growing size."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms

from qml_lightning import Potential, Recipe, Structures, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Headline, Options, succeeded
from ..harness.internals import untrained
from ..harness.models import load, with_features
from ..harness.processes import apart
from ..harness.systems import liquid_water, single_precision
from ..harness.tables import table, thousands
from ..harness.timing import best_in_turn, cosine_floor, memory

BATCHES, ONE, BOXES = "batches", "one aspirin", "growing boxes"
DENSITY, FCHL19, PAIR = "density", "FCHL19", "paper's angular pair"
SIZES = (1_500, 3_000, 12_000, 36_000, 100_000)  # atoms of the boxes
WATER = 12_000
SKIN = 0.5


def variants(n_features: int) -> dict[str, Recipe]:
    """Recipes that are timed: the default with 128 and 256 axes, FCHL19, and the paper's representation."""
    single = single_precision(n_features)
    density = replace(single, representation=recipes.DEFAULT.representation)
    return {
        DENSITY: density,
        "density, 256 axes": replace(density, rank=256),
        "density, float64": replace(density, precision="float64"),
        FCHL19: single,
        "FCHL19, 256 axes": replace(single, rank=256),
        "FCHL19, phases instead of pairs": with_features(single, paired=False),
        PAIR: replace(single, representation=recipes.ANGULAR_PAIR.representation),
    }


def cells(options: Options) -> list[Cell]:
    n_features = 512 if options.quick else 16384
    return [{"what": what, "n_features": n_features} for what in (BATCHES, ONE, BOXES)]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    rounds, n_features = 1 if options.quick else 10, cell["n_features"]
    seconds = 0.0 if options.quick else 0.2  # of one turn
    if cell["what"] == BATCHES:
        return _batches(n_features, options.quick, rounds, seconds)
    if cell["what"] == BOXES:
        return {"boxes": _boxes(n_features, options.quick, rounds, seconds), "skin": SKIN}
    one, some = _aspirin(1), _aspirin(40)
    return {
        "milliseconds": {
            name: _one_molecule(one, untrained(some, recipe), rounds, seconds)
            for name, recipe in variants(n_features).items()
        }
    }


def _aspirin(n: int) -> Structures:
    return load(f"rmd17_aspirin:train_01@0:{n}").structures


def _batches(n_features: int, quick: bool, rounds: int, seconds: float) -> dict[str, Any]:
    """µs per atom of aspirin and water beside `torch.cos`, in turn."""
    molecules, n_atoms = _aspirin(20 if quick else 500), 600 if quick else WATER
    box = liquid_water(n_atoms)
    calls: dict[str, tuple[Callable[[], object], Structures]] = {}
    for name, recipe in variants(n_features).items():
        potential = untrained(_aspirin(40), recipe)
        calls[f"{len(molecules)} aspirin, {name}"] = (lambda p=potential: p.predict(molecules)), molecules
    for name in (DENSITY, FCHL19, PAIR):
        potential = untrained(liquid_water(600), variants(n_features)[name])
        for what, stress in (("", False), (" with stress", True)):  # a molecule has none
            call = lambda p=potential, w=stress: p.predict(box, stress=w)  # noqa: E731
            calls[f"water, {name}{what}"] = call, box
    floor = cosine_floor(molecules.n_atoms, n_features)
    best = best_in_turn({"torch.cos": floor, **{name: call for name, (call, _) in calls.items()}}, rounds, seconds)
    return {
        "cosine_us_per_atom": best["torch.cos"] / molecules.n_atoms * 1e6,
        "us_per_atom": {name: best[name] / structures.n_atoms * 1e6 for name, (_, structures) in calls.items()},
        "atoms": {"aspirin": molecules.n_atoms, "water": box.n_atoms},
    }


def _one_molecule(one: Structures, potential: Potential, rounds: int, seconds: float) -> dict[str, float]:
    """Milliseconds of a call, and of a step through ASE."""
    atoms = Atoms(one.numbers.numpy(), one.positions.numpy(), calculator=potential.calculator())
    moves = itertools.cycle(np.random.default_rng(1).normal(scale=1e-4, size=(97, len(atoms), 3)))

    def step() -> None:
        atoms.positions += next(moves)
        atoms.get_forces()

    best = best_in_turn({"API": lambda: potential.predict(one), "ASE": step}, rounds, seconds)
    return {name: 1e3 * time for name, time in best.items()}


def _boxes(n_features: int, quick: bool, rounds: int, seconds: float) -> list[dict[str, float]]:
    """Time, in turn, and memory of boxes of growing size."""
    sizes = (600, 1_500) if quick else SIZES
    potential = untrained(liquid_water(600), variants(n_features)[DENSITY])
    boxes = {str(n): liquid_water(n) for n in sizes}
    predictors = {n: potential.on(skin=SKIN) for n in boxes}
    calls = {n: lambda p=predictors[n], s=box: p.predict(s) for n, box in boxes.items()}
    found = []
    for n, time in best_in_turn(calls, rounds, seconds).items():
        per_atom = {"atoms": boxes[n].n_atoms, "us_per_atom": 1e6 * time / boxes[n].n_atoms}
        kib = {} if quick else apart(memory_of_box, int(n), n_features)  # a process of its own costs seconds
        found.append({**per_atom, **kib})
    return found


def memory_of_box(n_atoms: int, n_features: int) -> dict[str, float]:
    """KiB per atom that a prediction takes, and those of its neighbour list; in a process that does nothing else."""
    predictor = untrained(liquid_water(600), variants(n_features)[DENSITY]).on(skin=SKIN)
    structures = liquid_water(n_atoms)
    # the memory of libraries, kernels and tables is not that of the atoms
    predictor.predict(liquid_water(600))
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # Linux forgets the highest mark
    before = memory("VmRSS")
    predictor.predict(structures)
    kib = (memory("VmHWM") - before) / 1024 / structures.n_atoms
    volume = 4 / 3 * np.pi * (predictor.cutoff + predictor.skin) ** 3
    pairs = volume * structures.n_atoms / float(structures.volumes[0])
    return {"kib_per_atom": kib, "list_kib_per_atom": float(pairs) * 4 / 1024}


def tables(entries: list[Entry]) -> str:
    rows = []
    for entry in succeeded(entries):
        if entry[CELL]["what"] == BATCHES:
            cosine = entry["cosine_us_per_atom"]
            rows.append(["torch.cos", f"{cosine:.2f} µs/atom", "1"])
            rows += [[name, f"{t:.2f} µs/atom", f"{t / cosine:.2f}"] for name, t in entry["us_per_atom"].items()]
        for name, times in entry.get("milliseconds", {}).items():
            rows.append([f"one aspirin, {name}", *(f"{kind} {time:.3f} ms" for kind, time in times.items())])
        for box in entry.get("boxes", []):
            kib = f"{box['kib_per_atom']:.2f} KiB/atom" if "kib_per_atom" in box else ""
            rows.append([f"water of {box['atoms']} atoms, skin {SKIN} Å", f"{box['us_per_atom']:.2f} µs/atom", kib])
    return table(["prediction", "time", "times torch.cos"], rows)


def headline(entries: list[Entry]) -> list[Headline]:
    there = {entry[CELL]["what"]: entry for entry in succeeded(entries)}
    if not {BATCHES, ONE} <= there.keys():
        return []
    batches, times = there[BATCHES], there[ONE]["milliseconds"][DENSITY]
    n_features, cosine = batches[CELL]["n_features"], batches["cosine_us_per_atom"]
    times_of = {name.removesuffix(f", {DENSITY}"): time for name, time in batches["us_per_atom"].items()}
    batch = next(name for name in times_of if name.endswith(" aspirin"))
    aspirin, water = times_of[batch], times_of["water"]
    rows = (
        (f"{batch} molecules", f"{aspirin:.1f} µs per atom",
         f"torch.cos over (atoms, {n_features}): {cosine:.1f} µs per atom"),
        ("one aspirin molecule", f"{times['API']:.2f} ms", f"ASE {times['ASE']:.2f} ms"),
        (f"{thousands(WATER)} atoms of liquid water", f"{water:.1f} µs per atom",
         f"{water / times_of[f'water, {FCHL19}']:.2f} of the time of FCHL19, {water / aspirin:.2f} times the batch"),
    )  # fmt: skip
    what = f"energies and forces, {n_features} features"
    return [Headline(f"{what}: {name}", here, beside, timing=True) for name, here, beside in rows]


PREDICTION = Benchmark(
    "prediction",
    "Prediction beside torch.cos",
    "Weights are random: time does not depend on them. Ratios are taken within one run.",
    cells, measure, tables, headline=headline,
    needs=("rmd17/rmd17_aspirin.npz", "water/water_pbe0ts.npz"), timing=True,
)  # fmt: skip
