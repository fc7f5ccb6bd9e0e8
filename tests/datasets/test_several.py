"""Several files as one data set: lists, patterns, folders."""

from __future__ import annotations

import pytest

from qml_lightning import load_dataset
from qml_lightning.datasets import write_extxyz
from qml_lightning.errors import InputError
from small_models import molecules


@pytest.fixture
def folder(tmp_path):
    """Three files of 4, 2 and 3 frames, and one that is no data."""
    for name, n in (("b.xyz", 2), ("a.extxyz", 4), ("c.extxyz.gz", 3)):
        data = molecules(n, seed=10 * n)
        write_extxyz(tmp_path / name, data.structures, energies=data.labels.energies, forces=data.labels.forces)
    (tmp_path / "notes.txt").write_text("nothing")
    return tmp_path


def test_a_folder_is_read_in_the_order_of_the_names(folder):
    data = load_dataset(folder)
    assert len(data) == 9
    assert [part.name for part in data.source.parts] == ["a.extxyz", "b.xyz", "c.extxyz.gz"]
    assert data.name_of(5) == "frame 1 of b.xyz"
    assert data.select([8, 0]).name_of(0) == "frame 2 of c.extxyz.gz"


def test_a_pattern_and_a_slice_of_each_file(folder):
    data = load_dataset(f"{folder}/*.*xyz*@1:")
    assert len(data) == 3 + 1 + 2
    assert data.name_of(3) == "frame 1 of b.xyz"
    assert len(load_dataset(f"{folder}/b*")) == 2


def test_a_list_keeps_its_order_and_may_hold_names_of_the_catalogue(folder):
    data = load_dataset([folder / "b.xyz", "ethanol:test@0:3"])
    assert [part.n_structures for part in data.source.parts] == [2, 3]
    assert data.name_of(0) == "frame 0 of b.xyz"


def test_a_limit_is_of_the_whole(folder):
    data = load_dataset(folder, limit=5)
    assert [part.n_structures for part in data.source.parts] == [4, 1]
    assert len(load_dataset(folder, limit=3)) == 3


def test_the_same_numbers_as_one_by_one(folder):
    whole, part = load_dataset(folder), load_dataset(folder / "c.extxyz.gz")
    assert (whole.labels.forces[-len(part.labels.forces) :] == part.labels.forces).all()


def test_a_name_that_stands_for_nothing_is_told(folder, tmp_path):
    with pytest.raises(InputError, match="No file fits the pattern"):
        load_dataset(f"{folder}/*.traj")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no file that ends in"):
        load_dataset(tmp_path / "empty")
    with pytest.raises(InputError, match="empty list"):
        load_dataset([])
