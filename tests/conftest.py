"""Fixtures that several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from places import ROOT, SHARED_DATA

if not torch.cuda.is_available():
    # before anything imports Triton: its kernels are interpreted, on tensors of the CPU
    os.environ.setdefault("TRITON_INTERPRET", "1")

MADE_BY_MAKE = {"build", "dist", "demo"}


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the public data sets beside the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the public data sets are not here: {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(autouse=True)
def _threads_of_the_process():
    """Every test begins with the threads of the process, also after one that gave --threads: axes depend on them."""
    threads = torch.get_num_threads()
    yield
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _nothing_is_left_in_the_repository():
    """A test that writes to the root of the repository fails: the next commit would hold the file."""
    before = set(os.listdir(ROOT))
    yield
    new = {name for name in os.listdir(ROOT) if not name.startswith(".")} - before - MADE_BY_MAKE
    assert not new, f"{', '.join(sorted(new))} in {ROOT}: write to tmp_path, and change to it with monkeypatch.chdir."
