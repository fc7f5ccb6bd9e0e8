"""Molecular dynamics in LAMMPS with trained models: whether a run stays physical.

One cell is one run; a new one is a row of RUNS.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms

from qml_lightning import fit, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.internals import lammps_build, lammps_head, lammps_run, lammps_structure
from ..harness.models import load, rmd17_files, with_features
from ..harness.tables import table

# Training data, structures (None: all) and features of the fixed default recipe.
TRAINED = {"ethanol": ("rmd17_ethanol:train_01", None, 4096), "water": ("water_pbe0ts:train", 80, 2048)}
THERMOSTATS = {"NVT": "fix run all nvt temp 300 300 0.1", "NPT": "fix run all npt temp 300 300 0.1 iso 0 0 1.0"}
# system, ensemble, steps, ranks
RUNS = (("ethanol", "NVT", 10_000, 1), ("water", "NPT", 2_000, 2))
TIMESTEP = 0.5  # fs
LOOK_EVERY = 10  # steps
AMU_PER_CUBIC_ANGSTROM = 1.66053907  # g/cm³


def cells(options: Options) -> list[Cell]:
    names = ("system", "ensemble", "steps", "ranks")
    runs = [(*run[:2], 20, 1) for run in RUNS[:1]] if options.quick else RUNS
    return [dict(zip(names, run, strict=True)) for run in runs]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    name, n, features = TRAINED[cell["system"]]
    data = load(name)
    n = 60 if options.quick else n
    recipe = with_features(recipes.DEFAULT, 256 if options.quick else features)
    potential = fit(data if n is None else data.subsample(n, seed=0), recipe)
    atoms = _first(data.structures)
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        potential.save(str(where / "model.safetensors"))
        symbols = lammps_structure(atoms, where / "structure.data")
        script = where / "in.lammps"
        script.write_text(f"""{lammps_head(atoms, symbols, where / "model.safetensors")}
velocity all create 300 1 mom yes rot yes
timestep {TIMESTEP / 1000}
{THERMOSTATS[cell["ensemble"]]}
thermo_style custom step temp density
thermo {LOOK_EVERY}
dump all all custom {LOOK_EVERY} run.dump id xu yu zu
dump_modify all sort id
run {cell["steps"]}
""")
        log = lammps_run(script, cell["ranks"], 1, lammps_build(where / "plugin").parent)
        text = (where / "run.dump").read_text()
    looks = np.array([line.split() for line in log.splitlines() if re.fullmatch(r"\s*\d+(\s+-?[\d.e+-]+){2}\s*", line)])
    _, temperatures, densities = looks.astype(float).T
    nearest, apart = np.array(_distances(text, atoms)).T
    late = slice(len(temperatures) // 2, None)
    periodic = bool(atoms.pbc.any())
    return {
        "structures": potential.provenance.structures,
        "recipe": potential.recipe.as_dict(),
        "atoms": len(atoms),
        "steps_done": (len(nearest) - 1) * LOOK_EVERY,
        "least_distance_angstrom": float(nearest.min()),
        "greatest_gap_angstrom": float(apart.max()),
        "mean_temperature": float(temperatures[late].mean()),
        "highest_temperature": float(temperatures.max()),
        "densities": [float(densities.min()), float(densities.max())] if periodic else None,  # g/cm³
    }


def _first(structures: Any) -> Atoms:
    """First structure of a data set."""
    n = int(structures.offsets[1])
    periodic = bool(structures.periodic[0].any())
    cell = structures.cells[0].numpy() if periodic else None
    return Atoms(structures.numbers[:n].numpy(), structures.positions[:n].numpy(), cell=cell, pbc=periodic)


def _distances(dump: str, atoms: Atoms) -> list[tuple[float, float]]:
    """Shortest distance, and greatest distance of an atom to its nearest, for each frame of a dump."""
    out = []
    for frame in dump.split("ITEM: TIMESTEP")[1:]:
        head, _, rows = frame.partition("ITEM: ATOMS")
        bounds = np.array([line.split()[:2] for line in head.splitlines()[-3:]], dtype=float)
        positions = np.array([line.split()[1:4] for line in rows.splitlines()[1:]], dtype=float)
        one = Atoms(atoms.numbers, positions, cell=np.diag(np.ptp(bounds, axis=1)), pbc=atoms.pbc)
        distances = one.get_all_distances(mic=bool(atoms.pbc.any()))
        np.fill_diagonal(distances, np.inf)
        out.append((float(distances.min()), float(distances.min(1).max())))
    return out


def tables(told: list[Entry]) -> str:
    rows = []
    for entry in succeeded(told):
        cell, densities = entry[CELL], entry["densities"]
        rows.append([
            f"{cell['system']}, {entry['atoms']} atoms", f"{cell['ensemble']}, 300 K, {cell['ranks']} rank(s)",
            f"{entry['steps_done']} of {cell['steps']}", f"{entry['least_distance_angstrom']:.2f}",
            f"{entry['greatest_gap_angstrom']:.2f}",
            f"{entry['mean_temperature']:.0f} ({entry['highest_temperature']:.0f})",
            f"{densities[0]:.2f} to {densities[1]:.2f}" if densities else "–",
        ])  # fmt: skip
    figures = ["least distance Å", "greatest gap Å", "temperature, mean (highest) K", "density g/cm³"]
    return table(["system", "run", "steps", *figures], rows)


LAMMPS_RUNS = Benchmark(
    "lammps_runs",
    "Runs in LAMMPS",
    "The pair style qml/lightning with models of the fixed default recipe (ethanol: 1000 structures, 4096 features; "
    "water: 80 structures, 2048 features), steps of 0.5 fs, from a training structure, Nosé–Hoover. The gap is the "
    "greatest distance of an atom to its nearest; the mean temperature is that of the second half.",
    cells, measure, tables,
    needs=(*rmd17_files("ethanol"), "water/water_pbe0ts.npz"), packages=("lammps",), threads=1,
)  # fmt: skip
