"""LAMMPS with the pair style qml/lightning predicts what ASE predicts, on one rank and on two, and fails in words."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from ase import Atoms, units
from ase.build import bulk, fcc111, molecule

from kernel_tables import ON_CPU
from qml_lightning import fit, load, structures_from_ase
from qml_lightning.adapters.lammps import build as building
from qml_lightning.adapters.lammps.folder import lammps_version, plugin_folder
from qml_lightning.adapters.lammps.run import ALONE, Processes, run_lammps, script_head, single_point, write_structure
from qml_lightning.errors import InputError, ResourceError
from qml_lightning.linear.posterior import Calibration
from qml_lightning.model.baseline import Baseline
from qml_lightning.model.basis import Basis
from qml_lightning.model.committee import Committee
from qml_lightning.model.potential import Potential
from small_models import argon, crystals, molecules, recipe
from structures_for_tests import WATER, rattled

pytestmark = [
    pytest.mark.skipif("native" not in ON_CPU, reason="the native kernels are not built"),
    pytest.mark.skipif(lammps_version() is None, reason="LAMMPS is not installed: pip install 'lammps[mpi]'"),
]


def liquid_water() -> Atoms:
    """81 molecules at the density of water, turned at random."""
    random, out = np.random.default_rng(5), Atoms(cell=[9.32] * 3 * np.array([1, 1, 3]), pbc=True)
    for k in range(81):
        one = WATER.copy()
        one.rotate(random.uniform(0, 360), random.normal(size=3))
        one.translate(3.107 * np.array([k % 3, k // 3 % 3, k // 9]) + random.uniform(-0.2, 0.2, 3))
        out += one
    return out


def skewed_silicon() -> Atoms:
    atoms = bulk("Si", cubic=True) * 2
    atoms.set_cell(atoms.cell.array @ np.array([[1, 0.1, 0.05], [0, 1, 0.2], [0, 0, 1.0]]), scale_atoms=True)
    return rattled(atoms, 3)


STRUCTURES = {
    "molecule": rattled(molecule("CH3CH2OH"), 1),
    "liquid water": liquid_water(),
    "skewed silicon": skewed_silicon(),
    "slab": rattled(fcc111("Cu", (3, 3, 3), vacuum=6.0), 2),
    "cell smaller than the cutoff": rattled(bulk("Si") * (1, 1, 2), 4),
}


def drawn(atoms: Atoms) -> Potential:
    """A potential with random weights: it has no physics, but every term."""
    basis = Basis.draw(structures_from_ase([atoms]), recipe())
    weights = torch.from_numpy(np.random.default_rng(1).standard_normal(basis.n_weights))
    return Potential(basis, weights, Baseline(basis.elements, torch.arange(len(basis.elements)).double() - 3.0))


@pytest.fixture(scope="module")
def plugin(tmp_path_factory) -> Path:
    try:
        building.compiler()
    except ResourceError as problem:
        pytest.skip(str(problem))
    return building.build(tmp_path_factory.mktemp("plugin")).parent


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    paths = {name: folder / f"{name.replace(' ', '_')}.safetensors" for name in STRUCTURES}
    for name, path in paths.items():
        drawn(STRUCTURES[name]).save(path)
    return paths


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("ranks", [1, 2])
def test_energy_forces_and_virial_are_those_of_ase(name, ranks, models, plugin):
    atoms = STRUCTURES[name].copy()
    atoms.calc = load(models[name]).calculator(precision="float64")
    found = single_point(atoms, models[name], Processes(ranks), style="precision float64", plugin=plugin)
    energy = atoms.get_potential_energy()
    assert abs(found.energy - energy) <= 1e-10 * abs(energy)
    np.testing.assert_allclose(found.forces, atoms.get_forces(), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.energies, atoms.get_potential_energies(), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.virials, found.stress, rtol=0, atol=1e-9)
    if atoms.pbc.any():
        stress = atoms.get_stress(voigt=False)
        np.testing.assert_allclose(found.stress, stress, rtol=0, atol=1e-6 * np.abs(stress).max())


def test_threads_inside_a_rank_change_nothing(models, plugin):
    atoms = STRUCTURES["liquid water"]
    one = single_point(atoms, models["liquid water"], plugin=plugin)
    two = single_point(atoms, models["liquid water"], Processes(threads=2), plugin=plugin)
    assert "2 threads in each of 1 rank" in two.log
    np.testing.assert_array_equal(one.forces, two.forces)


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("ranks", [1, 2])
def test_float32_is_close_to_ase_in_float64(name, ranks, models, plugin):
    atoms = STRUCTURES[name].copy()
    atoms.calc = load(models[name]).calculator(precision="float64")
    found = single_point(atoms, models[name], Processes(ranks), style="precision float32", plugin=plugin)
    assert 0 < np.abs(found.forces - atoms.get_forces()).max() < 1e-4
    assert found.energy == pytest.approx(atoms.get_potential_energy(), rel=1e-4)


def dynamics(folder: Path, atoms: Atoms, model: Path, plugin: Path, lines: str, processes=ALONE) -> np.ndarray:
    """Rows of the thermodynamic output of a run."""
    symbols, _ = write_structure(atoms, folder / "structure.data")
    script = folder / "in.lammps"
    script.write_text(f"{script_head(atoms, symbols, model)}\nthermo 1\n{lines}")
    log = run_lammps(script, processes, plugin=plugin)
    rows = [line.split() for line in log.splitlines() if re.fullmatch(r"\s*\d+(\s+-?\d\S*)+\s*", line)]
    return np.array([row for row in rows if len(row) == len(rows[-1])], dtype=float)


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_energy_of_nve_drifts_as_the_square_of_the_time_step(ranks, tmp_path, plugin):
    fit(argon(30), recipe()).save(tmp_path / "argon.safetensors")
    spread = []
    for step in (0.004, 0.008, 0.016):
        lines = f"""velocity all create 30 1
thermo_style custom step etotal
thermo_modify format float %.15g
timestep {step}
fix nve all nve
run {round(0.64 / step)}
"""
        atoms = bulk("Ar", a=5.2, cubic=True) * 2
        energies = dynamics(tmp_path, atoms, tmp_path / "argon.safetensors", plugin, lines, Processes(ranks))[:, 1]
        spread.append(np.abs(energies - energies[0]).max())
    assert 3 < spread[1] / spread[0] < 5
    assert 3 < spread[2] / spread[1] < 5


def test_npt_keeps_a_crystal_together(tmp_path, plugin):
    fit(crystals(20), recipe()).save(tmp_path / "alloy.safetensors")
    lines = """velocity all create 300 1
thermo_style custom step temp vol press
fix npt all npt temp 300 300 0.1 iso 0 0 1.0
run 200
"""
    atoms = bulk("Cu", a=3.75, cubic=True) * 2
    atoms.symbols[::4] = "Au"
    table = dynamics(tmp_path, atoms, tmp_path / "alloy.safetensors", plugin, lines, Processes(2))
    assert len(table) == 201
    assert np.all(np.abs(table[:, 2] / table[0, 2] - 1) < 0.2)
    assert table[:, 1].max() < 1000


def test_units_real_are_converted(models, plugin, tmp_path):
    atoms, model = STRUCTURES["molecule"], models["molecule"]
    table = dynamics(
        tmp_path, atoms, model, plugin, "thermo_style custom step pe\nthermo_modify format float %.15g\nrun 0"
    )
    script = tmp_path / "in.lammps"
    script.write_text(script.read_text().replace("units metal", "units real"))
    energy = float(re.findall(r"^\s+0\s+(-?\d\S+)", run_lammps(script, plugin=plugin), re.MULTILINE)[-1])
    assert energy == pytest.approx(table[0, 1] * units.mol / units.kcal, rel=1e-6)


def test_types_that_the_model_does_not_see_have_no_forces_of_it(models, plugin, tmp_path):
    atoms, model = STRUCTURES["skewed silicon"].copy(), models["skewed silicon"]
    seen = atoms.copy()
    atoms.symbols[::2] = "He"
    del seen[::2]
    symbols, prism = write_structure(atoms, tmp_path / "structure.data")
    head = script_head(atoms, symbols, model).replace(
        "pair_style qml/lightning", "pair_style hybrid/overlay zero 3.0 qml/lightning"
    )
    head = head.replace(
        f'pair_coeff * * "{model}" He Si', f'pair_coeff * * zero\npair_coeff * * qml/lightning "{model}" NULL Si'
    )
    script = tmp_path / "in.lammps"
    script.write_text(
        f"{head}\ndump all all custom 1 out.dump id fx fy fz\ndump_modify all sort id format float %.17g\nrun 0"
    )
    run_lammps(script, plugin=plugin)
    forces = prism.vector_to_ase(np.loadtxt(tmp_path / "out.dump", skiprows=9)[:, 1:])
    assert np.all(forces[::2] == 0)
    seen.calc = load(model).calculator(precision="float64")
    np.testing.assert_allclose(forces[1::2], seen.get_forces(), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("C H O", "C H N", r"The model .* knows H, C, O, not N"),
        ("C H O", "C H", "an element for each of the 3 atom types, got 2"),
        ("molecule.safetensors", "nowhere.safetensors", "nowhere.safetensors cannot be opened: No such file"),
        ("newton on", "newton off", "needs newton on"),
        ("units metal", "units si", "needs units metal"),
        ("pair_style qml/lightning", "pair_style qml/lightning speed 2", "knows threads N and precision"),
        ("pair_style qml/lightning", "pair_style qml/lightning threads 0", "threads must be at least 1"),
        ("pair_style qml/lightning", "pair_style qml/lightning precision half", "float32 or float64, got half"),
        (
            "run 0",
            "displace_atoms all move 1e-9 0 0\nset atom 2 x 0 y 0 z 0\nset atom 1 x 0 y 0 z 0.01\nrun 0",
            "one spot",
        ),
    ],
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_mistake_ends_with_words(old, new, words, ranks, models, plugin, tmp_path):
    atoms = STRUCTURES["molecule"]
    symbols, _ = write_structure(atoms, tmp_path / "structure.data")
    script = tmp_path / "in.lammps"
    text = script_head(atoms, symbols, models["molecule"]) + "run 0\n"
    assert old in text
    script.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=words):
        run_lammps(script, Processes(ranks), plugin=plugin)


UNCERTAIN = """fix spread all pair 2 qml/lightning uncertainty 1
dump all all custom 2 out.dump id f_spread
dump_modify all sort id format float %.17g
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_uncertainties_of_atoms_are_those_of_a_prediction(ranks, plugin, tmp_path):
    atoms = STRUCTURES["liquid water"]
    plain = drawn(atoms)
    deviations = torch.from_numpy(np.random.default_rng(2).standard_normal((4, len(plain.weights))))
    scales = dict.fromkeys(("energies", "forces"), Calibration(0.3, 0.1))
    n_features = plain.recipe.features.n_features
    potential = replace(plain, committee=Committee(deviations, n_features, 2, calibrations=scales))
    potential.save(tmp_path / "uncertain.safetensors")
    symbols, _ = write_structure(atoms, tmp_path / "structure.data")
    script = tmp_path / "in.lammps"
    head = script_head(atoms, symbols, tmp_path / "uncertain.safetensors", "precision float64")
    script.write_text(head + UNCERTAIN + "run 0\n")
    run_lammps(script, Processes(ranks), plugin=plugin)
    found = np.loadtxt(tmp_path / "out.dump", skiprows=9)[:, 1]
    wanted = potential.on(precision="float64").predict(atoms, uncertainty=True).atom_energy_uncertainty.numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-8)
    # steps between those of the fix are computed without
    script.write_text(f"{head}{UNCERTAIN}fix nve all nve\nthermo 1\nrun 3\n")
    assert "Loop time" in run_lammps(script, Processes(ranks), plugin=plugin)


def test_uncertainties_of_a_model_without_a_committee_are_refused(models, plugin, tmp_path):
    atoms = STRUCTURES["molecule"]
    symbols, _ = write_structure(atoms, tmp_path / "structure.data")
    script = tmp_path / "in.lammps"
    script.write_text(script_head(atoms, symbols, models["molecule"]) + UNCERTAIN + "run 0\n")
    with pytest.raises(InputError, match="--committee 8"):
        run_lammps(script, plugin=plugin)


KILL_THIS_RANK = """p=$PPID
while [ "$(cat /proc/$p/comm)" != lmp ]; do p=$(awk '/^PPid/ {print $2}' /proc/$p/status); done
kill -9 $p
"""


def test_a_rank_that_is_killed_ends_the_run_with_words(models, plugin, tmp_path):
    atoms = STRUCTURES["liquid water"]
    symbols, _ = write_structure(atoms, tmp_path / "structure.data")
    (tmp_path / "kill.sh").write_text(KILL_THIS_RANK)
    script = tmp_path / "in.lammps"
    head = script_head(atoms, symbols, models["liquid water"])
    script.write_text(f"{head}fix nve all nve\nrun 0\nshell sh kill.sh\nrun 1000000\n")
    with pytest.raises(InputError, match=r"exit code is .*, as when a rank is killed"):
        run_lammps(script, Processes(2), plugin=plugin)


def test_a_damaged_model_ends_with_words(models, plugin, tmp_path):
    raw = bytearray(models["molecule"].read_bytes())
    raw[-100] ^= 1
    (tmp_path / "damaged.safetensors").write_bytes(raw)
    with pytest.raises(InputError, match="damaged"):
        single_point(STRUCTURES["molecule"], tmp_path / "damaged.safetensors", plugin=plugin)


def test_bonded_neighbours_must_not_be_left_out(models, plugin, tmp_path):
    atoms = STRUCTURES["molecule"]
    symbols, _ = write_structure(atoms, tmp_path / "structure.data")
    data = (tmp_path / "structure.data").read_text()
    rows = re.sub(r"^(\s+\d+)(\s+\d+\s+-?\d)", r"\1 1\2", data.split("Atoms")[1], flags=re.MULTILINE)
    (tmp_path / "structure.data").write_text(data.split("Atoms")[0] + "Atoms" + rows.replace("atomic", "molecular"))
    script = tmp_path / "in.lammps"
    head = script_head(atoms, symbols, models["molecule"]).replace("atom_style atomic", "atom_style molecular")
    script.write_text(head + "run 0\n")
    with pytest.raises(InputError, match="special_bonds lj/coul 1 1 1"):
        run_lammps(script, plugin=plugin)
    script.write_text(head + "special_bonds lj/coul 1 1 1\nrun 0\n")
    run_lammps(script, plugin=plugin)


def test_without_the_plugin_lammps_is_not_started(tmp_path, models):
    with pytest.raises(InputError, match="qml-lightning lammps build"):
        single_point(STRUCTURES["molecule"], models["molecule"], plugin=tmp_path)


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ResourceError, match="no C\\+\\+ compiler"):
        building.compiler()


def test_the_folder_of_the_plugin_follows_the_version_of_lammps(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert plugin_folder() == str(tmp_path / "qml-lightning" / f"lammps-{lammps_version()}")


EXTERNAL = """
import sys
from qml_lightning.adapters.lammps.external import attach, open_lammps
engine = open_lammps(["-screen", "none", "-log", "none"])
for line in ("units metal", "atom_modify map array", "boundary p p p", "box tilt large", "read_data structure.data"):
    engine.command(line)
attach(engine, sys.argv[1], ["Si"], precision="float64")
engine.command("compute virial all pressure NULL virial")
engine.command("thermo_style custom step pe press")
engine.command("dump all all custom 1 forces.dump id fx fy fz")
engine.command("dump_modify all sort id format float %.17g")
engine.command("run 0")
print(repr(engine.get_thermo("pe")), repr(engine.get_thermo("press")))
"""


def test_fix_external_gives_the_same_without_a_compiler(models, tmp_path):
    from qml_lightning.adapters.lammps.run import BAR

    atoms, model = STRUCTURES["skewed silicon"].copy(), models["skewed silicon"]
    _, prism = write_structure(atoms, tmp_path / "structure.data")
    (tmp_path / "external.py").write_text(EXTERNAL)
    done = subprocess.run([sys.executable, "external.py", model], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    energy, pressure = map(float, done.stdout.split())
    atoms.calc = load(model).calculator(precision="float64")
    assert energy == pytest.approx(atoms.get_potential_energy(), rel=1e-10)
    forces = prism.vector_to_ase(np.loadtxt(tmp_path / "forces.dump", skiprows=9)[:, 1:])
    np.testing.assert_allclose(forces, atoms.get_forces(), rtol=0, atol=1e-9)
    assert pressure / BAR == pytest.approx(-np.trace(atoms.get_stress(voigt=False)) / 3, rel=1e-6)


def test_dynamics_of_a_molecule_has_the_trajectory_of_ase(tmp_path, plugin):
    from ase.md.verlet import VelocityVerlet

    fit(molecules(40), recipe()).save(tmp_path / "ethanol.safetensors")
    atoms = STRUCTURES["molecule"].copy()
    lines = "timestep 0.0005\nfix nve all nve\nthermo_style custom step pe\nthermo_modify format float %.15g\nrun 20\n"
    table = dynamics(tmp_path, atoms, tmp_path / "ethanol.safetensors", plugin, lines)
    atoms.calc = load(tmp_path / "ethanol.safetensors").calculator()
    steps = VelocityVerlet(atoms, 0.5 * units.fs)
    energies = [atoms.get_potential_energy() for _ in steps.irun(20)]
    np.testing.assert_allclose(table[:, 1], energies, rtol=0, atol=1e-4)
