"""Public sets by name: the embedded one, and those in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from places import ROOT
from qml_lightning.datasets import catalogue, load
from qml_lightning.datasets.downloads import CACHE_VARIABLE
from qml_lightning.errors import InputError
from qml_lightning.machine.files import sha256

EMBEDDED = ROOT / "src" / "qml_lightning" / "datasets" / "data" / "ethanol.npz"


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch, tmp_path):
    """No data folder, a home of its own, and no network."""
    monkeypatch.delenv(catalogue.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))

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
        assert entry.file or entry.download


def test_importing_the_data_sets_does_not_import_ase():
    code = "import sys, qml_lightning.datasets; print([m for m in ('ase',) if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
