"""Random features, OQML and GPR on the same structures, and kernelforge's covariance of the same rows.

    python benchmarks/exact.py                    # 300 ethanol structures
    python benchmarks/exact.py --structures 1000
    python benchmarks/exact.py --quick            # 50 structures; writes nothing

GPR has two representations: the default one, and the paper's angular pair, which is what kernelforge computes. Of
kernelforge, representation and covariance are timed; neither the solution nor a prediction is in its figure. What is
compared with it is the best of several turns of each.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from common import SHARED_DATA, Headline, table, write

from qml_lightning import Dataset, Recipe, evaluate, exact, fit, load_dataset, recipes
from qml_lightning.representation import ENERGIES_AND_FORCES as PAIR

RECIPES: dict[str, Recipe | exact.ExactRecipe] = {
    "SORF": recipes.DEFAULT,
    "OQML": exact.OQML,
    "GPR": exact.GPR,
    "GPR, rank 128": replace(exact.GPR, rank=128),
    "GPR, angular pair": replace(exact.GPR, representation=PAIR),
}
BESIDE = "GPR, angular pair"  # the rows that kernelforge has
COMPARED = ("environments", "kernels")  # stages
TURNS = 3


class Stages:
    """Seconds of each stage of a fit, from what it tells of its progress."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.now, self.since = "environments", time.perf_counter()

    def tell(self, what: str, done: int, of: int, remark: str = "", /) -> None:
        """A stage lasts until the next one is named."""
        if what != self.now:
            self.end()
            self.now = what

    def end(self) -> None:
        """Close the stage that is running."""
        now = time.perf_counter()
        self.seconds[self.now] = self.seconds.get(self.now, 0.0) + now - self.since
        self.since = now


def measured(train: Dataset, test: Dataset, recipe: Recipe | exact.ExactRecipe) -> dict[str, Any]:
    """Time of a fit by stages, time of a prediction for each atom, errors."""
    stages, start = Stages(), time.perf_counter()
    potential = fit(train, recipe, progress=stages.tell)
    seconds = time.perf_counter() - start
    stages.end()
    start = time.perf_counter()
    errors = evaluate(potential, test)
    predicting = time.perf_counter() - start
    assert errors.energy is not None
    assert errors.forces is not None
    return {
        "recipe": recipe.as_dict(),
        "fit_seconds": seconds,
        "stages_seconds": stages.seconds,
        "prediction_us_per_atom": predicting / test.structures.n_atoms * 1e6,
        "energy_mae_mev": errors.energy.mae * 1e3,
        "force_mae_mev_per_angstrom": errors.forces.mae * 1e3,
    }


def kernelforge(data: Dataset) -> dict[str, float]:
    """Seconds of its representations with gradients, and of its covariance of all energies and forces."""
    from kernelforge import fchl19_repr, local_kernels

    structures, n = data.structures, int(data.structures.counts[0])
    numbers = structures.numbers[:n].numpy().astype(np.int32)
    start = time.perf_counter()
    parts = [
        fchl19_repr.generate_fchl_acsf_and_gradients(
            frame, numbers, elements=list(structures.elements), rcut=PAIR.cutoff, acut=PAIR.cutoff
        )
        for frame in structures.positions.view(-1, n, 3).numpy()
    ]
    values, gradients = (np.array(arrays) for arrays in zip(*parts, strict=True))
    represented = time.perf_counter()
    local_kernels.kernel_gaussian_full_symm(
        values,
        gradients.reshape(*values.shape, 3 * n),
        np.tile(numbers, (len(structures), 1)),
        np.full(len(structures), n, np.int32),
        exact.GPR.sigma,
    )
    return {"environments": represented - start, "kernels": time.perf_counter() - represented}


def compared(stages: dict[str, float]) -> float:
    """Seconds of what both do."""
    return sum(stages[name] for name in COMPARED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("molecule", nargs="?", default="ethanol")
    parser.add_argument("--structures", type=int, default=300)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.structures = 50
    train = load_dataset(f"rmd17_{options.molecule}:train_01@0:{options.structures}", data_folder=SHARED_DATA)
    test = load_dataset(f"rmd17_{options.molecule}:test_01", data_folder=SHARED_DATA)
    fit(train.select(np.arange(2)), exact.GPR)  # what is done once in a process is not of the method

    ours = {name: measured(train, test, recipe) for name, recipe in RECIPES.items() if name != BESIDE}
    turns = [(measured(train, test, RECIPES[BESIDE]), kernelforge(train)) for _ in range(TURNS)]
    ours[BESIDE] = min((one for one, _ in turns), key=lambda one: compared(one["stages_seconds"]))
    theirs = min((one for _, one in turns), key=compared)
    stages = (*COMPARED, "solving")
    rows = [
        [
            name,
            f"{one['fit_seconds']:.2f}",
            *(f"{one['stages_seconds'][stage]:.2f}" if stage in one["stages_seconds"] else "" for stage in stages),
            f"{one['prediction_us_per_atom']:.0f}",
            f"{one['energy_mae_mev']:.2f}",
            f"{one['force_mae_mev_per_angstrom']:.1f}",
        ]
        for name, one in ours.items()
    ]
    rows.append(["kernelforge", "", f"{theirs['environments']:.2f}", f"{theirs['kernels']:.2f}", "", "", "", ""])
    head = [f"{len(train)} × {options.molecule}", "fit s", *stages, "predict µs/atom", "E meV", "F meV/Å"]
    print(table(head, rows))
    if not options.quick:
        headline = Headline(
            f"covariance of GPR for {len(train)} {options.molecule} structures, {torch.get_num_threads()} threads",
            f"{compared(ours[BESIDE]['stages_seconds']):.1f} s",
            f"kernelforge {compared(theirs):.1f} s",
            timing=True,
        )
        results = {
            "molecule": options.molecule,
            "structures": len(train),
            "methods": ours,
            "kernelforge": {"version": version("kernelforge"), "stages_seconds": theirs},
        }
        write(f"exact_{options.molecule}_{len(train)}", results, [headline])


if __name__ == "__main__":
    main()
