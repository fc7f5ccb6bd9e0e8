"""The solver gives numpy's ridge regression, whatever the form of the equations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qml_lightning.errors import SolveError
from qml_lightning.linear.cholesky import factorised, substituted
from qml_lightning.linear.direct import Term, solve
from qml_lightning.linear.normal_equations import Gram, Rows, append, equations_for
from qml_lightning.linear.ridge import Ridge, left_out
from qml_lightning.training.choice.rules import WORTH, refinement


def _problem(rows: int, columns: int, seed: int = 0):
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, columns)), random.normal(size=rows)


def _ridge_regression(parts, ridge):
    """By stacking sqrt(ridge)·1 below the rows and asking for least squares."""
    z = np.concatenate([weight * z for z, _, weight in parts])
    y = np.concatenate([weight * y for _, y, weight in parts])
    n = z.shape[1]
    return np.linalg.lstsq(
        np.concatenate([z, np.sqrt(ridge) * np.eye(n)]), np.concatenate([y, np.zeros(n)]), rcond=None
    )[0]


def _gathered(z, y, form):
    equations = form(z)
    for run in np.array_split(np.arange(len(z)), 7):
        append(equations, torch.from_numpy(z[run]), torch.from_numpy(y[run]))
    return equations


FORMS = {"rows": lambda z: Rows(z.shape[1], len(z)), "gram": lambda z: Gram(z.shape[1])}


@pytest.mark.parametrize("second", FORMS)
@pytest.mark.parametrize("first", FORMS)
@pytest.mark.parametrize("sizes", [(10, 25, 60), (100, 200, 60)], ids=["fewer rows than columns", "more rows"])
def test_weights_are_those_of_ridge_regression(first, second, sizes):
    n1, n2, columns = sizes
    (z1, y1), (z2, y2) = _problem(n1, columns, 1), _problem(n2, columns, 2)
    terms = [Term(_gathered(z1, y1, FORMS[first]), 3.0), Term(_gathered(z2, y2, FORMS[second]))]
    found = solve(terms, Ridge(1e-3))
    assert (found.ridge, found.chosen, found.report) == (1e-3, False, {})
    assert np.allclose(found.weights, _ridge_regression([(z1, y1, 3.0), (z2, y2, 1.0)], 1e-3), rtol=1e-8, atol=1e-10)


def test_the_form_is_chosen_by_the_number_of_rows():
    assert isinstance(equations_for(10, 20), Rows)
    assert isinstance(equations_for(30, 20), Gram)


def test_the_gram_matrix_does_not_depend_on_how_rows_come(monkeypatch):
    import qml_lightning.linear.normal_equations as normal

    monkeypatch.setattr(normal, "BUFFER_BYTES", 8 * 150 * 16)  # sixteen rows wait at most
    monkeypatch.setitem(normal.DIAGONAL, "cpu", 64)
    z, y = _problem(301, 150)
    gram = _gathered(z, y, FORMS["gram"])
    gram.flush()
    assert np.allclose(np.tril(gram.gram.numpy()), np.tril(z.T @ z))
    assert np.allclose(gram.moment[:, 0].numpy(), z.T @ y)
    assert gram.n == 301


def test_a_matrix_that_is_not_positive_definite_tells_which_ridge_would_do():
    z, y = _problem(30, 4)
    z = np.concatenate([z, z], 1)  # every column twice: singular
    with pytest.raises(SolveError, match="not positive definite") as failure:
        solve([Term(_gathered(z, y, FORMS["gram"]))], Ridge(0.0))
    ridge = float(str(failure.value).split("A ridge of ")[1].split(" ")[0])
    solve([Term(_gathered(z, y, FORMS["gram"]))], Ridge(ridge))


@pytest.mark.parametrize("rows", [30, 6], ids=["normal equations", "dual form"])
def test_a_chosen_ridge_that_is_lost_in_rounding_is_made_larger_and_a_given_one_is_refused(rows, monkeypatch):
    monkeypatch.setattr("qml_lightning.training.choice.rules.LARGER", (1e3, 1e27, 1e30))
    z, y = _problem(rows, 4)
    z = np.concatenate([z, z], 1)
    form = FORMS["gram" if rows == 30 else "rows"]
    with pytest.warns(UserWarning, match=r"The ridge 1e-30 is lost in rounding; 0\.001 was taken"):
        found = solve([Term(_gathered(z, y, form))], Ridge(1e-30, refinement(0.0)))
    assert found.chosen
    assert found.ridge == pytest.approx(1e-3)
    wanted = np.linalg.solve(z.T @ z + 1e-3 * np.eye(8), z.T @ y)
    assert np.allclose(found.weights.numpy(), wanted)
    with pytest.raises(SolveError, match="would do"):
        solve([Term(_gathered(z, y, form))], Ridge(1e-30))


def test_rows_that_are_not_finite_are_told_apart_from_a_small_ridge():
    z, y = _problem(30, 4)
    z[3, 2] = np.nan
    with pytest.raises(SolveError, match="not finite"):
        solve([Term(_gathered(z, y, FORMS["gram"]))], Ridge(1.0))


def _noisy():
    """Rows of a smooth function with noise, of which thirty pairs judge."""
    random = np.random.default_rng(3)
    x = random.normal(size=(90, 3))
    z = np.sqrt(2 / 256) * np.cos(x @ random.normal(size=(3, 256)) + random.uniform(0, 6.3, 256))
    y = np.sin(x).sum(1) + random.normal(scale=0.2, size=90)
    return z, y, [torch.tensor([k, 45 + k]) for k in range(30)]


def _errors(found):
    """Error on left-out rows with each ridge, in the order of trial."""
    return {tried["ridge"]: tried["left_out"] for tried in found.report["ridges"]}


def _refitted(z, y, groups, ridge):
    """What a fit without each group leaves of it."""
    left = []
    for group in groups:
        others = np.setdiff1d(np.arange(len(z)), group.numpy())
        left.append(y[group] - z[group] @ _ridge_regression([(z[others], y[others], 1.0)], ridge))
    return np.concatenate(left)


def test_rows_that_are_left_out_are_met_as_by_a_fit_without_them(monkeypatch):
    monkeypatch.setattr("qml_lightning.linear.ridge.BLOCK", 8)  # several groups at a time, and several times
    z, y, groups = _noisy()
    factor = torch.from_numpy(z @ z.T)
    assert factorised(factor, factor.diagonal().clone(), 1e-3)
    dual = substituted(factor, torch.from_numpy(y))
    assert np.allclose(left_out(factor, dual, groups), _refitted(z, y, groups, 1e-3), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("start", "least"), [(1e-6, 0.0), (10.0, 0.0), (10.0, 2.0)])
def test_the_ridge_is_that_with_which_rows_that_are_left_out_are_met_best(start, least):
    z, y, groups = _noisy()
    found = solve([Term(_gathered(z, y, FORMS["rows"]))], Ridge(start, refinement(least)), groups=groups)
    ridge, errors = found.ridge, _errors(found)
    assert min(errors) >= least
    assert next(iter(errors)) == start
    assert (1 - WORTH) * errors[ridge] <= min(errors.values()) <= errors[start]
    assert errors[ridge] == pytest.approx(np.sqrt(np.mean(_refitted(z, y, groups, ridge) ** 2)), rel=1e-5)
    assert np.allclose(found.weights, _ridge_regression([(z, y, 1.0)], ridge), rtol=1e-5, atol=1e-7)
    if least == 0.0:
        around = [np.mean(_refitted(z, y, groups, ridge * factor) ** 2) ** 0.5 for factor in (0.1, 10.0)]
        assert (1 - WORTH) * errors[ridge] < min(around)


def test_a_ridge_that_is_lost_in_rounding_is_left_before_others_are_tried(monkeypatch):
    monkeypatch.setattr("qml_lightning.training.choice.rules.LARGER", (1e27,))
    z, y, groups = _noisy()
    z = np.concatenate([z, z])  # a matrix that is singular
    rows = [Term(_gathered(z, np.concatenate([y, y]), FORMS["rows"]))]
    with pytest.warns(UserWarning, match="The ridge 1e-30 is lost in rounding"):
        found = solve(rows, Ridge(1e-30, refinement(0.0)), groups=groups)
    assert next(iter(_errors(found))) == pytest.approx(1e-3)
    monkeypatch.setattr("qml_lightning.training.choice.rules.LARGER", ())
    with pytest.raises(SolveError, match="would do"):
        solve(rows, Ridge(1e-30, refinement(0.0)), groups=groups)


@pytest.mark.parametrize("form", FORMS)
def test_a_ridge_is_compared_only_where_it_was_chosen_and_the_dual_form_suits_the_rows(form):
    z, y, groups = _noisy()
    for ridge in (Ridge(1e-6), Ridge(1e-6, refinement(0.0))):
        found = solve([Term(_gathered(z, y, FORMS[form]))], ridge, groups=groups)
        assert ("ridges" in found.report) == (ridge.chosen and form == "rows")
