"""Ethanol: dipoles and infrared spectra of GFN2-xTB, learnt from frames of rMD17 that tblite labels."""

from __future__ import annotations

import tempfile
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from ase import Atoms, units
from ase.build import molecule
from ase.calculators.singlepoint import SinglePointCalculator
from ase.optimize import BFGS
from ase.vibrations import Infrared

from qml_lightning import fit, fit_properties, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.internals import infrared
from ..harness.models import load, with_features
from ..harness.tables import table, thousands

SIZES = (50, 200, 800)
N_FEATURES, N_TEST = 4096, 500
MILLIDEBYE = 1e3 / units.Debye
KM_PER_MOL = 42.2561  # of (D/Å)²/u, the unit of ASE
DIPOLE = "dipole"


def _calculator() -> Any:
    from tblite.ase import TBLite

    return TBLite(method="GFN2-xTB", verbosity=0, accuracy=0.1)


@lru_cache(maxsize=2)
def labelled(name: str, n: int) -> list[Atoms]:
    """The first frames of a set with energies, forces and dipoles of GFN2-xTB in eV and Å."""
    structures, calculator, frames = load(name).structures, _calculator(), []
    for k in range(n):
        own = slice(int(structures.offsets[k]), int(structures.offsets[k + 1]))
        atoms = Atoms(structures.numbers[own].numpy(), structures.positions[own].numpy())
        atoms.calc = calculator
        found = {"energy": atoms.get_potential_energy(), "forces": atoms.get_forces()}
        atoms.info[DIPOLE] = atoms.get_dipole_moment()
        atoms.calc = SinglePointCalculator(atoms, **found)
        frames.append(atoms)
    return frames


def relaxed(calculator: Any) -> Atoms:
    """Ethanol at rest."""
    atoms = molecule("CH3CH2OH")
    atoms.calc = calculator
    BFGS(atoms, logfile=None).run(fmax=1e-3, steps=500)
    return atoms


@lru_cache(maxsize=1)
def spectrum() -> tuple[np.ndarray, np.ndarray]:
    """Frequencies (cm⁻¹) and intensities (km/mol) of GFN2-xTB itself, by finite differences of ASE."""
    atoms = relaxed(_calculator())
    with tempfile.TemporaryDirectory() as folder:
        found = Infrared(atoms, name=f"{folder}/ir", delta=0.005)
        found.run()
        return found.get_frequencies().real[6:], found.intensities[6:] * KM_PER_MOL


def cells(options: Options) -> list[Cell]:
    return [{"n_train": n} for n in ((40,) if options.quick else SIZES)]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    n_test, most = (20, 40) if options.quick else (N_TEST, max(SIZES))
    train = labelled("rmd17_ethanol:train_01", most)[: cell["n_train"]]
    test = labelled("rmd17_ethanol:test_01", n_test)
    recipe = with_features(recipes.DEFAULT, 512 if options.quick else N_FEATURES)
    dipoles = fit_properties(train, [DIPOLE], recipe=recipe)
    wanted = np.array([atoms.info[DIPOLE] for atoms in test])
    error = dipoles.predict(test)[DIPOLE].numpy() - wanted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        potential = fit(train, recipe)
    atoms = relaxed(potential.calculator(precision="float64"))
    found, (frequencies, intensities) = infrared(potential, dipoles, atoms), spectrum()
    return {
        "dipole_mae_millidebye": float(np.abs(error).mean()) * MILLIDEBYE,
        "dipole_spread_millidebye": float(wanted.std()) * MILLIDEBYE,
        "frequency_mae_per_cm": float(np.abs(found.frequencies - frequencies).mean()),
        "intensity_mae_km_per_mol": float(np.abs(found.intensities - intensities).mean()),
        "strongest_km_per_mol": float(intensities.max()),
        "frequencies": found.frequencies.round(1).tolist(),
        "intensities": found.intensities.round(2).tolist(),
        "xtb_frequencies": frequencies.round(1).tolist(),
        "xtb_intensities": intensities.round(2).tolist(),
    }


def tables(entries: list[Entry]) -> str:
    rows = [
        [
            thousands(entry[CELL]["n_train"]),
            f"{entry['dipole_mae_millidebye']:.1f}",
            f"{entry['frequency_mae_per_cm']:.1f}",
            f"{entry['intensity_mae_km_per_mol']:.2f}",
        ]
        for entry in succeeded(entries)
    ]
    heads = ["training frames", "dipole MAE mD", "frequencies, mean deviation cm⁻¹", "intensities km/mol"]
    return table(heads, rows)


DIPOLES = Benchmark(
    "dipoles",
    "Ethanol: dipoles and infrared intensities",
    f"Frames of rMD17 with energies, forces and dipoles of GFN2-xTB (tblite). {N_FEATURES} features, default recipe; "
    f"dipole components on {N_TEST} other frames. Frequencies and intensities of relaxed ethanol, analytic, beside "
    "those that ASE finds from GFN2-xTB by finite differences.",
    cells, measure, tables,
    needs=("rmd17/rmd17_ethanol.npz",),
    packages=("tblite",),
)  # fmt: skip
