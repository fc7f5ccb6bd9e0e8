"""The check of stress: healthy labels pass, a wrong sign and wrong units are named with what mends them."""

from __future__ import annotations

from dataclasses import replace

import ase.units
import pytest
import torch

from qml_lightning import load_dataset
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


def turned(data, components, change):
    """Stress with some components changed, symmetric again."""
    stress = data.labels.stress.clone()
    for (a, b), value in zip(components, change(data.labels.stress)):
        stress[:, a, b] = stress[:, b, a] = value
    return replace(data, labels=replace(data.labels, stress=stress))


DIAGONAL = ((0, 0), (1, 1), (2, 2))
SHEAR = ((1, 2), (0, 2), (0, 1))


@pytest.fixture(scope="module")
def silicon(shared_data):
    return load_dataset(shared_data / "zuo2020" / "Si.npz").subsample(100, 0)


@pytest.mark.parametrize("components", [DIAGONAL, SHEAR])
def test_one_wrong_sign_on_or_beside_the_diagonal_is_refused(silicon, components):
    report = check_stress(turned(silicon, components, lambda s: [-s[:, a, b] for a, b in components]))
    assert report.refuse
    assert "Components of the stress have different signs" in report.finding


@pytest.mark.parametrize(
    ("written", "words"),
    [(((0, 1), (1, 2), (0, 2)), "xx yy zz xy yz xz"), (((0, 1), (0, 2), (1, 2)), "xx yy zz xy xz yz")],
)
def test_shear_in_the_order_of_vasp_or_backwards_is_told_with_the_order(silicon, written, words):
    report = check_stress(turned(silicon, SHEAR, lambda s: [s[:, a, b] for a, b in written]))
    assert not report.refuse
    assert f"these look like {words}" in report.finding


def test_stress_of_other_frames_is_told(silicon):
    order = torch.randperm(len(silicon), generator=torch.Generator().manual_seed(0))
    report = check_stress(replace(silicon, labels=replace(silicon.labels, stress=silicon.labels.stress[order])))
    assert "Stress is unrelated" in report.finding
    assert not report.refuse


@pytest.mark.parametrize("file", ["zuo2020/Si", "zuo2020/Li", "snap/Ta"])
def test_stress_of_public_sets_is_healthy(shared_data, file):
    assert not check_stress(load_dataset(shared_data / f"{file}.npz").subsample(60, 1)).finding


def test_molybdenum_of_a_public_set_has_yz_and_xz_exchanged_as_its_elastic_frames_show(shared_data):
    data = load_dataset(shared_data / "zuo2020" / "Mo.npz")
    elastic = data.select(data.groups == "Elastic")
    cells = elastic.structures.cells / elastic.structures.cells.norm(dim=2).mean(1)[:, None, None]
    strain = (cells + cells.mT) / 2
    # a crystal that is sheared in yz has a stress yz; in these labels it has xz
    exchanged = torch.corrcoef(torch.stack([strain[:, 1, 2], elastic.labels.stress[:, 0, 2]]))[0, 1]
    assert abs(exchanged) > 0.9
    assert "these look like xx yy zz xz yz xy" in check_stress(data.subsample(60, 0)).finding


def test_without_stress_nothing_is_said():
    assert not check_stress(molecules(20)).finding


def test_train_refuses_stress_with_the_wrong_sign(cells, tmp_path, capsys):
    wrong = scaled(cells, -1.0)
    labels = {kind: getattr(wrong.labels, kind) for kind in wrong.labels.kinds}
    write_extxyz(tmp_path / "cells.extxyz", wrong.structures, **labels)
    train = ["train", str(tmp_path / "cells.extxyz"), "-m", str(tmp_path / "m"), "--features", "256", "--rank", "32"]
    assert main([*train, "--ridge", "1e-6"]) == 2
    assert "--stress-unit=-eV/Å³" in capsys.readouterr().err
