"""Structures that teach most: the choice is greedy and D-optimal, and takes no two that are alike."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from ase.build import molecule
from ase.io import read, write
from typer.testing import CliRunner

from qml_lightning import fit
from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.cli import app
from qml_lightning.errors import InputError
from qml_lightning.study.selection import least_variance, most_informative, select
from qml_lightning.training.sweep import equations_of
from small_models import molecules, recipe
from structures_for_tests import rattled

SETTINGS = recipe(n_features=256, ridge=1e-4)


def test_each_choice_adds_most_to_the_determinant():
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(12, 3, 7)))
    found = most_informative(rows, 5)
    matrix = torch.eye(7, dtype=torch.float64)
    for k, (chosen, gain) in enumerate(zip(found.index, found.gains, strict=True)):
        left = [s for s in range(12) if s not in found.index[:k]]
        more = {s: float(torch.logdet(matrix + rows[s].T @ rows[s]) - torch.logdet(matrix)) for s in left}
        assert chosen == max(more, key=more.__getitem__)
        assert gain == pytest.approx(more[chosen])
        matrix = matrix + rows[chosen].T @ rows[chosen]


def test_each_choice_takes_most_from_the_variance_of_the_targets():
    random = np.random.default_rng(0)
    rows, targets = (torch.from_numpy(random.normal(size=(n, 3, 7))) for n in (12, 5))
    found = least_variance(rows, targets, 5)
    matrix, all_targets = torch.eye(7, dtype=torch.float64), targets.flatten(0, 1)

    def variance(matrix):
        return float((all_targets @ torch.linalg.inv(matrix) * all_targets).sum())

    for k, (chosen, gain) in enumerate(zip(found.index, found.gains, strict=True)):
        left = [s for s in range(12) if s not in found.index[:k]]
        less = {s: variance(matrix) - variance(matrix + rows[s].T @ rows[s]) for s in left}
        assert chosen == max(less, key=less.__getitem__)
        assert gain == pytest.approx(less[chosen] / variance(torch.eye(7, dtype=torch.float64)))
        matrix = matrix + rows[chosen].T @ rows[chosen]


def test_variance_is_taken_where_the_pool_is_and_the_determinant_grows_at_its_edge():
    rows = torch.eye(7, dtype=torch.float64)[:, None, :].repeat(3, 1, 1)  # seven kinds, three of each
    rows[6] *= 1.5  # one that is far from all others
    targets = rows.clone()
    targets[[1, 8, 15]] *= 2  # a kind that is more uncertain wherever it is
    assert most_informative(rows, 1).index == (6,)
    assert least_variance(rows, targets, 1).index[0] in (1, 8, 15)


@pytest.mark.parametrize("criterion", ["variance", "determinant"])
def test_of_two_that_are_alike_one_is_enough_and_what_is_far_comes_first(criterion):
    equations = equations_of(molecules(40), SETTINGS)
    near = [rattled(molecule("CH3CH2OH"), 900 + k, 0.1) for k in range(6)]
    far = molecule("CH3CH2OH")
    far.set_distance(2, 3, 2.5, fix=0)
    again = far.copy()
    again.rattle(0.002, seed=1)
    pool = structures_from_ase([*near, far, again])
    found = select(equations, pool, 7, criterion=criterion)
    assert found.index[0] in (6, 7)
    assert not {6, 7} <= {*found.index}
    assert list(found.gains) == sorted(found.gains, reverse=True)
    assert sorted(select(equations, pool, 8, criterion=criterion).index) == list(range(8))


def test_more_than_the_pool_has_is_refused():
    with pytest.raises(InputError, match="1 to 3 structures"):
        select(equations_of(molecules(12), SETTINGS), molecules(3).structures, 4)


def test_an_unknown_criterion_is_refused():
    with pytest.raises(InputError, match="variance or determinant"):
        select(equations_of(molecules(12), SETTINGS), molecules(3).structures, 2, criterion="luck")


def test_the_command_writes_the_structures_that_were_chosen(tmp_path):
    equations, pool, chosen = (tmp_path / name for name in ("model.equations", "pool.xyz", "chosen.extxyz"))
    fit(molecules(20), SETTINGS, equations=equations)
    frames = [rattled(molecule("CH3CH2OH"), 900 + k, 0.1) for k in range(6)]
    write(pool, frames)
    given = ["select", str(pool), "-n", "2", "--equations", str(equations), "-o", str(chosen), "--json"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    index = json.loads(done.stdout)["index"]
    for atoms, number in zip(read(chosen, ":"), index, strict=True):
        np.testing.assert_allclose(atoms.positions, frames[number].positions, atol=1e-6)


def test_a_model_names_its_equations_and_those_of_another_one_are_refused(tmp_path):
    pool, chosen = tmp_path / "pool.xyz", tmp_path / "chosen.extxyz"
    for seed, name in enumerate(("one", "two")):
        potential = fit(molecules(20), replace(SETTINGS, seed=seed), equations=tmp_path / f"{name}.equations")
        potential.save(tmp_path / f"{name}.safetensors")
    write(pool, [rattled(molecule("CH3CH2OH"), 900 + k, 0.1) for k in range(6)])

    def run(*given):
        return CliRunner().invoke(app, ["select", str(pool), "-n", "2", "-o", str(chosen), "--json", *map(str, given)])

    by_model = run("--model", tmp_path / "one.safetensors")
    by_equations = run("--equations", tmp_path / "one.equations", "--overwrite")
    assert by_model.exit_code == 0, by_model.output
    assert json.loads(by_model.stdout)["index"] == json.loads(by_equations.stdout)["index"]
    (tmp_path / "two.equations").rename(tmp_path / "one.equations")
    other = run("--model", tmp_path / "one.safetensors", "--overwrite")
    assert isinstance(other.exception, InputError)
    assert "does not hold the equations of" in str(other.exception)
    assert "--model" in str(run("--overwrite").exception)
