"""The iterative solver beside the direct one: time, memory and errors where N_F² is out of reach.

    python benchmarks/iterative.py --molecule aspirin --features 32768 --direct    # about 20 minutes
    python benchmarks/iterative.py --molecule aspirin --features 131072
    python benchmarks/iterative.py --quick

Both solve the same recipe, chosen from the training data (`choice.py`) unless a ridge is given. The floor of the direct
solver is half a matrix product and a Cholesky factorisation with 32768 features, at the rates of the same run
(benchmarks/training.py): no direct fit can be faster. Writes benchmarks/results/iterative_<molecule>_<features>.json.
"""

from __future__ import annotations

import resource
import time
from dataclasses import replace
from typing import Any

import torch
from common import Headline, options_of_a_fit, recipe_with, rmd17, table, write
from training import rates

from qml_lightning import evaluate, fit
from qml_lightning.baseline import fit_baseline
from qml_lightning.choice import choose
from qml_lightning.datasets import Dataset
from qml_lightning.recipes import Automatic, Recipe
from qml_lightning.training import Problem

DIRECT = 32768  # features of the direct solver that it is held against


def chosen(train: Dataset, recipe: Recipe) -> tuple[Recipe, float]:
    """The recipe as the data want it, and the seconds that this takes."""
    structures = train.structures
    baseline = fit_baseline(structures, train.labels.energies, structures.elements)
    choice = choose(Problem(structures, train.labels, baseline), Automatic(recipe), iterates=True)
    return choice.recipe, choice.seconds


def solved(train: Dataset, test: Dataset, recipe: Recipe, method: str) -> dict[str, Any]:
    """Time, memory and errors of a fit."""
    start = time.perf_counter()
    potential = fit(train, replace(recipe, solver=replace(recipe.solver, method=method)))
    seconds = time.perf_counter() - start
    errors = evaluate(potential, test).as_dict()
    return {
        "fit_seconds": seconds,
        "peak_resident_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "energy_mae_mev": errors["energy"]["mae"] * 1e3,
        "force_mae_mev_per_angstrom": errors["forces"]["mae"] * 1e3,
        "rows": sum(potential.provenance["targets"].values()),
        "solution": potential.provenance["solution"],
    }


def main() -> None:
    parser = options_of_a_fit(__doc__)
    parser.add_argument("--direct", action="store_true", help="run the direct solver too")
    parser.set_defaults(features=DIRECT, ridge=None)
    options = parser.parse_args()
    if options.quick:
        options.features, options.structures = 4096, 60
    train, test = rmd17(options.molecule, options.structures), rmd17(options.molecule)
    recipe, choosing = recipe_with(options.features), 0.0
    if options.quick:
        recipe = replace(recipe, solver=replace(recipe.solver, preconditioner_features=1024))
    if options.ridge is None:
        recipe, choosing = chosen(train, recipe)
    else:
        recipe = replace(recipe, ridge=options.ridge)
    found = solved(train, test, recipe, "iterative")
    rate = rates(8192)
    floor = found["rows"] * DIRECT**2 / rate["product"] / 1e9 + DIRECT**3 / 3 / rate["cholesky"] / 1e9
    results = {
        "molecule": options.molecule,
        "recipe": recipe.as_dict(),
        "structures": len(train),
        "choice_seconds": choosing,
        **found,
        "rates_gflops": rate,
        "direct_floor_features": DIRECT,
        "direct_floor_seconds": floor,
        "times_direct_floor": found["fit_seconds"] / floor,
    }
    beside = f"a direct fit with {DIRECT} features needs at least {floor:.0f} s"
    if options.direct:
        results["direct"] = direct = solved(train, test, recipe, "direct")
        results["times_direct"] = found["fit_seconds"] / direct["fit_seconds"]
        beside = (
            f"the direct solver {direct['fit_seconds']:.0f} s: {direct['energy_mae_mev']:.2f} meV, "
            f"{direct['force_mae_mev_per_angstrom']:.2f} meV/Å"
        )
    long = ("recipe", "solution", "direct")
    print(table(["", ""], [[name, f"{value}"] for name, value in results.items() if name not in long]))
    print(f"{len(found['solution']['history'])} steps: {found['solution']['converged']}; {beside}")
    if not options.quick:
        what = f"rMD17 {options.molecule}, {len(train)} structures, {options.features} features, iterative: MAE"
        figures = f"{found['energy_mae_mev']:.2f} meV, {found['force_mae_mev_per_angstrom']:.2f} meV/Å"
        told = f"{found['fit_seconds']:.0f} s and {found['peak_resident_gib']:.1f} GiB; {beside}"
        name = f"iterative_{options.molecule}_{options.features}"
        print(f"written: {write(name, results, [Headline(what, figures, told, timing=True)])}")


if __name__ == "__main__":
    torch.set_num_threads(2)
    main()
