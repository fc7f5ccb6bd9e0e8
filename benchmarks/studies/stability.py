"""Long runs of molecular dynamics: whether atoms stay together, and whether energy is conserved.

One cell is one run. A new system is a row of SYSTEMS, a new run a row of RUNS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
from ase import Atoms, units
from ase.build import bulk
from ase.md.langevin import Langevin
from ase.md.velocitydistribution import MaxwellBoltzmannDistribution, Stationary
from ase.md.verlet import VelocityVerlet

import qml_lightning as qml
from qml_lightning import Potential, recipes

from ..harness import drawing
from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.models import DENSITY, load, recipe_for, rmd17_files, with_features
from ..harness.places import TRIED
from ..harness.tables import digits, table

LOOK_EVERY = 20  # steps
POINTS = 250  # of a curve in the result file
BLOCKS = 25  # of a run, for the error of its drift
COLLAPSED, LOST = 0.5, 6.0  # Å: two atoms nearer than this, or an atom of a molecule farther from all others
TOO_HOT = 5.0  # times the temperature
FRICTION = 0.01  # 1/fs
# Models: as `fit` trains them by default, and with the fixed recipe of a representation.
CHOSEN, FIXED = "chosen", "fixed"
FIXED_RECIPES = {"density": recipes.DEFAULT, "FCHL19": recipes.FCHL19}


def _frame(data: str) -> Atoms:
    """First structure of a data set: a frame at 500 K."""
    first = load(data).structures
    n = int(first.offsets[1])
    return Atoms(first.numbers[:n].numpy(), first.positions[:n].numpy())


@dataclass(frozen=True)
class System:
    """Training data, and atoms to begin with."""

    data: str
    begin: Callable[[], Atoms]
    timestep: float  # fs


SYSTEMS = {
    "ethanol": System("rmd17_ethanol:train_01", lambda: _frame("rmd17_ethanol:train_01"), 0.5),
    "aspirin": System("rmd17_aspirin:train_01", lambda: _frame("rmd17_aspirin:train_01"), 0.5),
    "silicon": System("zuo2020_Si:train", lambda: bulk("Si", a=5.47, cubic=True).repeat(2), 1.0),
}
# system, representation, recipe, features, ensemble, K, ps
RUNS = (
    ("silicon", "density", CHOSEN, 8192, "NVT", 3000, 20),
    ("ethanol", "density", CHOSEN, 8192, "NVT", 1000, 50),
    ("ethanol", "density", FIXED, 4096, "NVE", 500, 50),
    ("ethanol", "FCHL19", FIXED, 4096, "NVE", 500, 50),
    ("ethanol", "density", CHOSEN, 8192, "NVE", 500, 50),
    ("aspirin", "density", CHOSEN, 8192, "NVE", 500, 50),
    ("aspirin", "density", FIXED, 4096, "NVE", 500, 50),
    ("aspirin", "FCHL19", FIXED, 4096, "NVE", 500, 50),
)


def cells(options: Options) -> list[Cell]:
    names = ("system", "representation", "recipe", "features", "ensemble", "temperature", "ps")
    runs = [(*run[:3], 256, *run[4:6], 0.05) for run in RUNS[1:4]] if options.quick else RUNS
    return [dict(zip(names, run, strict=True)) for run in runs]


@lru_cache(maxsize=1)
def _trained(system: str, representation: str, recipe: str, features: int, quick: bool) -> Potential:
    """The model of a run, kept in a file for other runs with it."""
    kept = TRIED / f"stability_{system}_{representation}_{recipe}_{features}.safetensors"
    if kept.is_file() and not quick:
        return cast(Potential, qml.load(kept))
    fixed = with_features(FIXED_RECIPES[representation], features)
    data = load(SYSTEMS[system].data)
    chosen = recipe_for(DENSITY, features) if recipe == CHOSEN else fixed
    made = qml.fit(data.subsample(60, seed=0) if quick else data, chosen)
    if not quick:
        TRIED.mkdir(parents=True, exist_ok=True)
        made.save(str(kept))
    return made


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    potential = _trained(*list(cell.values())[:4], options.quick)
    atoms, random = SYSTEMS[cell["system"]].begin(), np.random.default_rng(0)
    atoms.calc = potential.calculator()
    MaxwellBoltzmannDistribution(atoms, temperature_K=cell["temperature"], rng=random)
    Stationary(atoms)
    step = SYSTEMS[cell["system"]].timestep
    if cell["ensemble"] == "NVE":
        run = VelocityVerlet(atoms, step * units.fs)
    else:
        given = {"temperature_K": cell["temperature"], "friction": FRICTION / units.fs, "rng": random, "fixcm": False}
        run = Langevin(atoms, step * units.fs, **given)
    looks = _followed(run, atoms, cell, step)
    times, energies, temperatures, nearest, apart = np.array(looks["seen"]).T
    every = max(1, len(times) // POINTS)
    line = np.polyfit(times, energies, 1)
    per_atom = 1e3 / len(atoms)
    return {
        "structures": potential.provenance.structures,
        "recipe": potential.recipe.as_dict(),
        "timestep_fs": step,
        "atoms": len(atoms),
        "ps_done": float(times[-1]),
        "ended": looks["ended"],
        "least_distance_angstrom": float(nearest.min()),
        "greatest_gap_angstrom": float(apart.max()),
        "mean_temperature": float(temperatures.mean()),
        "drift_mev_per_atom_and_ps": float(line[0] * per_atom),
        "fluctuation_mev_per_atom": float((energies - np.polyval(line, times)).std() * per_atom),
        "curve": {
            "ps": [round(float(t), 4) for t in times[::every]],
            "energy_mev_per_atom": [round(float(e), 4) for e in (energies - energies[0])[::every] * per_atom],
            "least_distance_angstrom": [
                round(float(nearest[k : k + every].min()), 4) for k in range(0, len(nearest), every)
            ],
        },
    }  # fmt: skip


def _followed(run: Any, atoms: Atoms, cell: Cell, step: float) -> dict[str, Any]:
    """Time, energy, temperature, shortest distance, greatest distance of an atom to its nearest; and how it ended."""
    seen, ended = [], "as planned"
    for look in range(round(cell["ps"] * 1000 / step) // LOOK_EVERY + 1):
        if look:
            for _ in range(LOOK_EVERY):
                run.step()
        distances = atoms.get_all_distances(mic=bool(atoms.pbc.any()))
        np.fill_diagonal(distances, np.inf)
        nearest, apart = float(distances.min()), float(distances.min(1).max())
        now, hot = look * LOOK_EVERY * step / 1000, atoms.get_temperature()
        seen.append((now, atoms.get_total_energy(), hot, nearest, apart))
        if nearest < COLLAPSED or apart > LOST or hot > TOO_HOT * cell["temperature"] or not np.isfinite(hot):
            ended = f"left the physical region after {now:.2f} ps"
            break
    return {"seen": seen, "ended": ended}


def tables(told: list[Entry]) -> str:
    figures = ["least distance Å", "drift meV/(atom ps)", "fluctuation meV/atom"]
    head = ["system", "model", "run", "done", *figures]
    rows = []
    for entry in succeeded(told):
        cell, whole = entry[CELL], entry["ended"] == "as planned"
        nve = cell["ensemble"] == "NVE" and whole
        rows.append([
            cell["system"], f"{cell['representation']}, {cell['features']} features, {cell['recipe']} recipe",
            f"{cell['ensemble']}, {cell['temperature']} K, {cell['ps']:g} ps, steps of {entry['timestep_fs']:g} fs",
            "whole" if whole else entry["ended"],
            f"{entry['least_distance_angstrom']:.2f}",
            f"{entry['drift_mev_per_atom_and_ps']:+.4f} ± {_error_of_drift(entry['curve']):.4f}" if nve else "–",
            digits(entry["fluctuation_mev_per_atom"]) if nve else "–",
        ])  # fmt: skip
    return table(head, rows)


def _error_of_drift(curve: dict[str, list[float]]) -> float:
    """Standard error of the slope of the total energy, from means of blocks: they are nearly independent.

    NaN for runs of a few frames, which do not tell it.
    """
    blocks = min(BLOCKS, len(curve["ps"]))
    if blocks < 5:
        return math.nan
    times, energies = (np.array_split(curve[name], blocks) for name in ("ps", "energy_mev_per_atom"))
    _, covariance = np.polyfit([part.mean() for part in times], [part.mean() for part in energies], 1, cov=True)
    return float(np.sqrt(covariance[0, 0]))


def draw(told: list[Entry]) -> Any:
    figure, (left, right) = drawing.panels(2)
    for number, entry in enumerate(succeeded(told)):
        cell, curve = entry[CELL], entry["curve"]
        nve = cell["ensemble"] == "NVE"
        colour = drawing.COLOURS[number % len(drawing.COLOURS)]
        label = f"{cell['system']}, {cell['representation'] if nve else str(cell['temperature']) + ' K'}"
        name = "energy_mev_per_atom" if nve else "least_distance_angstrom"
        (left if nve else right).plot(curve["ps"], curve[name], lw=0.8, label=label, color=colour)
    left.set(xlabel="time / ps", ylabel="total energy, meV/atom")
    right.set(xlabel="time / ps", ylabel="shortest distance / Å", ylim=(0, None))
    right.axhline(COLLAPSED, color=drawing.GREY, lw=0.8, ls=":")
    drawing.title(left, "constant energy, 500 K", "a")
    drawing.title(right, "hot, with a thermostat", "b")
    for axes in (left, right):
        if axes.lines[axes is right :]:
            axes.legend()
    return figure


STABILITY = Benchmark(
    "stability",
    "Long runs of molecular dynamics",
    "A chosen recipe is what `train` finds by default; a fixed one is that of the representation. Velocities are "
    "drawn at the temperature; molecules begin with a training frame, silicon with 64 atoms of the crystal. NVT is "
    "Langevin with a friction of 0.01/fs.",
    cells, measure, tables, draw,
    needs=(*rmd17_files("ethanol", "aspirin"), "zuo2020/Si.npz"),
    threads=1,
)  # fmt: skip
