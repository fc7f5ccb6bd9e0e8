"""Error of the forces against the time of a prediction, as the number of features grows."""

from __future__ import annotations

from typing import Any

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, entries
from ..harness.drawing import COLOURS, MARKS, legend_above, log_axis, panels
from ..harness.entries import grouped, mean
from ..harness.models import AUTO, FORCE, errors, fitted, load, recipe_for
from ..harness.places import PUBLISHED
from ..harness.systems import NEEDS, system, untrained
from ..harness.tables import digits, table
from ..harness.timing import best_of
from .rmd17 import RMD17

MOLECULES = ("ethanol", "aspirin")
FITTED = (1024, 2048, 4096, 8192)  # the larger ones come from the table of rMD17
TIMED = (*FITTED, 16384, 32768, 131072)


def cells(options: Options) -> list[Cell]:
    if options.quick:
        return [
            {"what": what, "molecule": "ethanol", "n_features": n} for what in ("error", "time") for n in (256, 512)
        ]
    wanted = {"error": FITTED, "time": TIMED}
    return [
        {"what": what, "molecule": m, "n_features": n} for what, ns in wanted.items() for m in MOLECULES for n in ns
    ]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    name, n = cell["molecule"], cell["n_features"]
    if cell["what"] == "time":
        structures, predictor = system(f"1000 {name}"), untrained(f"1000 {name}", n).on()
        seconds = best_of(lambda: predictor.predict(structures), 1 if options.quick else 15)
        return {"us_per_atom": seconds / structures.n_atoms * 1e6}
    train, test = load(f"rmd17_{name}:train_01"), load(f"rmd17_{name}:test_01")
    if options.quick:
        train, test = train.split((20, 10), seed=0)
    potential, about = fitted(train, recipe_for("default" if options.quick else AUTO, n))
    return {**errors(potential, test), **about}


def _points(told: list[Entry]) -> dict[str, dict[int, tuple[float, float]]]:
    """Molecule → features → (µs per atom, force MAE), where both are known."""
    error = {(e[CELL]["molecule"], e[CELL]["n_features"]): e[FORCE] for e in told if FORCE in e}
    for (molecule, n, recipe), there in grouped(entries(RMD17.name), "molecule", "n_features", "recipe").items():
        if recipe == AUTO:
            error.setdefault((molecule, n), mean(there, FORCE))
    out: dict[str, dict[int, tuple[float, float]]] = {}
    for entry in told:
        key = (entry[CELL]["molecule"], entry[CELL]["n_features"])
        if "us_per_atom" in entry and key in error:
            out.setdefault(key[0], {})[key[1]] = (entry["us_per_atom"], error[key])
    return out


def tables(told: list[Entry]) -> str:
    points = _points(told)
    sizes = sorted({n for there in points.values() for n in there})
    rows = []
    for molecule, there in points.items():
        for column, what in enumerate(("µs per atom", "force MAE meV/Å")):
            rows.append([molecule, what, *(digits(there[n][column]) if n in there else "–" for n in sizes)])
    return (
        table(["", "features", *map(str, sizes)], rows) + f"\n\nThe paper's figure is {PUBLISHED['figures']['pareto']}."
    )


def draw(told: list[Entry]) -> Any:
    figure, (axis,) = panels(1, height=3.0, width=4.2)
    for number, (molecule, there) in enumerate(_points(told).items()):
        values = [there[n] for n in sorted(there)]
        axis.plot(*zip(*values, strict=True), color=COLOURS[number], marker=MARKS[number], label=molecule)
        for n, at in there.items():
            axis.annotate(f"{n}", at, xytext=(3, 3), textcoords="offset points", fontsize=6, color=COLOURS[number])
    log_axis(axis.xaxis)
    log_axis(axis.yaxis)
    axis.set_xlabel("energies and forces / µs per atom")
    axis.set_ylabel("MAE of the forces / meV Å$^{-1}$")
    legend_above(figure, axis, 2)
    return figure


PARETO = Benchmark(
    "pareto",
    "Error of the forces against time of evaluation",
    "rMD17, 1000 training structures; 1000 test structures at once on two threads. The numbers of features stand "
    "beside the points; errors from 16384 features on are those of the table of rMD17.",
    cells, measure, tables, draw,
    needs=NEEDS, timing=True,
)  # fmt: skip
