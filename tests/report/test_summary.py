"""The one-page summary: drawn for any labels, written whole, and clear about what it lacks."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from qml_lightning import fit
from qml_lightning.errors import InputError
from qml_lightning.report.summary import draw, write_summary
from small_models import SMALL, crystals, molecules


def words(figure) -> str:
    """All that is written on the page."""
    texts = [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]
    labels = [label for axes in figure.axes for label in (axes.get_xlabel(), axes.get_ylabel())]
    return " | ".join([*(text.get_text() for text in texts), *labels])


@pytest.fixture(scope="module")
def trained():
    data = crystals()
    return fit(data, SMALL), data


def test_it_shows_energies_forces_and_stress_with_units(trained):
    potential, data = trained
    page = words(draw(potential, data, potential.predict(data.structures)))
    for word in ("GPa", "on Cu", "on Au", "reference force component (eV/Å)", "error (meV)", "256 SORF"):
        assert word in page
    assert "12 training structures" in page


def test_it_says_what_is_missing_and_that_structures_were_trained_on(trained):
    potential, data = trained
    some = replace(data, labels=replace(data.labels, forces=None, stress=None))
    page = words(draw(potential, some, potential.predict(data.structures)))
    assert "no forces to compare with" in page
    assert "12 training structures" in page


def test_it_is_written_as_a_picture_or_as_a_page(tmp_path):
    data = molecules(8)
    potential = fit(data, SMALL)
    prediction = potential.predict(data.structures)
    for name in ("a.png", "a.html"):
        write_summary(tmp_path / name, potential, data, prediction)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "8 training structures" in (tmp_path / "a.html").read_text()
    with pytest.raises(InputError, match="--overwrite"):
        write_summary(tmp_path / "a.png", potential, data, prediction)


def test_without_matplotlib_the_error_says_how_to_get_it(trained, tmp_path, monkeypatch):
    potential, data = trained
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match="qml-lightning\\[plot\\]"):
        write_summary(tmp_path / "a.png", potential, data, potential.predict(data.structures))
