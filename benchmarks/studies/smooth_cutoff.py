"""Errors with the cosine cutoff function and with its square, whose second derivatives are continuous."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from qml_lightning import fit, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.entries import grouped
from ..harness.models import ENERGY, FORCE, fchl19_recipe, load, mae, rmd17_files
from ..harness.tables import table

# training structures of which part is learnt and part tells the error, numbers of both, features
SETS = {
    "ethanol": ("rmd17_ethanol:train_01", (400, 200), 4096),
    "aspirin": ("rmd17_aspirin:train_01", (200, 100), 4096),
    "benzene": ("rmd17_benzene:train_01", (200, 100), 2048),
    "toluene": ("rmd17_toluene:train_01", (200, 100), 2048),
    "water": ("water_pbe0ts:train", (30, 20), 2048),
    "silicon": ("zuo2020_Si:train", (107, 107), 1024),
    "copper": ("zuo2020_Cu:train", (131, 131), 1024),
}
POWERS = (1, 2)
FREE = ("sigma", "energy_weight", "rank", "ridge")


def cells(options: Options) -> list[Cell]:
    names = ("ethanol",) if options.quick else SETS
    return [{"data": name, "cutoff_power": power} for name in names for power in POWERS]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    name, sizes, n_features = SETS[cell["data"]]
    learnt, tried = load(name).split((40, 20) if options.quick else sizes, seed=0)
    start = fchl19_recipe(256 if options.quick else n_features)
    representation = replace(start.representation, cutoff_power=cell["cutoff_power"])
    potential = fit(learnt, recipes.Automatic(replace(start, representation=representation), FREE))
    return {"recipe": potential.recipe.as_dict(), "threads": torch.get_num_threads(), **mae(potential, tried)}


def tables(entries: list[Entry]) -> str:
    rows = []
    for (name,), there in grouped(succeeded(entries), "data").items():
        by_power = {entry[CELL]["cutoff_power"]: entry for entry in there}
        if set(by_power) >= set(POWERS):
            one, two = (by_power[power] for power in POWERS)
            change = [f"{(two[kind] / one[kind] - 1) * 100:+.0f} %" for kind in (ENERGY, FORCE)]
            both = [f"{entry[ENERGY]:.2f} / {entry[FORCE]:.2f}" for entry in (one, two)]
            rows.append([name, *both, " / ".join(change)])
    return table(["energy MAE meV / force MAE meV/Å", "power 1", "power 2", "change"], rows)


SMOOTH_CUTOFF = Benchmark(
    "smooth_cutoff",
    "A smoother cutoff function",
    "The cosine cutoff function and its square. Training structures only: some are learnt, others tell the error. "
    "Width, ridge, energy weight and rank are chosen from the data.",
    cells, measure, tables,
    needs=(*rmd17_files("ethanol", "aspirin", "benzene", "toluene"), "water/water_pbe0ts.npz", "zuo2020/Si.npz",
           "zuo2020/Cu.npz"),
)  # fmt: skip
