"""Structures held out by the choice, the uncertainty of their errors, and the table that tells of the trials."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qml_lightning.cli.tables import choice_table
from qml_lightning.training.choice.order import order_of_trials
from qml_lightning.training.choice.trials import standard_error


def test_without_groups_or_with_one_the_order_is_the_permutation_of_the_seed():
    wanted = np.random.RandomState(3).permutation(50)
    assert np.array_equal(order_of_trials(50, None, 3), wanted)
    assert np.array_equal(order_of_trials(50, np.full(50, "bulk"), 3), wanted)


def test_of_a_few_groups_the_last_part_of_each_comes_first():
    groups = np.array(["bulk"] * 30 + ["surface"] * 20)
    order = order_of_trials(50, groups, 0)
    assert sorted(order[:10]) == [24, 25, 26, 27, 28, 29, 46, 47, 48, 49]
    assert sorted(order) == list(range(50))


def test_of_many_groups_whole_ones_come_first():
    groups = np.repeat([f"molecule {k}" for k in range(25)], 4)
    order = order_of_trials(100, groups, 0)
    first, rest = set(groups[order[:20]]), set(groups[order[20:]])
    assert len(first) == 5
    assert not first & rest


def test_the_standard_error_is_the_spread_of_the_mean_over_draws_of_structures():
    random = np.random.RandomState(0)
    sizes = random.randint(3, 12, 60)
    errors = [np.abs(level + random.randn(n)) for level, n in zip(random.rand(60) * 5, sizes)]
    owners = torch.from_numpy(np.repeat(np.arange(60), sizes))
    found = standard_error(torch.from_numpy(np.concatenate(errors)), owners)
    draws = [np.concatenate([errors[s] for s in random.randint(0, 60, 60)]).mean() for _ in range(2000)]
    assert found == pytest.approx(np.std(draws), rel=0.1)


def trial(weight: float, ridge: float, score: float) -> dict[str, object]:
    return {
        "size": {"structures": 20, "n_features": 512}, "representation": "default", "rank": 128, "sigma": 8.0,
        "energy_weight": weight, "ridge": ridge, "errors": {"energies": 0.01, "forces": 0.05}, "score": score,
    }  # fmt: skip


def told(*trials, best) -> str:
    from rich.console import Console

    choice = {
        "best": best,
        "trials": list(trials),
        "judges": {"structures": 10, "more_energies": 0},
        "least_gain": 0.04,
        "least_gain_of_width": 0.05,
        "more_for": {"density-short": 0.08},
    }
    console = Console(width=140)
    with console.capture() as captured:
        console.print(*choice_table(choice))
    return captured.get()


def test_a_row_is_marked_as_chosen_even_if_a_ridge_that_is_too_small_was_better():
    best = trial(30.0, 1e-7, -3.0)
    page = told(trial(10.0, 1e-7, -2.9), trial(30.0, 1e-9, -3.1), best, best=best)
    assert page.count("chosen") == 1
    assert "1.0e-09" not in page


def test_a_better_row_that_is_not_chosen_says_why():
    best = trial(30.0, 1e-7, -3.0)
    page = told(trial(10.0, 1e-7, -3.02), trial(100.0, 1e-7, -3.2), best, best=best)
    assert "better by 2.0%: may be chance (below 4%)" in page
    assert "ridge too small for the fit" in page


def test_another_width_and_a_shorter_range_need_a_larger_gain():
    best = trial(30.0, 1e-7, -3.0)
    wider, shorter = (
        {**best, "score": -3.045, "sigma": 99.0},
        {**best, "score": -3.1, "representation": "density-short"},
    )
    page = told(wider, shorter, best, best=best)
    assert "better by 4.5%: may be chance (below 5%)" in page
    assert "better by 10.0%: may be chance (below 12%)" in page


def test_in_a_terminal_of_80_columns_no_word_of_the_trials_is_broken():
    from rich.console import Console

    best = {**trial(30.0, 1e-7, -3.0), "class_spread": 2.0}
    others = [
        {**trial(100.0, 1e-7, -3.02), "representation": "density-short", "class_spread": 0.0, "rank": 256},
        {**trial(10.0, 1e-7, -2.9), "representation": "cosine-series", "class_spread": 0.0},
    ]
    choice = {
        "best": best, "trials": [best, *others], "judges": {"structures": 10, "more_energies": 0}, "least_gain": 0.04,
    }  # fmt: skip
    console = Console(width=80)
    with console.capture() as captured:
        console.print(*choice_table(choice))
    lines = captured.get().splitlines()
    assert len([line for line in lines if "e-07" in line]) == 3  # a line for each trial, with its name
    assert all(any(name in line for line in lines if "e-07" in line) for name in ("density-short", "cosine-series"))
    assert "▸ chosen" in captured.get()
    assert "1) better by 2.0%: may be chance (below 4%)" in captured.get()
