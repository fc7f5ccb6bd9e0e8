"""Ways to sum up a Gram matrix: how fast, how exact, and what it leaves of the model as the ridge falls.

python benchmarks/gram_precision.py --features 4096     # rMD17 ethanol, 1000 structures
python benchmarks/gram_precision.py --features 4096 --only rates "one slice"   # into the result file that is there
python benchmarks/gram_precision.py --quick             # seconds; writes nothing
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from common import options_of_a_fit, read, recipe_with, rmd17, table, write
from torch import Tensor

import qml_lightning.normal as normal
from qml_lightning import Dataset, evaluate
from qml_lightning.accumulation import BLOCK, add_compensated
from qml_lightning.baseline import fit_baseline
from qml_lightning.basis import draw, make_basis
from qml_lightning.equations import empty, fingerprints, gather, solved
from qml_lightning.errors import SolveError
from qml_lightning.normal import Gram, add_product, lower_tiles
from qml_lightning.recipes import Recipe
from qml_lightning.training import Problem

RIDGES = [10.0**-power for power in range(4, 12)]
SAMPLE = 48  # columns whose products are known in extended precision
Product = Callable[[Tensor, Tensor, float], None]


def in_float32(gram: Tensor, rows: Tensor, weight: float) -> None:
    """Products and sums in float32."""
    rows = rows.float()
    for first, last, tile in lower_tiles(gram):
        tile.copy_(torch.addmm(tile.float(), rows[:, first:last].T, rows[:, :last], alpha=weight))


def in_blocks(gram: Tensor, rows: Tensor, weight: float, block: int = BLOCK) -> None:
    """float32 products of short blocks of rows, added up in float64."""
    blocks = rows.float().split(block)
    for first, last, tile in lower_tiles(gram):
        for some in blocks:
            tile.add_(some[:, first:last].T @ some[:, :last], alpha=weight)


def with_kahan_sums(gram: Tensor, rows: Tensor, weight: float) -> None:
    """float32 products of short blocks of rows, added up in float32 with Kahan's compensation."""
    blocks = rows.float().split(BLOCK)
    for first, last, tile in lower_tiles(gram):
        total = tile.float()
        lost = (total - tile).float()  # what was lost by the time of the last rows is kept in float64 meanwhile
        for some in blocks:
            more = torch.addmm(lost, some[:, first:last].T, some[:, :last], alpha=weight, beta=-1)
            new = total + more
            lost = (new - total) - more
            total = new
        tile.copy_(total).sub_(lost)


MODES: dict[str, Product] = {
    "float64": add_product,
    "float32": in_float32,
    "float32, Kahan sums of blocks": with_kahan_sums,
    "float32, float64 sums of blocks": in_blocks,
    "one slice": partial(add_compensated, slices=1),
    "two slices: compensated": add_compensated,
    "three slices": partial(add_compensated, slices=3),
}


def rates(features: int, rounds: int) -> dict[str, float]:
    """GFLOP of each mode, as if it were one product of half the matrix, in a second of processor time: the best of
    several rounds."""
    rows = torch.randn(4 * BLOCK, features, dtype=torch.float64)
    gram = torch.zeros(features, features, dtype=torch.float64)
    best = dict.fromkeys(MODES, 0.0)
    for _ in range(rounds):  # one mode after the other: what else the machine does hits all of them
        for name, product in MODES.items():
            start = time.process_time()
            product(gram, rows, 1.0)
            seconds = time.process_time() - start
            best[name] = max(best[name], len(rows) * features**2 / seconds / 1e9)
    return best


def errors(recipe: Recipe, train: Dataset, test: Dataset, modes: Collection[str]) -> dict[str, Any]:
    """Of each of the modes: the rounding of the Gram matrix, and MAE for each ridge (None: it does not factorise)."""
    problem = Problem(train.structures, train.labels, fit_baseline(train.structures, train.labels.energies, (1, 6, 8)))
    drawn = draw(train.structures, recipe, np.random.default_rng(recipe.seed))
    basis = make_basis(problem.baseline.elements, recipe, *drawn, "cpu", None)
    prints = fingerprints(train.structures, train.labels)
    sample = torch.linspace(0, recipe.features.n_features - 1, SAMPLE).long()
    told: dict[str, Any] = {}
    seen: list[Tensor] = []
    for name in modes:
        product = MODES[name]
        seen.clear()

        def watched(gram: Tensor, rows: Tensor, weight: float, product: Product = product) -> None:
            seen.append(rows[:, sample])
            product(gram, rows, weight)

        normal.PRODUCTS["compensated"] = watched
        equations = empty(problem, prints, train.source.as_dict(), recipe, drawn, given=False)
        gather(equations, basis, problem, lambda *_: None)
        part = equations.parts["forces"]
        assert isinstance(part, Gram)
        told[name] = rounding(part.gram, torch.cat(seen), sample) | {"mae": {}}
        fails = False
        for ridge in RIDGES:
            mae = None
            if not fails:  # what does not factorise with one ridge does not with a smaller one
                try:
                    potential = solved(equations, replace(recipe, ridge=ridge))
                    found = evaluate(potential, test).as_dict()
                    mae = {
                        "energy_mev": found["energy"]["mae"] * 1e3,
                        "forces_mev_per_angstrom": found["forces"]["mae"] * 1e3,
                    }
                except SolveError as problem_told:
                    fails, told[name]["failure"] = True, str(problem_told)
            told[name]["mae"][f"{ridge:.0e}"] = mae
        print(name, told[name], flush=True)
    return told


def rounding(gram: Tensor, rows: Tensor, sample: Tensor) -> dict[str, float]:
    """Errors of entries (i, j), relative to √(i, i) √(j, j), against sums in extended precision."""
    exact_rows = rows.numpy().astype(np.longdouble)
    exact = exact_rows.T @ exact_rows
    size = np.sqrt(np.diag(exact))
    wrong = np.tril((gram[sample][:, sample].numpy() - exact) / size / size[:, None])[np.tril_indices(len(sample))]
    return {"largest_error": float(np.abs(wrong).max()), "rms_error": float(np.sqrt((wrong**2).mean()))}


def main() -> None:
    parser = options_of_a_fit(__doc__)
    parser.add_argument("--only", nargs="+", default=["rates", *MODES], choices=["rates", *MODES])
    options = parser.parse_args()
    if options.quick:
        options.features, options.structures = 512, 60
    recipe = recipe_with(options.features)
    recipe = replace(recipe, solver=replace(recipe.solver, accumulation="compensated"))
    name = f"gram_precision_{options.molecule}_{options.features}"
    train, test = rmd17(options.molecule, options.structures), rmd17(options.molecule)
    modes = errors(recipe, train, test, [mode for mode in options.only if mode in MODES])
    rate = rates(options.features, 3) if "rates" in options.only else {}
    record = None if options.quick else read(name)
    before = {} if record is None else record["results"]
    together = before.get("modes", {}) | modes
    results = {
        "molecule": options.molecule,
        "structures": options.structures,
        "recipe": recipe.as_dict(),
        "rates_gflops": before.get("rates_gflops", {}) | rate,
        "modes": {mode: together[mode] for mode in MODES if mode in together},
    }
    print(told(results))
    if not options.quick:
        write(name, results)


def told(results: dict[str, Any]) -> str:
    """The table for docs/method.md."""
    modes, rate = results["modes"], results["rates_gflops"]
    lines = []
    for name, mode in modes.items():
        maes = [
            "—" if mae is None else f"{mae['energy_mev']:.2f} / {mae['forces_mev_per_angstrom']:.2f}"
            for mae in mode["mae"].values()
        ]
        lines.append(
            [name, f"{rate[name] / rate['float64']:.2f}" if rate else "", f"{mode['largest_error']:.0e}", *maes]
        )
    ridges = next(iter(modes.values()))["mae"]
    return table(["products", "rate", "error", *(f"λ = {ridge.replace('e-0', 'e-')}" for ridge in ridges)], lines)


if __name__ == "__main__":
    main()
