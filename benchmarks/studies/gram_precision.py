"""Ways to sum up a Gram matrix: speed, rounding, and errors of the model as the ridge falls."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qml_lightning import Recipe

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.internals import (
    BLOCK,
    Equations,
    SolveError,
    add_compensated,
    add_product,
    kept_rows,
    lower_tiles,
    rows_of,
    solution,
    with_products,
)
from ..harness.models import ENERGY, FORCE, fchl19_recipe, mae, rmd17, rmd17_files
from ..harness.tables import table

RIDGES = [10.0**-power for power in range(4, 12)]
SAMPLE = 48  # columns whose products are known in extended precision
ROWS_AT_ONCE = 16384  # of one product, as in a fit with 4096 features
RATES = "rates"  # the cell in which all modes are timed, one after the other
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
        lost = (total - tile).float()  # rounding of the rows before is kept in float64 meanwhile
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


def cells(options: Options) -> list[Cell]:
    size = (60, 256) if options.quick else (1000, 4096)
    sizes = dict(zip(("molecule", "n_train", "n_features"), ("ethanol", *size), strict=True))
    return [{**sizes, "mode": mode} for mode in (*MODES, RATES)]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    if cell["mode"] == RATES:
        return {"gflops": _rates(cell["n_features"], 1 if options.quick else 3)}
    recipe = fchl19_recipe(cell["n_features"])
    equations = _rows(cell["molecule"], cell["n_train"], recipe, options.quick)
    test = rmd17(cell["molecule"], cell["n_train"], quick=options.quick)[1]
    summed, gram = with_products(equations, "forces", MODES[cell["mode"]], ROWS_AT_ONCE)
    out: dict[str, Any] = {"recipe": recipe.as_dict(), **rounding(gram, kept_rows(equations, "forces")), "mae": {}}
    for ridge in RIDGES:
        name = f"{ridge:.0e}"
        out["mae"][name] = None
        if "failure" not in out:  # a matrix that does not factorise with one ridge does not with a smaller one
            try:
                out["mae"][name] = mae(solution(summed, recipe, ridge), test)
            except SolveError as problem:
                out["failure"] = str(problem)
    return out


@lru_cache(maxsize=1)
def _rows(molecule: str, n_train: int, recipe: Recipe, quick: bool) -> Equations:
    return rows_of(rmd17(molecule, n_train, quick=quick)[0], recipe)


def _rates(n_features: int, rounds: int) -> dict[str, float]:
    """GFLOP of each mode in a second of processor time, as if it were one product of half the matrix.

    The best of several rounds, one mode after the other: a busy machine hits all of them.
    """
    rows = torch.randn(4 * BLOCK, n_features, dtype=torch.float64)
    gram = torch.zeros(n_features, n_features, dtype=torch.float64)
    best = dict.fromkeys(MODES, 0.0)
    for _ in range(rounds):
        for name, product in MODES.items():
            start = time.process_time()
            product(gram, rows, 1.0)
            seconds = time.process_time() - start
            best[name] = max(best[name], len(rows) * n_features**2 / seconds / 1e9)
    return best


def rounding(gram: Tensor, rows: Tensor) -> dict[str, float]:
    """Errors of entries (i, j), relative to √(i, i) √(j, j), against sums in extended precision."""
    sample = torch.linspace(0, len(gram) - 1, SAMPLE).long()
    exact_rows = rows[:, sample].numpy().astype(np.longdouble)
    exact = exact_rows.T @ exact_rows
    size = np.sqrt(np.diag(exact))
    wrong = np.tril((gram[sample][:, sample].numpy() - exact) / size / size[:, None])[np.tril_indices(len(sample))]
    return {"largest_error": float(np.abs(wrong).max()), "rms_error": float(np.sqrt((wrong**2).mean()))}


def tables(entries: list[Entry]) -> str:
    """Rate relative to float64, largest error of an entry, and energy and force errors for each ridge."""
    there = {entry[CELL]["mode"]: entry for entry in succeeded(entries)}
    rate = there.pop(RATES, {}).get("gflops")
    rows = [
        [
            name,
            f"{rate[name] / rate['float64']:.2f}" if rate else "",
            f"{entry['largest_error']:.0e}",
            *("—" if found is None else f"{found[ENERGY]:.2f} / {found[FORCE]:.2f}" for found in entry["mae"].values()),
        ]
        for name, entry in there.items()
    ]
    ridges = [f"λ = {ridge:.0e}".replace("e-0", "e-") for ridge in RIDGES]
    return table(["products", "rate", "error", *ridges], rows)


GRAM_PRECISION = Benchmark(
    "gram_precision",
    "Ways to sum up a Gram matrix",
    "rMD17 ethanol. Rates are in processor time. The Gram matrix of the forces is summed up in each way from the same "
    "rows.",
    cells, measure, tables,
    needs=rmd17_files("ethanol"), threads=1,
)  # fmt: skip
