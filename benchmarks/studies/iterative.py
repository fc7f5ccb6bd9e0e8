"""The iterative solver beside the direct one: time, memory and errors where N_F² is out of reach."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qml_lightning import Recipe, fit, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Headline, Options, earlier, succeeded
from ..harness.internals import facts
from ..harness.models import ENERGY, FORCE, fchl19_recipe, mae, rmd17, rmd17_files
from ..harness.processes import apart
from ..harness.tables import table
from ..harness.timing import GIB, floor_of_fit, memory, rates

DIRECT = 32768  # features of the direct fit that it is compared with
FIGURES = ("choice_seconds", "fit_seconds", "peak_resident_gib", ENERGY, FORCE, "direct_floor_seconds")


def cells(options: Options) -> list[Cell]:
    if options.quick:
        sizes: dict[str, Any] = {"molecule": "ethanol", "n_train": 40, "n_features": 1024}
        return [{**sizes, "solver": solver} for solver in ("iterative", "direct")]
    sizes = {"molecule": "aspirin", "n_train": 1000}
    return [
        {**sizes, "n_features": n_features, "solver": solver}
        for n_features, solver in ((DIRECT, "iterative"), (131072, "iterative"), (DIRECT, "direct"))
    ]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    chosen = None
    if cell["solver"] == "direct":  # both solve the same recipe
        chosen = earlier(ITERATIVE.name, options, **{**cell, "solver": "iterative"})["recipe"]
    # in a process of its own, so that the peak of memory is that of this fit
    found = one_fit(cell, chosen, True) if options.quick else apart(one_fit, cell, chosen, False)
    rate = rates(256 if options.quick else 8192)
    floor = floor_of_fit(found["rows"], DIRECT, rate)
    return {**found, "rates_gflops": rate, "direct_floor_features": DIRECT, "direct_floor_seconds": floor}


def one_fit(cell: Cell, chosen: dict[str, Any] | None, quick: bool) -> dict[str, Any]:
    """Time, memory and errors of a fit with the recipe that is chosen already, or is now chosen from the data."""
    train, test = rmd17(cell["molecule"], cell["n_train"], quick=quick)
    start = fchl19_recipe(cell["n_features"]) if chosen is None else Recipe.from_dict(chosen)
    solver = replace(start.solver, method=cell["solver"])
    if quick:
        solver = replace(solver, preconditioner_features=256)
    recipe = replace(start, solver=solver)
    potential = fit(train, recipes.Automatic(recipe) if chosen is None else recipe)
    known = facts(potential)
    choosing = known.get("choice", {}).get("seconds", 0.0)
    return {
        "recipe": potential.recipe.as_dict(),
        "choice_seconds": choosing,
        "fit_seconds": known["seconds"] - choosing,
        "peak_resident_gib": memory("VmHWM") / GIB,
        **mae(potential, test),
        "rows": sum(known["targets"].values()),
        "solution": known["solution"],
    }


def tables(entries: list[Entry]) -> str:
    rows = [
        [f"{cell['molecule']}, {cell['n_features']} features, {cell['solver']}", _steps(entry),
         *(f"{entry[name]:.2f}" for name in FIGURES)]
        for entry in succeeded(entries)
        for cell in (entry[CELL],)
    ]  # fmt: skip
    head = ["", "steps", "choice s", "fit s", "peak GiB", "energy MAE meV", "force MAE meV/Å"]
    return table([*head, f"floor of a direct fit with {DIRECT} features, s"], rows)


def _steps(entry: Entry) -> str:
    return str(len(entry["solution"]["history"])) if "history" in entry["solution"] else "–"


def headline(entries: list[Entry]) -> list[Headline]:
    there = {tuple(entry[CELL].values()): entry for entry in succeeded(entries)}
    rows = []
    for (molecule, n_train, n_features, solver), entry in there.items():
        if solver == "iterative":
            direct = there.get((molecule, n_train, n_features, "direct"))
            floor = f"a direct fit with {DIRECT} features needs at least {entry['direct_floor_seconds']:.0f} s"
            rival = floor if direct is None else f"the direct solver {direct['fit_seconds']:.0f} s: {_errors(direct)}"
            what = f"rMD17 {molecule}, {n_train} structures, {n_features} features, iterative: MAE"
            cost = f"{entry['fit_seconds']:.0f} s and {entry['peak_resident_gib']:.1f} GiB; {rival}"
            rows.append(Headline(what, _errors(entry), cost, timing=True))
    return rows


def _errors(entry: Entry) -> str:
    return f"{entry[ENERGY]:.2f} meV, {entry[FORCE]:.2f} meV/Å"


ITERATIVE = Benchmark(
    "iterative",
    "The iterative solver beside the direct one",
    "Both solve the same recipe, chosen from the training data. The floor of the direct solver is half a matrix "
    f"product and a Cholesky factorisation with {DIRECT} features, at the rates of the same run: no direct fit can be "
    "faster.",
    cells, measure, tables, headline=headline,
    needs=rmd17_files("aspirin", "ethanol"), timing=True,
)  # fmt: skip
