"""Sums of the iteration in float64 and in pairs of float32: steps, residuals, errors, and how far the models differ."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from qml_lightning import Potential, fit

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.models import ENERGY, FORCE, fchl19_recipe, mae, rmd17, rmd17_files
from ..harness.tables import table

SUMS = {"float64": "float64", "compensated": "pairs of float32"}
RIDGES = (1e-6, 1e-9)
# Structures, features and features of the preconditioner; of a quick run: True.
SIZES = {False: (80, 1024, 256), True: (30, 512, 256)}


def cells(options: Options) -> list[Cell]:
    n_train, n_features, _ = SIZES[options.quick]
    return [
        {"sums": sums, "ridge": ridge, "n_train": n_train, "n_features": n_features}
        for ridge in RIDGES[: 1 if options.quick else None]
        for sums in SUMS
    ]


@lru_cache(maxsize=2)
def _fitted(sums: str, ridge: float, quick: bool) -> Potential:
    n_train, n_features, n_small = SIZES[quick]
    recipe = fchl19_recipe(n_features, precision="float32", ridge=ridge)
    settings = {"method": "iterative", "accumulation": sums, "preconditioner_features": n_small, "held_out": 0.1}
    recipe = replace(recipe, solver=replace(recipe.solver, **settings))
    # plain torch for both, so that sines and cosines are the same numbers
    return fit(rmd17("ethanol", n_train, quick=quick)[0], recipe, kernels="reference")


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    test = rmd17("ethanol", cell["n_train"], quick=options.quick)[1]
    test = test.select(range(min(200, len(test))))
    exact, found = (_fitted(sums, cell["ridge"], options.quick) for sums in ("float64", cell["sums"]))
    one, other = (potential.on(precision="float64").predict(test.structures) for potential in (exact, found))
    history = found.provenance.solution["history"]
    return {
        **mae(found, test),
        "steps": len(history),
        "residual": history[-1]["residual"],
        "weights_differ": float((found.weights - exact.weights).norm() / exact.weights.norm()),
        "energies_differ_mev": float((one.energies - other.energies).abs().max() * 1e3),
        "forces_differ_mev_per_angstrom": float((one.forces - other.forces).abs().max() * 1e3),
    }


def tables(entries: list[Entry]) -> str:
    rows = [
        [
            f"{entry[CELL]['ridge']:g}",
            SUMS[entry[CELL]["sums"]],
            str(entry["steps"]),
            f"{entry['residual']:.1e}",
            f"{entry[ENERGY]:.3f}",
            f"{entry[FORCE]:.3f}",
            *(
                "–" if entry[CELL]["sums"] == "float64" else f"{entry[name]:.1g}"
                for name in ("weights_differ", "energies_differ_mev", "forces_differ_mev_per_angstrom")
            ),
        ]
        for entry in succeeded(entries)
    ]
    head = ["ridge", "sums", "steps", "residual", "energy MAE / meV", "force MAE / meV/Å",
            "weights differ by", "energies, up to / meV", "forces, up to / meV/Å"]  # fmt: skip
    return table(head, rows)


ITERATION_SUMS = Benchmark(
    "iteration_sums",
    "Sums of the iteration in pairs of float32",
    "rMD17 ethanol, 80 structures, 1024 features in float32 on a CPU, with the paper's representation; errors and "
    "differences on 200 other structures, predicted in float64. Both fits take the same steps from the same float32 "
    "sines and cosines; only products and sums with them are float64 in one, and pairs of float32 in the other.",
    cells, measure, tables,
    needs=rmd17_files("ethanol"),
)  # fmt: skip
