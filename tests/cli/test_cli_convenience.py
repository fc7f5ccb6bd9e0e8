"""The command line that people try first: several files, a part to hold out, a file of options, completion."""

from __future__ import annotations

import json
import tomllib

import pytest

from qml_lightning import load
from qml_lightning.cli.md import DynamicsOptions
from qml_lightning.cli.options import KeepOptions
from qml_lightning.dynamics.ensembles import MDSettings
from qml_lightning.training.outputs import Keep

FIT = ["--features", "256", "--rank", "64", "--sigma", "8", "--ridge", "1e-8", "--energy-weight", "30",
       "--representation", "cosine-series", "--class-spread", "0",
       "--no-label-check", "--outliers", "keep"]  # fmt: skip


def test_several_sources_are_one_training_set(run):
    code, out, _ = run("train", "ethanol:train@0:20", "ethanol:test@0:10", "-m", "m.safetensors", *FIT, "--json")
    assert code == 0
    assert json.loads(out)["provenance"]["structures"] == 30
    code, out, _ = run("evaluate", "m.safetensors", "ethanol:test@0:2", "ethanol:test@2:5", "--json")
    assert json.loads(out)["structures"] == 5


@pytest.mark.parametrize(("valid", "n"), [("0.2", 8), ("10", 10)])
def test_a_part_is_held_out_and_not_trained_on(run, valid, n):
    code, out, error = run("train", "ethanol:train@0:40", "-m", "m.safetensors", "--valid", valid, *FIT, "--json")
    assert code == 0, error
    told = json.loads(out)
    assert told["validation"]["structures"] == n
    assert told["provenance"]["structures"] == 40 - n
    assert told["notes"] == []  # none of them was trained on


def test_a_part_that_is_none_is_refused(run):
    code, _, error = run("train", "ethanol:train@0:40", "-m", "m.safetensors", "--valid", "1.5", *FIT)
    assert code == 2
    assert "0.1" in error


def test_a_file_of_options_gives_the_model_of_the_command_line_and_is_written_back(run, tmp_path):
    (tmp_path / "run.toml").write_text(
        'data = "ethanol:train@0:20"\nmodel = "a.safetensors"\nfeatures = 256\nrank = 64\nsigma = 8.0\n'
        'ridge = 1e-8\nenergy-weight = 30.0\nrepresentation = "cosine-series"\nlabel_check = false\noutliers = "keep"\n'
    )
    assert run("train", "--config", "run.toml", "--seed", "3")[0] == 0
    assert run("train", "ethanol:train@0:20", "-m", "b.safetensors", *FIT, "--seed", "3")[0] == 0
    a, b = load("a.safetensors"), load("b.safetensors")
    assert a.recipe == b.recipe
    assert (a.weights == b.weights).all()
    kept = tomllib.loads((tmp_path / "a.toml").read_text())
    assert kept["data"] == ["ethanol:train@0:20"]
    assert kept["seed"] == 3
    assert run("train", "--config", "a.toml", "--overwrite")[0] == 0
    assert (load("a.safetensors").weights == b.weights).all()


def test_an_option_that_does_not_exist_is_told_with_the_one_that_was_meant(run, tmp_path):
    (tmp_path / "run.toml").write_text("feature = 256\n")
    code, _, error = run("train", "--config", "run.toml")
    assert code == 2
    assert "Did you mean features?" in error
    (tmp_path / "run.toml").write_text("features = = 2")
    assert "cannot be read as TOML" in run("train", "--config", "run.toml")[2]


def test_a_shell_can_ask_for_its_completion(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "--install-completion" in out


def test_defaults_of_the_command_line_are_those_of_python():
    # typed twice, because help must not wait for torch to be imported
    assert DynamicsOptions().settings() == MDSettings()
    assert KeepOptions().checkpoint_seconds == Keep().seconds
