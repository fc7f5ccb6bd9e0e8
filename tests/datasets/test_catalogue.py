"""Public sets by name: the embedded one, those in a folder, those of load-atoms."""

from __future__ import annotations

import builtins
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from ase import Atoms

from places import ROOT
from qml_lightning.datasets import catalogue, load
from qml_lightning.errors import InputError
from qml_lightning.machine.files import sha256

EMBEDDED = ROOT / "src" / "qml_lightning" / "datasets" / "data" / "ethanol.npz"


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch, tmp_path):
    """No data folder, a home of its own, and no network."""
    monkeypatch.delenv(catalogue.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def refuse(*_, **__):
        raise OSError("the network is off in tests")

    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)


# the embedded set


def test_the_embedded_set_is_there_without_folder_or_network():
    train, test = load("ethanol:train"), load("Ethanol:test")
    assert len(load("ethanol")) == 1500
    assert len(train) == 1000
    assert len(test) == 500
    assert train.structures.elements == (1, 6, 8)
    assert train.labels.kinds == ("energies", "forces")
    assert -4300 < train.labels.energies.mean() < -4100  # eV: PBE ethanol is -154.7 Hartree
    assert train.labels.forces.reshape(-1, 9, 3).sum(1).abs().max() < 1e-2
    assert train.source.citation


def test_the_embedded_set_is_small_and_has_the_checksum_of_the_catalogue():
    assert EMBEDDED.stat().st_size < 1_000_000
    assert sha256(EMBEDDED) == catalogue.named("ethanol").sha256


def test_the_embedded_set_is_made_again_from_the_public_one_to_the_last_bit(shared_data, tmp_path):
    script = ROOT / "benchmarks" / "make_embedded_ethanol.py"
    subprocess.run([sys.executable, script, shared_data, tmp_path / "again.npz"], check=True, capture_output=True)
    with np.load(tmp_path / "again.npz") as again, np.load(EMBEDDED) as ours:
        assert again.files == ours.files
        assert all(np.array_equal(again[key], ours[key]) for key in ours.files)


def test_the_embedded_set_is_the_official_split(shared_data):
    official = shared_data / "rmd17" / "rmd17_ethanol.npz"
    assert torch.equal(load("ethanol:train").labels.forces, load(f"{official}:train_01").labels.forces)
    assert torch.equal(load("ethanol:test").labels.energies, load(f"{official}:test_01", limit=500).labels.energies)


# files in a folder


def test_every_file_of_the_folder_is_in_the_catalogue_under_its_checksum(shared_data):
    for path in sorted([*shared_data.glob("*/*.npz"), *shared_data.glob("*/*.xz")]):
        entry = catalogue.known_file(sha256(path))
        assert entry is not None, path
        assert catalogue.locate(entry.name, data_folder=shared_data) == path


@pytest.mark.parametrize("entry", [e for e in catalogue.ENTRIES if e.file], ids=lambda e: e.name)
def test_an_entry_tells_the_truth_about_its_file(shared_data, entry):
    if entry.name == "ethanol_extra":
        frames = sum(len(load(f"ethanol_extra:{split}", data_folder=shared_data)) for split in entry.splits)
        assert frames == entry.n_structures
        return
    data = load(entry.name, data_folder=shared_data)
    assert len(data) == entry.n_structures
    assert data.source.units == entry.units
    assert sha256(data.source.path) == entry.sha256
    if entry.splits:
        with np.load(data.source.path) as raw:
            assert all(0 <= raw[split].min() <= raw[split].max() < len(data) for split in entry.splits)


def test_the_variable_and_the_argument_both_point_to_folders(shared_data, monkeypatch, tmp_path):
    monkeypatch.setenv(catalogue.FOLDER_VARIABLE, f"{tmp_path}{os.pathsep}{shared_data}")
    assert len(load("zuo2020_Si:test")) == 25
    shutil.copy(shared_data / "zuo2020" / "Mo.npz", tmp_path)
    assert catalogue.locate("zuo2020_Mo") == tmp_path / "Mo.npz"


def test_a_file_of_another_checksum_is_refused(tmp_path):
    (tmp_path / "Si.npz").write_bytes(b"something else")
    with pytest.raises(InputError, match=r"Si\.npz is not the file.*SHA-256.*wanted 336c7d6ca01e"):
        load("zuo2020_Si", data_folder=tmp_path)


def test_a_set_that_is_nowhere_is_told_with_the_places_looked_in(tmp_path):
    with pytest.raises(
        InputError, match=f"Si.npz .zuo2020_Si. was not found. Looked in {tmp_path}. Set QML_LIGHTNING_DATA"
    ):
        load("zuo2020_Si", data_folder=tmp_path)
    with pytest.raises(InputError, match=r"no folder, because QML_LIGHTNING_DATA is not set"):
        catalogue.locate("zuo2020_Si")
    with pytest.raises(InputError, match=r"no data set 'zuo2020_Sj'. Did you mean zuo2020_Si"):
        catalogue.locate("zuo2020_Sj")


def test_every_entry_says_what_it_is_and_names_are_unique():
    names = [entry.name.lower() for entry in catalogue.ENTRIES]
    assert len(set(names)) == len(names)
    for entry in catalogue.ENTRIES:
        assert entry.theory
        assert entry.licence
        assert bool(entry.file) == bool(entry.sha256)
        assert entry.file or entry.load_atoms


# load-atoms: its own code on its own cache, filled here instead of from the network


def fill_cache(name: str, structures: list[Atoms]) -> None:
    atoms_dataset = pytest.importorskip("load_atoms.atoms_dataset")
    root = Path.home() / ".load-atoms"
    (root / "database-entries").mkdir(parents=True, exist_ok=True)
    (root / "database-entries" / f"{name}.yaml").write_text(
        f"name: {name}\nyear: 2020\ndescription: a few frames\ncategory: Benchmarks\nlicense: CC0\n"
    )
    atoms_dataset.InMemoryAtomsDataset.save(root / f"{name}.pkl", structures)


def test_the_ids_of_load_atoms_are_those_it_knows():
    database = pytest.importorskip("load_atoms.database.database_entry")
    importers = Path(database.__file__).parent / "importers"
    for entry in catalogue.ENTRIES:
        if entry.load_atoms:
            assert (importers / f"{database.DatabaseEntry.importer_file_stem(entry.load_atoms)}.py").exists()


def test_a_set_of_load_atoms_is_read_in_ev_with_its_splits_and_in_silence(capfd):
    rng = np.random.default_rng(0)
    frames = []
    for i in range(4):
        atoms = Atoms("C2", positions=rng.normal(size=(2, 3)), cell=[8, 8, 8], pbc=True)
        atoms.info |= {"energy": float(i), "split": "train" if i % 2 else "test", "virial": np.eye(3) * i}
        atoms.arrays["forces"] = rng.normal(size=(2, 3))
        frames.append(atoms)
    fill_cache("GST-GAP-22", frames)
    data = load("gst-gap-22:train")
    assert data.labels.energies.tolist() == [1.0, 3.0]
    assert np.array_equal(data.labels.forces[:2], frames[1].arrays["forces"])
    assert np.allclose(data.labels.stress[1], -3 * np.eye(3) / 512)
    assert data.source.path == "load-atoms:GST-GAP-22"
    assert len(data.source.sha256) == 64
    assert "Zhou" in data.source.citation
    assert capfd.readouterr().out == ""


def rmd17_as_load_atoms_makes_it(tmp_path: Path) -> list[Atoms]:
    """Its own importer run on three frames, the embedded ethanol standing for every molecule."""
    importer = pytest.importorskip("load_atoms.database.importers.rmd17").Importer
    folder = tmp_path / "rmd17.tar.bz2-extracted" / "rmd17" / "npz_data"
    folder.mkdir(parents=True)
    with np.load(EMBEDDED) as ours:
        arrays = {key: ours[key][:3] for key in ("coords", "energies", "forces")}
        arrays |= {"nuclear_charges": ours["nuclear_charges"], "old_indices": np.arange(3)}
    for (
        name
    ) in "aspirin benzene ethanol malonaldehyde naphthalene paracetamol salicylic toluene uracil azobenzene".split():  # noqa: SIM905
        np.savez(folder / f"rmd17_{name}.npz", **arrays)
    return list(importer.get_structures(tmp_path, None))


@pytest.mark.parametrize("importer", ["as it is", "with its unit right"])
def test_rmd17_of_load_atoms_is_in_ev_whatever_its_version_made_of_the_unit(tmp_path, importer):
    frames = rmd17_as_load_atoms_makes_it(tmp_path)
    ours = load("ethanol", limit=3)
    if importer == "with its unit right":
        factor = ours.labels.energies[0].item() / frames[0].info["energy"]
        for atoms in frames:
            atoms.info["energy"] *= factor
            atoms.arrays["forces"] = atoms.arrays["forces"] * factor
    fill_cache("rMD17", frames)
    data = load("rmd17_ethanol")
    assert len(data) == 3
    assert torch.allclose(data.labels.energies, ours.labels.energies, rtol=1e-8, atol=0)
    assert torch.allclose(data.labels.forces, ours.labels.forces, rtol=1e-8, atol=1e-12)
    assert "without the official splits" in data.source.notes[0]


def test_rmd17_of_load_atoms_in_a_unit_that_nobody_knows_is_refused(tmp_path):
    frames = rmd17_as_load_atoms_makes_it(tmp_path)
    for atoms in frames:
        atoms.info["energy"] *= 7.0
    fill_cache("rMD17", frames)
    with pytest.raises(InputError, match=r"unknown units"):
        load("rmd17_uracil")


def test_a_split_that_only_the_file_has_is_not_looked_for_in_load_atoms():
    with pytest.raises(InputError, match=r"rmd17_ethanol.npz.*was not found.*does not have the split 'train_01'"):
        load("rmd17_ethanol:train_01")


def test_without_network_the_error_says_so(tmp_path):
    pytest.importorskip("load_atoms")
    with pytest.raises(InputError, match=f"Looked in {tmp_path}.*load-atoms could not load QM9.*network"):
        load("qm9", data_folder=tmp_path)


def test_without_load_atoms_the_error_says_how_to_install_it(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name.split(".")[0] == "load_atoms":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match=r'pip install "qml-lightning\[datasets\]"'):
        load("C-GAP-17")


def test_importing_the_data_sets_imports_neither_ase_nor_load_atoms():
    code = "import sys, qml_lightning.datasets; print([m for m in ('ase', 'load_atoms') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
