"""Cases of `make test`, and those that only `make test-gpu-kernels` adds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def few_and_all(few: Iterable[Any], more: Iterable[Any]) -> list[Any]:
    """`few`, then `more` under the mark `whole`: Triton's interpreter takes minutes for all of them."""
    cases = [one if isinstance(one, tuple) else (one,) for one in more]
    return [*few, *(pytest.param(*one, marks=pytest.mark.whole) for one in cases)]
