"""The paper's timing tables on the GPU here: `python benchmarks/gpu.py`. Without one it ends with an error."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.harness.internals import QMLError
from benchmarks.harness.models import load, with_features
from benchmarks.harness.places import PUBLISHED, RESULTS
from benchmarks.harness.systems import SYSTEMS, system, untrained
from benchmarks.harness.tables import digits, table
from qml_lightning import fit, recipes

N_FEATURES = (16384, 32768)
MOLECULES = ("ethanol", "aspirin")
# As in the predicted tables: the paper's representation, and that of the default recipe with the axes that suit it.
RECIPES = {"FCHL19": recipes.ANGULAR_PAIR, "density": replace(recipes.DEFAULT, rank=256)}
SOLVERS = ("direct", "iterative")
# Skins of neighbour lists in Å: made anew in each prediction, or kept as in molecular dynamics.
LISTS = {"new lists": 0.0, "kept lists": 0.5}
PAPER = ("single", "double")  # precision of its training

Found = dict[str, Any]
Cell = tuple[str, str, Callable[[], float]]  # table, row, and what measures it


def seconds_of(work: Callable[[], object], repeats: int) -> float:
    """Shortest time of `work`, with the GPU at rest before and after.

    It runs once more before, with the same shapes: all that has to be compiled is compiled there.
    """
    best = float("inf")
    work()
    for _ in range(max(1, repeats)):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begun)
    return best


def prediction(device: torch.device, repeats: int) -> Iterator[Cell]:
    """µs per atom of energies and forces, by system with representation, number of features and kind of list."""
    for name, representation, n, lists in itertools.product(SYSTEMS, RECIPES, N_FEATURES, LISTS):

        def measured(name=name, representation=representation, n=n, lists=lists) -> float:
            structures = system(name)
            predictor = untrained(name, n, RECIPES[representation]).on(device, "float32", skin=LISTS[lists])
            assert predictor.basis.kernels.NAME == "triton"
            seconds = seconds_of(lambda: predictor.predict(structures, stress=False), repeats)
            return 1e6 * seconds / structures.n_atoms

        yield "prediction_us_per_atom", f"{name}, {representation}, {n}, {lists}", measured


def training(device: torch.device) -> Iterator[Cell]:
    """Seconds to train on 1000 configurations with 16384 features, by molecule with representation and solver."""
    for molecule, representation, solver in itertools.product(MOLECULES, RECIPES, SOLVERS):

        def measured(molecule=molecule, representation=representation, solver=solver) -> float:
            recipe = with_features(RECIPES[representation], N_FEATURES[0])
            recipe = replace(recipe, solver=replace(recipe.solver, method=solver))
            data = load(f"rmd17_{molecule}:train_01")
            return seconds_of(lambda: fit(data, recipe, device=device), 1)

        yield "training_seconds", f"{molecule}, {representation}, {solver}", measured


def tables(found: Found) -> str:
    """Both tables beside the paper's, and what could not be measured."""
    paper = PUBLISHED["prediction"]["systems"]
    rows = []
    for row, there in found["prediction_us_per_atom"].items():
        name, _, n, _ = row.split(", ")
        theirs = paper.get(name, {}).get(n)
        rows.append([row, digits(there), "–" if theirs is None else f"{theirs:g}"])
    published = [PUBLISHED["training"]["models"][f"paper, SORF-16384, RTX 3080, {one}"] for one in PAPER]
    trained = [
        [row, digits(seconds), *(f"{one[row.split(', ')[0]]:g}" for one in published)]
        for row, seconds in found["training_seconds"].items()
    ]
    head = ["seconds of training", "here", *(f"paper, RTX 3080, {one}" for one in PAPER)]
    parts = [table(["µs per atom", "here", "paper, RTX 3080"], rows), table(head, trained)]
    notes = [f"{row}: not measured. {reason}" for row, reason in found["not_measured"].items()]
    return "\n\n".join([*parts, *notes])


def measure(found: Found, cells: Iterator[Cell], path: Path) -> None:
    """Measure the cells one after the other, and write `found` after each."""
    for name, row, measured in cells:
        try:
            found[name][row] = measured()
        except (QMLError, OSError, torch.cuda.OutOfMemoryError) as problem:  # a system or its memory is not there
            found["not_measured"][row] = str(problem)
        print(f"{row}: {found[name].get(row, found['not_measured'].get(row))}", flush=True)
        path.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--device", default="cuda")
    options.add_argument("--repeats", type=int, default=10)
    given = options.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/gpu.py measures a GPU, and torch sees none: it needs one, its driver and CUDA.")
    device = torch.device(given.device)
    found: Found = {
        "card": torch.cuda.get_device_name(device),
        "capability": torch.cuda.get_device_capability(device),
        "torch": torch.__version__,
        "command": " ".join(sys.argv),
        "prediction_us_per_atom": {},
        "training_seconds": {},
        "not_measured": {},
    }
    path = RESULTS / "gpu" / f"{found['card']}.json".replace(" ", "_").lower()
    path.parent.mkdir(exist_ok=True)
    measure(found, itertools.chain(prediction(device, given.repeats), training(device)), path)
    print(tables(found))
    print(f"Written to {path}")


if __name__ == "__main__":
    main()
