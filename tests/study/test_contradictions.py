"""Contradictions between frames: energies of two units or zeros and repeated structures with other labels are named."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from qml_lightning import Dataset, load_dataset
from qml_lightning.atoms.dataset import concatenate
from qml_lightning.atoms.units import ENERGY_IN_EV
from qml_lightning.cli import main
from qml_lightning.datasets.writers import write_extxyz
from qml_lightning.study.contradictions import disagreement_note, split_energies
from qml_lightning.study.label_check import check_labels

SETS = [
    "rmd17/rmd17_aspirin", "3bpa/3bpa", "qm7/qm7", "small_mols/small_mols", "zuo2020/Si", "zuo2020/Li", "zuo2020/Mo",
    "zuo2020/Cu", "snap/Ta", "snap/InP", "water/water_pbe0ts",
]  # fmt: skip


@pytest.fixture(scope="module")
def ethanol() -> Dataset:
    return load_dataset("ethanol:train").subsample(120, 0)


def with_energies(data: Dataset, change, share: float) -> tuple[Dataset, torch.Tensor]:
    """Energies of a share of the structures changed, and which they are."""
    changed = torch.zeros(len(data), dtype=torch.bool)
    changed[torch.randperm(len(data), generator=torch.Generator().manual_seed(3))[: round(share * len(data))]] = True
    energies = torch.where(changed, change(data.labels.energies), data.labels.energies)
    return replace(data, labels=replace(data.labels, energies=energies)), changed


def in_unit(unit: str):
    return lambda energies: energies / ENERGY_IN_EV[unit]


@pytest.mark.parametrize("file", SETS)
def test_clean_sets_are_silent_whole_and_in_part(shared_data, file):
    data = load_dataset(shared_data / f"{file}.npz")
    for part in (data, *(data.subsample(n, seed) for n in (50, 100) for seed in (0, 1))):
        assert split_energies(part)[1] == ""
        assert disagreement_note(part) == ""


def test_dissociation_curves_are_silent(shared_data):
    data = load_dataset(f"{shared_data}/ethanol_extra/ethanol_extra.npz:dimers", energy_unit="eV")
    assert split_energies(data)[1] == ""


@pytest.mark.parametrize("share", [0.1, 0.3, 0.49])
@pytest.mark.parametrize("unit", ["Hartree", "kcal/mol", "kJ/mol", "Rydberg"])
def test_a_share_of_the_energies_in_another_unit_is_found_exactly_and_the_unit_is_named(ethanol, unit, share):
    data, changed = with_energies(ethanol, in_unit(unit), share)
    found, text = split_energies(data)
    assert torch.equal(found, changed)
    assert f"{int(changed.sum())} of 120 frames" in text
    assert ethanol.name_of(int(changed.nonzero()[0])) + "," in text
    assert f"{unit} and eV" in text


@pytest.mark.parametrize("file", ["zuo2020/Si", "zuo2020/Li", "water/water_pbe0ts", "qm7/qm7", "small_mols/small_mols"])
@pytest.mark.parametrize("unit", ["Hartree", "kcal/mol"])
def test_crystals_liquids_and_sets_of_many_molecules_in_two_units_are_found(shared_data, file, unit):
    data, changed = with_energies(load_dataset(shared_data / f"{file}.npz").subsample(200, 0), in_unit(unit), 0.25)
    assert torch.equal(split_energies(data)[0], changed)


def test_energies_of_zero_are_named_as_not_computed(ethanol):
    data, changed = with_energies(ethanol, torch.zeros_like, 0.2)
    found, text = split_energies(data)
    assert torch.equal(found, changed)
    assert "24 of 120 frames have an energy of exactly zero" in text


def test_another_zero_of_half_of_the_frames_is_found_and_the_rest_of_the_check_goes_on(ethanol):
    data, _ = with_energies(ethanol, lambda energies: energies + 27.0, 0.5)
    report = check_labels(data)
    assert report.refuse
    assert "60 of 120 frames have energies about" in report.findings[0]
    assert report.slope == pytest.approx(1.0, abs=0.1)


def test_charges_that_are_stated_are_not_called_another_zero(ethanol):
    data, _ = with_energies(ethanol, lambda energies: energies + 9.0, 0.5)
    assert split_energies(replace(data, source=replace(data.source, varies=("charge",))))[1] == ""


def repeated(data: Dataset, *, energies: float = 0.0, forces: float = 0.0) -> Dataset:
    labels = data.labels
    other = replace(labels, energies=labels.energies + energies, forces=labels.forces + forces)
    return concatenate([data, replace(data, labels=other)])


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"energies": 2.0}, "energies differ by up to 2 eV"), ({"forces": 1.5}, "forces differ by up to 1.5 eV/Å")],
)
def test_a_structure_with_two_labels_is_named_with_both_frames(ethanol, changes, words):
    data = repeated(ethanol.select([4, 5, 6]), **changes)
    note = disagreement_note(data)
    assert words in note
    assert f"({data.name_of(3)} and {data.name_of(0)}" in note
    assert note in " ".join(check_labels(data).findings)


def test_the_same_structure_twice_with_labels_of_two_grids_is_no_contradiction(ethanol):
    assert disagreement_note(repeated(ethanol.select([4, 5, 6]), energies=0.02, forces=0.02)) == ""


def test_data_and_train_name_two_units_and_train_stops_before_the_fit(ethanol, tmp_path, capsys):
    data, _ = with_energies(ethanol.select(range(60)), in_unit("Hartree"), 0.4)
    path, model = tmp_path / "mixed.extxyz", tmp_path / "m.safetensors"
    write_extxyz(path, data.structures, energies=data.labels.energies, forces=data.labels.forces)
    train = ["train", str(path), "-m", str(model), "--features", "256", "--rank", "32", "--ridge", "1e-6"]
    assert main(train) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "24 of 60 frames have energies about" in told
    assert "--no-label-check" in told
    assert not model.exists()
    assert main(["data", str(path), "--json"]) == 0
    assert "24 of 60 frames have energies about" in " ".join(json.loads(capsys.readouterr().out)["notes"])
    assert main([*train, "--no-label-check", "--outliers", "keep"]) == 0
