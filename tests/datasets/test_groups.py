"""Structures keep their frame numbers and groups through reading and drawing."""

from __future__ import annotations

import ase.io
import numpy as np
import pytest
from ase import Atoms

from qml_lightning import load_dataset
from qml_lightning.atoms.dataset import concatenate


@pytest.fixture
def file(tmp_path):
    frames = [Atoms("H2", [[0, 0, 0], [0, 0, 0.7 + 0.01 * i]], info={"energy": float(i)}) for i in range(6)]
    for i, atoms in enumerate(frames[:4]):
        atoms.info["config_type"] = f"bond{i % 2}"
    path = tmp_path / "h2.extxyz"
    ase.io.write(path, frames)
    return path


def test_a_structure_is_named_by_its_frame_in_the_file_after_slices_and_draws(file):
    data = load_dataset(f"{file}@1::2")
    drawn = data.subsample(2, seed=3)
    assert data.frames.tolist() == [1, 3, 5]
    # the energy of each frame is its number
    assert [drawn.name_of(s) for s in range(2)] == [f"frame {energy:.0f}" for energy in drawn.labels.energies]


def test_groups_are_read_from_config_type_and_follow_every_selection(file):
    data = load_dataset(file)
    assert data.groups.tolist() == ["bond0", "bond1", "bond0", "bond1", "", ""]
    assert not any("config_type" in text for text in data.source.notes)
    assert data.select([5, 1]).groups.tolist() == ["", "bond1"]


def test_a_concatenation_keeps_groups_and_names_structures_by_file_and_frame(file):
    data = load_dataset(file)
    both = concatenate([data, data])
    assert both.groups.tolist() == [*data.groups, *data.groups]
    assert both.name_of(7) == f"frame {data.frames[7 - len(data)]} of {data.source.name}"


def test_groups_of_an_npz_file_follow_its_split(tmp_path):
    path = tmp_path / "set.npz"
    np.savez(path, coords=np.random.RandomState(0).rand(3, 2, 3), nuclear_charges=[1, 1], energies=np.arange(3.0),
             group=np.array(["a", "b", "c"]), energy_unit="eV", length_unit="Å", train=np.array([2, 0]))  # fmt: skip
    data = load_dataset(f"{path}:train")
    assert data.groups.tolist() == ["c", "a"]
    assert not any("group" in text for text in data.source.notes)
    assert data.frames.tolist() == [2, 0]
