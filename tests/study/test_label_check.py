"""The label check: healthy data sets pass, each kind of corruption is found and named."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from qml_lightning import Dataset, load_dataset
from qml_lightning.atoms.units import Units
from qml_lightning.study.label_check import check_labels


def altered(data: Dataset, *, energies=lambda e: e, forces=lambda f: f) -> Dataset:
    labels = replace(
        data.labels, energies=energies(data.labels.energies.clone()), forces=forces(data.labels.forces.clone())
    )
    return replace(data, labels=labels)


def shuffled(energies: torch.Tensor) -> torch.Tensor:
    return energies[torch.randperm(len(energies), generator=torch.Generator().manual_seed(1))]


def offset(by: float, every: int):
    def change(energies: torch.Tensor) -> torch.Tensor:
        energies[::every] += by
        return energies

    return change


@pytest.fixture(scope="module")
def ethanol() -> Dataset:
    return load_dataset("ethanol:train").subsample(200, 0)


def test_ethanol_is_healthy(ethanol):
    report = check_labels(ethanol)
    assert report.ok
    assert not report.findings
    assert report.slope == pytest.approx(1.0, abs=0.1)
    assert report.correlation > 0.9


@pytest.mark.parametrize("file", ["zuo2020/Si.npz", "small_mols/small_mols.npz"])
def test_crystals_and_mixed_molecules_are_healthy(shared_data, file):
    data = load_dataset(shared_data / f"{file}:train")
    assert check_labels(data).ok
    flipped = check_labels(altered(data, forces=lambda f: -f))
    assert flipped.refuse
    assert "wrong sign" in flipped.findings[0]


def test_forces_with_the_sign_of_a_gradient_are_refused(ethanol):
    report = check_labels(altered(ethanol, forces=lambda f: -f))
    assert report.refuse
    assert report.slope == pytest.approx(-1.0, abs=0.1)
    assert "wrong sign" in report.findings[0]


@pytest.mark.parametrize(
    ("energy_factor", "force_factor", "named"),
    [
        (23.0605, 1.0, "energies in kcal/mol and forces in eV/Å"),
        (1.0, 23.0605, "energies in eV and forces in kcal/mol/Å"),
        (1.0, 0.529177, "forces in kcal/mol/Bohr"),
        (1.0, 1 / 51.4221, "energies in eV and forces in Hartree/Bohr"),
        (1 / 27.2114, 1.0, "energies in Hartree and forces in eV/Å"),
    ],
)
def test_a_mix_up_of_units_is_refused_and_the_units_are_named(ethanol, energy_factor, force_factor, named):
    report = check_labels(altered(ethanol, energies=lambda e: e * energy_factor, forces=lambda f: f * force_factor))
    assert report.refuse
    assert named in report.findings[0]
    assert "--energy-unit" in report.findings[0]


def test_shuffled_energies_do_not_belong_to_their_frames(ethanol):
    report = check_labels(altered(ethanol, energies=shuffled))
    assert not report.ok
    assert report.refuse
    assert "unrelated" in report.findings[0]


@pytest.mark.parametrize("by", [0.5, 2.0])  # far ones are refused: see test_contradictions
def test_frames_with_another_zero_are_counted_and_the_first_are_named(ethanol, by):
    report = check_labels(altered(ethanol, energies=offset(by, 10)))
    assert not report.ok
    assert report.slope == pytest.approx(1.0, abs=0.1)
    assert "20 of 200 frames" in report.findings[0]
    assert "0, 10, 20, 30, 40" in report.findings[0]


def test_few_structures_or_one_kind_of_label_say_nothing(ethanol):
    assert check_labels(altered(ethanol, forces=lambda f: -f).subsample(10, 0)).ok
    assert check_labels(replace(ethanol, labels=replace(ethanol.labels, forces=None))).ok
    assert check_labels(altered(ethanol, forces=torch.zeros_like)).ok


def test_a_forgotten_label_here_and_there_does_not_matter(ethanol):
    def forgetful(energies: torch.Tensor) -> torch.Tensor:
        energies[::7] = torch.nan
        return energies

    assert check_labels(altered(ethanol, energies=forgetful)).correlation > 0.9


def test_hartree_with_hartree_per_bohr_read_as_ev_is_named_first(ethanol):
    hartree, bohr = 27.211386, 0.529177
    source = replace(ethanol.source, units=Units("eV", "Å"))  # as extended XYZ is read
    data = altered(replace(ethanol, source=source), energies=lambda e: e / hartree, forces=lambda f: f / hartree * bohr)
    report = check_labels(data)
    assert report.refuse
    assert "as for energies in Hartree and forces in Hartree/Bohr" in report.findings[0]


@pytest.mark.parametrize("change", [shuffled, offset(7.0, 2)])
def test_structures_of_several_charges_are_not_called_shuffled(ethanol, change):
    data = altered(ethanol, energies=change)
    several = replace(data, source=replace(data.source, varies=("charge",)))
    report = check_labels(several)
    assert not report.refuse
    (finding,) = report.findings
    assert "differ in charge, which is not modelled" in finding
    assert "shuffled" not in finding
    assert not [text for text in check_labels(data).findings if "charge" in text]
