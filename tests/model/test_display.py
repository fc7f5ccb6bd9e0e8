"""Values in a terminal and in a notebook: short, with units, and nothing of a file is read as HTML."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qml_lightning import evaluate, exact, fit, recipes
from qml_lightning.atoms.structures import Labels
from small_models import SMALL, crystals, molecules


@pytest.fixture(scope="module")
def shown():
    data = crystals()
    potential = fit(data, SMALL)
    prediction = potential.predict(data.structures)
    return [potential, SMALL, data, evaluate(potential, data), prediction, data.structures]


def test_each_is_one_short_line(shown):
    for value in shown:
        assert repr(value).startswith(f"{type(value).__name__}(")
        assert "\n" not in repr(value)
        assert len(repr(value)) < 200


def test_labels_and_a_free_recipe_are_one_line_too(shown):
    data = shown[2]
    assert repr(data.labels) == "Labels(energies of 12 structures, forces of 48 atoms, stress of 12 structures)"
    assert repr(Labels()) == "Labels(none)"
    automatic = recipes.Automatic(recipes.DEFAULT, free=("ridge", "sigma"))
    assert repr(automatic).startswith("Automatic(ridge, sigma from the data, Recipe(")
    assert "\n" not in repr(automatic)
    assert "<td" in automatic._repr_html_()
    assert "ridge, sigma" in automatic._repr_html_()


def test_the_line_has_what_one_asks_first(shown):
    potential, recipe, data, metrics, prediction, structures = map(repr, shown)
    assert "Cu Au" in potential
    assert "256 SORF features, σ = 4" in potential
    assert "12 structures of made in memory" in potential
    assert "ridge 1e-08" in recipe
    assert "energies forces stress" in data
    assert "meV/Å" in metrics
    assert "GPa" in metrics
    assert "12 structures" in prediction
    assert structures == "Structures(12 structures, 48 atoms, Cu Au)"


def test_a_notebook_gets_a_table_of_each(shown):
    for value in shown[:-1]:
        page = value._repr_html_()
        assert page.count("<table") == page.count("</table>") == 1
        assert page.count("<tr") > 3
    assert "RMSE" in shown[3]._repr_html_()


def test_names_from_files_are_not_html():
    data = molecules(3)
    data = replace(data, source=replace(data.source, name="<script>alert(1)</script>"))
    assert "<script>" not in data._repr_html_()


def test_explicit_kernels_show_themselves_too():
    potential = fit(molecules(4), replace(exact.OQML, representation=SMALL.representation))
    assert "OQML" in repr(potential)
    assert "threshold" in potential._repr_html_()
