"""A fit that was killed goes on from its checkpoint to the same bits; a full disk ends no fit and harms no file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import qml_lightning.training.equations_file
from full_disk import files_up_to
from killed_fit import MOMENTS, SETTINGS, SIZES, checkpoint_of, data
from places import HELPERS
from qml_lightning import fit
from qml_lightning.atoms.structures import Labels
from qml_lightning.cli import main
from qml_lightning.errors import InputError, SolveError
from qml_lightning.training.checkpoint import CheckpointWarning
from qml_lightning.training.equations_file import load_equations, load_state
from small_models import argon, recipe


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    for module, name, value in SIZES:
        monkeypatch.setattr(module, name, value)


@pytest.fixture(scope="module")
def whole():
    """The fit that nobody interrupted."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in SIZES:
            patch.setattr(module, name, value)
        return fit(data(), SETTINGS)


class Stop(Exception):
    """Raised by a progress that has seen enough."""


def stopped(path, settings=SETTINGS, *, at=16, of=None, **options) -> Path:
    """The checkpoint of a fit that was stopped midway."""

    def watch(what, done, *_):
        if what == "equations" and done >= at:
            raise Stop

    with pytest.raises(Stop):
        fit(of or data(), settings, checkpoint=path, checkpoint_seconds=0.0, progress=watch, **options)
    return path


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Path:
    """Where the checkpoints are of fits that were killed, one at each moment."""
    folder = tmp_path_factory.mktemp("killed")
    script = HELPERS / "killed_fit.py"
    done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == dict.fromkeys(MOMENTS, -signal.SIGKILL), done.stderr
    return folder


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_fit_that_was_killed_goes_on_to_the_same_bits(killed, whole, moment):
    path = checkpoint_of(killed, moment)
    if moment in ("in the middle of writing a checkpoint", "before a checkpoint takes its place"):
        assert any(file.suffix == ".tmp" for file in path.parent.iterdir())
    assert path.exists() == (moment != "before the first checkpoint")
    told = []
    again = fit(data(), SETTINGS, checkpoint=path, resume=True, progress=lambda *what: told.append(what))
    assert torch.equal(again.weights, whole.weights)
    assert torch.equal(again.baseline.energies, whole.baseline.energies)
    assert (told[0][1] > 0) == (moment != "before the first checkpoint")
    assert [file.name for file in path.parent.iterdir()] in ([path.name], [])  # what the kill left half written is gone


def test_rows_that_wait_are_in_the_checkpoint(tmp_path):
    equations, position = load_state(stopped(tmp_path / "c", at=20))
    assert 0 < position.done < position.of == 30
    assert equations.parts["forces"].waiting.n == 0  # the moment was chosen so
    assert equations.parts["stress"].waiting.n > 0
    with pytest.raises(InputError, match=f"checkpoint of a fit that came to {position.done} of 30 structures"):
        load_equations(tmp_path / "c")


def test_a_checkpoint_is_not_begun_anew_by_accident(midway):
    before = midway.read_bytes()
    with pytest.raises(InputError, match=r"did not end. Go on from it with --resume"):
        fit(data(), SETTINGS, checkpoint=midway)
    assert midway.read_bytes() == before


@pytest.fixture(scope="module")
def midway(tmp_path_factory) -> Path:
    """A checkpoint that no test changes."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in SIZES:
            patch.setattr(module, name, value)
        return stopped(tmp_path_factory.mktemp("midway") / "c")


def _fewer():
    return data().select(np.arange(29))


def _other_label():
    whole = data()
    return replace(whole, labels=Labels(whole.labels.energies, whole.labels.forces + 1e-9, whole.labels.stress))


def _reversed():
    return data().select(np.arange(29, -1, -1))


@pytest.mark.parametrize("of", [_fewer, _other_label, _reversed])
def test_a_checkpoint_of_other_data_is_refused(midway, of):
    with pytest.raises(InputError, match=r"is not of this fit: .* structures are among its 30"):
        fit(of(), SETTINGS, checkpoint=midway, resume=True)


@pytest.mark.parametrize(
    ("settings", "options", "word"),
    [
        (replace(SETTINGS, features=replace(SETTINGS.features, sigma=5.0)), {}, "features"),
        (replace(SETTINGS, seed=1), {}, "seed"),
        (replace(SETTINGS, rank=16), {}, "rank"),
        (SETTINGS, {"targets": ("energies", "forces")}, "structures are among"),
        (SETTINGS, {"reference_energies": {29: 0.0, 79: 0.0}}, "reference energies"),
    ],
    ids=["features", "seed", "rank", "targets", "references"],
)
def test_a_checkpoint_of_another_recipe_is_refused(midway, settings, options, word):
    with pytest.raises(InputError, match=f"is not of this fit: .*{word}"):
        fit(data(), settings, checkpoint=midway, resume=True, **options)


def test_a_ridge_that_was_too_small_is_made_larger_without_the_pass_over_the_data(tmp_path):
    settings, one_element = recipe(ridge=0.0, n_features=1024), argon(20)
    path = tmp_path / "c"
    with pytest.raises(SolveError, match="A ridge of"):
        fit(one_element, settings, checkpoint=path, checkpoint_seconds=0.0)
    told = []
    larger = replace(settings, ridge=1e-6)
    again = fit(one_element, larger, checkpoint=path, resume=True, progress=lambda *what: told.append(what))
    assert told[0] == ("equations", 20, 20)
    assert torch.equal(again.weights, fit(one_element, larger).weights)


def test_a_full_disk_while_checkpointing_warns_and_the_fit_goes_on(tmp_path, whole):
    path = tmp_path / "c"
    with files_up_to(1000), pytest.warns(CheckpointWarning, match="There is none yet; the fit goes on"):
        potential = fit(data(), SETTINGS, checkpoint=path, checkpoint_seconds=0.0)
    assert torch.equal(potential.weights, whole.weights)
    assert list(tmp_path.iterdir()) == []
    before = stopped(path, at=10).read_bytes()
    with files_up_to(1000), pytest.warns(CheckpointWarning, match="File too large.* The last good one is kept"):
        potential = fit(data(), SETTINGS, checkpoint=path, checkpoint_seconds=0.0, resume=True)
    assert torch.equal(potential.weights, whole.weights)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# ---- the command line ------------------------------------------------------------------------------------------------

OPTIONS = ["--features", "128", "--rank", "64", "--ridge", "1e-8", "--no-label-check", "--checkpoint-seconds", "0"]


def train(model: str, *more: str) -> int:
    return main(["train", "ethanol:train@0:30", "-m", model, *OPTIONS, *more])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(qml_lightning.training.rows, "BATCH_NUMBERS", 3 * 28 * 128)
    monkeypatch.setattr(qml_lightning.linear.normal_equations, "BUFFER_BYTES", 8 * 128 * 200)
    return tmp_path


def test_train_goes_on_after_kill_9_and_removes_the_checkpoint(folder):
    assert train("whole.safetensors") == 0
    assert sorted(path.name for path in folder.iterdir()) == ["whole.safetensors"]
    code = (
        "import os, signal, sys, qml_lightning.training.checkpoint as c\n"
        "import qml_lightning.linear.normal_equations as n, qml_lightning.training.rows as d\n"
        "from qml_lightning.cli import main\n"
        f"d.BATCH_NUMBERS, n.BUFFER_BYTES = {3 * 28 * 128}, {8 * 128 * 200}\n"
        "save = c.save_equations\n"
        "def and_die(*a, **k):\n"
        "    save(*a, **k)\n"
        "    if k['position'].done > 10: os.kill(os.getpid(), signal.SIGKILL)\n"
        "c.save_equations = and_die\n"
        f"main(['train', 'ethanol:train@0:30', '-m', 'm.safetensors', *{OPTIONS!r}])"
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["m.safetensors.checkpoint", "whole.safetensors"]
    assert train("m.safetensors") == 2
    assert train("m.safetensors", "--resume") == 0
    assert sorted(path.name for path in folder.iterdir()) == ["m.safetensors", "whole.safetensors"]
    one, two = load_file("m.safetensors"), load_file("whole.safetensors")
    assert all(torch.equal(one[name], two[name]) for name in two)


def test_a_full_disk_at_the_end_is_an_error_and_the_checkpoint_serves(folder, capsys, monkeypatch):
    from qml_lightning import api

    save = api.save

    def on_a_full_disk(*arguments, **options):
        with files_up_to(1000):
            save(*arguments, **options)

    monkeypatch.setattr(api, "save", on_a_full_disk)
    assert train("m.safetensors") == 3
    told = capsys.readouterr().err
    assert "m.safetensors was not written: File too large" in told
    assert "again with --resume" in told
    assert os.listdir(folder) == ["m.safetensors.checkpoint"]
    monkeypatch.setattr(api, "save", save)
    assert train("m.safetensors", "--resume") == 0
    assert os.listdir(folder) == ["m.safetensors"]


def test_a_checkpoint_that_fails_is_told_on_the_screen_and_training_ends_well(folder, capsys, monkeypatch):
    save = qml_lightning.training.checkpoint.save_equations

    def on_a_full_disk(*arguments, **options):
        with files_up_to(1000):
            save(*arguments, **options)

    monkeypatch.setattr("qml_lightning.training.checkpoint.save_equations", on_a_full_disk)
    assert train("m.safetensors", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["model"] == "m.safetensors"
    assert "Warning: The checkpoint at" in err
    assert os.listdir(folder) == ["m.safetensors"]
