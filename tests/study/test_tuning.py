"""The thorough search: the same as fits one by one, resumable, and its result is a recipe that train takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import qml_lightning.study.tuning as tune_module
from qml_lightning import evaluate, fit
from qml_lightning.cli import main
from qml_lightning.errors import InputError, SolveError
from qml_lightning.model.file import read_header
from qml_lightning.model.recipe import DEFAULT
from qml_lightning.model.recipe_file import field_of, load_recipe, save_recipe, with_fields
from qml_lightning.study.tuning import Search, tune
from small_models import argon, molecules, recipe

SMALL = recipe(n_features=64)
SPACE = {"features.sigma": [2.0, 8.0], "ridge": [1e-6, 1e-2], "energy_weight": [1.0, 10.0]}


@pytest.fixture(scope="module")
def tuning():
    return tune(molecules(20), Search(SPACE), SMALL)


def test_each_trial_is_the_fit_of_its_recipe_judged_by_the_structures_held_out(tuning):
    data = molecules(20)
    order = np.random.RandomState(SMALL.seed).permutation(20)
    learn, judge = data.select(np.sort(order[4:])), data.select(np.sort(order[:4]))
    assert len(tuning.trials) == 8
    for one in (tuning.trials[0], tuning.ranking[0]):
        found = evaluate(fit(learn, with_fields(SMALL, one.values)), judge)
        assert one.forces == [pytest.approx(found.forces.mae, rel=1e-6)]
        assert one.energy == [pytest.approx(found.energy_per_atom.mae, rel=1e-6)]
    assert tuning.ranking[0].score == min(one.score for one in tuning.trials)
    assert tuning.best == with_fields(SMALL, tuning.ranking[0].values)


def test_in_folds_every_structure_judges_once(monkeypatch):
    judged = []
    monkeypatch.setattr(tune_module, "evaluate", lambda model, data: judged.append(data) or evaluate(model, data))
    found = tune(molecules(10), Search({"ridge": [1e-6]}, folds=3), SMALL)
    energies = np.concatenate([part.labels.energies.numpy() for part in judged])
    assert sorted(energies) == sorted(molecules(10).labels.energies.tolist())
    assert len(found.trials[0].forces) == 3


def test_ridges_and_weights_share_a_pass_and_widths_do_not(monkeypatch):
    passes = []
    whole = tune_module.equations_of
    monkeypatch.setattr(tune_module, "equations_of", lambda *a, **k: passes.append(None) or whole(*a, **k))
    tune(molecules(10), Search(SPACE), SMALL)
    assert len(passes) == 2


def test_passes_at_once_find_what_passes_in_turn_find(tuning):
    at_once = tune(molecules(20), Search(SPACE), SMALL, jobs=2)
    assert [one.values for one in at_once.trials] == [one.values for one in tuning.trials]
    for one, other in zip(at_once.trials, tuning.trials, strict=True):
        assert one.forces == pytest.approx(other.forces, rel=1e-6)
        assert one.energy == pytest.approx(other.energy, rel=1e-6)


def test_a_search_that_was_stopped_goes_on_and_more_values_do_only_what_is_new(tmp_path, monkeypatch, tuning):
    journal = tmp_path / "journal"

    def stop(what, done, of, *_):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(molecules(20), Search(SPACE), SMALL, journal=journal, progress=stop)
    passes = []
    whole = tune_module.equations_of
    monkeypatch.setattr(tune_module, "equations_of", lambda *a, **k: passes.append(None) or whole(*a, **k))
    again = tune(molecules(20), Search(SPACE), SMALL, journal=journal)
    assert len(passes) == 1
    assert again.trials == tuning.trials
    assert tune(molecules(20), Search(SPACE), SMALL, journal=journal).trials == tuning.trials
    more = {**SPACE, "features.sigma": [2.0, 4.0, 8.0]}
    assert len(tune(molecules(20), Search(more), SMALL, journal=journal).trials) == 12
    assert len(passes) == 2
    with pytest.raises(InputError, match="is of another search: data differ"):
        tune(molecules(19), Search(SPACE), SMALL, journal=journal)
    with pytest.raises(InputError, match="recipe, folds, held_out differ"):
        tune(molecules(20), Search(SPACE, folds=2), replace(SMALL, rank=16), journal=journal)
    older = json.loads(journal.read_text())
    del older["recipe"]["representation"]["kind"]
    journal.write_text(json.dumps(older))
    assert tune(molecules(20), Search(SPACE), SMALL, journal=journal).trials == tuning.trials
    assert len(passes) == 2
    journal.write_text("{")
    with pytest.raises(InputError, match="Delete it to begin anew"):
        tune(molecules(20), Search(SPACE), SMALL, journal=journal)


def test_what_cannot_be_solved_loses_and_is_told_if_nothing_can():
    settings = recipe(n_features=1024)
    found = tune(argon(20), Search({"ridge": [0.0, 1e-6]}), settings)
    assert found.best.ridge == 1e-6
    with pytest.raises(SolveError, match="larger ridges"):
        tune(argon(20), Search({"ridge": [0.0]}), settings)


def test_combinations_are_all_or_drawn_by_the_seed():
    assert len(Search(SPACE).combinations(0)) == 8
    some = Search(SPACE, most=3).combinations(1)
    assert len(some) == 3
    assert some == Search(SPACE, most=3).combinations(1)
    with pytest.raises(InputError, match="nothing to try"):
        Search({"ridge": []}).combinations(0)
    with pytest.raises(InputError, match="folds"):
        tune(molecules(3), Search(SPACE, folds=5), SMALL)


def test_fields_are_named_with_dots_and_an_unknown_one_lists_them():
    changed = with_fields(DEFAULT, {"features.sigma": 3.0, "ridge": 1.0, "representation.cutoff": 4.0})
    assert (changed.features.sigma, changed.ridge, changed.representation.cutoff) == (3.0, 1.0, 4.0)
    for name, word in (("sigma", "features.sigma"), ("features", "several fields"), ("ridge.x", "no field")):
        with pytest.raises(InputError, match=word):
            field_of(DEFAULT, name)


def test_a_recipe_file_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "recipe.json"
    save_recipe(SMALL, path, note="mine")
    assert load_recipe(path) == SMALL
    for text in ("{", '{"format": "other"}', json.dumps({"format": "qml-lightning-recipe", "recipe": {"x": 1}})):
        path.write_text(text)
        with pytest.raises(InputError, match="not a recipe that can be used"):
            load_recipe(path)


def test_the_command_writes_recipe_journal_and_figure_and_train_takes_the_recipe(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["tune", "ethanol:train@0:40", "-o", "best.json", "--features", "128", "--rank", "32", "--no-label-check",
               "--try", "features.sigma=4,8", "--try", "ridge=1e-8:1e-4:3"]  # fmt: skip
    assert main([*command, "--figure", "response.png"]) == 0
    out = capsys.readouterr().out
    for word in ("features.sigma", "meV/atom", "6 recipes", "--recipe best.json", "best.json.journal"):
        assert word in out
    assert Path("response.png").read_bytes().startswith(b"\x89PNG")
    assert main([*command, "--json", "--overwrite"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["score"] for one in told["tried"]] == sorted(one["score"] for one in told["tried"])
    assert told["space"]["ridge"] == [1e-8, 1e-6, 1e-4]
    assert (
        main(["train", "ethanol:train@0:40", "-m", "m.safetensors", "--recipe", "best.json", "--no-label-check"]) == 0
    )
    assert read_header("m.safetensors")["recipe"] == told["best"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--try", "sigma=4"], "features.sigma"),
        (["--try", "ridge"], "--try takes"),
        (["--try", "ridge=a,b"], "--try takes"),
        (["--try", "ridge=0:1:3"], "--try takes"),
        (["--try", "features.paired=perhaps"], "--try takes"),
        (["--try", "rank=100"], "128"),
        (["--method", "gpr"], "random features"),
        (["--figure", "x.doc"], ".png"),
    ],
)
def test_what_makes_no_sense_is_explained(tmp_path, monkeypatch, capsys, arguments, word):
    monkeypatch.chdir(tmp_path)
    assert main(["tune", "ethanol:train@0:20", "-o", "best.json", "--no-label-check", *arguments]) == 2
    assert word in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
