"""The check of stress: healthy labels pass, a wrong sign and wrong units are named with what mends them."""

from __future__ import annotations

from dataclasses import replace

import ase.units
import pytest

from qml_lightning.cli import main
from qml_lightning.datasets.writers import write_extxyz
from qml_lightning.study.stress_check import check_stress
from small_models import crystals, molecules


@pytest.fixture(scope="module")
def cells():
    return crystals(24)


def scaled(data, factor):
    return replace(data, labels=replace(data.labels, stress=data.labels.stress * factor))


def test_stress_of_a_force_field_is_healthy(cells):
    report = check_stress(cells)
    assert report.slope == pytest.approx(1.0, abs=0.2)
    assert not report.finding


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (-1.0, ("opposite sign", "--stress-unit=-eV/Å³")),
        (1.0 / ase.units.GPa, ("as if it were in GPa", "--stress-unit=GPa")),
        (-10.0 / ase.units.GPa, ("as if it were in kbar", "opposite sign", "--stress-unit=-kbar")),
        (1e4 / ase.units.GPa, ("as if it were in bar", "--stress-unit=bar")),
    ],
)
def test_a_wrong_sign_or_unit_is_named_with_the_option_and_the_factor_that_mend_it(cells, factor, words):
    report = check_stress(scaled(cells, factor))
    assert report.slope == pytest.approx(factor, rel=0.2)
    for word in (*words, f"multiply it by {1.0 / factor:.4g}"):
        assert word in report.finding


def test_without_stress_nothing_is_said():
    assert not check_stress(molecules(20)).finding


def test_train_refuses_stress_with_the_wrong_sign(cells, tmp_path, capsys):
    wrong = scaled(cells, -1.0)
    labels = {kind: getattr(wrong.labels, kind) for kind in wrong.labels.kinds}
    write_extxyz(tmp_path / "cells.extxyz", wrong.structures, **labels)
    train = ["train", str(tmp_path / "cells.extxyz"), "-m", str(tmp_path / "m"), "--features", "256", "--rank", "32"]
    assert main([*train, "--ridge", "1e-6"]) == 2
    assert "--stress-unit=-eV/Å³" in capsys.readouterr().err
