"""QM7: atomisation energies of PBE0 learnt as they are, and as a correction to DFTB."""

from __future__ import annotations

import time
from typing import Any

from qml_lightning import evaluate, fit, load_dataset

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Headline, Options, succeeded
from ..harness.curves import both_logarithmic, draw_curve, row
from ..harness.drawing import panels
from ..harness.entries import grouped
from ..harness.internals import ENERGY_IN_EV
from ..harness.places import SHARED_DATA
from ..harness.tables import table, thousands

SIZES = (100, 250, 500, 1000, 2500, 5000)
LEARNT = {"the energy": None, "the correction to DFTB": "dftb_energies"}
N_FEATURES = 4096
MAE = "mae_kcal_per_mol"


def cells(options: Options) -> list[Cell]:
    sizes = (60, 120) if options.quick else SIZES
    return [{"learnt": name, "n_train": n} for name in LEARNT for n in sizes]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    read: dict[str, Any] = {"data_folder": SHARED_DATA, "baseline": LEARNT[cell["learnt"]]}
    train = load_dataset("qm7:train", **read).subsample(cell["n_train"], seed=0)
    test = load_dataset("qm7:test", **read)
    test = test.subsample(50, seed=0) if options.quick else test
    started = time.perf_counter()
    # without a repulsion: molecules at rest have pairs closer than any among few others, and they are no clash
    potential = fit(train, n_features=512 if options.quick else N_FEATURES, repulsion=False)
    seconds = time.perf_counter() - started
    error = evaluate(potential, test).energy
    assert error is not None
    unit = ENERGY_IN_EV["kcal/mol"]
    return {
        MAE: error.mae / unit,
        "rmse_kcal_per_mol": error.rmse / unit,
        "fit_seconds": seconds,
        "n_test": len(test),
        "recipe": potential.recipe.as_dict(),
    }


def _curves(entries: list[Entry]) -> dict[str, dict[int, list[Entry]]]:
    by_target = grouped(succeeded(entries), "learnt")
    return {name: {entry[CELL]["n_train"]: [entry] for entry in there} for (name,), there in by_target.items()}


def tables(entries: list[Entry]) -> str:
    curves = _curves(entries)
    sizes = sorted({n for curve in curves.values() for n in curve})
    rows = [[name, *row(curve, sizes, MAE, 2)] for name, curve in curves.items()]
    return table(["MAE kcal/mol, molecules:", *map(thousands, sizes), "slope"], rows)


def draw(entries: list[Entry]) -> Any:
    figure, (axis,) = panels(1)
    curves = _curves(entries)
    for number, (name, curve) in enumerate(curves.items()):
        draw_curve(axis, curve, MAE, label=name, number=number)
    both_logarithmic(axis, sorted({n for curve in curves.values() for n in curve}))
    axis.set_xlabel("training molecules")
    axis.set_ylabel("MAE of the PBE0 energy / kcal mol$^{-1}$")
    axis.legend()
    return figure


def headline(entries: list[Entry]) -> list[Headline]:
    curves = _curves(entries)
    if not all(1000 in curves.get(name, {}) for name in LEARNT):
        return []
    direct, correction = (curves[name][1000][0][MAE] for name in LEARNT)
    what = "QM7, 1000 molecules, correction to DFTB: MAE"
    return [Headline(what, f"{correction:.2f} kcal/mol", f"the energy itself: {direct:.2f} kcal/mol")]


DELTA = Benchmark(
    "delta",
    "QM7: a correction to DFTB beside the energy itself",
    f"Atomisation energies of PBE0, tested on 1000 molecules. {N_FEATURES} features, recipe chosen from the training "
    "molecules of each fit, no repulsion of close pairs. The sets are drawn at random from the stored split.",
    cells, measure, tables, draw, headline,
    needs=("qm7/qm7.npz",),
)  # fmt: skip
