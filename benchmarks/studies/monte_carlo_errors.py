"""Parameters that the Monte Carlo searches found beside those they began with, on data that they have not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, entries, succeeded
from ..harness.entries import grouped
from ..harness.internals import equations_of, solutions
from ..harness.models import ENERGY, FORCE, mae, rmd17_files
from ..harness.tables import table
from .monte_carlo import BOTH, LEARNT, MONTE_CARLO, RIDGES, SEARCHES, TRIED, WHOLE, Point, parts

FIRST, BEST = "first", "best"
SEED = 1  # of the features; those of the searches have 0


@dataclass(frozen=True)
class Case:
    """Structures of a training set that no search has seen: learnt and tried."""

    data: str
    targets: tuple[str, ...]
    sizes: tuple[int, int]
    n_features: int
    ridges: tuple[float, ...]


CASES = (
    Case("small_mols:valid", BOTH, (LEARNT, TRIED), 1024, RIDGES[2:]),
    Case("rmd17_ethanol:train_01", BOTH, (300, 200), 4096, (1e-10, 1e-9, 1e-8)),
    Case("rmd17_aspirin:train_01", BOTH, (300, 200), 4096, (1e-9, 1e-8, 1e-7)),
    Case("small_mols:valid", ("energies",), (LEARNT, TRIED), 1024, RIDGES[:4]),
    Case("qm9:train_pool", ("energies",), (2000, 1000), 4096, RIDGES[:4]),
)


def cells(options: Options) -> list[Cell]:
    every = [
        {"search": name, "data": case.data, "point": which}
        for name, search in SEARCHES.items()
        for case in CASES
        if case.targets == search.targets
        for which in (FIRST, BEST)
    ]
    return every[:1] if options.quick else every


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    """Mean absolute errors with the width of the point and the best ridge, by forces where they are learnt."""
    search = SEARCHES[cell["search"]]
    case = next(case for case in CASES if case.data == cell["data"] and case.targets == search.targets)
    point = _point(cell["search"], cell["point"], options)
    sizes, n_features = ((24, 12), 256) if options.quick else (case.sizes, case.n_features)
    train, valid = parts(case.data, case.targets, sizes, seed=SEED)
    recipe = point.recipe(n_features, SEED)
    found = {ridge: mae(made, valid) for ridge, made in solutions(equations_of(train, recipe), recipe, case.ridges)}
    best = min(found, key=lambda ridge: found[ridge].get(FORCE, found[ridge][ENERGY]))
    about = {"sizes": sizes, "n_features": n_features, "ridges": case.ridges, "seeds": [SEED]}
    return {**found[best], "ridge": best, "parameters": point.as_dict(), **about}


def _point(name: str, which: str, options: Options) -> Point:
    """The first point of a search, or the best one so far."""
    if options.quick:
        return Point(SEARCHES[name].start, SEARCHES[name].sigma)
    there = grouped(entries(MONTE_CARLO.name, options.results), "search").get((name,), [])
    if not there:
        raise LookupError(f"The search {name} is not there. Run python -m benchmarks {MONTE_CARLO.name} --only {name}.")
    return Point.from_dict(there[0]["history"][0]["point"] if which == FIRST else there[-1]["best"])


def tables(told: list[Entry]) -> str:
    """Parameters before and after each search, and errors with them."""
    return f"{_parameters(told)}\n\n{_errors(told)}"


def _parameters(told: list[Entry]) -> str:
    names = {"n_radial2": "radial 2", "n_radial3": "radial 3", "eta2": "η2", "eta3": "η3", "decay2": "decay 2",
             "decay3": "decay 3", "weight3": "c3", "sigma": "σ"}  # fmt: skip
    rows = []
    for (search, which), there in grouped(told, "search", "point").items():
        point = there[0]["parameters"]
        values = [str(point[name]) if name in WHOLE else f"{point[name]:.3g}" for name in names]
        rows.append([f"{search}, {'before' if which == FIRST else 'found'}", f"{point['loss']:.4g}", *values])
    return table(["search", "loss", *names.values()], rows)


def _errors(told: list[Entry]) -> str:
    rows = []
    for (search, data), there in grouped(told, "search", "data").items():
        points = {entry[CELL]["point"]: entry for entry in succeeded(there)}
        if points.keys() == {FIRST, BEST} and points[BEST]["parameters"] != points[FIRST]["parameters"]:
            kinds = [kind for kind in (ENERGY, FORCE) if kind in points[BEST]]
            errors = [" / ".join(f"{points[which][kind]:.3g}" for kind in kinds) for which in (FIRST, BEST)]
            rows.append([search, data, str(points[BEST]["sizes"][0]), str(points[BEST]["n_features"]), *errors])
    head = ["search", "data", "structures", "features", "before: energy / meV, force / meV/Å", "after"]
    return table(head, rows)


MONTE_CARLO_ERRORS = Benchmark(
    "monte_carlo_errors",
    "Parameters of FCHL19 that the Monte Carlo searches found",
    "Errors with the parameters before and after each search, on structures that it has not seen.",
    cells, measure, tables,
    needs=("small_mols/small_mols.npz", *rmd17_files("ethanol", "aspirin"), "qm9/qm9.npz"), threads=1,
)  # fmt: skip
