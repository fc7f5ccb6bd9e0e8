"""Random errors of energies along a line of 4 mÅ: how smooth float32 leaves them, and what float64 costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from qml_lightning import Potential, Structures, fit

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.models import AUTO, load, recipe_for, rmd17_files
from ..harness.tables import digits, table
from ..harness.timing import best_in_turn

# training structures, test structures, features
SYSTEMS = {
    "silicon": ("zuo2020_Si:train", "zuo2020_Si:test", 2048),
    "copper": ("zuo2020_Cu:train", "zuo2020_Cu:test", 2048),
    "InP": ("snap_InP:train@::4", "snap_InP:test", 2048),
    "water": ("water_pbe0ts:train@0:60", "water_pbe0ts:test", 2048),
    "ethanol": ("rmd17_ethanol:train_01", "rmd17_ethanol:test_01", 8192),
    "benzene": ("rmd17_benzene:train_01@0:500", "rmd17_benzene:test_01", 4096),
    "aspirin": ("rmd17_aspirin:train_01@0:500", "rmd17_aspirin:test_01", 8192),
}
POINTS = 41  # structures along the line
LENGTH = 4e-3  # Å
PRECISIONS = ("float32", "float64")


def cells(options: Options) -> list[Cell]:
    if options.quick:
        return [{"system": "ethanol", "n_features": 256}]
    return [{"system": name, "n_features": n_features} for name, (_, _, n_features) in SYSTEMS.items()]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    train, test = (load(name) for name in SYSTEMS[cell["system"]][:2])
    if options.quick:
        train = train.select(torch.arange(40))
    potential = fit(train, recipe_for(AUTO, cell["n_features"]))
    line = along_a_line(test.structures.select(torch.tensor([0])))
    many = test.structures.select(torch.arange(min(20, len(test))))
    times = {name: _prediction(potential, many, name) for name in PRECISIONS}
    return {
        "recipe": potential.recipe.as_dict(),
        "atoms": line.n_atoms // POINTS,
        "expected_noise": potential.energy_noise,
        "taken": potential.prediction_precision,
        "noise": {name: scatter(potential, line, name) for name in PRECISIONS},
        "seconds": best_in_turn(times, 1 if options.quick else 5),
    }


def along_a_line(one: Structures) -> Structures:
    """Copies of a structure whose atoms move on along one random direction, `LENGTH` in all."""
    direction = np.random.default_rng(0).normal(size=(one.n_atoms, 3))
    direction *= LENGTH / np.linalg.norm(direction)
    line = one.select(torch.zeros(POINTS, dtype=torch.int64))
    steps = torch.linspace(0.0, 1.0, POINTS, dtype=torch.float64).repeat_interleave(one.n_atoms)
    moved = line.positions + steps[:, None] * torch.from_numpy(direction).repeat(POINTS, 1)
    return Structures(line.numbers, moved, line.offsets, line.cells, line.periodic)


def scatter(potential: Potential, line: Structures, precision: str) -> float:
    """Standard deviation of the energies from a cubic polynomial, eV per √atom."""
    energies = potential.on(precision=precision).predict(line, forces=False).energies.numpy()
    place = np.linspace(-1.0, 1.0, POINTS)
    smooth = np.polynomial.Polynomial.fit(place, energies, 3)
    return float(np.std(energies - smooth(place)) / np.sqrt(line.n_atoms / POINTS))


def _prediction(potential: Potential, structures: Structures, precision: str) -> Any:
    predictor = potential.on(precision=precision)
    return lambda: predictor.predict(structures)


def tables(entries: list[Entry]) -> str:
    """Noise by precision, as expected from the weights, the precision that is taken, and the time of float64."""
    rows = [
        [
            entry[CELL]["system"],
            str(entry[CELL]["n_features"]),
            f"{entry['recipe']['ridge']:.1g}",
            digits(entry["noise"]["float32"] * 1e3),
            digits(entry["expected_noise"] * 1e3),
            f"{entry['noise']['float64'] * 1e3:.0e}",
            entry["taken"],
            f"{entry['seconds']['float64'] / entry['seconds']['float32']:.2f}",
        ]
        for entry in succeeded(entries)
    ]
    noise = ["noise of float32 / meV/√atom", "expected from the weights", "noise of float64"]
    return table(["system", "features", "ridge", *noise, "precision taken", "time of float64 / float32"], rows)


ENERGY_NOISE = Benchmark(
    "energy_noise",
    "Random errors of energies",
    "Atoms of one structure move along a random direction by 4 mÅ in 40 steps. The noise is the standard deviation of "
    "the energies from a cubic polynomial. Recipes are chosen from the data.",
    cells, measure, tables,
    needs=(*rmd17_files("ethanol", "benzene", "aspirin"), "zuo2020/Si.npz", "zuo2020/Cu.npz", "snap/InP.npz",
           "water/water_pbe0ts.npz"),
    timing=True,
)  # fmt: skip
