"""Prediction beside torch.cos: a batch of aspirin, one molecule, a box of water, and boxes of growing size.

    python benchmarks/prediction.py [--quick]

Weights are random: time does not depend on them. Ratios are taken within one run.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ase import Atoms
from common import SHARED_DATA, Headline, best_in_turn, table, write

from qml_lightning.baseline import Baseline
from qml_lightning.basis import draw
from qml_lightning.potential import Potential, Predictor
from qml_lightning.recipes import ANGULAR_PAIR, DEFAULT, Recipe
from qml_lightning.structures import Structures, structures_from_arrays, structures_from_ase

N_FEATURES = 16384
SIZES = (1_500, 3_000, 12_000, 36_000, 100_000)


def variants() -> dict[str, Recipe]:
    """Recipes that are timed: the default, with phases instead of pairs, and the paper's representation."""
    features = replace(DEFAULT.features, n_features=N_FEATURES)
    single = replace(DEFAULT, precision="float32", features=features, projection_samples=300)
    return {
        "default": single,
        "default, phases instead of pairs": replace(single, features=replace(features, paired=False)),
        "paper's angular pair": replace(single, representation=ANGULAR_PAIR.representation),
        "default, float64": replace(single, precision="float64"),
    }


def potential_for(structures: Structures, recipe: Recipe) -> Potential:
    """Axes from the structures, random weights."""
    random = np.random.default_rng(0)
    projection, maps = draw(structures, recipe, random)
    weights = torch.from_numpy(random.standard_normal(recipe.features.n_weights(len(maps))))
    zero = torch.zeros(len(structures.elements), dtype=torch.float64)
    return Potential(structures.elements, recipe, projection, maps, weights, Baseline(structures.elements, zero))


def aspirin(n: int) -> Structures:
    data = np.load(SHARED_DATA / "rmd17" / "rmd17_aspirin.npz")
    return structures_from_arrays([data["nuclear_charges"]] * n, list(data["coords"][:n]))


def water(n_atoms: int) -> Atoms:
    """Liquid water of about `n_atoms` atoms: a frame of 192 repeated, every atom then moved a little."""
    data = np.load(SHARED_DATA / "water" / "water_pbe0ts.npz")
    frame = Atoms(data["charges"][:192], data["coords"][:192].astype(float), cell=data["cell"][0], pbc=True)
    times = [1, 1, 1]
    while len(frame) * np.prod(times) < 0.97 * n_atoms:
        times[times.index(min(times))] += 1
    box = frame * tuple(times)
    box.positions += np.random.default_rng(0).normal(scale=0.02, size=box.positions.shape)
    return box


def floor(n_atoms: int) -> Callable[[], object]:
    """torch.cos over (atoms, N_FEATURES), float32."""
    u = torch.randn(n_atoms, N_FEATURES)
    out = torch.empty_like(u)
    return lambda: torch.cos(u, out=out)


def memory(name: str) -> int:
    """KiB of this process, by the name it has in /proc."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def growing(n_atoms: int) -> tuple[Predictor, Structures]:
    """A box of water, and what predicts it."""
    predictor = potential_for(structures_from_ase(water(600)), variants()["default"]).on(skin=0.5)
    return predictor, structures_from_ase(water(n_atoms))


def one_size(n_atoms: int) -> None:
    """Memory of one size, in a process of its own: `python prediction.py --size N` prints it, and that of the list."""
    predictor, structures = growing(n_atoms)
    # the memory of libraries, kernels and tables is not that of the atoms
    predictor.predict(structures_from_ase(water(600)))
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # Linux forgets the highest mark
    before = memory("VmRSS")
    predictor.predict(structures)
    kib = (memory("VmHWM") - before) / structures.n_atoms
    volume = 4 / 3 * np.pi * (predictor.cutoff + predictor.skin) ** 3
    pairs = volume * structures.n_atoms / float(structures.volumes[0])
    print(kib, pairs * 4 / 1024)


def sizes(wanted: list[int], rounds: int) -> list[dict[str, float]]:
    """Time, in turn, and memory of boxes of these sizes."""
    boxes = {str(n): growing(n) for n in wanted}
    calls = {}
    for n, (predictor, box) in boxes.items():
        calls[n] = lambda p=predictor, s=box: p.predict(s)
    found = []
    for n, seconds in best_in_turn(calls, rounds).items():
        command = [sys.executable, __file__, "--size", n]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        kib, list_kib = (float(value) for value in printed)
        atoms = boxes[n][1].n_atoms
        found.append(
            {"atoms": atoms, "µs per atom": 1e6 * seconds / atoms, "KiB per atom": kib, "of it the list": list_kib}
        )
    return found


def batches(molecules: Structures, rounds: int) -> tuple[dict[str, Any], list[list[str]]]:
    """Aspirin and water beside torch.cos, in turn: results and rows of the table."""
    box = structures_from_ase(water(12_000))
    calls: dict[str, Callable[[], object]] = {"torch.cos": floor(molecules.n_atoms)}
    for name, recipe in variants().items():
        potential = potential_for(molecules[:40], recipe)
        calls[f"500 aspirin, {name}"] = lambda p=potential: p.predict(molecules)
    for name in ("default", "paper's angular pair"):
        potential = potential_for(structures_from_ase(water(600)), variants()[name])
        for what, stress in (("", False), (" with stress", True)):  # a molecule has none
            calls[f"water of 12 000 atoms, {name}{what}"] = lambda p=potential, w=stress: p.predict(box, stress=w)
    best = best_in_turn(calls, rounds)
    cosine = best.pop("torch.cos") / molecules.n_atoms
    results: dict[str, Any] = {"torch.cos, µs per atom": 1e6 * cosine}
    rows = [["torch.cos", f"{1e6 * cosine:.2f} µs/atom", "1"]]
    for name, seconds in best.items():
        per_atom = seconds / (box if name.startswith("water") else molecules).n_atoms
        results[name] = {"µs per atom": 1e6 * per_atom, "times torch.cos": per_atom / cosine}
        rows.append([name, f"{1e6 * per_atom:.2f} µs/atom", f"{per_atom / cosine:.2f}"])
    return results, rows


def one_molecule(one: Structures, potential: Potential, repeats: int) -> dict[str, float]:
    """Milliseconds of a call, and of a step through ASE."""
    atoms = Atoms(one.numbers.numpy(), one.positions.numpy(), calculator=potential.calculator())
    moves = itertools.cycle(np.random.default_rng(1).normal(scale=1e-4, size=(97, len(atoms), 3)))

    def step() -> None:
        atoms.positions += next(moves)
        atoms.get_forces()

    best = best_in_turn({"API, ms": lambda: potential.predict(one), "ASE, ms": step}, repeats)
    return {name: 1e3 * seconds for name, seconds in best.items()}


def headline(results: dict[str, Any]) -> list[Headline]:
    """The rows of the README's table."""
    cosine = f"torch.cos over (atoms, {N_FEATURES}): {results['torch.cos, µs per atom']:.1f} µs per atom"
    batch, one = results["500 aspirin, default"], results["one aspirin, default"]
    box = results["water of 12 000 atoms, default"]
    what = f"energies and forces, {N_FEATURES} features"
    return [
        Headline(f"{what}: 500 aspirin molecules", f"{batch['µs per atom']:.1f} µs per atom", cosine, timing=True),
        Headline(
            f"{what}: one aspirin molecule", f"{one['API, ms']:.2f} ms", f"ASE {one['ASE, ms']:.2f} ms", timing=True
        ),
        Headline(
            f"{what}: 12 000 atoms of liquid water", f"{box['µs per atom']:.1f} µs per atom",
            f"{box['µs per atom'] / batch['µs per atom']:.2f} times the batch of aspirin", timing=True,
        ),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer repeats and no box above 12 000 atoms")
    parser.add_argument("--size", type=int)
    arguments = parser.parse_args()
    if arguments.size:
        return one_size(arguments.size)
    repeats = 3 if arguments.quick else 10
    molecules = aspirin(500)
    results, rows = batches(molecules, repeats)
    for name, recipe in variants().items():
        times = one_molecule(molecules[:1], potential_for(molecules[:40], recipe), repeats)
        results[f"one aspirin, {name}"] = times
        rows.append([f"one aspirin, {name}", *(f"{kind[:-4]} {value:.3f} ms" for kind, value in times.items())])
    boxes = sizes([size for size in SIZES if size <= 12_000 or not arguments.quick], repeats)
    results["growing boxes of water, skin 0.5 Å"] = boxes
    rows += [
        [
            f"water of {size['atoms']} atoms",
            f"{size['µs per atom']:.2f} µs/atom",
            f"{size['KiB per atom']:.2f} KiB/atom",
        ]
        for size in boxes
    ]
    print(table(["prediction", "time", "times torch.cos"], rows))
    print(write("prediction", results, headline(results)))


if __name__ == "__main__":
    main()
