"""Time and test errors of predictions with the repulsion of close and crowded atoms, beside those without."""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import Any

from qml_lightning import Potential, evaluate, fit, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.models import load, rmd17_files, with_features
from ..harness.tables import table

ROUNDS = 15
WITHOUT, WITH = "without", "with"
# Training structures, how many of them are learnt, and test structures.
SYSTEMS = {
    "aspirin": ("rmd17_aspirin:train_01", 100, "rmd17_aspirin:test_01@0:100"),
    "one ethanol": ("rmd17_ethanol:train_01", 200, "rmd17_ethanol:test_01@0:1"),
    "silicon": ("zuo2020_Si:train", 214, "zuo2020_Si:test"),
    "water": ("water_pbe0ts:train", 10, "water_pbe0ts:test@0:10"),
}
REPEATED = {"one ethanol": 50}  # predictions that are timed together: one takes less than the clock can tell


def cells(options: Options) -> list[Cell]:
    if options.quick:
        return [{"system": "one ethanol", "n_features": 256}]
    return [{"system": system, "n_features": 4096} for system in SYSTEMS]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    """Microseconds of processor time for each atom, the best of several predictions in turn; force errors of a test."""
    name, n, test = SYSTEMS[cell["system"]]
    train, tried, repeated = load(name), load(test), REPEATED.get(cell["system"], 1)
    potential = fit(
        train.subsample(10 if options.quick else n, seed=0), with_features(recipes.DEFAULT, cell["n_features"])
    )
    both = {WITHOUT: replace(potential, repulsion=None), WITH: potential}
    predictors = {name: one.on() for name, one in both.items()}
    best = dict.fromkeys(both, float("inf"))
    for _ in range(2 if options.quick else ROUNDS):
        for name, predictor in predictors.items():
            started = process_time()
            for _ in range(repeated):
                predictor.predict(tried.structures)
            best[name] = min(best[name], (process_time() - started) / repeated)
    atoms = tried.structures.n_atoms
    return {
        "atoms": atoms,
        "us_per_atom": {name: 1e6 * seconds / atoms for name, seconds in best.items()},
        "force_mae_mev_per_angstrom": {name: _force_error(one, tried) for name, one in both.items()},
    }


def _force_error(potential: Potential, test: Any) -> float:
    forces = evaluate(potential, test).forces
    assert forces is not None
    return 1e3 * forces.mae


def tables(entries: list[Entry]) -> str:
    rows = []
    for entry in succeeded(entries):
        times, errors = entry["us_per_atom"], entry["force_mae_mev_per_angstrom"]
        same = "the same" if errors[WITH] == errors[WITHOUT] else f"{errors[WITHOUT]:.6g} to {errors[WITH]:.6g}"
        rows.append([
            entry[CELL]["system"], f"{entry['atoms']}", f"{times[WITHOUT]:.2f}", f"{times[WITH]:.2f}",
            f"{times[WITH] / times[WITHOUT]:.3f}", same,
        ])  # fmt: skip
    return table(["", "atoms", "µs/atom without", "with", "times", "force error of the test set, meV/Å"], rows)


REPULSION = Benchmark(
    "repulsion",
    "Cost of the repulsion of close and crowded atoms",
    "Energies, forces and, of a cell, stress, by the native path on one thread, 4096 features of the default recipe. "
    "Processor time, which other programs change little; both in turn in one run, the best of several.",
    cells, measure, tables,
    needs=("water/water_pbe0ts.npz", "zuo2020/Si.npz", *rmd17_files("aspirin", "ethanol")), threads=1,
)  # fmt: skip
