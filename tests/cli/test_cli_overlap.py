"""Commands tell when structures occur twice, and claim that structures are new only where that is known."""

from __future__ import annotations

import json

import ase.io
import pytest
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator

from qml_lightning import fit, load_dataset
from qml_lightning.api import load, save
from qml_lightning.cli import main
from qml_lightning.report.summary import draw
from small_models import SMALL

TINY = ["--features", "256", "--rank", "64", "--ridge", "1e-8", "--no-label-check", "--outliers", "keep"]


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run_(*arguments: str) -> tuple[int, str]:
        code = main(list(arguments))
        told = capsys.readouterr()
        return code, " ".join((told.out + told.err).split())

    return run_


def page(potential, data) -> str:
    figure = draw(potential, data, potential.predict(data.structures))
    return " ".join(text.get_text() for axes in figure.axes for text in axes.texts)


def test_the_summary_says_not_seen_in_training_only_of_structures_that_were_not():
    train, other = load_dataset("ethanol:train@0:20"), load_dataset("ethanol:test@0:20")
    potential = fit(train, SMALL)
    assert "20 training structures" in page(potential, train)
    assert "20 structures not seen in training" in page(potential, other)
    assert "40 structures, 10 of them training structures" in page(potential, load_dataset("ethanol:train@10:50"))


def test_a_model_file_remembers_its_structures_in_eight_bytes_each(tmp_path):
    potential = fit(load_dataset("ethanol:train@0:20"), SMALL)
    save(potential, tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert again.trained_on.tolist() == potential.trained_on.tolist()
    assert again.trained_on.element_size() * len(again.trained_on) == 8 * 20


def test_train_tells_that_the_validation_set_was_trained_on(run):
    code, told = run("train", "ethanol:train@0:30", "-m", "m", *TINY, "--valid", "ethanol:train@20:40")
    assert code == 0, told
    assert "trained on 10 of the 20 structures" in told
    assert "first: frame" in told
    code, told = run("train", "ethanol:train@0:30", "-m", "m2", *TINY, "--valid", "ethanol:test@0:20")
    assert "was trained on" not in told


def test_evaluate_tells_which_structures_the_model_was_trained_on(run):
    assert run("train", "ethanol:train@0:30", "-m", "m", *TINY)[0] == 0
    assert "trained on 5 of the 10 structures" in run("evaluate", "m", "ethanol:train@25:35")[1]
    assert json.loads(run("evaluate", "m", "ethanol:test@0:10", "--json")[1])["notes"] == []


def test_train_tells_of_repetitions_in_the_training_file(run, tmp_path):
    data = load_dataset("ethanol:train@0:30")
    frames = [Atoms(data.structures.numbers[:9].numpy(), r) for r in data.structures.positions.view(-1, 9, 3).numpy()]
    for atoms, energy, forces in zip(frames, data.labels.energies, data.labels.forces.view(-1, 9, 3)):
        atoms.calc = SinglePointCalculator(atoms, energy=float(energy), forces=forces.numpy())
    ase.io.write(tmp_path / "twice.extxyz", [*frames, frames[4]])
    code, told = run("train", "twice.extxyz", "-m", "m", *TINY)
    assert code == 0, told
    assert "1 of 31 structures of twice.extxyz repeats an earlier one" in told
    assert "frame 30 is the same as frame 4" in told
