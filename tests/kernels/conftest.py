"""Fixtures of the tests of native kernels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qml_lightning.errors import InputError
from qml_lightning.kernels import native

INSTRUCTION_SETS = ("baseline", "avx2", "avx512")


@pytest.fixture(params=INSTRUCTION_SETS)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each instruction set of the native library in turn; one that this machine lacks is skipped."""
    before = native.instruction_set()
    try:
        native.use_instruction_set(request.param)
    except InputError as error:
        pytest.skip(str(error))
    yield request.param
    native.use_instruction_set(before)
