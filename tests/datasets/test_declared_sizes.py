"""Files that declare sizes which they do not have, or fill the memory, are refused before they do."""

from __future__ import annotations

import tracemalloc
import zipfile

import numpy as np
import pytest

from qml_lightning.datasets import load
from qml_lightning.errors import InputError, ResourceError


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1\nProperties=species:S:1:pos:R:3:forces:R:999999999 energy=1\nH 0 0 0 0 0 0\n", "1,000,000,003 columns"),
        ("99999999999\nProperties=species:S:1:pos:R:3\nH 0 0 0\n", r"says 99,999,999,999 atoms.*ends after 1"),
        ("2\nProperties=species:S:1:pos:R:0\nH 0 0 0\nH 0 0 1\n", "Wanted name:type:columns"),
        (
            "1\nProperties=species:S:1:pos:R:3 energy=1\nH 0 0 0\n3\nProperties=species:S:1:pos:R:3\nH 0 0 0\n",
            "frame 1",
        ),
    ],
)
def test_more_atoms_or_columns_than_the_file_holds_are_refused_without_memory(tmp_path, text, says):
    path = tmp_path / "set.extxyz"
    path.write_text(text)
    tracemalloc.start()
    with pytest.raises(InputError, match=says):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def npz_bomb(path, shape: str, data: bytes, compression=zipfile.ZIP_DEFLATED):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with zipfile.ZipFile(path, "w", compression) as file:
        with file.open("coords.npy", "w") as member:
            member.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data)
        file.writestr("energies.npy", b"")
    return path


@pytest.mark.parametrize("shape", ["(100000000, 3, 3)", "(10**30, 3, 3)", "(-1, 3, 3)", "('a',)", "(2.5,)"])
def test_an_npz_header_that_lies_about_the_size_is_refused(tmp_path, shape):
    with pytest.raises(InputError, match=r"set\.npz"):
        load(npz_bomb(tmp_path / "set.npz", shape, bytes(720)), energy_unit="eV")


def test_a_small_npz_file_that_fills_the_memory_is_refused_before_it_does(tmp_path):
    n = 5_000_000  # 360 MB of zeros in 350 kB
    path = npz_bomb(tmp_path / "set.npz", f"({n}, 3, 3)", bytes(72 * n))
    assert path.stat().st_size < 1e6
    tracemalloc.start()
    with pytest.raises(InputError, match=r"'coords' says 0.3 GiB in .* bytes of the file"):
        load(path, energy_unit="eV")
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_an_npz_file_larger_than_the_memory_is_a_lack_of_memory(tmp_path, monkeypatch):
    np.savez(tmp_path / "set.npz", z=np.ones(100, int), R=np.random.default_rng(0).normal(size=(100, 100, 3)))
    monkeypatch.setattr("qml_lightning.datasets.archive.available_memory", lambda: 100_000)
    with pytest.raises(ResourceError, match=r"Reading 'R' of set.npz needs"):
        load(tmp_path / "set.npz")


def test_a_broken_npz_file_is_not_called_a_pickle(tmp_path):
    (tmp_path / "set.npz").write_bytes(b"something else entirely")
    with pytest.raises(InputError, match=r"not a .npz file") as error:
        load(tmp_path / "set.npz", energy_unit="eV")
    assert "pickle" not in str(error.value)
