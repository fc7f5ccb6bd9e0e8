"""The iterative solver in a fit: it goes on where it was stopped, serves several ridges, and is taken where it pays."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from qml_lightning import Recipe, fit
from qml_lightning.baseline import fit_baseline
from qml_lightning.basis import draw, make_basis
from qml_lightning.errors import InputError
from qml_lightning.iterative import iteration_is_cheaper, iterative_path
from qml_lightning.recipes import DEFAULT, Automatic, SolverSettings
from qml_lightning.structures import Labels, Structures
from qml_lightning.training import Problem
from qml_lightning.ways import Work
from small_models import molecules, recipe

SOLVER = SolverSettings("iterative", preconditioner_features=256, held_out=0.0, tolerance=1e-9)
SETTINGS = recipe(n_features=512, ridge=1e-4, solver=SOLVER, precision="float32", paired=True)


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
    assert len(resumed.provenance["solution"]["history"]) == len(whole.provenance["solution"]["history"])
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


def _moved(monkeypatch):
    """A choice whose ridge is far too small for labels with noise, and data with such labels."""
    data = molecules(60)
    noise = torch.from_numpy(np.random.default_rng(5).normal(scale=2.0, size=data.labels.forces.shape))
    data = replace(data, labels=replace(data.labels, forces=data.labels.forces + noise))
    start = replace(SETTINGS, ridge=1e-7, solver=replace(SOLVER, held_out=0.2, tolerance=1e-6))
    told = {"chosen": ["ridge"], "least_ridge": 0.0}
    monkeypatch.setattr(Work, "settled", lambda work, automatic, *_, **__: replace(work, recipe=start, choice=told))
    return data, Automatic(start, ("ridge",)), start


def test_a_ridge_that_was_chosen_is_left_for_one_that_held_out_structures_like_better(monkeypatch):
    data, automatic, start = _moved(monkeypatch)
    given, free = fit(data, start), fit(data, automatic)
    assert given.recipe.ridge == start.ridge  # what is given is taken
    assert free.recipe.ridge > start.ridge
    ridges = [step["ridge"] for step in free.provenance["solution"]["history"]]
    assert ridges[0] == start.ridge
    assert ridges[-1] == free.recipe.ridge
    (of_given,) = _ended(given).values()
    assert _ended(free)[free.recipe.ridge] < of_given


def test_a_ridge_that_had_only_looked_better_is_left_again(monkeypatch):
    data, automatic, start = _moved(monkeypatch)

    def worse(state, *_):
        return None if len({step.ridge for step in state.history}) > 1 else 1e3

    monkeypatch.setattr("qml_lightning.iterative.better_ridge", worse)
    free = fit(data, automatic)
    assert len(_ended(free)) == 2
    assert free.recipe.ridge == start.ridge
    ridges = [step["ridge"] for step in free.provenance["solution"]["history"]]
    assert [ridge for ridge, _ in itertools.groupby(ridges)] == [start.ridge, 1e3, start.ridge]
    given = fit(data, start)
    assert _ended(free)[start.ridge] < 1.1 * _ended(given)[start.ridge]


def test_no_other_ridge_is_looked_for_where_few_steps_are_left(monkeypatch):
    data, _, start = _moved(monkeypatch)
    steps = len(fit(data, start).provenance["solution"]["history"])
    short = replace(start, solver=replace(start.solver, most_iterations=steps + 1))
    told = {"chosen": ["ridge"], "least_ridge": 0.0}
    monkeypatch.setattr(Work, "settled", lambda work, automatic, *_, **__: replace(work, recipe=short, choice=told))
    history = fit(data, Automatic(short, ("ridge",))).provenance["solution"]["history"]
    assert {step["ridge"] for step in history} == {start.ridge}


def _ended(potential) -> dict[float, float]:
    """The last error on held-out structures with each ridge."""
    history = potential.provenance["solution"]["history"]
    return {step["ridge"]: step["held_out"] for step in history if step["held_out"] is not None}


def test_a_fit_that_was_stopped_after_its_ridge_was_changed_goes_on_with_that(tmp_path, monkeypatch):
    data, automatic, start = _moved(monkeypatch)
    whole, path = fit(data, automatic), tmp_path / "model.checkpoint"
    ridges = [step["ridge"] for step in whole.provenance["solution"]["history"]]
    after = 1 + next(k for k, ridge in enumerate(ridges) if ridge != start.ridge)
    with pytest.raises(StoppedError):
        fit(data, automatic, checkpoint=path, checkpoint_seconds=0.0, progress=_stopped_after(after + 2))
    resumed = fit(data, automatic, checkpoint=path, resume=True)
    assert resumed.recipe == whole.recipe
    assert [step["ridge"] for step in resumed.provenance["solution"]["history"]] == ridges
    one, two = (potential.predict(data.structures).forces for potential in (whole, resumed))
    assert (one - two).abs().max() < 1e-6 * one.abs().max()


def _problem(data):
    structures = data.structures
    return Problem(structures, data.labels, fit_baseline(structures, data.labels.energies, structures.elements))


def test_several_ridges_from_one_small_model_are_the_fits_of_each():
    data, ridges = molecules(20), [1e-2, 1e-4]
    problem = _problem(data)
    drawn = draw(data.structures, SETTINGS, np.random.default_rng(SETTINGS.seed))
    basis = make_basis(problem.baseline.elements, SETTINGS, *drawn, "cpu", None)
    told: list[str] = []
    found = iterative_path(basis, problem, SETTINGS, ridges, lambda what, done, *_: told.append(f"{what} {done}"))
    assert told.count("preconditioner 20") == 1
    for ridge, (weights, _) in zip(ridges, found, strict=True):
        direct = fit(data, replace(SETTINGS, ridge=ridge, solver=SolverSettings("direct"), precision="float64"))
        at = direct.predict(data.structures).forces
        mine = replace(direct, weights=weights).predict(data.structures).forces
        assert (at - mine).abs().max() < 1e-4 * at.abs().max(), ridge


def _sized(n_structures: int, n_atoms: int, kinds: tuple[str, ...]) -> Problem:
    """A problem of that size; only its size is asked."""
    n = n_structures * n_atoms
    offsets = torch.arange(0, n + 1, n_atoms)
    structures = Structures(
        torch.ones(n, dtype=torch.int64), torch.zeros(n, 3, dtype=torch.float64), offsets,
        torch.zeros(n_structures, 3, 3, dtype=torch.float64), torch.zeros(n_structures, 3, dtype=torch.bool),
    )  # fmt: skip
    labels = Labels(
        torch.zeros(n_structures, dtype=torch.float64) if "energies" in kinds else None,
        torch.zeros(n, 3, dtype=torch.float64) if "forces" in kinds else None,
    )
    return Problem(structures, labels, fit_baseline(structures, labels.energies, (1,)))


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
    assert iteration_is_cheaper(_sized(n_structures, n_atoms, kinds), settings, n_features) is iterates


def test_what_forms_equations_is_solved_directly(tmp_path, monkeypatch):
    monkeypatch.setattr("qml_lightning.ways.iteration_is_cheaper", lambda *_: True)
    data, settings = molecules(12), replace(SETTINGS, solver=replace(SOLVER, method="automatic"))
    assert isinstance(settings, Recipe)
    assert fit(data, settings).provenance["solution"]["solver"] == "iterative"
    for options in ({"equations": tmp_path / "e"}, {"memory_limit": 10 * 2**30}):
        assert fit(data, settings, **options).provenance["solution"]["solver"] == "direct"
