"""Learning curves: grown equations give the models of fits, and advice follows from the slopes."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ase.build import molecule

from qml_lightning import evaluate, fit, learning_curve
from qml_lightning.cli import main
from qml_lightning.errors import InputError, SolveError
from qml_lightning.model.metrics import Error, Metrics
from qml_lightning.report.curve import draw
from qml_lightning.report.style import write_figure
from qml_lightning.study.trends import Entry, LearningCurve, trend_of
from small_models import SMALL, argon, crystals, labelled, molecules, recipe
from structures_for_tests import rattled


def curve_of(errors: dict[tuple[int, int], float], seeds: int = 1) -> LearningCurve:
    """A curve of given force errors by (features, structures)."""
    entries = [
        Entry(features, structures, seed, 1e-8, Metrics(5, 45, None, None, Error(e, e, 135), None, {}))
        for (features, structures), e in errors.items()
        for seed in range(seeds)
    ]
    return LearningCurve(("forces",), tuple(entries), SMALL, {"name": "made up"}, {})


def test_the_model_of_each_size_is_that_of_a_fit_on_those_structures():
    data, test = molecules(24), molecules(6, seed=100)
    curve = learning_curve(data, [8, 24], [64], recipe=SMALL, test=test)
    assert [(e.features, e.structures) for e in curve.entries] == [(64, 8), (64, 24)]
    # the axes are those of the largest set, and so are those of a fit on it
    whole = fit(data.subsample(24, SMALL.seed), recipe(n_features=64))
    part = fit(data.subsample(8, SMALL.seed), recipe(n_features=64), basis=whole)
    for entry, potential in zip(curve.entries, (part, whole), strict=True):
        wanted = evaluate(potential, test)
        assert entry.metrics.forces.mae == pytest.approx(wanted.forces.mae, rel=1e-6)
        assert entry.metrics.energy.rmse == pytest.approx(wanted.energy.rmse, rel=1e-6)


def test_errors_are_told_of_the_labels_that_are_learnt():
    data = crystals(12)
    curve = learning_curve(data, [4, 8], [64], recipe=SMALL)
    assert curve.quantities == ("energy", "forces", "stress")
    assert curve.entries[0].metrics.structures == 4  # what the largest size leaves
    assert learning_curve(data, [4], [64], recipe=SMALL, targets=["forces"]).quantities == ("forces",)


def test_energies_are_told_for_each_atom_where_structures_differ_in_size():
    frames = [rattled(molecule(name), seed, 0.1) for seed in range(4) for name in ("CH3CH2OH", "CH3OH")]
    curve = learning_curve(labelled(frames), [5], [64], recipe=SMALL)
    assert curve.quantities == ("energy_per_atom", "forces")
    assert "energy_per_atom_mae" in curve.rows()[0]


def test_a_ridge_is_chosen_by_structures_that_come_next_and_kept_where_none_come():
    data, test = molecules(40), molecules(6, seed=100)
    ridges = (1e-12, 1e-6, 1.0)
    free = learning_curve(data, [10, 40], [256], recipe=SMALL, test=test, ridges=ridges)
    fixed = learning_curve(data, [10, 40], [256], recipe=replace(SMALL, ridge=1.0), test=test)
    assert {entry.ridge for entry in fixed.entries} == {1.0}
    chosen = [entry.ridge for entry in free.entries]
    assert chosen[0] in ridges
    assert chosen[0] != 1.0
    assert chosen[1] == chosen[0]
    assert free.entries[0].metrics.forces.mae < fixed.entries[0].metrics.forces.mae


def test_ridges_that_all_fail_are_named_with_the_remedy():
    with pytest.raises(SolveError, match=r"any of the ridges \[0\.0\]\. Try larger ones"):
        learning_curve(argon(24), [8], [1024], recipe=recipe(n_features=1024), held_out=2, ridges=[0.0])


def test_every_seed_draws_anew_and_the_held_out_structures_stay():
    data = molecules(20)
    curve = learning_curve(data, [8], [64], recipe=SMALL, held_out=5, seeds=2)
    assert [entry.seed for entry in curve.entries] == [0, 1]
    assert {entry.metrics.structures for entry in curve.entries} == {5}
    assert len(set(curve.errors("forces", 64, 8))) == 2


def test_sizes_and_features_that_are_not_said_follow_from_data_and_recipe():
    curve = learning_curve(molecules(20), recipe=SMALL)
    assert curve.sizes == (1, 2, 4, 8, 16)
    assert curve.features == (64, 256)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sizes": [30]}, "30 structures to learn from and 1 to hold out"),
        ({"sizes": [0, 5]}, "such as 100, 200, 500"),
        ({"sizes": [5], "held_out": 2, "test": molecules(1)}, "one of the two"),
        ({"sizes": [15], "held_out": 8}, "has 20"),
        ({"sizes": [5], "seeds": 0}, "at least one seed"),
        ({"sizes": [5], "features": [100]}, "multiple of 32"),
        ({"sizes": [5], "recipe": replace(SMALL, solver=replace(SMALL.solver, method="iterative"))}, '"direct"'),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(options, words):
    with pytest.raises(InputError, match=words):
        learning_curve(molecules(20), **{"recipe": SMALL, **options})


def test_an_option_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(TypeError, match=r"no option ridge\. It has test, held_out, seeds, ridges"):
        learning_curve(molecules(20), ridge=1e-6)


def test_the_trend_of_a_power_law_is_its_power_and_predicts_it():
    sizes = [10, 20, 50, 100, 200]
    trend = trend_of("forces", "structures", 64, sizes, [3.0 * n**-0.5 for n in sizes])
    assert [trend.slope, trend.last_decade, trend.end] == pytest.approx([-0.5] * 3)
    assert trend.doubled == pytest.approx(3.0 * 400**-0.5)


def test_the_last_decade_leaves_out_what_is_smaller_and_the_end_is_the_last_two():
    sizes = [1, 10, 50, 100]
    trend = trend_of("forces", "structures", 64, sizes, [100.0, 1.0, 0.5, 0.5])
    assert trend.end == pytest.approx(0.0)
    assert trend.slope < -0.9
    assert -0.5 < trend.last_decade < -0.2


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ({(64, 10): 0.2, (64, 20): 0.1, (128, 10): 0.19, (128, 20): 0.095}, "more data would help more"),
        ({(64, 10): 0.2, (64, 20): 0.2, (128, 10): 0.1, (128, 20): 0.1}, "more features would help, and they alone"),
        ({(64, 10): 0.2, (64, 20): 0.2, (128, 10): 0.2, (128, 20): 0.2}, "neither more data nor more features"),
        ({(64, 10): 0.4, (64, 20): 0.2, (128, 10): 0.2, (128, 20): 0.1}, "both would help"),
        ({(64, 10): 0.4, (64, 20): 0.2}, "what more features would do was not measured"),
        ({(64, 10): 0.4}, "give several"),
    ],
)
def test_advice_follows_from_the_slopes(errors, words):
    assert words in curve_of(errors).advice()


def test_advice_gives_the_error_at_twice_the_data_and_twice_the_features():
    advice = curve_of({(64, 10): 0.4, (64, 20): 0.2, (128, 10): 0.3, (128, 20): 0.1}).advice()
    assert "20 structures and 128 features the force error is 100 meV/Å" in advice
    assert "twice the data about 33.3, twice the features about 50.0" in advice


def test_the_figure_has_logarithmic_axes_units_and_slopes(tmp_path):
    curve = curve_of({(64, 10): 0.4, (64, 20): 0.2, (128, 10): 0.3, (128, 20): 0.1}, seeds=2)
    above, below = draw(curve).axes
    assert (above.get_xscale(), above.get_yscale()) == ("log", "log")
    assert above.get_ylabel() == "force MAE (meV/Å)"
    assert (above.get_xlabel(), below.get_xlabel()) == ("training structures", "random features")
    assert next(text.get_text() for text in above.get_legend().get_texts()) == "64 features, slope −1.00"
    for name, magic in (("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")):
        write_figure(tmp_path / name, lambda: draw(curve))
        assert (tmp_path / name).read_bytes().startswith(magic)


def test_the_figure_needs_a_name_it_can_have_and_matplotlib(tmp_path, monkeypatch):
    curve = curve_of({(64, 10): 0.4, (64, 20): 0.2})
    with pytest.raises(InputError, match=r"\.png or \.pdf or \.svg"):
        write_figure(tmp_path / "a.jpg", lambda: draw(curve))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match="A figure needs matplotlib"):
        write_figure(tmp_path / "a.png", lambda: draw(curve))


TINY = ["--sizes", "20,40", "--features", "128,256", "--rank", "64", "--no-label-check"]


def test_the_command_tells_errors_slopes_and_advice_and_writes_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ["--held-out", "20", "-o", "curve.csv", "--figure", "curve.png"]
    assert main(["learning-curve", "ethanol:train@0:80", *TINY, *options]) == 0
    told = capsys.readouterr().out
    for word in ("force (meV/Å)", "Slopes", "last decade", "twice the data about", "curve.csv", "curve.png"):
        assert word in told
    with open("curve.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(row["features"], row["structures"]) for row in rows] == [
        ("128", "20"), ("128", "40"), ("256", "20"), ("256", "40"),
    ]  # fmt: skip
    assert 0 < float(rows[0]["forces_mae"]) < 1
    assert Path("curve.png").stat().st_size > 10_000


def test_the_command_prints_and_writes_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["learning-curve", "ethanol:train@0:60", *TINY, "--ridge", "1e-7", "--json", "-o", "curve.json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(Path("curve.json").read_text())
    assert len(told["models"]) == 4
    assert {model["ridge"] for model in told["models"]} == {1e-7}
    assert {trend["along"] for trend in told["trends"]} == {"structures", "features"}
    assert told["recipe"]["rank"] == 64


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sizes", "ten"], "--sizes takes positive numbers"),
        (["--features", "128;256"], "--features takes positive numbers"),
        (["--method", "gpr"], "random features"),
        (["-o", "curve.txt"], ".json or .csv"),
        (["--figure", "curve.bmp"], ".png or .pdf or .svg"),
    ],
)
def test_the_command_refuses_in_words_before_the_work(options, words, capsys):
    assert main(["learning-curve", "ethanol:train", *options]) == 2
    assert words in capsys.readouterr().err.replace("\n", " ")
