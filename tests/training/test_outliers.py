"""Outliers: a wrong frame is found and named, right frames are left alone, and one bad frame does not ruin a fit."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from places import ROOT

sys.path.insert(0, str(ROOT))

from benchmarks.studies.damage import damaged

from qml_lightning import fit, load_dataset, recipes
from qml_lightning.cli import main
from qml_lightning.datasets.writers import write_extxyz
from qml_lightning.errors import InputError
from qml_lightning.linear.left_out import LeftOut
from qml_lightning.machine.compute import Compute
from qml_lightning.training.problem import Problem
from qml_lightning.training.screening import search as outliers
from qml_lightning.training.screening.decision import OutlierWarning, screened
from qml_lightning.training.screening.search import OutlierSearch, find_outliers
from small_models import SMALL, argon

BAD = 37


@pytest.fixture(scope="module")
def ethanol():
    return load_dataset("ethanol:train@100:160")


def test_residuals_without_a_group_are_those_of_a_regression_without_its_rows():
    random = np.random.RandomState(0)
    rows, targets, ridge = random.randn(60, 20), random.randn(60), 0.3
    groups = np.arange(60).reshape(10, 6)
    fitted = LeftOut.of(
        torch.from_numpy(rows.copy()), torch.from_numpy(targets), list(map(torch.from_numpy, groups)), ridge
    )
    for gone in ((), (2,), (2, 7)):
        residual, factor = fitted.without(gone).residuals()
        for s, group in enumerate(groups):
            rest = np.setdiff1d(np.arange(60), groups[[*gone, s]])
            stacked = np.vstack([rows[rest], np.sqrt(ridge) * np.eye(20)])
            weights = np.linalg.lstsq(stacked, np.append(targets[rest], np.zeros(20)))[0]
            covariance = np.linalg.inv(stacked.T @ stacked)
            np.testing.assert_allclose(residual[group], targets[group] - rows[group] @ weights, rtol=1e-8, atol=1e-10)
            wanted = 1.0 + np.einsum("ia,ab,ib->i", rows[group], covariance, rows[group])
            np.testing.assert_allclose(factor[group], wanted, rtol=1e-8)


def test_groups_that_alone_determine_some_weights_can_be_left_out():
    random = np.random.RandomState(0)
    rows, targets, ridge = random.randn(60, 40) * np.logspace(0, -6, 40), random.randn(60), 1e-9
    rows[:10], rows[:, :5] = 0.0, 0.0
    rows[:10, :5] = 1e3 * random.randn(10, 5)
    groups = list(torch.arange(60).split(10))
    fitted = LeftOut.of(torch.from_numpy(rows.copy()), torch.from_numpy(targets), groups, ridge)
    residual, _ = fitted.without([0]).residuals()
    weights = np.linalg.solve(rows[20:].T @ rows[20:] + ridge * np.eye(40), rows[20:].T @ targets[20:])
    np.testing.assert_allclose(residual[10:20], targets[10:20] - rows[10:20] @ weights, atol=1e-9)


@pytest.mark.parametrize(
    ("damage", "kinds"),
    [
        ("±5 eV/Å on two atoms", {"forces"}),
        ("largest force component with the wrong sign", {"forces"}),
        ("forces × −1", {"forces"}),
        ("energy + 1 eV", {"energies"}),
        ("one atom displaced by 0.3 Å", {"forces", "energies", "atoms"}),
        ("two elements exchanged", {"energies", "atoms"}),
    ],
)
def test_a_damaged_frame_is_the_only_outlier_and_its_kind_is_named(ethanol, damage, kinds):
    (found,) = find_outliers(Problem.of(damaged(ethanol, BAD, damage))).found
    assert found.structure == BAD
    assert found.kind in kinds


def test_the_energy_of_an_outlier_and_what_is_expected_are_in_ev(ethanol):
    (found,) = find_outliers(Problem.of(damaged(ethanol, BAD, "energy + 1 eV"))).found
    right = float(ethanol.labels.energies[BAD])
    assert found.value == pytest.approx(right + 1.0, abs=1e-6)
    assert found.expected == pytest.approx(right, abs=0.2)


@pytest.fixture(scope="module")
def silicon(shared_data):
    data = load_dataset(f"{shared_data}/zuo2020/Si.npz:train")
    return data, OutlierSearch.of(Problem.of(data), Compute())


@pytest.mark.parametrize(("damage", "kind"), [("energy + 5 eV", "energies"), ("stress × −1", "stress")])
def test_wrong_energies_and_stress_are_found_among_crystals_surfaces_and_melts(silicon, damage, kind):
    data, search = silicon
    stress = data.labels.stress.flatten(1).norm(dim=1)
    frame = int(stress.argsort()[int(0.75 * len(data))])  # a wrong sign means little where stress is small
    (found,) = search.with_labels(Problem.of(damaged(data, frame, damage))).outliers().found
    assert (found.structure, found.kind) == (frame, kind)


def test_clean_frames_are_no_outliers(ethanol):
    found = find_outliers(Problem.of(ethanol))
    assert found.checked == 60
    assert not found.found


def test_the_search_takes_no_random_numbers_from_its_user(ethanol):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    find_outliers(Problem.of(damaged(ethanol, BAD, "energy + 1 eV")))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_frame_leads_by_its_residual_over_the_largest_of_the_others(ethanol):
    bad = damaged(ethanol, BAD, "energy + 1 eV")
    first, second = OutlierSearch.of(Problem.of(bad), Compute()).judgements()
    energies = second.sized[second.kind == list(second.problem.targets).index("energies")].abs()
    assert int(energies.argmax()) == BAD  # the second fit judges energies alone, one of each frame
    largest, next_largest, *_ = energies.sort(descending=True).values.tolist()
    assert second.lead(BAD) == pytest.approx(largest / next_largest)
    assert second.lead(5) == pytest.approx(float(energies[5]) / largest)
    assert first.lead(BAD) > 1.0 > second.lead(5)


def test_structures_beyond_the_small_fits_are_judged_by_both_of_them(ethanol, monkeypatch):
    monkeypatch.setattr(outliers, "MOST_ROWS", 1)
    search = OutlierSearch.of(Problem.of(ethanol), Compute())
    assert len(search.outside) == 10
    assert not search.outliers().found
    frame = int(search.outside[4])
    (found,) = search.with_labels(Problem.of(damaged(ethanol, frame, "energy + 1 eV"))).outliers().found
    assert (found.structure, found.kind) == (frame, "energies")


def test_an_absurd_frame_does_not_hide_others(ethanol):
    data = ethanol
    for frame, damage in ((3, "energy + 1e6 eV"), (50, "one force of 1e6 eV/Å"), (BAD, "±10 eV/Å on two atoms")):
        data = damaged(data, frame, damage)
    assert sorted(find_outliers(Problem.of(data)).structures) == [3, BAD, 50]


def test_the_message_names_the_frame_in_the_file_the_atom_the_value_and_its_size(ethanol):
    forces = ethanol.labels.forces.clone()
    forces[9 * BAD + 4, 1] += 20.0
    forces[9 * BAD + 7, 1] -= 19.99
    data = replace(ethanol, labels=replace(ethanol.labels, forces=forces))
    (line,) = screened(data, "drop").lines
    assert line.startswith(
        f"frame {ethanol.frames[BAD]}: the force y on atom 4 (H) is {float(forces[9 * BAD + 4, 1]):.4g}"
    )
    assert "σ" in line


def test_too_few_structures_to_look_for_outliers_are_told_where_they_were_to_be_dropped(ethanol):
    few = ethanol.select(range(20))
    assert "20 structures are too few" in screened(few, "drop").text
    assert screened(few, "tell").text == ""


@pytest.mark.parametrize("threads", [1, 2])
def test_labels_of_a_pair_potential_which_are_met_exactly_give_no_false_alarm(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert not find_outliers(Problem.of(argon(50))).found
    finally:
        torch.set_num_threads(before)


def test_what_is_asked_for_is_done_about_outliers(ethanol):
    bad = damaged(ethanol, BAD, "±50 eV/Å on two atoms")
    rest = ethanol.select([s for s in range(len(ethanol)) if s != BAD])
    with pytest.warns(OutlierWarning, match=f"frame {ethanol.frames[BAD]}: the force"):
        dropped = fit(bad, SMALL, outliers="drop")
    assert torch.equal(dropped.weights, fit(rest, SMALL).weights)
    with pytest.raises(InputError, match="--outliers drop"):
        fit(bad, SMALL, outliers="stop")
    with pytest.raises(InputError, match="a fit would follow them"):
        fit(bad, SMALL, outliers="tell")
    assert not torch.equal(fit(bad, SMALL).weights, dropped.weights)
    with pytest.raises(InputError, match="keep, tell, drop, stop"):
        fit(bad, SMALL, outliers="ignore")


def test_train_stops_where_a_frame_would_ruin_the_fit_and_goes_on_without_it_if_asked(
    ethanol, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    bad = damaged(ethanol, BAD, "±100 eV/Å on two atoms")
    write_extxyz("bad.extxyz", bad.structures, energies=bad.labels.energies, forces=bad.labels.forces)
    tiny = ["--features", "256", "--rank", "64", "--ridge", "1e-8", "--no-label-check"]
    assert main(["train", "bad.extxyz", "-m", "m", *tiny]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"frame {BAD}: the force" in told
    assert "--outliers keep" in told
    assert main(["train", "bad.extxyz", "-m", "m", *tiny, "--outliers", "drop"]) == 0
    told = capsys.readouterr()
    assert "59 with 531 atoms" in told.out
    assert f"frame {BAD}: the force" in told.out + told.err


def test_a_ridge_that_explains_nothing_is_refused(ethanol):
    data = damaged(damaged(ethanol, BAD, "±500 eV/Å on two atoms"), BAD, "energy + 50 eV")
    recipe = recipes.Automatic(replace(recipes.DEFAULT, features=replace(recipes.DEFAULT.features, n_features=512)))
    with pytest.raises(InputError, match="no prediction at all"):
        fit(data, recipe)
