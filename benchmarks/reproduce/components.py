"""What a prediction is made of: neighbours, FCHL19, projection, features and pullback, one after the other."""

from __future__ import annotations

from typing import Any

import torch
from common import best_of, table
from drawing import legend_above, panels, stacked
from runner import PUBLISHED, WHAT, Benchmark, Cell, Entry, Options

from qml_lightning import Structures
from qml_lightning.neighbours import element_indices, pairs_within
from qml_lightning.potential import Predictor, _forces
from qml_lightning.projection import lift, project

from .systems import NEEDS, system, untrained

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
    parts = _parts(structures, predictor, repeats)
    whole = best_of(lambda: predictor.predict(structures, stress=False), repeats) / structures.n_atoms * 1e6
    return {"us_per_atom": parts, "at_once_us_per_atom": whole, "atoms": structures.n_atoms}


def _parts(structures: Structures, predictor: Predictor, repeats: int) -> dict[str, float]:
    """µs per atom of each step of `Predictor.predict_pairs`, which shows them in this order."""
    basis, n = predictor.basis, structures.n_atoms
    element = element_indices(structures.numbers, basis.elements)
    pairs = pairs_within(structures, predictor.cutoff, basis.elements)
    segments, vectors = pairs.segments, basis.like(pairs.vector)
    values = basis.kernels.fchl19(basis.arguments, n, segments, vectors)
    rho = project(basis.projections, values, element)
    atoms = [(element == e).nonzero()[:, 0] for e in range(len(basis.elements))]
    slope = torch.randn_like(rho)
    cotangent = lift(basis.projections, slope, element)
    gradient = basis.kernels.fchl19_pullback(basis.arguments, n, segments, vectors, cotangent).double()

    def features() -> None:
        for e, of_element in enumerate(atoms):
            predictor._local(e, rho[of_element].contiguous())

    steps = {
        "neighbours": lambda: pairs_within(structures, predictor.cutoff, basis.elements),
        "FCHL19 values": lambda: basis.kernels.fchl19(basis.arguments, n, segments, vectors),
        "projection": lambda: (project(basis.projections, values, element), lift(basis.projections, slope, element)),
        "features": features,
        "pullback": lambda: basis.kernels.fchl19_pullback(basis.arguments, n, segments, vectors, cotangent),
        "forces": lambda: _forces(structures, pairs, gradient),
    }
    return {name: best_of(step, repeats) / n * 1e6 for name, step in steps.items()}


def tables(entries: list[Entry]) -> str:
    rows = [
        [
            f"{entry[WHAT]['system']}, {entry['atoms']} atoms",
            *(f"{entry['us_per_atom'][part]:.2f}" for part in PARTS),
            f"{sum(entry['us_per_atom'].values()):.1f}",
            f"**{entry['at_once_us_per_atom']:.1f}**",
        ]
        for entry in entries
        if "failed" not in entry
    ]
    head = ["µs per atom", *PARTS, "sum", "in one native call"]
    return (
        table(head, rows) + f"\n\nThe paper shows the same for {PUBLISHED['figures']['components']}, without a table."
    )


def draw(entries: list[Entry]) -> Any:
    figure, (axis,) = panels(1, width=7.0, height=2.5)
    entries = [entry for entry in entries if "failed" not in entry]
    names = [entry[WHAT]["system"] for entry in entries]
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
