"""Errors with more axes, beside the part of the environments that fewer lose: the rule by which the rank is chosen."""

from __future__ import annotations

from typing import Any

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.entries import grouped
from ..harness.internals import equations_of, lost_by_projection
from ..harness.models import ENERGY, FORCE, fchl19_recipe, load, rmd17_files, with_features
from ..harness.tables import table
from .ridge_search import best_ridge

N_FEATURES = 8192
LEARNT, TRIED = 400, 100
# Training structures, width, the ridge to look near, and ranks: those of the last three lose less than 1e-9 of the
# environments with 256 axes, so that more can gain nothing.
SETS = {
    "3BPA": ("3bpa:train_300K", 4.0, 1e-6, (128, 256, 512)),
    "aspirin": ("rmd17_aspirin:train_01", 4.0, 1e-6, (128, 256, 512)),
    "ethanol": ("rmd17_ethanol:train_01", 8.0, 1e-8, (128, 256)),
    "uracil": ("rmd17_uracil:train_01", 8.0, 1e-8, (128, 256)),
    "malonaldehyde": ("rmd17_malonaldehyde:train_01", 8.0, 1e-8, (128, 256)),
}
FORMS = {"lost": ".0e", ENERGY: ".2f", FORCE: ".2f"}


def cells(options: Options) -> list[Cell]:
    names = ("ethanol",) if options.quick else SETS
    return [{"data": name, "rank": rank} for name in names for rank in SETS[name][-1]]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    name, sigma, guess, _ = SETS[cell["data"]]
    n_features, sizes = (512, (40, 20)) if options.quick else (N_FEATURES, (LEARNT, TRIED))
    learnt, tried = load(name).split(sizes, seed=0)
    recipe = with_features(fchl19_recipe(n_features, rank=cell["rank"]), sigma=sigma)
    equations = equations_of(learnt, recipe)
    ridge, found = best_ridge(equations, recipe, tried, guess * (16 if options.quick else 1))
    return {"lost": lost_by_projection(equations.basis), "log10_ridge": ridge, **found}


def tables(entries: list[Entry]) -> str:
    first = {name: there[0][FORCE] for (name,), there in grouped(entries, "data").items()}
    rows = []
    for entry in succeeded(entries):
        name, rank = entry[CELL]["data"], entry[CELL]["rank"]
        gain = "" if rank == SETS[name][-1][0] else f"{(entry[FORCE] / first[name] - 1) * 100:+.1f} %"
        rows.append([name, str(rank), *(f"{entry[key]:{form}}" for key, form in FORMS.items()), gain])
    return table(["", "axes", "lose", "energy MAE meV", "force MAE meV/Å", "forces, less 128 axes'"], rows)


RANKS = Benchmark(
    "ranks",
    "Errors with more axes of the projection",
    f"{N_FEATURES} features, {LEARNT} training structures; {TRIED} others of them tell the error. Each rank has its "
    "best half decade of the ridge.",
    cells, measure, tables,
    needs=("3bpa/3bpa.npz", *rmd17_files("aspirin", "ethanol", "uracil", "malonaldehyde")),
)  # fmt: skip
