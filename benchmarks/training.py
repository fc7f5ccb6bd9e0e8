"""Time of a fit beside its floor: half of a matrix product and a Cholesky factorisation, at the rates of the same run.

python benchmarks/training.py ethanol            # 1000 structures, 16384 features
python benchmarks/training.py aspirin --features 16384
python benchmarks/training.py ethanol --quick    # minutes become seconds; writes nothing
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import defaultdict
from dataclasses import replace
from typing import Any

import torch
from common import SHARED_DATA, Headline, best_of, table, write

import qml_lightning.equations as equations
from qml_lightning import evaluate, fit, load_dataset, recipes
from qml_lightning.normal import Gram


def rates(n: int) -> dict[str, float]:
    """GFLOP/s in float64 of the best matrix product of rows (long tile, square), and of a Cholesky factorisation."""
    rows = torch.randn(4096, n, dtype=torch.float64)
    product = 0.0
    for height, width in ((1024, n), (min(n, 4096), min(n, 4096))):
        out = torch.empty(height, width, dtype=torch.float64)
        seconds = best_of(lambda out=out: torch.mm(rows[:, : len(out)].T, rows[:, : out.shape[1]], out=out), 3)
        product = max(product, 2 * 4096 * height * width / seconds / 1e9)
    small = min(n, 8192)
    matrix = torch.eye(small, dtype=torch.float64) * small + torch.rand(small, small, dtype=torch.float64)
    cholesky = best_of(lambda: torch.linalg.cholesky_ex(matrix), 2)
    return {"product": product, "cholesky": small**3 / 3 / cholesky / 1e9}


def staged(function: Any, seconds: dict[str, float], name: str) -> Any:
    """`function`, its time added to seconds[name]."""

    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        out = function(*arguments, **options)
        seconds[name] += time.perf_counter() - start
        return out

    return timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("molecule")
    parser.add_argument("--features", type=int, default=16384)
    parser.add_argument("--structures", type=int, default=1000)
    parser.add_argument("--precision", default=recipes.DEFAULT.precision)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.features, options.structures = 2048, 100
    train = load_dataset(f"rmd17_{options.molecule}:train_01@0:{options.structures}", data_folder=SHARED_DATA)
    test = load_dataset(f"rmd17_{options.molecule}:test_01", data_folder=SHARED_DATA)
    recipe = replace(
        recipes.DEFAULT,
        precision=options.precision,
        features=replace(recipes.DEFAULT.features, n_features=options.features),
        solver=replace(recipes.DEFAULT.solver, method="direct"),
    )

    seconds: dict[str, float] = defaultdict(float)
    equations.solve = staged(equations.solve, seconds, "solve")  # type: ignore[assignment]
    Gram.flush = staged(Gram.flush, seconds, "gram")  # type: ignore[method-assign]
    speed = rates(options.features)
    start = time.perf_counter()
    potential = fit(train, recipe)
    total = time.perf_counter() - start
    speed_after = rates(options.features)
    rate = {name: max(speed[name], speed_after[name]) for name in speed}

    n, rows = options.features, potential.provenance["targets"]
    gram_flops = rows["forces"] * n**2 + rows["energies"] * n**2
    floor = gram_flops / rate["product"] / 1e9 + n**3 / 3 / rate["cholesky"] / 1e9
    errors = evaluate(potential, test)
    assert errors.energy is not None
    assert errors.forces is not None
    results = {
        "molecule": options.molecule,
        "recipe": recipe.as_dict(),
        "structures": len(train),
        "rows": rows,
        "rates_gflops": rate,
        "floor_seconds": floor,
        "fit_seconds": total,
        "ratio": total / floor,
        "stages_seconds": {**seconds, "rest": total - sum(seconds.values())},
        "gram_gflops": rows["forces"] * n**2 / seconds["gram"] / 1e9 if seconds["gram"] else None,
        "peak_resident_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "energy_mae_mev": errors.energy.mae * 1e3,
        "force_mae_mev_per_angstrom": errors.forces.mae * 1e3,
    }
    print(table(["", ""], [[name, f"{value}"] for name, value in results.items() if name != "recipe"]))
    if not options.quick:
        headline = Headline(
            f"fit of {len(train)} {options.molecule} structures, {n} features, on {torch.get_num_threads()} threads",
            f"{total:.0f} s",
            f"{total / floor:.2f} × half a matrix product and a Cholesky factorisation",
            timing=True,
        )
        write(f"training_{options.molecule}_{n}", results, [headline])


if __name__ == "__main__":
    main()
