"""Every adapter keeps one contract: energy, forces and virial of the model, in its own units, and clear refusals."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write
from ase.units import Bohr, Hartree, kJ, mol

from kernel_tables import ON_CPU
from qml_lightning import fit, load, past_calculator
from qml_lightning.adapters.engine import MovingAtoms
from qml_lightning.adapters.lammps.folder import lammps_version
from qml_lightning.errors import InputError, QMLError
from small_models import crystals, molecules, recipe
from structures_for_tests import rattled


def there(*modules: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in modules)


# ---- what each engine makes of a structure: energy (eV), forces (eV/Å), derivative by strain (eV) or None ------------


def by_ase(model: Path, atoms: Atoms, _: Path):
    from qml_lightning.adapters.ase import QMLLightning

    one = atoms.copy()
    one.calc = QMLLightning(model, precision="float64")
    virial = one.get_stress(voigt=False) * one.get_volume() if one.pbc.any() else None
    return one.get_potential_energy(), one.get_forces(), virial


def by_lammps(model: Path, atoms: Atoms, folder: Path):
    from qml_lightning.adapters.lammps.build import build
    from qml_lightning.adapters.lammps.folder import PLUGIN
    from qml_lightning.adapters.lammps.run import single_point

    if not (folder / PLUGIN).is_file():
        build(folder)
    found = single_point(atoms, model, style="precision float64", plugin=folder)
    return found.energy, found.forces, found.stress * atoms.get_volume() if atoms.pbc.any() else None


def by_openmm(model: Path, atoms: Atoms, _: Path):
    import openmm
    from openmm import unit

    from qml_lightning.adapters.openmm import openmm_force

    system = openmm.System()
    for mass in atoms.get_masses():
        system.addParticle(mass)
    # OpenMM wants lower triangular boxes: the crystal of this test has one
    if atoms.pbc.any():
        system.setDefaultPeriodicBoxVectors(*(atoms.cell.array * 0.1))
    system.addForce(openmm_force(model, atoms.numbers, periodic=bool(atoms.pbc.any()), precision="float64"))
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(atoms.positions * 0.1)
    state = context.getState(getEnergy=True, getForces=True)
    energy = state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole) * kJ / mol
    forces = state.getForces(asNumpy=True).value_in_unit(unit.kilojoule_per_mole / unit.angstrom) * kJ / mol
    return energy, np.array(forces), None


def by_ipi(model: Path, atoms: Atoms, folder: Path):
    from qml_lightning.adapters.ipi import QMLLightningDriver

    write(folder / "template.extxyz", atoms)
    driver = QMLLightningDriver(str(folder / "template.extxyz"), str(model), "float64")
    cell = atoms.cell.array if atoms.pbc.any() else 100 * np.eye(3)
    energy, forces, virial, _ = driver(cell.T / Bohr, atoms.positions / Bohr)
    return energy * Hartree, forces * Hartree / Bohr, -virial * Hartree if atoms.pbc.any() else None


def by_torchsim(model: Path, atoms: Atoms, _: Path):
    import torch
    import torch_sim

    from qml_lightning.adapters.torchsim import QMLLightningModel

    state = torch_sim.io.atoms_to_state([atoms, atoms], torch.device("cpu"), torch.float64)
    found = QMLLightningModel(model, precision="float64")(state)
    n = len(atoms)
    assert torch.equal(found["forces"][:n], found["forces"][n:])
    virial = found["stress"][1].numpy() * atoms.get_volume() if atoms.pbc.any() else None
    return found["energy"][1].item(), found["forces"][n:].numpy(), virial


ENGINES = {
    "ASE": (by_ase, True),
    "LAMMPS": (by_lammps, lammps_version() is not None and "native" in ON_CPU),
    "OpenMM": (by_openmm, there("openmm")),
    "i-PI": (by_ipi, True),  # the driver needs nothing of i-PI itself
    "TorchSim": (by_torchsim, there("torch_sim", "vesin_torch")),
}
engines = pytest.mark.parametrize(
    "engine",
    [pytest.param(function, id=name, marks=pytest.mark.skipif(not here, reason=f"{name} is not installed"))
     for name, (function, here) in ENGINES.items()],
)  # fmt: skip


def crystal() -> Atoms:
    atoms = rattled(bulk("Cu", cubic=True) * 2, 3, 0.1)
    atoms.symbols[::5] = "Au"
    atoms.set_cell(atoms.cell.array @ np.array([[1, 0, 0], [0.1, 1, 0], [0.05, 0.15, 1.0]]), scale_atoms=True)
    return atoms


STRUCTURES = {"molecule": rattled(molecule("CH3CH2OH"), 2), "crystal": crystal()}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    for name, data in {"molecule": molecules(20), "crystal": crystals(20)}.items():
        fit(data, recipe()).save(folder / f"{name}.safetensors")
    return {name: folder / f"{name}.safetensors" for name in STRUCTURES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@engines
@pytest.mark.parametrize("name", STRUCTURES)
def test_energy_forces_and_virial_are_those_of_the_model(engine, name, models, folder):
    atoms = STRUCTURES[name]
    wanted = load(models[name]).on(precision="float64").predict(atoms)
    energy, forces, virial = engine(models[name], atoms, folder)
    assert energy == pytest.approx(wanted.energies.item(), rel=1e-9)
    np.testing.assert_allclose(forces, wanted.forces, rtol=0, atol=1e-8)
    if virial is not None:
        exact = wanted.stress[0].numpy() * atoms.get_volume()
        np.testing.assert_allclose(virial, exact, rtol=0, atol=1e-6 * np.abs(exact).max())


@engines
def test_an_element_that_the_model_does_not_know_is_named(engine, models, folder):
    atoms = STRUCTURES["molecule"].copy()
    atoms.symbols[0] = "N"
    with pytest.raises(QMLError, match=r"(?i)\bN\b|\b7\b"):
        engine(models["molecule"], atoms, folder)


@engines
def test_a_model_that_only_corrects_another_method_is_refused(engine, correction, folder):
    with pytest.raises(QMLError, match="correction to calculator EMT, and no potential by itself"):
        engine(correction, STRUCTURES["crystal"], folder)


@pytest.fixture(scope="module")
def correction(tmp_path_factory) -> Path:
    frames = []
    for seed in range(10):
        atoms = rattled(STRUCTURES["crystal"], seed, 0.05)
        atoms.calc = EMT()
        atoms.calc = SinglePointCalculator(atoms, energy=1.1 * atoms.get_potential_energy())
        frames.append(atoms)
    path = tmp_path_factory.mktemp("models") / "correction.safetensors"
    fit(past_calculator(frames, EMT()), recipe(n_features=128)).save(path)
    return path


def test_a_missing_cell_and_another_number_of_atoms_are_refused(models):
    atoms = STRUCTURES["crystal"]
    engine = MovingAtoms(models["crystal"], atoms.numbers, True)
    with pytest.raises(InputError, match="without a cell"):
        engine.evaluate(atoms.positions)
    with pytest.raises(InputError, match="positions of 32 atoms, got an array of shape \\(31, 3\\)"):
        engine.evaluate(atoms.positions[1:], atoms.cell.array)


# ---- each engine moves atoms -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ethanol(tmp_path_factory) -> Path:
    from qml_lightning import load_dataset

    path = tmp_path_factory.mktemp("models") / "ethanol.safetensors"
    fit(load_dataset("ethanol:train").subsample(200, 0), recipe(n_features=1024, rank=64)).save(path)
    return path


@pytest.mark.skipif(not there("openmm"), reason="OpenMM is not installed")
def test_openmm_conserves_energy(ethanol):
    import openmm
    from openmm import unit

    from qml_lightning.adapters.openmm import openmm_force

    atoms, system = molecule("CH3CH2OH"), openmm.System()
    for mass in atoms.get_masses():
        system.addParticle(mass)
    system.addForce(openmm_force(ethanol, atoms.numbers))
    steps = openmm.VerletIntegrator(0.0002)
    context = openmm.Context(system, steps, openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(atoms.positions * 0.1)
    context.setVelocitiesToTemperature(200.0, 1)
    totals = []
    for _ in range(20):
        steps.step(10)
        state = context.getState(getEnergy=True)
        totals.append((state.getPotentialEnergy() + state.getKineticEnergy()).value_in_unit(unit.kilojoule_per_mole))
    assert np.ptp(totals) < 0.5  # kJ/mol; the kinetic energy is some ten


@pytest.mark.skipif(not there("openmm", "openmmml"), reason="OpenMM-ML is not installed")
def test_openmm_ml_mixes_a_model_with_a_force_field(ethanol):
    import openmm
    from openmm import app, unit
    from openmmml import MLPotential

    atoms, topology = molecule("CH3CH2OH"), app.Topology()
    residue = topology.addResidue("ETH", topology.addChain())
    for symbol in atoms.get_chemical_symbols():
        topology.addAtom(symbol, app.Element.getBySymbol(symbol), residue)
    system = openmm.System()
    for mass in [*atoms.get_masses(), 39.948]:
        system.addParticle(mass)
    topology.addAtom("Ar", app.Element.getBySymbol("Ar"), topology.addResidue("AR", topology.addChain()))
    system = MLPotential("qml-lightning").createMixedSystem(topology, system, range(9), model=ethanol)
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(np.vstack([atoms.positions, [[0, 0, 30.0]]]) * 0.1)
    state = context.getState(getEnergy=True, getForces=True)
    wanted = load(ethanol).predict(atoms)
    energy = state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole) * kJ / mol
    assert energy == pytest.approx(wanted.energies.item(), rel=1e-6)
    assert np.all(state.getForces(asNumpy=True)[9] == 0 * unit.kilojoule_per_mole / unit.nanometer)


# The end of openmmml/mlpotential.py, which loads all entry points while it is imported.
OPENMM_ML = """
from importlib.metadata import entry_points
class MLPotentialImpl: ...
(mine,) = entry_points(group="openmmml.potentials", name="qml-lightning")
made = mine.load()().createImpl
"""


@pytest.mark.skipif(not there("openmm"), reason="OpenMM is not installed")
@pytest.mark.parametrize("first", ["qml_lightning.adapters.openmm", "openmmml"])
def test_the_force_and_openmm_ml_are_imported_in_any_order(first, tmp_path):
    import subprocess
    import sys

    (tmp_path / "openmmml").mkdir()
    (tmp_path / "openmmml" / "__init__.py").write_text("from . import mlpotential")
    (tmp_path / "openmmml" / "mlpotential.py").write_text(OPENMM_ML)
    code = f"import {first}; from openmmml.mlpotential import made; print(type(made('qml-lightning')).__name__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "QMLLightning\n", done.stderr[-2000:]


@pytest.mark.skipif(not there("torch_sim", "vesin_torch"), reason="TorchSim is not installed")
def test_torchsim_accepts_the_model(tmp_path):
    import torch
    from ase.calculators.lj import LennardJones
    from torch_sim.models.interface import validate_model_outputs

    from qml_lightning.adapters.torchsim import QMLLightningModel
    from small_models import labelled

    frames = [rattled(bulk(name, kind, a=a, cubic=True), k, 0.05)
              for k in range(6) for name, kind, a in (("Si", "diamond", 5.43), ("Fe", "fcc", 5.26))]  # fmt: skip
    data = labelled(frames, LennardJones(sigma=2.2, epsilon=0.1, rc=4.5, smooth=True))
    fit(data, recipe()).save(tmp_path / "m.safetensors")
    model = QMLLightningModel(tmp_path / "m.safetensors")
    validate_model_outputs(model, torch.device("cpu"), torch.float64)


IPI = """<simulation verbosity='low'>
  <output prefix='out'>
    <properties stride='1' filename='md'> [step, conserved{{electronvolt}}, potential{{electronvolt}}] </properties>
  </output>
  <total_steps> 40 </total_steps>
  <prng><seed>1</seed></prng>
  <ffdirect name='qml'> <pes> custom </pes> <pes_path> {driver} </pes_path>
    <parameters> {{model: {model}, template: template.xyz}} </parameters> </ffdirect>
  <system>
    <initialize nbeads='2'>
      <file mode='ase'> template.xyz </file> <velocities mode='thermal' units='kelvin'> 300 </velocities>
    </initialize>
    <forces> <force forcefield='qml'/> </forces>
    <motion mode='dynamics'> <dynamics mode='nve'> <timestep units='femtosecond'> 0.2 </timestep> </dynamics> </motion>
    <ensemble> <temperature units='kelvin'> 300 </temperature> </ensemble>
  </system>
</simulation>
"""


@pytest.mark.skipif(not there("ipi"), reason="i-PI is not installed")
def test_ipi_runs_path_integrals_and_conserves_energy(ethanol, tmp_path):
    import subprocess
    import sys

    from qml_lightning.adapters import ipi as driver

    atoms = molecule("CH3CH2OH")
    atoms.set_cell([50, 50, 50])
    write(tmp_path / "template.xyz", atoms, format="extxyz")
    (tmp_path / "input.xml").write_text(IPI.format(driver=driver.__file__, model=ethanol))
    code = "from ipi.engine.simulation import Simulation; Simulation.load_from_xml(open('input.xml')).run()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    table = np.loadtxt(tmp_path / "out.md")
    assert len(table) == 41
    assert np.ptp(table[:, 1]) < 0.05 * np.ptp(table[:, 2])
