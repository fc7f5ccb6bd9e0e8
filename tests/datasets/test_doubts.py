"""Data that nobody cleaned: what is dropped, out of range or doubtful is told; clean data read in silence."""

from __future__ import annotations

import re
import subprocess
import warnings

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.units import Bohr, Hartree

import qml_lightning as qml
from qml_lightning.datasets import from_ase, load
from qml_lightning.datasets.doubts import DataWarning
from qml_lightning.errors import InputError
from structures_for_tests import ethanols, rattled, written

GPA = 1 / 160.21766208  # eV/Å³


def renamed(path, *pairs):
    text = path.read_text()
    for old, new in pairs:
        text = text.replace(old, new)
    path.write_text(text)
    return path


def test_extended_xyz_wholly_in_atomic_units_is_told_with_the_options_that_read_it(tmp_path):
    frames, right = ethanols(), ethanols()
    for atoms in frames:
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        atoms.positions /= Bohr
        labels = {"energy": energy / Hartree, "forces": forces * Bohr / Hartree}
        atoms.calc = SinglePointCalculator(atoms, **labels)
    path = written(tmp_path / "atomic.extxyz", frames)
    with pytest.warns(DataWarning, match="Try --length-unit Bohr --energy-unit Hartree"):
        load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        data = load(path, length_unit="Bohr", energy_unit="Hartree")
        load(written(tmp_path / "right.extxyz", right))
    assert np.allclose(data.structures.positions[:9], right[0].positions, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.encode("utf-16"), r"UTF-16.*iconv"),
        (lambda text: text.encode("utf-8-sig"), r"byte order mark.*sed"),
        (lambda text: re.sub(r"(?m)^([CHO] +)(-?\d\.\d+)", r"\1\2D+00", text).encode(), r"Fortran's exponents.*D\+00"),
        (lambda text: re.sub(r"(?m)^([CHO] +-?\d)\.", r"\1,", text).encode(), r"decimal commas, such as -?\d,"),
        (lambda text: re.sub(r"energy=(-?\d+)\.", r"energy=\1,", text).encode(), r"decimal commas"),
    ],
)
def test_text_that_ase_cannot_read_is_named_with_the_command_that_mends_it(tmp_path, change, words):
    path = written(tmp_path / "set.extxyz", ethanols())
    right = load(path)
    path.write_bytes(change(path.read_text()))
    with pytest.raises(InputError, match=words) as error:
        load(path)
    subprocess.run(str(error.value).rpartition("Mend it: ")[2], shell=True, cwd=tmp_path, check=True)
    mended = load(tmp_path / "new.xyz")
    assert torch.equal(mended.labels.energies, right.labels.energies)
    assert torch.equal(mended.structures.positions, right.structures.positions)


def test_commas_in_other_places_are_no_decimal_commas(tmp_path):
    path = renamed(written(tmp_path / "set.extxyz", ethanols()), (" energy=", ' grid=2,3 remark="1,5" energy='))
    assert len(load(path)) == 4


@pytest.mark.parametrize(("key", "dtype"), [("E", np.float16), ("F", np.float16), ("E", np.int64), ("F", np.int32)])
def test_labels_with_lost_digits_are_told(tmp_path, key, dtype):
    random = np.random.default_rng(0)
    arrays = {
        "R": random.normal(size=(6, 3, 3)),
        "F": random.normal(size=(6, 3, 3)) * 5,
        "E": random.normal(size=6) * 9,
    }
    np.savez(tmp_path / "set.npz", z=np.array([8, 1, 1]), **(arrays | {key: arrays[key].astype(dtype)}))
    with pytest.warns(UserWarning, match=rf"{key} is saved as {np.dtype(dtype)}.*The rest is lost"):
        load(tmp_path / "set.npz", energy_unit="eV", length_unit="Å")


def test_a_cutoff_below_all_distances_is_refused_in_words():
    with pytest.raises(InputError, match=r"cutoff of 0.1 Å no atom has a neighbour"):
        qml.fit(from_ase(ethanols(8)), cutoff=0.1, ridge=1e-6)


# labels that are dropped


def test_an_energy_under_another_name_stops_the_reading_and_is_named_with_its_option(tmp_path):
    path = renamed(written(tmp_path / "set.extxyz", ethanols()), ("energy=", "TotEnergy="), ("forces:R", "force:R"))
    with pytest.raises(InputError, match=r"TotEnergy may hold them. Add --energy-key TotEnergy .*--energy-key \"\""):
        load(path)
    assert load(path, energy_key="TotEnergy").labels.kinds == ("energies", "forces")
    assert load(path, energy_key="").labels.kinds == ("forces",)


@pytest.mark.parametrize("name", ["my_forces", "gradient", "F"])
def test_forces_under_another_name_stop_the_reading(tmp_path, name):
    path = renamed(written(tmp_path / "set.extxyz", ethanols()), ("forces:R", f"{name}:R"))
    with pytest.raises(InputError, match=rf"--forces-key {name}") as error:
        load(path)
    assert ("other sign" in str(error.value)) == (name == "gradient")
    assert load(path, forces_key=name).labels.kinds == ("energies", "forces")


def test_forces_of_an_npz_file_under_another_name_stop_the_reading(tmp_path):
    arrays = {"z": np.array([8, 1, 1]), "R": np.random.default_rng(0).normal(size=(6, 3, 3)), "E": np.zeros(6)}
    np.savez(tmp_path / "set.npz", **arrays, my_forces=arrays["R"])
    with pytest.raises(InputError, match=r"my_forces may hold them. Add --forces-key my_forces"):
        load(tmp_path / "set.npz", energy_unit="eV", length_unit="Å")


def test_weights_and_error_bars_are_no_energies(tmp_path):
    frames = ethanols()
    for atoms in frames:
        atoms.calc = SinglePointCalculator(atoms, forces=atoms.get_forces())
        atoms.info |= {"energy_sigma": 0.1, "config_energy_weight": 2.0, "energy_unit": "eV"}
    assert load(written(tmp_path / "set.extxyz", frames)).labels.kinds == ("forces",)


def test_arrays_that_are_read_and_those_that_are_not_are_told(tmp_path):
    frames = ethanols()
    for atoms in frames:
        atoms.info["dipole_size"] = 1.0
        atoms.arrays["hirshfeld"] = np.ones(len(atoms))
    notes = load(written(tmp_path / "set.extxyz", frames)).source.notes
    assert notes == ("read energy (calculator), forces (calculator); not read: dipole_size, hirshfeld",)


def test_frames_without_an_energy_among_others_are_told(tmp_path):
    frames = ethanols()
    frames[2].calc = SinglePointCalculator(frames[2], forces=frames[2].get_forces())
    assert "1 of 4 frames have no energy (first: 2)" in load(written(tmp_path / "set.extxyz", frames)).source.notes


def test_an_energy_beside_that_of_the_calculator_is_told_and_can_be_read():
    frames = ethanols()
    for atoms in frames:
        atoms.info["energy"] = -5.0
    data = from_ase(frames)
    assert data.source.notes == ("read energy (calculator), forces (calculator); not read: energy (file)",)
    assert from_ase(frames, energy_key="energy (file)").labels.energies.tolist() == [-5.0] * 4


# stress and cells


def crystals(n: int = 3) -> list[Atoms]:
    frames = []
    for k in range(n):
        atoms = rattled(bulk("Cu", cubic=True), k, 0.1)
        atoms.calc = EMT()
        labels = {"energy": atoms.get_potential_energy(), "forces": atoms.get_forces(), "stress": atoms.get_stress()}
        atoms.calc = SinglePointCalculator(atoms, **labels)
        frames.append(atoms)
    return frames


@pytest.mark.parametrize(("unit", "factor"), [("GPa", GPA), ("kbar", 0.1 * GPA), ("-kB", -0.1 * GPA), ("eV/A^3", 1.0)])
def test_stress_may_have_a_unit_of_its_own(tmp_path, unit, factor):
    frames = crystals()
    wanted = np.array([atoms.get_stress(voigt=False) for atoms in frames])
    for atoms in frames:
        atoms.calc.results["stress"] = atoms.calc.results["stress"] / factor
    path = written(tmp_path / "set.extxyz", frames)
    assert np.allclose(load(path, stress_unit=unit).labels.stress, wanted, rtol=1e-6)
    for atoms in frames:
        atoms.info["stress_unit"] = unit
    assert np.allclose(load(written(path, frames)).labels.stress, wanted, rtol=1e-6)
    with pytest.raises(InputError, match=r"Mixed units: --stress-unit says MPa"):
        load(path, stress_unit="MPa")


def test_an_npz_file_states_its_unit_of_stress(tmp_path):
    arrays = {
        "z": np.array([29]),
        "R": np.zeros((2, 1, 3)),
        "E": np.zeros(2),
        "cell": np.tile(3 * np.eye(3), (2, 1, 1)),
    }
    np.savez(tmp_path / "set.npz", **arrays, stress=np.ones((2, 6)), units="eV, Å", stress_unit="kbar")
    assert torch.allclose(load(tmp_path / "set.npz").labels.stress, torch.tensor(0.1 * GPA, dtype=torch.float64))


def test_virials_have_no_unit_of_stress(tmp_path):
    frames = crystals()
    for atoms in frames:
        atoms.info["virial"] = np.eye(3)
        del atoms.calc.results["stress"]
    with pytest.raises(InputError, match=r"virials.*which are energies.*Leave out --stress-unit"):
        load(written(tmp_path / "set.extxyz", frames), stress_unit="kbar")


def test_a_crystal_that_is_not_periodic_is_warned_of_and_a_box_around_a_molecule_is_noted(tmp_path):
    frames = crystals()
    for atoms in frames:
        atoms.pbc = False
        atoms.calc = SinglePointCalculator(atoms, energy=1.0)
    with pytest.warns(DataWarning, match=r'3 of 3 frames have a cell but pbc="F F F".*write pbc="T T T"'):
        load(written(tmp_path / "set.extxyz", frames))
    boxed = ethanols()
    for atoms in boxed:
        atoms.cell = [12, 12, 12]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notes = load(written(tmp_path / "boxed.extxyz", boxed)).source.notes
    assert any('pbc="F F F"' in note for note in notes)


# charges, smeared energies


def test_charges_that_differ_are_told_to_be_unmodelled(tmp_path):
    frames = ethanols()
    for k, atoms in enumerate(frames):
        atoms.info["charge"] = k % 2
    with pytest.warns(DataWarning, match=r"charge differs between frames \(0 … 1\).*not modelled"):
        data = load(written(tmp_path / "set.extxyz", frames))
    assert data.source.varies == ("charge",)
    for atoms in frames:
        atoms.info["charge"] = 1
    assert "all frames have charge 1" in load(written(tmp_path / "set.extxyz", frames)).source.notes[0]


def test_the_energy_that_belongs_to_the_forces_is_read_where_ase_gives_it(tmp_path):
    frames = ethanols()
    for atoms in frames:
        atoms.calc.results["free_energy"] = atoms.calc.results["energy"] - 0.02
    data = load(written(tmp_path / "set.traj", frames))
    assert data.source.keys["energies"] == "free_energy (calculator)"
    assert "free_energy is read" in data.source.notes[0]
    assert "up to 0.02" in data.source.notes[0]
    assert data.labels.energies.tolist() == [atoms.calc.results["free_energy"] for atoms in frames]
    other = load(tmp_path / "set.traj", energy_key="energy")
    assert other.labels.energies.tolist() == [atoms.calc.results["energy"] for atoms in frames]


def test_a_file_in_hartree_that_is_read_in_ev_is_doubted_with_the_right_units(tmp_path):
    data = load("ethanol:train@0:40")
    hartree, bohr = 27.211386, 0.529177
    frames = []
    for s in range(40):
        one = data.select([s])
        atoms = Atoms(one.structures.numbers.numpy(), one.structures.positions.numpy())
        atoms.info["energy"] = float(one.labels.energies) / hartree
        atoms.arrays["forces"] = one.labels.forces.numpy() / hartree * bohr
        frames.append(atoms)
    path = written(tmp_path / "set.extxyz", frames)
    with pytest.warns(DataWarning, match=r"Try --energy-unit Hartree --force-unit Hartree/Bohr"):
        load(path)
    told = load(path, energy_unit="Hartree", force_unit="Hartree/Bohr")
    assert torch.allclose(told.labels.forces, data.labels.forces, atol=1e-5)


# numbers that cannot be


@pytest.mark.parametrize("where", ["in the middle", "for all frames"])
def test_an_atom_without_a_number_is_refused_and_not_dropped(tmp_path, where):
    numbers = np.tile([8, 1, 1], (4, 1))
    numbers[1, 1] = 0
    arrays = {"R": np.random.default_rng(0).normal(size=(4, 3, 3)), "E": np.zeros(4)}
    np.savez(tmp_path / "set.npz", z=numbers if where == "in the middle" else np.array([8, 1, 0]), **arrays)
    with pytest.raises(InputError, match=r"z has a 0, which is no atomic number"):
        load(tmp_path / "set.npz", energy_unit="eV", length_unit="Å")


@pytest.mark.parametrize(
    ("factor", "says"), [(1e8, r"coordinate of .*e\+08 Å.*unit of length"), (20, "do not interact")]
)
def test_coordinates_in_a_wrong_unit_are_told(tmp_path, factor, says):
    frames = ethanols()
    for atoms in frames:
        atoms.positions *= factor
        atoms.calc = SinglePointCalculator(atoms, energy=1.0)
    path = written(tmp_path / "set.extxyz", frames)
    warnings.simplefilter("error", DataWarning)  # pytest undoes it
    with pytest.raises((InputError, DataWarning), match=says):
        load(path)


@pytest.mark.parametrize(("kind", "unit"), [("energy", "eV"), ("forces", "eV/Å")])
def test_a_label_of_impossible_size_is_refused_by_its_frame(tmp_path, kind, unit):
    frames = ethanols()
    results = frames[2].calc.results
    results[kind] = np.where(np.arange(27).reshape(9, 3) == 5, 1e200, results[kind]) if kind == "forces" else 9.97e36
    path = written(tmp_path / "set.extxyz", frames)
    for read in (lambda: load(path), lambda: from_ase(frames)):
        with pytest.raises(InputError, match=rf"frame 2 has a value of .*, more than 1e\+12 {unit} among"):
            read()


@pytest.mark.parametrize("first", [True, False])
def test_a_frame_without_atoms_is_refused_by_its_number(tmp_path, first):
    path = written(tmp_path / "set.extxyz", ethanols())
    whole, empty = path.read_text(), "0\nenergy=1\n"
    path.write_text(empty + whole if first else whole + empty)
    with pytest.raises(InputError, match=f"frame {0 if first else 4} has no atoms"):
        load(path)


@pytest.mark.parametrize("n", [1, 3])
def test_a_file_whose_last_number_is_cut_is_refused(tmp_path, n):
    path = written(tmp_path / "set.extxyz", ethanols(n))
    whole = path.read_text()
    path.write_text(whole.rstrip("\n"))
    assert len(load(path)) == n  # only the new line is missing
    path.write_text(whole.rstrip("\n")[:-3])
    with pytest.raises(InputError, match=r"may be cut.*has fewer digits than the others"):
        load(path)


# slices, names and units that are nonsense


def test_slices_run_backwards_and_steps_of_zero_are_refused(tmp_path):
    path = written(tmp_path / "set.extxyz", ethanols())
    forwards = load(path).labels.energies
    assert torch.equal(load(f"{path}@::-1").labels.energies, forwards.flip(0))
    assert torch.equal(load("ethanol:test@5::-2").labels.energies, load("ethanol:test@0:6").labels.energies[[5, 3, 1]])
    for source in (path, "ethanol"):
        with pytest.raises(InputError, match=r"@::0 has a step of 0"):
            load(f"{source}@::0")


def test_the_home_of_nobody_is_refused():
    with pytest.raises(InputError, match=r"no such user"):
        load("~nobody-of-that-name/set.npz")


def test_a_unit_that_is_not_text_is_unknown(tmp_path):
    arrays = {"z": np.array([8, 1, 1]), "R": np.random.default_rng(0).normal(size=(6, 3, 3)), "E": np.zeros(6)}
    np.savez(tmp_path / "set.npz", **arrays, energy_unit=np.array(b"\xff\xfe"))
    with pytest.raises(InputError, match=r"energy unit is .* unknown. Add --energy-unit"):
        load(tmp_path / "set.npz")


# structures in memory


def test_fit_takes_structures_of_ase_with_their_labels():
    recipe = qml.recipes.DEFAULT
    small = qml.recipes.replace(recipe, rank=16, features=qml.recipes.replace(recipe.features, n_features=64))
    potential = qml.fit(ethanols(6), small)
    assert potential.provenance.structures == 6
    with pytest.raises(InputError, match=r"load_dataset\('set.extxyz'\)"):
        qml.fit("set.extxyz", small)
    with pytest.raises(InputError, match=r"wanted a structure of ASE \(Atoms\), got int"):
        qml.fit([1, 2], small)


def test_results_of_a_calculator_that_several_structures_share_are_refused():
    shared = EMT()
    frames = [rattled(molecule("CH4"), k) for k in range(3)]
    for atoms in frames:
        atoms.calc = shared
        atoms.get_forces()
    with pytest.raises(InputError, match=r"frame 0: the results of its calculator belong to other positions"):
        from_ase(frames)


# clean data

CLEAN = [
    *(f"rmd17_{name}" for name in ("aspirin", "benzene", "ethanol", "uracil")),
    *(f"md17_{name}_2k" for name in ("aspirin", "ethanol", "uracil")),
    "3bpa", "qm9:test@0:3000", "qm7", "small_mols", *(f"zuo2020_{name}" for name in ("Li", "Mo", "Si", "Cu")),
    "snap_Ta", "snap_InP", "water_pbe0ts", "ethanol",
]  # fmt: skip


@pytest.mark.parametrize("name", CLEAN)
def test_clean_data_are_read_without_a_warning_or_a_note(shared_data, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load(name, data_folder=shared_data)
    assert data.source.notes == ()


@pytest.mark.parametrize("name", CLEAN)
def test_clean_data_that_went_through_extended_xyz_are_read_without_a_warning(shared_data, tmp_path, name):
    data = load(name, data_folder=shared_data, limit=60)
    labels = {kind: getattr(data.labels, kind) for kind in data.labels.kinds}
    qml.datasets.write_extxyz(tmp_path / "set.extxyz", data.structures, **labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load(tmp_path / "set.extxyz", labels="required")
    assert again.labels.kinds == data.labels.kinds
    assert not [note for note in again.source.notes if re.search("pbc|charge|zero", note)]
