"""Files of tensors: finite numbers only, and a checksum that sees every flipped bit."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from altered_files import alter, alter_entries, write_checksum
from qml_lightning.errors import ModelError, ResourceError, SolveError
from qml_lightning.machine.tensors import all_finite, open_tensors, write_tensors

NAME, VERSION = "some", 1
HEADER = {"format_version": 1, "text": "Å"}


def tensors() -> dict[str, torch.Tensor]:
    return {
        "wide": torch.arange(30, dtype=torch.float64),
        "narrow": torch.tensor([1, -1], dtype=torch.int8),
        "empty": torch.zeros(0, 3, dtype=torch.float32),
    }


def read(path) -> dict:
    with open_tensors(path, NAME, VERSION, "test") as (header, file):
        return {**header, "sum": float(file.get_tensor("wide").sum())}


def test_another_program_reads_what_is_written(tmp_path):
    write_tensors(tmp_path / "file", NAME, HEADER, tensors())
    found = load_file(tmp_path / "file")
    assert found.keys() == tensors().keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors().items())


def test_every_flipped_bit_is_seen(tmp_path):
    path = tmp_path / "file"
    write_tensors(path, NAME, HEADER, tensors())
    sound = path.read_bytes()
    assert read(path)["sum"] == 435.0
    for bit in np.random.default_rng(0).permutation(8 * len(sound))[:600].tolist():
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(ModelError, match=str(path)):
            read(path)


def test_the_checksum_is_that_of_the_documentation_for_several_blocks(tmp_path):
    path = tmp_path / "file"
    random = torch.randn(1_200_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    write_tensors(path, NAME, HEADER, {"wide": random})
    ours = path.read_bytes()
    write_checksum(path)
    assert path.read_bytes() == ours
    read(path)


def test_a_file_without_a_checksum_is_read_and_one_that_lost_it_is_refused(tmp_path):
    path = tmp_path / "file"
    write_tensors(path, NAME, HEADER, tensors())
    alter(path, lambda header: None, checksum="none")
    assert "checksum" not in read(path)
    write_tensors(path, NAME, HEADER, tensors(), overwrite=True)
    alter_entries(path, lambda entries: entries["__metadata__"].pop("sha256"))
    with pytest.raises(ModelError, match="is damaged"):
        read(path)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_never_written(tmp_path, number):
    path = tmp_path / "file"
    with pytest.raises(SolveError, match="was not written: wide has numbers that are not finite"):
        write_tensors(path, NAME, HEADER, tensors() | {"wide": torch.tensor([1.0, number])})
    assert list(tmp_path.iterdir()) == []


def test_finite_numbers_whose_sum_overflows_are_finite():
    assert all_finite(torch.tensor([1e308, 1e308], dtype=torch.float64))
    assert not all_finite(torch.tensor([1e308, 1e308, float("nan")], dtype=torch.float64))
    assert all_finite(torch.tensor([2**62, 2**62]))


def test_a_header_of_deep_or_other_json_is_told_in_words(tmp_path):
    path = tmp_path / "file"
    for text in ("[" * 100_000, "[]", "3", "null", '{"format_version": "new"}', '{"format_version": []}', "{"):
        write_tensors(path, NAME, HEADER, tensors(), overwrite=True)
        alter_entries(path, lambda entries, text=text: entries.__setitem__("__metadata__", {NAME: text}))
        with pytest.raises(ModelError, match=str(path)):
            read(path)


def test_errors_of_a_reader_name_the_file_and_want_of_memory_stays_what_it_is(tmp_path):
    path = tmp_path / "file"
    write_tensors(path, NAME, HEADER, tensors())

    def fails(problem: Exception) -> None:
        with open_tensors(path, NAME, VERSION, "test"):
            raise problem

    for problem in (KeyError("x"), ZeroDivisionError("x"), ValueError("x"), RuntimeError("x"), OverflowError("x")):
        with pytest.raises(ModelError, match=f"{path} is a qml-lightning test file with a part missing or altered"):
            fails(problem)
    with pytest.raises(ResourceError, match="too large"):
        fails(ResourceError("too large"))


def test_metadata_stay_text(tmp_path):
    write_tensors(tmp_path / "file", NAME, HEADER, tensors())
    raw = (tmp_path / "file").read_bytes()
    entries = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert all(isinstance(value, str) for value in entries["__metadata__"].values())
