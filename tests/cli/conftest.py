"""Fixtures that tests of the command line share: a small model, and a command in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from qml_lightning.cli import main

SMALL_FIT = ["--features", "256", "--rank", "64", "--train-size", "40", "--ridge", "1e-8", "--no-label-check"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model for ethanol, trained in a second."""
    path = tmp_path_factory.mktemp("model") / "ethanol.safetensors"
    assert main(["train", "ethanol:train", "--model", str(path), *SMALL_FIT]) == 0
    return path


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Exit code, standard output and standard error of a command, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run_(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run_
