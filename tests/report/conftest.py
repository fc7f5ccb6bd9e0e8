"""A report that several files of tests look at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qml_lightning import fit
from small_models import SMALL, crystals


@pytest.fixture(scope="module")
def judged():
    """A potential, structures that it has not seen with groups, and its predictions."""
    data = crystals(20)
    data = replace(data, groups=np.array([f"kind {k % 2}" for k in range(20)]))
    train, test = data.split((10, 10), seed=0)
    potential = fit(train, SMALL)
    return potential, test, potential.predict(test.structures)
