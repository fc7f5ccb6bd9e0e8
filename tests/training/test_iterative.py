"""The iterative solver in a fit: it goes on where it was stopped, serves several ridges, and is taken where it pays."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from qml_lightning import Recipe, fit
from qml_lightning.atoms.structures import Labels, Structures
from qml_lightning.errors import InputError, SolveError
from qml_lightning.linear.ridge import Ridge, next_ridge
from qml_lightning.machine.compute import Compute
from qml_lightning.machine.progress import silent
from qml_lightning.model.baseline import found_baseline
from qml_lightning.model.basis import Basis
from qml_lightning.model.recipe import DEFAULT, Automatic, SolverSettings
from qml_lightning.training.choice.rules import WORTH, refinement
from qml_lightning.training.chosen_recipe import Chosen
from qml_lightning.training.plan import plan_fit
from qml_lightning.training.problem import Problem
from qml_lightning.training.solvers.iterative import prepared
from small_models import molecules, recipe

SOLVER = SolverSettings("iterative", preconditioner_features=256, held_out=0.0, tolerance=1e-9)
SETTINGS = recipe(n_features=512, ridge=1e-4, solver=SOLVER, precision="float32", paired=True)
CHOSEN = {"chosen": ["ridge"], "least_ridge": 0.0}


class StoppedError(Exception):
    """As if the power had gone."""


def _stopped_after(number: int):
    def tell(what: str, done: int, of: int, *_: object) -> None:
        if what == "iterations" and done == number:
            raise StoppedError

    return tell


def test_a_fit_that_was_stopped_goes_on_from_its_restart_file(tmp_path):
    data, path = molecules(20), tmp_path / "model.checkpoint"
    whole = fit(data, SETTINGS)
    with pytest.raises(StoppedError):
        fit(data, SETTINGS, checkpoint=path, checkpoint_seconds=0.0, progress=_stopped_after(6))
    seen: list[int] = []

    def tell(what: str, done: int, of: int, *_: object) -> None:
        if what == "iterations":
            seen.append(done)

    resumed = fit(data, SETTINGS, checkpoint=path, resume=True, progress=tell)
    assert seen[0] == 6  # the file is of step 5
    assert len(resumed.provenance.solution["history"]) == len(whole.provenance.solution["history"])
    one, two = (potential.predict(data.structures).forces for potential in (whole, resumed))
    assert (one - two).abs().max() < 1e-6 * one.abs().max()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ridge": 1e-3}, "the recipe is another one"),
        ({"seed": 5}, "the recipe is another one"),
        ({}, "the structures or their labels are others"),
    ],
    ids=str,
)
def test_a_restart_file_of_another_fit_is_refused(changes, words, tmp_path):
    path = tmp_path / "model.checkpoint"
    with pytest.raises(StoppedError):
        fit(molecules(12), SETTINGS, checkpoint=path, checkpoint_seconds=0.0, progress=_stopped_after(3))
    with pytest.raises(InputError, match="did not end"):
        fit(molecules(12), SETTINGS, checkpoint=path)
    data = molecules(12) if changes else molecules(12, seed=7)
    with pytest.raises(InputError, match=words):
        fit(data, replace(SETTINGS, **changes), checkpoint=path, resume=True)


def test_a_fit_that_chose_its_recipe_goes_on_with_the_same(tmp_path):
    start = replace(SETTINGS, solver=replace(SOLVER, tolerance=1e-2))
    data, path, automatic = molecules(40), tmp_path / "model.checkpoint", Automatic(start, ("ridge",))
    with pytest.raises(StoppedError):
        fit(data, automatic, checkpoint=path, checkpoint_seconds=0.0, progress=_stopped_after(3))
    told: list[str] = []
    resumed = fit(data, automatic, checkpoint=path, resume=True, progress=lambda what, *_: told.append(what))
    assert "choice" not in told
    assert resumed.recipe == fit(data, automatic).recipe


def _choose(monkeypatch, recipe):
    """Let this recipe be the one that is chosen, with a ridge that may be refined."""
    chosen = Chosen(recipe, Ridge(recipe.ridge, refinement(0.0)), CHOSEN)
    monkeypatch.setattr(
        "qml_lightning.training.fit._chosen",
        lambda asked, *_: chosen if isinstance(asked, Automatic) else Chosen.given(asked),
    )


def _moved(monkeypatch, tolerance=1e-6):
    """Labels with noise, and a choice whose ridge is a hundred times too small for them."""
    data = molecules(60)
    noise = torch.from_numpy(np.random.default_rng(5).normal(scale=2.0, size=data.labels.forces.shape))
    data = replace(data, labels=replace(data.labels, forces=data.labels.forces + noise))
    start = replace(SETTINGS, ridge=1e-5, solver=replace(SOLVER, held_out=0.2, tolerance=tolerance))
    _choose(monkeypatch, start)
    return data, Automatic(start, ("ridge",)), start


def test_a_ridge_that_was_chosen_is_left_for_one_that_held_out_structures_like_better(monkeypatch):
    data, automatic, start = _moved(monkeypatch)
    given, free = fit(data, start), fit(data, automatic)
    assert given.recipe.ridge == start.ridge  # what is given is taken
    assert free.recipe.ridge > start.ridge
    (of_given,) = _ended(given).values()
    ended = _ended(free)
    assert ended[start.ridge] == of_given
    assert ended[free.recipe.ridge] < (1 - WORTH) * of_given
    assert (1 - WORTH) * ended[free.recipe.ridge] <= min(ended.values())
    assert list(ended)[-1] > free.recipe.ridge  # one more was tried, and was not worth it


def test_the_weights_are_those_of_the_ridge_that_is_told(monkeypatch):
    data, automatic, start = _moved(monkeypatch, tolerance=1e-8)
    # only the residual ends an iteration
    monkeypatch.setattr("qml_lightning.linear.krylov._settled", lambda *_: False)
    free = fit(data, automatic)
    assert free.recipe.ridge > start.ridge
    alone = fit(data, free.recipe)  # with another preconditioner
    one, two = (potential.predict(data.structures).forces for potential in (free, alone))
    assert (one - two).abs().max() < 1e-6 * one.abs().max()


def test_a_ridge_with_which_it_does_not_converge_is_no_failure_where_another_one_does(monkeypatch):
    data, automatic, start = _moved(monkeypatch)
    history = fit(data, automatic).provenance.solution["history"]
    steps = Counter(step["ridge"] for step in history)
    short = replace(start, solver=replace(start.solver, most_iterations=steps[start.ridge] - 1))
    _choose(monkeypatch, short)
    with pytest.raises(SolveError, match="has not converged"):
        fit(data, short)
    assert fit(data, automatic).recipe.ridge > start.ridge


@pytest.mark.parametrize(
    ("errors", "least", "wanted"),
    [
        ({}, 0.0, None),
        ({1e-6: 1.0}, 0.0, 3.2e-6),
        ({1e-6: 1.0, 3.2e-6: 0.9}, 0.0, 1e-5),
        ({1e-6: 1.0, 3.2e-6: 0.9, 1e-5: 0.91}, 0.0, None),
        ({1e-6: 1.0, 3.2e-6: 1.01}, 0.0, None),
        ({1e-6: 1.0, 3.2e-6: 0.99}, 0.0, None),
        ({1e-6: 1.0, 3.2e-6: 1.1}, 0.0, 3.2e-7),
        ({1e-6: 1.0, 3.2e-6: 1.1}, 5e-7, None),
        ({1e-6: 1.0, 3.2e-6: 1.1, 3.2e-7: 0.9}, 0.0, 1e-7),
        ({1e-6: 1.0, 3.2e-6: 1.1, 3.2e-7: 0.99}, 0.0, None),
        ({1e-6: 1.0, 3.2e-6: 1.1, 3.2e-7: 1.2}, 0.0, None),
    ],
)
def test_ridges_are_tried_downhill_in_the_error_of_held_out_structures(errors, least, wanted):
    assert next_ridge(errors, refinement(least)) == wanted


def _ended(potential) -> dict[float, float]:
    """The last error on held-out structures with each ridge."""
    history = potential.provenance.solution["history"]
    return {step["ridge"]: step["held_out"] for step in history if step["held_out"] is not None}


@pytest.mark.parametrize("tries", [1, 2])
def test_a_fit_that_was_stopped_after_its_ridge_was_changed_goes_on_with_that(tries, tmp_path, monkeypatch):
    data, automatic, _ = _moved(monkeypatch)
    whole, path = fit(data, automatic), tmp_path / "model.checkpoint"
    ridges = [step["ridge"] for step in whole.provenance.solution["history"]]
    assert [point["ridge"] for point in whole.provenance.solution["ridges"]] == list(dict.fromkeys(ridges))
    different = list(dict.fromkeys(ridges))
    after, steps = ridges.index(different[tries]) + 2, itertools.count(1)

    def tell(what: str, *_: object) -> None:
        if what == "iterations" and next(steps) == after:
            raise StoppedError

    with pytest.raises(StoppedError):
        fit(data, automatic, checkpoint=path, checkpoint_seconds=0.0, progress=tell)
    resumed = fit(data, automatic, checkpoint=path, resume=True)
    assert resumed.recipe == whole.recipe
    assert [step["ridge"] for step in resumed.provenance.solution["history"]] == ridges
    one, two = (potential.predict(data.structures).forces for potential in (whole, resumed))
    assert (one - two).abs().max() < 1e-6 * one.abs().max()


def _problem(data):
    structures = data.structures
    return Problem(
        structures, data.labels, found_baseline(structures, data.labels.energies, structures.elements).baseline
    )


def test_several_ridges_from_one_small_model_are_the_fits_of_each():
    data, ridges = molecules(20), [1e-2, 1e-4]
    problem = _problem(data)
    basis = Basis.draw(data.structures, SETTINGS).ready(Compute())
    work = prepared(basis, problem, SETTINGS, silent)
    for ridge in ridges:
        weights = work.solve(Ridge(ridge)).weights
        direct = fit(data, replace(SETTINGS, ridge=ridge, solver=SolverSettings("direct"), precision="float64"))
        at = direct.predict(data.structures).forces
        mine = replace(direct, weights=weights).predict(data.structures).forces
        assert (at - mine).abs().max() < 1e-4 * at.abs().max(), ridge


def _sized(n_structures: int, n_atoms: int, kinds: tuple[str, ...]) -> Problem:
    """A problem of that size; only its size is asked."""
    n = n_structures * n_atoms
    offsets = torch.arange(0, n + 1, n_atoms)
    positions = torch.arange(3 * n, dtype=torch.float64).view(n, 3)
    structures = Structures(
        torch.ones(n, dtype=torch.int64), positions, offsets,
        torch.zeros(n_structures, 3, 3, dtype=torch.float64), torch.zeros(n_structures, 3, dtype=torch.bool),
    )  # fmt: skip
    labels = Labels(
        torch.zeros(n_structures, dtype=torch.float64) if "energies" in kinds else None,
        torch.zeros(n, 3, dtype=torch.float64) if "forces" in kinds else None,
    )
    return Problem(structures, labels, found_baseline(structures, labels.energies, (1,)).baseline)


@pytest.mark.parametrize(
    ("n_structures", "n_atoms", "kinds", "n_features", "iterates"),
    [
        (1000, 21, ("energies", "forces"), 8192, False),
        (1000, 9, ("energies", "forces"), 16384, True),
        (1000, 9, ("energies", "forces"), 12288, False),
        (1000, 21, ("energies", "forces"), 32768, True),
        (1000, 21, ("energies", "forces"), 131072, True),
        (1000, 9, ("energies", "forces"), 65536, True),
        (20000, 18, ("energies",), 32768, False),  # few rows for many atoms
        (50, 9, ("energies", "forces"), 32768, False),
    ],
)
def test_the_iteration_is_taken_where_it_saves_a_third(n_structures, n_atoms, kinds, n_features, iterates):
    settings = replace(DEFAULT, features=replace(DEFAULT.features, n_features=n_features))
    everything = Compute(memory=SimpleNamespace(left=2**45, limit=None))
    plan = plan_fit(_sized(n_structures, n_atoms, kinds), settings, everything)
    assert (plan.solver == "iterative") is iterates


def test_what_forms_equations_is_solved_directly(tmp_path, monkeypatch):
    monkeypatch.setattr("qml_lightning.training.choice.rules.SAVES", 0.0)  # the iteration seems cheaper
    data, settings = molecules(12), replace(SETTINGS, solver=replace(SOLVER, method="automatic"))
    assert isinstance(settings, Recipe)
    assert fit(data, settings).provenance.solution["solver"] == "iterative"
    assert fit(data, settings, memory_limit=10 * 2**30).provenance.solution["solver"] == "iterative"
    assert fit(data, settings, equations=tmp_path / "e").provenance.solution["solver"] == "direct"


def test_own_weights_of_each_element_are_those_of_the_direct_solution():
    data = molecules(12)
    settings = replace(SETTINGS, precision="float64").with_own_weights()
    iterated = fit(data, settings)
    direct = fit(data, replace(settings, solver=SolverSettings("direct")))
    assert len(iterated.weights) == 512 * len(iterated.elements)
    assert (iterated.weights - direct.weights).abs().max() < 1e-5 * direct.weights.abs().max()


def test_a_search_that_iterates_gives_own_weights_and_keeps_them_when_it_is_resumed(tmp_path):
    data, path = molecules(40), tmp_path / "model.checkpoint"
    search = Automatic(replace(SETTINGS, solver=replace(SOLVER, held_out=0.1)), ("ridge", "blocks"))
    with pytest.raises(StoppedError):
        fit(data, search, checkpoint=path, checkpoint_seconds=0.0, progress=_stopped_after(3))
    resumed = fit(data, search, checkpoint=path, resume=True)
    assert resumed.recipe.features.blocks
    assert len(resumed.weights) == 512 * len(resumed.elements)
    assert not fit(data, search.changed({"blocks": False})).recipe.features.blocks
