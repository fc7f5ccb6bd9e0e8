"""Parts of a prediction: neighbours, FCHL19, projection, features and pullback, one after the other."""

from __future__ import annotations

from typing import Any

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.drawing import legend_above, panels, stacked
from ..harness.internals import prediction_steps
from ..harness.places import PUBLISHED
from ..harness.systems import NEEDS, system, untrained
from ..harness.tables import table
from ..harness.timing import best_of

SYSTEMS = ("1000 ethanol", "1000 aspirin", "myoglobin", "MOF", "water")
PARTS = ("neighbours", "FCHL19 values", "projection", "features", "pullback", "forces")
N_FEATURES = 16384


def cells(options: Options) -> list[Cell]:
    if options.quick:
        return [{"system": "aspirin", "n_features": 256}]
    return [{"system": name, "n_features": N_FEATURES} for name in SYSTEMS]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    structures, predictor = system(cell["system"]), untrained(cell["system"], cell["n_features"]).on()
    repeats = 2 if options.quick else 5
    steps = prediction_steps(structures, predictor)
    parts = {name: best_of(step, repeats) / structures.n_atoms * 1e6 for name, step in steps.items()}
    whole = best_of(lambda: predictor.predict(structures, stress=False), repeats) / structures.n_atoms * 1e6
    return {"us_per_atom": parts, "at_once_us_per_atom": whole, "atoms": structures.n_atoms}


def tables(entries: list[Entry]) -> str:
    rows = [
        [
            f"{entry[CELL]['system']}, {entry['atoms']} atoms",
            *(f"{entry['us_per_atom'][part]:.2f}" for part in PARTS),
            f"{sum(entry['us_per_atom'].values()):.1f}",
            f"**{entry['at_once_us_per_atom']:.1f}**",
        ]
        for entry in succeeded(entries)
    ]
    head = ["µs per atom", *PARTS, "sum", "in one native call"]
    return (
        table(head, rows) + f"\n\nThe paper shows the same for {PUBLISHED['figures']['components']}, without a table."
    )


def draw(entries: list[Entry]) -> Any:
    figure, (axis,) = panels(1, width=7.0, height=2.5)
    entries = succeeded(entries)
    names = [entry[CELL]["system"] for entry in entries]
    stacked(axis, names, {part: [entry["us_per_atom"][part] for entry in entries] for part in PARTS})
    axis.plot([entry["at_once_us_per_atom"] for entry in entries], range(len(names)), "D", color="black", markersize=4,
              linestyle="none", label="in one native call")  # fmt: skip
    axis.set_xlabel("energies and forces / µs per atom")
    legend_above(figure, axis, 7)
    return figure


COMPONENTS = Benchmark(
    "components",
    "What a prediction is made of",
    f"{N_FEATURES} features, float32, two threads: each step by itself, through the kernels that training uses, and "
    "all of them in the one native call that predicts.",
    cells, measure, tables, draw,
    needs=NEEDS, timing=True,
)  # fmt: skip
