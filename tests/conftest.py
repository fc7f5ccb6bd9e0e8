"""Fixtures that several tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the public data sets beside the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the public data sets are not here: {SHARED_DATA}")
    return SHARED_DATA
