"""Models of the tests of dynamics."""

from __future__ import annotations

from pathlib import Path

import pytest

from qml_lightning import fit, load_dataset
from small_models import crystals, recipe


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "ethanol.safetensors"
    fit(load_dataset("ethanol:train").subsample(200, 0), recipe(n_features=1024, rank=64)).save(path)
    return path


@pytest.fixture(scope="module")
def crystal_model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "alloy.safetensors"
    fit(crystals(60), recipe()).save(path)
    return path
