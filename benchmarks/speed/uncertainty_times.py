"""Time of a prediction with uncertainty beside one without, in the fused native path."""

from __future__ import annotations

from time import process_time
from typing import Any

from qml_lightning import Structures, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.internals import with_any_committee
from ..harness.models import load, rmd17_files, with_features
from ..harness.systems import liquid_water
from ..harness.tables import table

MEMBERS, ROUNDS = 8, 60
FEATURES = (2048, 4096, 8192, 16384, 32768)
WATER = "one cell of water"
SYSTEMS = {
    "aspirin, 100 at once": "rmd17_aspirin:test_01@0:100",
    "ethanol, 200 at once": "rmd17_ethanol:test_01@0:200",
    "one ethanol": "rmd17_ethanol:test_01@0:1",
    "ethanol, 200 at once, FCHL19": "rmd17_ethanol:test_01@0:200",
}
REPEATED = {"one ethanol": 50}  # predictions that are timed together: one takes less than the clock can tell
N_WATER = 1536  # atoms


def cells(options: Options) -> list[Cell]:
    sizes, few = (FEATURES[:1], FEATURES[:1]) if options.quick else (FEATURES, FEATURES[:2])
    which = {**dict.fromkeys((*SYSTEMS, WATER), sizes), "one ethanol": few, "ethanol, 200 at once, FCHL19": few}
    return [{"system": system, "n_features": n_features} for system in which for n_features in which[system]]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    """Microseconds of processor time for each atom, the best of several predictions in turn."""
    structures = _structures(cell["system"], options.quick)
    start = recipes.FCHL19 if cell["system"].endswith("FCHL19") else recipes.DEFAULT
    recipe, repeated = with_features(start, cell["n_features"], sigma=8.0), REPEATED.get(cell["system"], 1)
    predictor = with_any_committee(structures, recipe, MEMBERS).on()
    best = dict.fromkeys((False, True), float("inf"))
    for _ in range(2 if options.quick else ROUNDS):
        for uncertainty in best:
            started = process_time()
            for _ in range(repeated):
                predictor.predict(structures, uncertainty=uncertainty)
            best[uncertainty] = min(best[uncertainty], (process_time() - started) / repeated)
    without, with_it = (1e6 * seconds / structures.n_atoms for seconds in best.values())
    return {"atoms": structures.n_atoms, "without_us": without, "with_us": with_it, "ratio": with_it / without}


def _structures(system: str, quick: bool) -> Structures:
    if system == WATER:
        return liquid_water(192 if quick else N_WATER)
    structures = load(SYSTEMS[system]).structures
    return structures.select(range(min(5, len(structures)))) if quick else structures


def tables(entries: list[Entry]) -> str:
    rows = [
        [cell["system"], f"{entry['atoms']}", f"{cell['n_features']}", f"{entry['without_us']:.1f}",
         f"{entry['with_us']:.1f}", f"{entry['ratio']:.2f}"]
        for entry in succeeded(entries)
        for cell in (entry[CELL],)
    ]  # fmt: skip
    return table(["", "atoms", "features", "without, µs/atom", "with uncertainty", "times"], rows)


UNCERTAINTY_TIMES = Benchmark(
    "uncertainty_times",
    "Time of a prediction with uncertainty",
    f"Energies, forces and, of a cell, stress, by the native path on one thread, with a committee of {MEMBERS}. "
    "Processor time, which other programs change little; both in turn in one run, the best of several.",
    cells, measure, tables, needs=("water/water_pbe0ts.npz", *rmd17_files("aspirin", "ethanol")), threads=1,
)  # fmt: skip
