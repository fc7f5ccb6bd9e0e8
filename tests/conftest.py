"""Fixtures that several tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from places import SHARED_DATA


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
