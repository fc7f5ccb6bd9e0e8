"""Range, channels and axes of the density where a fit has many structures and features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qml_lightning import recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.internals import SHORT_DENSITY
from ..harness.models import ENERGY, FORCE, fitted, load, mae, rmd17_files, with_features
from ..harness.tables import table

N_TRAIN, N_VALID, N_FEATURES = 800, 200, 16384
RANGES = {"5 Å": SHORT_DENSITY, "6 Å": recipes.DEFAULT.representation}
USUAL, WIDE = (48, 256), (96, 512)  # channels and axes
# Range, form, and how far bonding classes are set apart.
TRIED = (("5 Å", USUAL, 2.0), ("6 Å", USUAL, 2.0), ("6 Å", USUAL, 0.0), ("6 Å", WIDE, 2.0))


def cells(options: Options) -> list[Cell]:
    if options.quick:
        return [_cell("ethanol", name, (16, 64), 0.0) for name in RANGES]
    return [_cell("aspirin", *one) for one in TRIED]


def _cell(molecule: str, range_: str, form: tuple[int, int], class_spread: float) -> Cell:
    return {"molecule": molecule, "range": range_, "channels": form[0], "axes": form[1], "class_spread": class_spread}


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    sizes, n_features = ((30, 20), 512) if options.quick else ((N_TRAIN, N_VALID), N_FEATURES)
    train, valid = load(f"rmd17_{cell['molecule']}:train_01").split(sizes, seed=0)
    start = replace(
        with_features(recipes.DEFAULT, n_features),
        representation=replace(RANGES[cell["range"]], n_channels=cell["channels"]),
        rank=cell["axes"],
        class_spread=cell["class_spread"],
    )
    potential, about = fitted(train, recipes.Automatic(start, ("ridge", "blocks")))
    return {**mae(potential, valid), **about}


def tables(entries: list[Entry]) -> str:
    rows = [
        [cell["molecule"], cell["range"], f"{cell['channels']}", f"{cell['axes']}", f"{cell['class_spread']:g}",
         f"{entry[ENERGY]:.2f}", f"{entry[FORCE]:.2f}", f"{entry.get('steps', '')}"]
        for entry in succeeded(entries)
        for cell in (entry[CELL],)
    ]  # fmt: skip
    head = ["", "cutoff", "channels", "axes", "bonds apart by", "energy MAE meV", "force MAE meV/Å", "steps"]
    return table(head, rows)


DENSITY_RANGE = Benchmark(
    "density_range",
    "Range of the density with many structures and features",
    f"rMD17, {N_TRAIN} structures of train_01 learnt, {N_VALID} others of it predicted: no test set is looked at. "
    f"{N_FEATURES} features, the ridge chosen from the data, own weights for each element by the plan of the fit.",
    cells, measure, tables, needs=rmd17_files("aspirin", "ethanol"),
)  # fmt: skip
