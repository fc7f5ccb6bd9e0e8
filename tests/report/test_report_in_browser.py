"""The page of a report in a browser, without a network: it opens, it follows clicks and keys, and nothing is cut."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.calculators.lj import LennardJones
from matplotlib.image import imread

from browser import browser, chromium
from qml_lightning import fit
from qml_lightning.api import header_of
from qml_lightning.report.model_page import model_page
from qml_lightning.report.summary import write_report
from qml_lightning.report.viewer import viewer_script
from small_models import SMALL, evaluated, labelled, molecules

SELECTED = "document.getElementById('selected').textContent"
needs_browser = pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def report(judged, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, *judged)
    return path


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


CARBON = bulk("C", "fcc", a=3.6, cubic=True)
CHAIN = Atoms("C12", [[0, 1.3 * k, 0] for k in range(12)])
SHAPES = {  # a chain that is 14 Å long, and cells: a cube, a slab with much vacuum, a long and lean one
    "chain": CHAIN,
    "cube": CARBON * 2,
    "slab": Atoms("C4", CARBON.positions, cell=[3.6, 3.6, 20.0], pbc=[True, True, False]),
    "lean": CARBON * (8, 1, 1),
}


@needs_browser
@pytest.mark.parametrize("name", SHAPES)
def test_structures_and_cells_fill_the_3d_view_and_are_not_cut(tab, tmp_path, name):
    data = labelled([SHAPES[name]] * 2, LennardJones())
    potential = fit(molecules(8), SMALL)
    page = tmp_path / "shape.html"
    potential = replace(potential, trained_on=None)
    page.write_text(model_page(potential, data, evaluated(data), header_of(potential)))
    tab.open(page)
    tab.wait("document.body.dataset.ready === 'viewer'")
    tab.value("document.getElementById('explorer').scrollIntoView()")
    time.sleep(1.5)
    tab.picture(tmp_path / "shape.png")
    x, y, w, h = tab.value(
        "(() => { const b = document.getElementById('viewer').getBoundingClientRect();"
        "return [b.left, b.top, b.width, b.height]; })()"
    )
    seen = imread(tmp_path / "shape.png")[round(y + 8) : round(y + h - 8), round(x + 8) : round(x + w - 8), :3]
    paper = np.median(seen, (0, 1))
    seen[:50, -60:] = paper  # buttons of the view
    drawn = np.abs(seen - paper).sum(2) > 0.2
    across, up = (np.flatnonzero(drawn.any(axis)) for axis in (0, 1))
    assert max(np.ptp(across) / w, np.ptp(up) / h) > 0.75, "it fills the view"
    assert min(across.min(), up.min()) > 0
    assert across.max() < seen.shape[1] - 1
    assert up.max() < seen.shape[0] - 1


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_the_page_opens_without_an_error_or_a_request_in_any_light_and_width(report, tab, width, dark):
    assert viewer_script() is not None, "chemiscope belongs to the test environment"
    tab.open(report, width=width, dark=dark)
    tab.wait("document.body.dataset.ready === 'viewer'")
    assert tab.problems == []
    assert tab.requests == []
    assert tab.value("document.documentElement.scrollWidth") <= width
    ink, paper = (tab.value(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
    assert (light[0] > light[1]) == dark
    assert abs(light[0] - light[1]) > 400  # readable


@needs_browser
def test_a_click_on_a_point_and_the_arrow_keys_change_the_structure_that_is_shown(report, tab):
    tab.open(report)
    tab.wait("document.body.dataset.ready === 'viewer'")
    tab.value("document.getElementById('plot').scrollIntoView()")
    before = tab.value("document.body.dataset.structure")
    found = tab.value(
        "(() => { const box = document.getElementById('plot').getBoundingClientRect(), p = qmlReport.places();"
        f"const k = Number({before}) === 0 ? 1 : 0; return [box.left + p.x[k], box.top + p.y[k]]; }})()"
    )
    tab.click(*found)
    tab.wait(f"document.body.dataset.structure !== '{before}'")
    now = int(tab.value("document.body.dataset.structure"))
    # the viewer itself shows that structure
    shown = tab.value("qmlReport.viewer().saveSettings().pinned[0]")
    assert shown == now
    tab.value("document.getElementById('plot').focus()")
    tab.press("ArrowRight")
    tab.wait(f"document.body.dataset.structure === '{(now + 1) % 10}'")
    tab.wait(f"qmlReport.viewer().saveSettings().pinned[0] === {(now + 1) % 10}")
    assert tab.value("document.getElementById('viewer-name').textContent").endswith("AuCu3")
    tab.press("End")
    tab.wait("document.body.dataset.structure === '9'")
    # and a structure that is chosen below the viewer is marked in the plot
    tab.value("qmlReport.viewer().info.onchange({structure: 0, environment: 0})")
    assert tab.value("document.body.dataset.structure") == "0"
    assert tab.problems == []


def click_on(tab, k):
    """Click on a point of the plot once the page no longer moves."""
    found = tab.value(
        "new Promise((done) => { const plot = document.getElementById('plot'); let before = null, still = 0;"
        "plot.scrollIntoView({ behavior: 'instant' }); const timer = setInterval(() => {"
        "const box = plot.getBoundingClientRect(); still = box.top === before ? still + 1 : 0; before = box.top;"
        "if (still < 4) return; clearInterval(timer); const p = qmlReport.places();"
        f"done([box.left + p.x[{k}], box.top + p.y[{k}]]); }}, 100); }})"
    )
    tab.click(*found)


@needs_browser
def test_a_button_of_the_worst_structures_shows_one_and_a_tab_shows_forces(report, tab):
    tab.open(report)
    tab.wait("document.body.dataset.ready === 'viewer'")
    wanted = tab.value("document.querySelectorAll('button[data-structure]')[2].dataset.structure")
    tab.value("document.querySelectorAll('button[data-structure]')[2].click()")
    assert tab.value("document.body.dataset.structure") == wanted
    tab.value("document.querySelector('button[data-plot=\"1\"]').click()")
    assert tab.value("qmlReport.places().x.length") == 120
    assert "values" in tab.value("document.getElementById('legend').textContent")
    # a force that is clicked is told with its atom, until another plot is shown
    click_on(tab, 7)
    tab.wait("document.getElementById('selected').textContent.includes('this point')")
    point = tab.value("qmlReport.state.point")  # that one, or another at the same place
    assert re.search(
        rf"atom {point // 3 % 4} \((Cu|Au)\), component {'xyz'[point % 3]}: reference", tab.value(SELECTED)
    )
    # its atom is marked in the 3D view, and the forces are shown there as arrows
    tab.wait("qmlView.marks() === 1")
    tab.value("document.getElementById('arrows').click()")
    tab.wait("qmlView.marks() > 4")
    tab.value("document.getElementById('arrows').click()")
    tab.value("document.querySelector('button[data-plot=\"2\"]').click()")
    assert "this point" not in tab.value(SELECTED)
    click_on(tab, 9)
    tab.wait("document.getElementById('selected').textContent.includes('this point')")
    assert re.search(r"this pointcomponent (xx|yy|zz|yz|xz|xy): reference", tab.value(SELECTED))
    assert tab.problems == []
