"""Fixtures that several tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from places import SHARED_DATA


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the public data sets beside the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the public data sets are not here: {SHARED_DATA}")
    return SHARED_DATA
