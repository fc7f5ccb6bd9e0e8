"""The iterative solver beside the floor of the direct one: time, memory and errors where N_F² is out of reach.

    python benchmarks/iterative.py aspirin --features 32768     # writes benchmarks/results/iterative_aspirin_32768.json
    python benchmarks/iterative.py aspirin --features 131072
    python benchmarks/iterative.py ethanol --quick              # seconds; writes nothing

The floor of the direct solver is half a matrix product and a Cholesky factorisation with 32768 features, at the rates
of the same run (benchmarks/training.py): no direct fit can be faster.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace

import torch
from common import SHARED_DATA, Headline, table, write
from training import rates

from qml_lightning import evaluate, fit, load_dataset, recipes

DIRECT = 32768  # features of the direct solver that it is held against


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("molecule")
    parser.add_argument("--features", type=int, default=32768)
    parser.add_argument("--structures", type=int, default=1000)
    parser.add_argument("--ridge", type=float, default=1e-9)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    small = 8192
    if options.quick:
        options.features, options.structures, small = 4096, 60, 1024
    train = load_dataset(f"rmd17_{options.molecule}:train_01@0:{options.structures}", data_folder=SHARED_DATA)
    test = load_dataset(f"rmd17_{options.molecule}:test_01", data_folder=SHARED_DATA)
    recipe = replace(
        recipes.DEFAULT,
        ridge=options.ridge,
        features=replace(recipes.DEFAULT.features, n_features=options.features),
        solver=replace(recipes.DEFAULT.solver, method="iterative", preconditioner_features=small),
    )
    start = time.perf_counter()
    potential = fit(train, recipe)
    total = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rate = rates(8192)
    n_rows = sum(potential.provenance["targets"].values())
    floor = n_rows * DIRECT**2 / rate["product"] / 1e9 + DIRECT**3 / 3 / rate["cholesky"] / 1e9
    errors = evaluate(potential, test).as_dict()
    energy, forces = errors["energy"]["mae"] * 1e3, errors["forces"]["mae"] * 1e3
    results = {
        "molecule": options.molecule,
        "recipe": recipe.as_dict(),
        "structures": len(train),
        "fit_seconds": total,
        "peak_resident_gib": peak,
        "energy_mae_mev": energy,
        "force_mae_mev_per_angstrom": forces,
        "rates_gflops": rate,
        "direct_floor_features": DIRECT,
        "direct_floor_seconds": floor,
        "times_direct_floor": total / floor,
        "solution": potential.provenance["solution"],
    }
    print(
        table(["", ""], [[name, f"{value}"] for name, value in results.items() if name not in ("recipe", "solution")])
    )
    print(f"{len(results['solution']['history'])} steps: {results['solution']['converged']}")
    if not options.quick:
        what = f"rMD17 {options.molecule}, {len(train)} structures, {options.features} features, iterative: MAE"
        beside = f"{total:.0f} s and {peak:.1f} GiB; a direct fit with {DIRECT} features needs at least {floor:.0f} s"
        headline = Headline(what, f"{energy:.2f} meV, {forces:.2f} meV/Å", beside, timing=True)
        print(f"written: {write(f'iterative_{options.molecule}_{options.features}', results, [headline])}")


if __name__ == "__main__":
    torch.set_num_threads(2)
    main()
