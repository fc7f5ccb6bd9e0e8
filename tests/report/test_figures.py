"""Figures of a report for papers: as many panels as there are labels, the same numbers, and no clipped text."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from qml_lightning.report.figure_pages import pages
from qml_lightning.report.figures import draw

CURVE = {
    "models": [
        {"features": 8, "structures": n, "seed": 0, "energy_mae": 1 / n, "forces_mae": 2 / n} for n in (2, 4, 8)
    ],
    "advice": "More data would help.",
}
RIDGES = {"solution": {"ridges": [{"ridge": 10.0**-k, "left_out": 1.0 + 0.01 * k} for k in (5, 7, 9)]}}


@pytest.mark.parametrize("kinds", [("forces", "stress"), ()])
def test_the_figure_has_a_panel_for_each_label_and_clips_no_text(judged, kinds):
    _, data, prediction = judged
    left_out = dict.fromkeys({"forces", "stress"} - set(kinds))
    figure = draw(replace(data, labels=replace(data.labels, **left_out)), prediction)
    assert len(figure.axes) == 2 + 2 * len(kinds)
    not_clipped(figure)


def test_figures_show_what_the_page_shows(judged):
    _, data, prediction = judged
    names = ["", "errors", "groups", "ridge", "learning"]
    error = (prediction.forces - data.labels.forces).abs().max(1).values
    sure = replace(prediction, force_uncertainty=error)
    made = pages(data, sure, provenance=RIDGES, curve=CURVE)
    assert list(made) == [*names[:3], "uncertainty", *names[3:]]
    assert [len(figure.axes) for figure in made.values()] == [6, 2, 3, 2, 1, 2]
    for figure in made.values():
        not_clipped(figure)
    bars = made["errors"].axes[0].patches
    assert sum(bar.get_height() for bar in bars) <= 30
    assert made["errors"].axes[0].get_ylabel() == "number of atoms"
    x, y = made["learning"].axes[0].get_lines()[0].get_data()
    assert list(zip(x, y)) == [(2, 500.0), (4, 250.0), (8, 125.0)]
    assert min(made["ridge"].axes[0].get_lines()[0].get_ydata()) == 1.0
    alone = replace(data, groups=None, labels=replace(data.labels, forces=None, stress=None))
    assert list(pages(alone, prediction)) == [""]


def not_clipped(figure):
    """No text stands out of the figure."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    box, (width, height) = figure.get_tightbbox(canvas.get_renderer()), figure.get_size_inches()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= width
    assert box.y1 <= height


def test_no_kind_of_points_hides_the_others_in_a_figure(judged):
    figure = draw(*judged[1:])
    drawn = [line for line in figure.axes[1].get_lines() if line.get_linestyle() == "None" and len(line.get_xdata())]
    shapes = [line.get_marker() for line in drawn]
    assert sum(len(line.get_xdata()) for line in drawn) == 120
    assert len(set(shapes)) == 2
    # each kind is the upper one in some layer
    assert len({second for first, second in pairwise(shapes) if first != second}) == 2
