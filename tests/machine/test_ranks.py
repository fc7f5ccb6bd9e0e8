"""Ranks on GPUs that are not here: which one each takes, and what is said if there are too few."""

from __future__ import annotations

import pytest
import torch

from qml_lightning.errors import InputError
from qml_lightning.machine.ranks import joined


@pytest.fixture
def second_of_two(monkeypatch):
    """The second of two processes that torchrun started, on a machine with two GPUs; give what it asks of torch."""
    asked = []
    started = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}
    for name, value in started.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", lambda device: asked.append(str(device)))
    monkeypatch.setattr("torch.distributed.init_process_group", lambda backend, timeout: asked.append(backend))
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: asked.append("end"))
    return asked


def test_each_rank_takes_a_gpu_of_its_own(second_of_two):
    with joined(torch.device("cuda")) as ranks:
        assert ranks.device == torch.device("cuda:1")
        assert (ranks.rank, ranks.size, ranks.local_size) == (1, 2, 2)
    assert second_of_two == ["cuda:1", "nccl", "end"]


def test_ranks_on_cpus_touch_no_gpu(second_of_two):
    with joined(torch.device("cpu")) as ranks:
        assert ranks.device == torch.device("cpu")
    assert second_of_two == ["gloo", "end"]


def test_too_few_gpus_are_told_and_one_that_was_asked_for_is_taken(second_of_two, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(InputError, match=r"sees 1 GPUs.*--nproc-per-node 1"), joined(torch.device("cuda")):
        pass
    assert not second_of_two
    with joined(torch.device("cuda:0")) as ranks:
        assert ranks.device == torch.device("cuda:0")
