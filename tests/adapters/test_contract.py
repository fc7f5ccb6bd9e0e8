"""Every adapter keeps one contract: energy, forces and virial of the model, in its own units, and clear refusals."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
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
from qml_lightning.cli import main
from qml_lightning.errors import InputError, QMLError
from small_models import crystals, molecules, recipe
from structures_for_tests import rattled


def there(*modules: str) -> bool:
    try:
        return all(importlib.util.find_spec(name) is not None for name in modules)
    except ModuleNotFoundError:  # the package of a module
        return False


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


def exported(model: Path, folder: Path) -> str:
    from qml_lightning.adapters.metatomic import export

    export(model, folder / "model.pt", precision="float64", overwrite=True)
    return str(folder / "model.pt")


def by_metatomic_in_ase(model: Path, atoms: Atoms, folder: Path):
    path = exported(model, folder)
    from metatomic_ase import MetatomicCalculator

    one = atoms.copy()
    one.calc = MetatomicCalculator(path, device="cpu", check_consistency=True)
    virial = one.get_stress(voigt=False) * one.get_volume() if one.pbc.all() else None
    return one.get_potential_energy(), one.get_forces(), virial


def by_metatomic_in_ipi(model: Path, atoms: Atoms, folder: Path):
    path = exported(model, folder)
    from ipi.pes.metatomic import MetatomicDriver
    from ipi.utils.units import unit_to_internal

    # its constants of nature differ from those of ASE in the ninth digit
    length, energy_of, force = (
        unit_to_internal(*unit, 1.0)
        for unit in (("length", "angstrom"), ("energy", "electronvolt"), ("force", "ev/ang"))
    )
    write(folder / "template.extxyz", atoms)
    driver = MetatomicDriver(str(folder / "template.extxyz"), path, check_consistency=True)
    cell = atoms.cell.array if atoms.pbc.any() else 100 * np.eye(3)
    energy, forces, virial, _ = driver.compute_structure(cell.T * length, atoms.positions * length)
    virial = -np.array(virial) / energy_of if atoms.pbc.any() else None
    return float(np.squeeze(energy)) / energy_of, np.array(forces).reshape(-1, 3) / force, virial


METATOMIC = there("metatomic.torch", "metatomic_ase")
ENGINES = {
    "ASE": (by_ase, True),
    "LAMMPS": (by_lammps, lammps_version() is not None and "native" in ON_CPU),
    "OpenMM": (by_openmm, there("openmm")),
    "i-PI": (by_ipi, True),  # the driver needs nothing of i-PI itself
    "TorchSim": (by_torchsim, there("torch_sim", "vesin_torch")),
    "metatomic in ASE": (by_metatomic_in_ase, METATOMIC),
    "metatomic in i-PI": (by_metatomic_in_ipi, METATOMIC and there("ipi")),
}
# metatomic refuses elements with an error of its own
REFUSAL = {by_metatomic_in_ase: (ValueError, RuntimeError), by_metatomic_in_ipi: (ValueError, RuntimeError)}
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
    with pytest.raises(REFUSAL.get(engine, QMLError), match=r"(?i)\bN\b|\b7\b"):
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


# Engines that a script tells of its atoms once, and those that take other atoms with every call.


def moved_by_ipi(model: Path, atoms: Atoms, cell, positions, folder: Path):
    from qml_lightning.adapters.ipi import QMLLightningDriver

    write(folder / "template.extxyz", atoms)
    return QMLLightningDriver(str(folder / "template.extxyz"), str(model))(cell.T / Bohr, positions / Bohr)


def moved_by_openmm(model: Path, atoms: Atoms, cell, positions, folder: Path):
    import openmm

    from qml_lightning.adapters.openmm import openmm_force

    system = openmm.System()
    for _ in positions:
        system.addParticle(12.0)
    system.addForce(openmm_force(model, atoms.numbers))
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions * 0.1)
    return context.getState(getEnergy=True)


def moved_by_us(model: Path, atoms: Atoms, cell, positions, folder: Path):
    return MovingAtoms(model, atoms.numbers, bool(atoms.pbc.any())).evaluate(positions, cell)


MOVED = [
    moved_by_us,
    moved_by_ipi,
    pytest.param(moved_by_openmm, marks=pytest.mark.skipif(not there("openmm"), reason="OpenMM is not installed")),
]


@pytest.mark.parametrize("moved", MOVED)
def test_another_number_of_atoms_is_refused(moved, models, folder):
    atoms = STRUCTURES["molecule"]
    with pytest.raises(Exception, match=r"positions of 9 atoms, got an array of shape \(8, 3\)"):
        moved(models["molecule"], atoms, np.eye(3), atoms.positions[1:], folder)


@pytest.mark.parametrize("moved", MOVED[:2])
def test_a_cell_without_a_volume_is_refused(moved, models, folder):
    atoms = STRUCTURES["crystal"]
    with pytest.raises(InputError, match="cell"):
        moved(models["crystal"], atoms, np.zeros((3, 3)), atoms.positions, folder)


def test_a_missing_cell_is_refused(models):
    atoms = STRUCTURES["crystal"]
    with pytest.raises(InputError, match="without a cell"):
        MovingAtoms(models["crystal"], atoms.numbers, True).evaluate(atoms.positions)


SEVERAL = [name for name in ENGINES if name in ("ASE", "TorchSim", "metatomic in ASE")]


def calculation(name: str, model: Path, folder: Path):
    """Function from atoms to an energy that lasts through calls with other atoms."""
    if name == "TorchSim":
        import torch
        import torch_sim

        from qml_lightning.adapters.torchsim import QMLLightningModel

        there = QMLLightningModel(model, precision="float64")
        return lambda atoms: there(torch_sim.io.atoms_to_state([atoms], torch.device("cpu"), torch.float64))[
            "energy"
        ].item()
    if name == "ASE":
        return load(model).calculator(precision="float64").get_potential_energy
    path = exported(model, folder)
    from metatomic_ase import MetatomicCalculator

    return MetatomicCalculator(path, device="cpu").get_potential_energy


@pytest.mark.parametrize("name", SEVERAL)
def test_engines_that_take_any_atoms_serve_another_number_and_refuse_a_missing_cell(name, models, folder):
    if not ENGINES[name][1]:
        pytest.skip(f"{name} is not installed")
    energy = calculation(name, models["crystal"], folder)
    atoms = STRUCTURES["crystal"].copy()
    once, twice = energy(atoms), energy(atoms.repeat((2, 1, 1)))
    assert twice == pytest.approx(2 * once, rel=1e-9)
    atoms.set_cell(np.zeros((3, 3)))
    with pytest.raises(Exception, match="cell"):
        energy(atoms)


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


@pytest.mark.skipif(not there("torch_sim", "vesin_torch"), reason="TorchSim is not installed")
def test_torchsim_conserves_energy_and_the_better_the_shorter_the_step(ethanol):
    import torch
    import torch_sim

    from qml_lightning.adapters.torchsim import QMLLightningModel

    model, spread = QMLLightningModel(ethanol, precision="float64"), []
    for step in (0.0002, 0.0004):
        state = torch_sim.io.atoms_to_state([molecule("CH3CH2OH")] * 2, torch.device("cpu"), torch.float64)
        begin, move = torch_sim.nve(model, dt=torch.tensor(step), kT=torch.tensor(0.0172))
        state, totals = begin(state, seed=1), []
        for _ in range(round(0.02 / step)):
            state = move(state)
            kinetic = (state.momenta**2).sum(1).div(2 * state.masses).sum()
            totals.append((state.energy.sum() + kinetic).item())
        spread.append(np.ptp(totals))
    assert spread[0] < 0.005  # eV; the kinetic energy is some tenths
    assert 2.5 < spread[1] / spread[0] < 6


IPI = """<simulation verbosity='low'>
  <output prefix='out'>
    <properties stride='1' filename='md'> [step, conserved{{electronvolt}}, potential{{electronvolt}}] </properties>
  </output>
  <total_steps> 40 </total_steps>
  <prng><seed>1</seed></prng>
  {field}
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


DIRECT = """<ffdirect name='qml'> <pes> {pes} </pes> {path}
  <parameters> {{model: {model}, template: template.xyz}} </parameters> </ffdirect>"""
SOCKET = """<ffsocket name='qml' mode='unix'> <address> {address} </address> <latency> 0.0001 </latency> </ffsocket>"""
RUN = "from ipi.engine.simulation import Simulation; Simulation.load_from_xml(open('input.xml')).run()"


def begin_ipi(folder: Path, field: str, first: str = "") -> subprocess.Popen[str]:
    """i-PI on a ring polymer of ethanol; `first` is a line of Python that its process runs before."""
    atoms = molecule("CH3CH2OH")
    atoms.set_cell([50, 50, 50])
    write(folder / "template.xyz", atoms, format="extxyz")
    (folder / "input.xml").write_text(IPI.format(field=field))
    command = [sys.executable, "-c", f"{first}\n{RUN}"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def check_ipi(folder: Path, running: subprocess.Popen[str]) -> np.ndarray:
    """Steps, conserved quantities and potential energies of a run that ended well and conserved its energy."""
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 0, said[-3000:]
    table = np.loadtxt(folder / "out.md")
    assert len(table) == 41
    assert np.ptp(table[:, 1]) < 0.05 * np.ptp(table[:, 2])
    return table


@pytest.fixture(scope="module")
def path_integrals(ethanol, tmp_path_factory) -> np.ndarray:
    from qml_lightning.adapters import ipi as driver

    folder = tmp_path_factory.mktemp("direct")
    field = DIRECT.format(pes="custom", path=f"<pes_path> {driver.__file__} </pes_path>", model=ethanol)
    return check_ipi(folder, begin_ipi(folder, field))


@pytest.mark.skipif(not there("ipi"), reason="i-PI is not installed")
def test_ipi_runs_path_integrals_and_conserves_energy(path_integrals):
    assert path_integrals[0, 0] == 0


@pytest.mark.skipif(not there("ipi"), reason="i-PI is not installed")
def test_a_client_of_ipi_gives_the_same_trajectory(ethanol, path_integrals, tmp_path):
    from qml_lightning.adapters import ipi as driver

    address = f"qml-{os.getpid()}"
    server = begin_ipi(tmp_path, SOCKET.format(address=address))
    socket, client = Path(f"/tmp/ipi_{address}"), None
    try:
        for _ in range(600):
            if socket.exists() or server.poll() is not None:
                break
            time.sleep(0.1)
        options = ["-m", "custom", "-P", driver.__file__, "-o", f"model={ethanol},template=template.xyz", "-u"]
        command = [str(Path(sys.executable).parent / "i-pi-py_driver"), *options, "-a", address]
        client = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        np.testing.assert_allclose(check_ipi(tmp_path, server), path_integrals, rtol=1e-9)
    finally:
        for one in filter(None, (server, client)):
            one.kill()
            one.wait()
        socket.unlink(missing_ok=True)


@pytest.mark.skipif(not METATOMIC or not there("ipi"), reason="metatomic or i-PI is not installed")
def test_ipi_runs_the_exported_file_with_the_same_trajectory(ethanol, path_integrals, tmp_path):
    from qml_lightning.adapters.metatomic import export

    export(ethanol, tmp_path / "ethanol.pt")
    field = DIRECT.format(pes="metatomic", path="", model="ethanol.pt")
    table = check_ipi(tmp_path, begin_ipi(tmp_path, field, "import qml_lightning.adapters.metatomic"))
    np.testing.assert_allclose(table, path_integrals, rtol=1e-6)


@pytest.mark.skipif(not METATOMIC, reason="metatomic is not installed")
def test_an_exported_file_is_written_by_a_command_and_has_no_second_derivatives(ethanol, tmp_path, capsys):
    import torch

    path = tmp_path / "ethanol.pt"
    assert main(["export", str(ethanol), "-o", str(path)]) == 0
    assert "import qml_lightning.adapters.metatomic" in capsys.readouterr().out
    assert main(["export", str(ethanol), "-o", str(path)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    model = torch.from_numpy(np.fromfile(ethanol, dtype=np.uint8))
    atoms = molecule("CH3CH2OH")
    positions = torch.tensor(atoms.positions, requires_grad=True)
    given = torch.tensor(atoms.numbers), positions, torch.zeros(3, 3).double(), torch.zeros(3, dtype=torch.bool)
    energy = torch.ops.qml_lightning.energy(model, "", *given)[0]
    with pytest.raises(InputError, match="no second derivatives"):
        torch.autograd.grad(energy, positions, create_graph=True)


def test_without_metatomic_an_export_says_what_to_install(ethanol, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "metatomic.torch", None)
    monkeypatch.delitem(sys.modules, "qml_lightning.adapters.metatomic", raising=False)
    assert main(["export", str(ethanol), "-o", str(tmp_path / "ethanol.pt")]) == 2
    assert 'pip install "qml-lightning[metatomic]"' in " ".join(capsys.readouterr().err.split())
