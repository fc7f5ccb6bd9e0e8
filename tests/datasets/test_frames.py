"""Reading what ASE reads: extended XYZ, trajectories, databases."""

from __future__ import annotations

import ase.db
import ase.io
import numpy as np
import pytest
import torch
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator

from qml_lightning.atoms.units import ENERGY_IN_EV
from qml_lightning.datasets import from_ase, load
from qml_lightning.errors import InputError
from structures_for_tests import kinds


def labelled(atoms: Atoms, seed: int) -> Atoms:
    rng = np.random.default_rng(seed)
    atoms = atoms.copy()
    atoms.info.clear()
    labels = {"energy": rng.normal(), "forces": rng.normal(size=(len(atoms), 3))}
    if atoms.pbc.all():
        labels["stress"] = rng.normal(size=6)
    atoms.calc = SinglePointCalculator(atoms, **labels)
    return atoms


@pytest.fixture
def frames() -> list[Atoms]:
    return [labelled(atoms, seed) for seed, atoms in enumerate(kinds().values())]


@pytest.mark.parametrize(
    "name", ["set.extxyz", "set.xyz", "set.extxyz.xz", "set.xyz.gz", "set.traj", "set.db", "set.json"]
)
def test_every_format_gives_what_ase_reads_from_it(tmp_path, frames, name):
    path = tmp_path / name
    ase.io.write(path, frames)
    data = load(path)
    assert len(data) == len(frames)
    for s, atoms in enumerate(ase.io.read(path, ":")):
        one = data.select([s])
        assert np.array_equal(one.structures.numbers, atoms.numbers)
        assert np.array_equal(one.structures.positions, atoms.positions)
        assert np.array_equal(one.structures.cells[0], atoms.cell.array)
        assert np.array_equal(one.structures.periodic[0], atoms.pbc)
        assert one.labels.energies[0] == atoms.get_potential_energy()
        assert np.array_equal(one.labels.forces, atoms.get_forces())
        if atoms.pbc.all():
            assert np.array_equal(one.labels.stress[0], atoms.get_stress(voigt=False))
        else:
            assert one.labels.stress.isnan().all()
    assert data.source.units.energy == "eV"
    assert data.source.keys["energies"] == "energy (calculator)"


def test_a_database_with_several_rows_is_read_whole(tmp_path, frames):
    with ase.db.connect(tmp_path / "set.db") as database:
        for atoms in frames:
            database.write(atoms)
    assert torch.allclose(
        load(tmp_path / "set.db").labels.energies,
        torch.tensor([atoms.get_potential_energy() for atoms in frames], dtype=torch.float64),
    )


@pytest.mark.parametrize("text", ["1:3", "-2:", ":", "2", "-1", "::2"])
def test_a_slice_after_the_at_sign_means_what_it_means_in_ase(tmp_path, frames, text):
    path = tmp_path / "set.extxyz"
    ase.io.write(path, frames)
    there = ase.io.read(f"{path}@{text}")
    there = there if isinstance(there, list) else [there]
    data = load(f"{path}@{text}")
    assert data.labels.energies.tolist() == [atoms.get_potential_energy() for atoms in there]


def test_an_at_sign_in_the_name_of_a_file_is_no_slice(tmp_path, frames):
    path = tmp_path / "set@1.extxyz"
    ase.io.write(tmp_path / "plain.extxyz", frames)
    (tmp_path / "plain.extxyz").rename(path)
    assert len(load(path)) == len(frames)
    assert len(load(f"{path}@:2")) == 2


def test_the_split_in_the_header_is_a_split(tmp_path, frames):
    for atoms, split in zip(frames, ("train", "test", "train", "test", "test")):
        atoms.info["split"] = split
    path = tmp_path / "set.extxyz"
    ase.io.write(path, frames)
    assert load(f"{path}:train").labels.energies.tolist() == [frames[i].get_potential_energy() for i in (0, 2)]
    with pytest.raises(InputError, match=r"no split 'valid'. It has test, train"):
        load(f"{path}:valid")


def test_the_limit_takes_the_first_frames(tmp_path, frames):
    ase.io.write(tmp_path / "set.extxyz", frames)
    assert len(load(tmp_path / "set.extxyz", limit=2)) == 2


def test_structures_in_memory_are_what_reading_their_file_gives(tmp_path, frames):
    ase.io.write(tmp_path / "set.traj", frames)
    read, ours = load(tmp_path / "set.traj"), from_ase(frames)
    assert torch.equal(ours.structures.positions, read.structures.positions)
    assert torch.equal(ours.labels.forces, read.labels.forces)
    assert torch.allclose(ours.labels.stress, read.labels.stress, equal_nan=True)
    assert len(from_ase(frames[0])) == 1
    with pytest.raises(InputError, match=r"at least one"):
        from_ase([])


# keys


def test_other_usual_names_are_found_and_the_key_is_told(tmp_path):
    atoms = kinds()["skewed cell"]
    stress = np.diag([1.0, 2.0, 3.0]) + 0.1
    atoms.info["REF_energy"] = -3.5
    atoms.info["REF_virial"] = -stress * atoms.get_volume()
    atoms.arrays["REF_forces"] = np.ones((len(atoms), 3))
    ase.io.write(tmp_path / "set.extxyz", atoms)
    data = load(tmp_path / "set.extxyz")
    assert data.labels.energies.tolist() == [-3.5]
    assert torch.equal(data.labels.forces, torch.ones(len(atoms), 3, dtype=torch.float64))
    assert np.allclose(data.labels.stress[0], stress)
    assert data.source.keys == {"energies": "REF_energy", "forces": "REF_forces", "stress": "REF_virial"}


def test_a_key_that_was_asked_for_wins_over_the_usual_ones(tmp_path, frames):
    frames[0].info["cc_energy"] = 7.0
    frames[0].arrays["cc_forces"] = np.zeros((len(frames[0]), 3))
    ase.io.write(tmp_path / "set.extxyz", frames[:1])
    data = load(tmp_path / "set.extxyz", energy_key="cc_energy", forces_key="cc_forces")
    assert data.labels.energies.tolist() == [7.0]
    assert not data.labels.forces.any()
    with pytest.raises(InputError, match=r"has the key 'cd_energy'. Its keys are .*cc_energy"):
        load(tmp_path / "set.extxyz", energy_key="cd_energy")


def test_one_key_serves_the_whole_file_and_frames_without_it_have_no_label(tmp_path):
    path = tmp_path / "set.extxyz"
    lines = ["energy=-1.0", "free_energy=-2.0", "energy=-3.0"]
    path.write_text("".join(f'1\nProperties=species:S:1:pos:R:3 {line} pbc="F F F"\nH 0 0 0\n' for line in lines))
    energies = load(path).labels.energies
    assert energies[[0, 2]].tolist() == [-1.0, -3.0]
    assert energies[1].isnan()
    with pytest.raises(InputError, match=r"1 of 3 frames have no energy, forces or stress. The first .* is frame 1"):
        load(path, labels="required")


def test_capital_letters_make_no_other_key(tmp_path):
    path = tmp_path / "set.extxyz"
    path.write_text(
        "".join(f"1\nProperties=species:S:1:pos:R:3 {key}=-1.0\nH 0 0 0\n" for key in ("DFT_energy", "dft_energy"))
    )
    assert load(path).labels.energies.tolist() == [-1.0, -1.0]


def test_a_file_of_geometries_has_no_labels(tmp_path, frames):
    path = tmp_path / "set.xyz"
    path.write_text("2\n-1.25\nH 0 0 0\nH 0 0 0.7\n")
    assert load(path).labels.kinds == ()
    with pytest.raises(InputError, match=r"no energies, forces or stress.*--energy-key"):
        load(path, labels="required")
    ase.io.write(tmp_path / "set.traj", frames)
    assert load(tmp_path / "set.traj", labels="ignored").labels.kinds == ()


def test_other_units_are_taken_when_stated(tmp_path, frames):
    ase.io.write(tmp_path / "set.extxyz", frames)
    kcal = ENERGY_IN_EV["kcal/mol"]
    told, untold = load(tmp_path / "set.extxyz", energy_unit="kcal/mol"), load(tmp_path / "set.extxyz")
    assert torch.allclose(told.labels.forces, untold.labels.forces * kcal)
    assert torch.allclose(told.labels.energies, untold.labels.energies * kcal)
    assert torch.equal(told.structures.positions, untold.structures.positions)


# bad files

HEADER = 'Properties=species:S:1:pos:R:3:forces:R:3 energy={} pbc="F F F"'
GOOD = f"1\n{HEADER.format(1.0)}\nH 0 0 0 0 0 0\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD + f"1\n{HEADER.format('nan')}\nH 0 0 0 0 0 0\n", r"frame 1 has NaN among its energies"),
        (GOOD + f"1\n{HEADER.format(1.0)}\nH 0 0 0 0 nan 0\n", r"frame 1 has NaN among its forces"),
        (GOOD + f"1\n{HEADER.format(1.0)}\nH 0 inf 0 0 0 0\n", r"frame 1 has a coordinate that is NaN or infinite"),
        (GOOD + f"1\n{HEADER.format(1.0)}\nH 0 0 0 0 inf 0\n", r"frame 1 has an infinite value among its forces"),
        (GOOD + f"1\n{HEADER.format('much')}\nH 0 0 0 0 0 0\n", "frame 1: wanted numbers in energy.*, got"),
        ('1\nProperties=species:S:1:pos:R:3 pbc="T T T"\nH 0 0 0\n', r"frame 0 is periodic.*Give a cell"),
        (GOOD + f"2\n{HEADER.format(1.0)}\nH 0 0 0 0 0 0\n", "cannot be read"),
        (GOOD + f"1\n{HEADER.format(1.0)}\nXx 0 0 0 0 0 0\n", "cannot be read after 1 frames"),
        ("0\n\n", r"frame 0 has no atoms"),
        ("hello\nworld\n", "cannot be read"),
    ],
)
def test_a_bad_frame_is_an_input_error_that_names_it(tmp_path, text, says):
    path = tmp_path / "set.extxyz"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as error:
        load(path)
    assert "set.extxyz" in str(error.value)


@pytest.mark.parametrize("name", ["set.traj", "set.db", "set.extxyz.xz", "set.json"])
def test_a_cut_file_is_an_input_error(tmp_path, frames, name):
    ase.io.write(tmp_path / name, frames)
    whole = (tmp_path / name).read_bytes()
    cut = tmp_path / f"cut_{name}"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=f"cut_{name}"):
        load(cut)


def test_a_format_that_nobody_knows_is_an_input_error(tmp_path):
    (tmp_path / "set.foo").write_text("hello")
    with pytest.raises(InputError, match=r"set\.foo cannot be read"):
        load(tmp_path / "set.foo")


def test_large_geometries_are_read_like_ase_does(shared_data):
    path = shared_data / "structures" / "mof_vujbei.extxyz.xz"
    data, atoms = load(path), ase.io.read(path)
    assert np.array_equal(data.structures.positions, atoms.positions)
    assert np.array_equal(data.structures.cells[0], atoms.cell.array)
    assert data.structures.periodic.all()
    assert data.source.name == "mof_vujbei"
