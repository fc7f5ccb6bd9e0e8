"""Engines move atoms: energy is conserved, and paths to the same potential have the same trajectory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk, molecule
from ase.io import write
from ase.units import kJ, mol

from installed import METATOMIC, there
from qml_lightning import fit, load
from qml_lightning.cli import main
from qml_lightning.errors import InputError
from small_models import recipe
from structures_for_tests import rattled


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
