"""The paper's timing tables on the GPU here: `python benchmarks/gpu.py`. Without one it ends with an error."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

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


def seconds_of(work: Callable[[], object], repeats: int) -> float:
    """Shortest time of `work`, with the GPU at rest before and after."""
    best = float("inf")
    for _ in range(repeats + 1):  # the first compiles
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begun)
    return best


def prediction(device: torch.device, repeats: int) -> dict[str, dict[str, float]]:
    """µs per atom of energies and forces, by system with representation, and number of features."""
    found: dict[str, dict[str, float]] = {}
    for name, representation in itertools.product(SYSTEMS, RECIPES):
        structures = system(name)
        for n in N_FEATURES:
            predictor = untrained(name, n, RECIPES[representation]).on(device, "float32", skin=0.5)
            assert predictor.basis.kernels.NAME == "triton"
            seconds = seconds_of(lambda: predictor.predict(structures, stress=False), repeats)  # noqa: B023
            found.setdefault(f"{name}, {representation}", {})[str(n)] = 1e6 * seconds / structures.n_atoms
    return found


def training(device: torch.device) -> dict[str, float]:
    """Seconds to train on 1000 configurations with 16384 features, by molecule with representation and solver."""
    found = {}
    for molecule, representation, solver in itertools.product(MOLECULES, RECIPES, SOLVERS):
        data, recipe = load(f"rmd17_{molecule}:train_01"), RECIPES[representation]
        recipe = replace(recipe, solver=replace(recipe.solver, method=solver))
        fit(data.select(range(20)), with_features(recipe, 2048), device=device)  # compiles
        whole = with_features(recipe, N_FEATURES[0])
        name = f"{molecule}, {representation}, {solver}"
        found[name] = seconds_of(lambda: fit(data, whole, device=device), 0)  # noqa: B023
    return found


def tables(found: dict[str, Any]) -> str:
    """Both tables beside the paper's."""
    paper = PUBLISHED["prediction"]["systems"]
    rows = []
    for name, there in found["prediction_us_per_atom"].items():
        theirs = paper.get(_system(name), {})
        cells = ((digits(there[n]), f"{theirs[n]:g}" if n in theirs else "–") for n in map(str, N_FEATURES))
        rows.append([name, *itertools.chain(*cells)])
    head = ["µs per atom", *(text for n in N_FEATURES for text in (f"here, {n}", f"paper, RTX 3080, {n}"))]
    double = PUBLISHED["training"]["models"]["paper, SORF-16384, RTX 3080, double"]
    trained = [[name, digits(s), f"{double[_system(name)]:g}"] for name, s in found["training_seconds"].items()]
    return "\n\n".join([table(head, rows), table(["seconds of training", "here", "paper, RTX 3080, double"], trained)])


def _system(name: str) -> str:
    """System of a row, without representation and solver: the paper has FCHL19 and direct solutions alone."""
    return name.split(", ")[0]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--device", default="cuda")
    options.add_argument("--repeats", type=int, default=10)
    given = options.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/gpu.py measures a GPU, and torch sees none: it needs one, its driver and CUDA.")
    device = torch.device(given.device)
    found = {
        "card": torch.cuda.get_device_name(device),
        "capability": torch.cuda.get_device_capability(device),
        "torch": torch.__version__,
        "command": " ".join(sys.argv),
        "prediction_us_per_atom": prediction(device, given.repeats),
        "training_seconds": training(device),
    }
    print(tables(found))
    path = RESULTS / "gpu" / f"{found['card']}.json".replace(" ", "_").lower()
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"Written to {path}")


if __name__ == "__main__":
    main()
