"""Cost of float32: errors, differences from float64, and the drift of energy in molecular dynamics."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np
from ase import Atoms, units
from ase.md.velocitydistribution import MaxwellBoltzmannDistribution
from ase.md.verlet import VelocityVerlet

from qml_lightning import Dataset, Potential, evaluate, fit

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.models import fchl19_recipe, rmd17, rmd17_files
from ..harness.tables import table

PRECISIONS = ("float64", "float32")
SIZES = {False: (1000, 8192, 20000), True: (100, 1024, 200)}  # structures, features and steps; of a quick run: True
# Stage of a cell → label, and the value of an entry of it.
ROWS: tuple[tuple[str, str, str, Any], ...] = (
    ("fit", "fitted in: energy MAE / meV", ".3f", lambda e: e["errors"]["energy"]["mae"] * 1e3),
    ("fit", "fitted in: force MAE / meV/Å", ".3f", lambda e: e["errors"]["forces"]["mae"] * 1e3),
    ("prediction", "predicted in: largest energy difference / meV", ".2g", lambda e: e["energy_difference_mev"]),
    ("prediction", "predicted in: largest force difference / meV/Å", ".2g",
     lambda e: e["force_difference_mev_per_angstrom"]),
    ("prediction", "NVE: drift / meV/ps", ".3g", lambda e: e["nve"]["mev_per_ps"]),
    ("prediction", "NVE: scatter / meV", ".3g", lambda e: e["nve"]["scatter_mev"]),
)  # fmt: skip


def cells(options: Options) -> list[Cell]:
    return [{"stage": stage, "precision": precision} for stage in ("fit", "prediction") for precision in PRECISIONS]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    n_train, n_features, steps = SIZES[options.quick]
    test, precision = rmd17("ethanol", n_train, quick=options.quick)[1], cell["precision"]
    if cell["stage"] == "fit":
        potential, seconds = _fitted(precision, options.quick)
        sizes = {"n_train": n_train, "n_features": n_features}
        return {**sizes, "fit_seconds": seconds, "errors": evaluate(potential, test).as_dict()}
    model, _ = _fitted("float64", options.quick)
    exact, found = (model.on(precision=p).predict(test.structures) for p in ("float64", precision))
    return {
        "energy_difference_mev": float((found.energies - exact.energies).abs().max() * 1e3),
        "force_difference_mev_per_angstrom": float((found.forces - exact.forces).abs().max() * 1e3),
        "nve": drift(model, test, precision, steps),
    }


@lru_cache(maxsize=2)
def _fitted(precision: str, quick: bool) -> tuple[Potential, float]:
    """The model in that precision, and the seconds of its fit."""
    n_train, n_features, _ = SIZES[quick]
    start = time.perf_counter()
    potential = fit(rmd17("ethanol", n_train, quick=quick)[0], fchl19_recipe(n_features, precision=precision))
    return potential, time.perf_counter() - start


def drift(potential: Potential, data: Dataset, precision: str, steps: int) -> dict[str, float]:
    """Total energy along NVE dynamics of 0.5 fs steps from 300 K, in meV: slope per ps and scatter about the line."""
    n = int(data.structures.counts[0])
    atoms = Atoms(data.structures.numbers[:n].numpy(), data.structures.positions[:n].numpy())
    atoms.calc = potential.calculator(precision=precision)
    MaxwellBoltzmannDistribution(atoms, temperature_K=300, rng=np.random.default_rng(0))
    dynamics = VelocityVerlet(atoms, timestep=0.5 * units.fs)
    energies: list[float] = []
    dynamics.attach(lambda: energies.append(atoms.get_total_energy()), interval=10)
    dynamics.run(steps)
    picoseconds = np.arange(len(energies)) * 0.005
    slope, start = np.polyfit(picoseconds, energies, 1)
    scatter = np.std(np.array(energies) - slope * picoseconds - start)
    return {"mev_per_ps": float(slope * 1e3), "scatter_mev": float(scatter * 1e3), "picoseconds": steps * 5e-4}


def tables(entries: list[Entry]) -> str:
    there = {tuple(entry[CELL].values()): entry for entry in succeeded(entries)}
    rows = [
        [label, *(f"{value(there[stage, p]):{form}}" if (stage, p) in there else "–" for p in PRECISIONS)]
        for stage, label, form, value in ROWS
    ]
    return table(["", *PRECISIONS], rows)


PRECISION = Benchmark(
    "precision",
    "Cost of float32",
    "rMD17 ethanol, 1000 structures, 8192 features. Differences and dynamics are those of the model that was fitted in "
    "float64.",
    cells, measure, tables,
    needs=rmd17_files("ethanol"),
)  # fmt: skip
