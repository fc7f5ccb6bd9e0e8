"""Every adapter keeps one contract: energy, forces and virial of the model, in its own units, and clear refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write
from ase.units import Bohr, Hartree, kJ, mol

from installed import METATOMIC, there
from kernel_tables import ON_CPU
from qml_lightning import fit, load, past_calculator
from qml_lightning.adapters.engine import MovingAtoms
from qml_lightning.adapters.lammps.folder import lammps_version
from qml_lightning.errors import InputError, QMLError
from small_models import crystals, molecules, recipe
from structures_for_tests import rattled

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
