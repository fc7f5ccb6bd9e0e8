"""Work that people do with a potential: vibrations, barriers, equation of state, elastic constants, phonons, density.

One cell is one piece of work; a new one is a function and a row of WORK.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms, units
from ase.build import bulk, molecule
from ase.eos import EquationOfState
from ase.io import write
from ase.mep import NEB
from ase.optimize import BFGS, FIRE
from ase.phonons import Phonons
from ase.vibrations import VibrationsData

from qml_lightning import Potential, fit, recipes

from ..harness import drawing
from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.models import load, rmd17_files, with_features
from ..harness.places import SHARED_DATA
from ..harness.tables import table

EXTRA = "ethanol_extra/ethanol_extra.npz"
# Training data, structures (None: all) and features of the fixed default recipe.
TRAINED = {
    "ethanol": ("rmd17_ethanol:train_01", None, 4096),
    "silicon": ("zuo2020_Si:train", None, 4096),
    "water": ("water_pbe0ts:train", None, 4096),
}
MODES = ("874", "3005")  # cm⁻¹, names of the scans
TORSION = (0, 1, 2, 3)  # C, C, O, H of the hydroxyl group
IMAGES = 9
LOW = 1.0  # eV: parts of the scans that the training data at 500 K come near to
STRAIN = 0.005
WATER = {"steps": 20_000, "timestep": 0.5, "temperature": 300.0}
AMU_PER_CUBIC_ANGSTROM = 1.66053907  # g/cm³
# THz, from the forces of VASP with PBE after one atom of 2 × 2 × 2 primitive cells was moved (example Si of phonopy,
# lattice constant 5.466 Å): that cell holds the waves of these points exactly.
PBE_PHONONS = {"Γ": (15.11,), "X": (4.39, 12.06, 13.43), "L": (3.33, 11.14, 12.02, 14.33)}
# Elastic constants of silicon: DFT and experiment of npj Comput. Mater. 10, 218 (2024), table 2. Phonons: experiment,
# G. Nilsson and G. Nelin, Phys. Rev. B 6, 3777 (1972). Density of water at 300 K: experiment.
BESIDE = {
    "lattice constant Å": "5.47 (PBE)",
    "bulk modulus GPa": "89 (DFT), 98 (experiment)",
    "C11 GPa": "153 (DFT), 165 (experiment)",
    "C12 GPa": "57 (DFT), 65 (experiment)",
    "C44 GPa": "74 (DFT), 79 (experiment)",
    "phonon Γ optical THz": f"{PBE_PHONONS['Γ'][0]:.1f} (PBE), 15.5 (experiment)",
    "phonon X TA THz": f"{PBE_PHONONS['X'][0]:.1f} (PBE), 4.5 (experiment)",
    "phonon L TA THz": f"{PBE_PHONONS['L'][0]:.1f} (PBE), 3.4 (experiment)",
    "density g/cm³": "0.997 (experiment)",
}


@lru_cache(maxsize=1)
def _trained(system: str, quick: bool) -> Potential:
    name, n, features = TRAINED[system]
    data = load(name)
    n = 20 if quick else n
    recipe = with_features(recipes.DEFAULT, 256 if quick else features)
    return fit(data if n is None else data.subsample(n, seed=0), recipe)


def _relaxed(potential: Potential, atoms: Atoms, fmax: float = 1e-3) -> Atoms:
    atoms.calc = potential.calculator(precision="float64")
    BFGS(atoms, logfile=None).run(fmax=fmax, steps=300)
    return atoms


def modes(potential: Potential, quick: bool) -> dict[str, Any]:
    """Energies along two normal modes and wavenumbers from their curvature, beside DFT; all wavenumbers."""
    with np.load(SHARED_DATA / EXTRA) as file:
        extra = {name: file[name] for name in file.files}
    out: dict[str, Any] = {"figures": {}, "beside": {}, "curves": {}}
    for mode in MODES:
        x, e = extra[f"norm_mode_{mode}_coords"], extra[f"norm_mode_{mode}_energies"]
        atoms = [Atoms(extra["ethanol_charges"], one) for one in x]
        learnt = potential.on(precision="float64").predict(atoms, forces=False).energies.numpy()
        at = int(e.argmin())
        masses = atoms[0].get_masses()[:, None]
        # arc length in √amu Å, with a sign
        way = np.sqrt((masses * np.diff(x, axis=0) ** 2).sum((1, 2)))
        s = np.concatenate([[0.0], way.cumsum()])
        s -= s[at]
        out["curves"][mode] = {"s": s.tolist(), "dft": (e - e[at]).tolist(), "model": (learnt - learnt[at]).tolist()}
        wanted, found = (_wavenumber(s, curve) for curve in (e, learnt))
        name, low = f"mode {mode}, cm⁻¹", e - e[at] < LOW
        out["figures"][name], out["beside"][name] = found, f"{wanted:.0f} (DFT)"
        errors = (learnt - learnt[at] - e + e[at])[low]
        out["figures"][f"mode {mode}, RMSE below {LOW:g} eV, meV"] = float(np.sqrt((errors**2).mean()) * 1e3)
    relaxed = _relaxed(potential, molecule("CH3CH2OH"))
    hessian = _hessian(relaxed)
    out["wavenumbers"] = np.abs(VibrationsData(relaxed, hessian).get_frequencies().real)[6:].tolist()
    return out


def _wavenumber(s: np.ndarray, energies: np.ndarray) -> float:
    """Harmonic wavenumber from the curvature at the lowest point of a scan, by a polynomial of fourth degree."""
    at = int(energies.argmin())
    near = energies - energies[at] < LOW
    curvature = 2 * np.polyfit(s[near] - s[at], energies[near] - energies[at], 4)[2]  # eV / (u Å²)
    frequency = np.sqrt(max(curvature, 0.0) * units._e / units._amu) * 1e10  # rad/s
    return float(frequency * units._hbar / units._e / units.invcm)


def _hessian(atoms: Atoms, step: float = 0.005) -> np.ndarray:
    rows = []
    for moved in range(3 * len(atoms)):
        forces = []
        for sign in (1, -1):
            one = atoms.copy()
            one.calc = atoms.calc
            one.positions[moved // 3, moved % 3] += sign * step
            forces.append(one.get_forces())
        rows.append((forces[1] - forces[0]).ravel() / (2 * step))
    matrix = np.array(rows)
    return (0.5 * (matrix + matrix.T)).reshape(len(atoms), 3, len(atoms), 3)


def barrier(potential: Potential, quick: bool) -> dict[str, Any]:
    """Rotation of the hydroxyl group from trans to gauche, by a nudged elastic band."""
    first = _relaxed(potential, molecule("CH3CH2OH"))
    last = first.copy()
    last.set_dihedral(*TORSION, 60.0, indices=[TORSION[3]])
    _relaxed(potential, last)
    images = [first, *(first.copy() for _ in range(IMAGES - 2)), last]
    for one in images:
        one.calc = potential.calculator(precision="float64")
    band = NEB(images, climb=True, method="improvedtangent")
    band.interpolate(method="idpp")
    FIRE(band, logfile=None).run(fmax=0.02, steps=10 if quick else 300)
    energies = np.array([one.get_potential_energy() for one in images])
    figures = {"barrier trans → gauche meV": float((energies.max() - energies[0]) * 1e3)}
    figures["gauche − trans meV"] = float((energies[-1] - energies[0]) * 1e3)
    angles = [(one.get_dihedral(*TORSION) + 360) % 360 for one in images]
    return {"figures": figures, "beside": {}, "curves": {"angle": angles, "energy": (energies - energies[0]).tolist()}}


def _equation_of_state(potential: Potential) -> tuple[float, float, list[float], list[float]]:
    """Lattice constant in Å and bulk modulus in eV/Å³ of diamond, and the curve: Å³ and eV per atom."""
    crystals = [bulk("Si", a=a) for a in np.linspace(5.25, 5.7, 10)]
    volumes = [one.get_volume() / 2 for one in crystals]
    energies = [potential.on(precision="float64").predict(one, forces=False).energies.item() / 2 for one in crystals]
    volume, _, modulus = EquationOfState(volumes, energies, eos="birchmurnaghan").fit()
    return float((8 * volume) ** (1 / 3)), float(modulus), volumes, energies


def elastic(potential: Potential, quick: bool) -> dict[str, Any]:
    """Equation of state and elastic constants of the diamond structure."""
    calculator = potential.calculator(precision="float64")
    lattice, modulus, volumes, energies = _equation_of_state(potential)

    def stress(strain: np.ndarray) -> np.ndarray:
        both = []
        for sign in (1, -1):
            one = bulk("Si", a=lattice)
            one.set_cell(one.cell.array @ (np.eye(3) + sign * strain), scale_atoms=True)
            one.calc = calculator
            BFGS(one, logfile=None).run(fmax=1e-4, steps=100)  # atoms inside the cell relax
            both.append(one.get_stress())
        return (both[0] - both[1]) / (2 * STRAIN) / units.GPa

    along = stress(STRAIN * np.diag([1.0, 0, 0]))
    shear = np.zeros((3, 3))
    shear[1, 2] = shear[2, 1] = STRAIN / 2
    figures = {
        "lattice constant Å": lattice,
        "bulk modulus GPa": float(modulus / units.GPa),
        "C11 GPa": float(along[0]),
        "C12 GPa": float(along[1]),
        "C44 GPa": float(stress(shear)[3]),
    }
    return {"figures": figures, "beside": BESIDE, "curves": {"volume": volumes, "energy": energies}}


def phonons(potential: Potential, quick: bool) -> dict[str, Any]:
    """Phonons of silicon from displacements in a supercell."""
    crystal = bulk("Si", a=_equation_of_state(potential)[0])
    with tempfile.TemporaryDirectory() as folder:
        found = Phonons(crystal, potential.calculator(precision="float64"), supercell=(4, 4, 4), delta=0.01,
                        name=str(Path(folder) / "phonons"))  # fmt: skip
        found.run()
        found.read(acoustic=True)
    points = {"Γ": [0, 0, 0], "X": [0.5, 0, 0.5], "L": [0.5, 0.5, 0.5]}
    terahertz = 1 / (units._hplanck / units._e * 1e12)
    at = {name: np.sort(found.band_structure([point])[0].real) * terahertz for name, point in points.items()}
    figures = {"phonon Γ optical THz": float(at["Γ"][-1]), "phonon X TA THz": float(at["X"][0])}
    figures["phonon L TA THz"] = float(at["L"][0])
    path = [np.array(points["L"]) * (1 - t) for t in np.linspace(0, 1, 30)]
    path += [np.array(points["X"]) * t for t in np.linspace(0, 1, 35)[1:]]
    bands = np.sort(np.array(found.band_structure(path)).real, axis=1) * terahertz
    return {"figures": figures, "beside": BESIDE, "curves": {"bands": bands.tolist(), "gamma": 29}}


def density(potential: Potential, quick: bool) -> dict[str, Any]:
    """Density of liquid water at 300 K and no pressure, by `qml-lightning md --ensemble npt`."""
    first = load("water_pbe0ts:train").structures
    n = int(first.offsets[1])
    atoms = Atoms(first.numbers[:n].numpy(), first.positions[:n].numpy(), cell=first.cells[0].numpy(), pbc=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        potential.save(str(folder / "water.safetensors"))
        write(folder / "water.extxyz", atoms)
        options = {"--timestep": WATER["timestep"], "--temperature": WATER["temperature"]}
        options |= {
            "--every": 5,
            "--steps": 50 if quick else WATER["steps"],
            "--ensemble": "npt",
            "--pressure": 0,
            "--threads": 1,
        }
        command = [sys.executable, "-m", "qml_lightning", "md", "water.safetensors", "water.extxyz", "-o", "run.extxyz"]
        subprocess.run([*command, *(str(word) for pair in options.items() for word in pair)], cwd=folder, check=True)
        log = np.loadtxt(folder / "run.extxyz.log", ndmin=2)
    times, densities = log[:, 1], atoms.get_masses().sum() / log[:, -1] * AMU_PER_CUBIC_ANGSTROM
    late = densities[len(densities) // 2 :]
    blocks = np.array([part.mean() for part in np.array_split(late, 5)])
    figures = {"density g/cm³": float(late.mean()), "density, standard error": float(blocks.std(ddof=1) / 5**0.5)}
    every = max(1, len(times) // 200)
    curves = {"ps": times[::every].tolist(), "density": densities[::every].tolist()}
    return {"figures": figures, "beside": BESIDE, "curves": curves}


# name of the work → system and function
WORK: dict[str, tuple[str, Callable[[Potential, bool], dict[str, Any]]]] = {
    "vibrations": ("ethanol", modes),
    "barrier": ("ethanol", barrier),
    "elastic constants": ("silicon", elastic),
    "phonons": ("silicon", phonons),
    "density": ("water", density),
}


def cells(options: Options) -> list[Cell]:
    return [{"work": name, "system": system} for name, (system, _) in WORK.items()]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    potential = _trained(cell["system"], options.quick)
    about = {"structures": potential.provenance.structures, "recipe": potential.recipe.as_dict()}
    return {**about, **WORK[cell["work"]][1](potential, options.quick)}


def tables(told: list[Entry]) -> str:
    rows = []
    for entry in succeeded(told):
        for name, value in entry["figures"].items():
            digits = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
            rows.append([entry[CELL]["system"], entry[CELL]["work"], name, digits, entry["beside"].get(name, "")])
    return table(["system", "work", "figure", "here", "beside"], rows)


def draw(told: list[Entry]) -> Any:
    by_work = {entry[CELL]["work"]: entry for entry in succeeded(told)}
    drawn = [name for name in WORK if name in by_work]
    figure, panels = drawing.panels(len(drawn), columns=min(3, len(drawn)), height=2.4, width=drawing.TWO_COLUMNS)
    for axes, name, letter in zip(panels, drawn, "abcdefgh", strict=False):
        PICTURES[name](axes, by_work[name]["curves"])
        drawing.title(axes, f"{by_work[name][CELL]['system']}: {name}", letter)
    return figure


def _draw_modes(axes: Any, curves: dict[str, Any]) -> None:
    for mode, colour in zip(MODES, (drawing.BLUE, drawing.ORANGE), strict=True):
        curve = curves[mode]
        axes.plot(curve["s"], curve["dft"], "o", ms=2.5, color=colour, label=f"{mode} cm⁻¹, DFT")
        axes.plot(curve["s"], curve["model"], color=colour, lw=1, label="model")
    axes.set(xlabel="displacement / √u Å", ylabel="energy / eV")
    axes.legend()


def _draw_bands(axes: Any, curves: dict[str, Any]) -> None:
    model = axes.plot(curves["bands"], color=drawing.BLUE, lw=1)
    places = {"L": 0, "Γ": curves["gamma"], "X": len(curves["bands"]) - 1}
    at = [(places[point], value) for point, values in PBE_PHONONS.items() for value in values]
    pbe = axes.plot(*zip(*at, strict=True), "o", color=drawing.RED, ms=3, clip_on=False)
    axes.set_xticks(list(places.values()), list(places))
    axes.set(ylabel="frequency / THz", ylim=(0, None))
    axes.legend([model[0], pbe[0]], ["model", "DFT (PBE)"], loc="lower right")


def _plain(x: str, y: str, labels: tuple[str, str]) -> Callable[[Any, dict[str, Any]], None]:
    def draw_one(axes: Any, curves: dict[str, Any]) -> None:
        axes.plot(curves[x], curves[y], "o-", ms=2.5, lw=1, color=drawing.BLUE)
        axes.set(xlabel=labels[0], ylabel=labels[1])

    return draw_one


PICTURES: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "vibrations": _draw_modes,
    "barrier": _plain("angle", "energy", ("dihedral angle / °", "energy / eV")),
    "elastic constants": _plain("volume", "energy", ("volume / Å³ per atom", "energy / eV per atom")),
    "phonons": _draw_bands,
    "density": _plain("ps", "density", ("time / ps", "density / g/cm³")),
}

REAL_WORK = Benchmark(
    "real_work",
    "Real work",
    "Models with the fixed default recipe: ethanol (rMD17, 1000 structures, 4096 features), silicon (Zuo 2020, 214 "
    "structures, 4096 features), water (240 structures, 4096 features). Scans of normal modes of ethanol are DFT of "
    "the same level as the training data. Water: 64 molecules, 10 ps of NPT at 300 K, the second half.",
    cells, measure, tables, draw,
    needs=(*rmd17_files("ethanol"), EXTRA, "zuo2020/Si.npz", "water/water_pbe0ts.npz"),
    threads=1,
)  # fmt: skip
