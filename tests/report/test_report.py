"""The report of a model: numbers that are right, and a page that works in a browser without a network."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk
from ase.calculators.lj import LennardJones
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from browser import browser, chromium
from qml_lightning import evaluate, fit
from qml_lightning.api import header_of
from qml_lightning.cli import main
from qml_lightning.model.predictor import Prediction
from qml_lightning.report import model_page as report_page
from qml_lightning.report.card import model_card
from qml_lightning.report.drawing import curves, ranges
from qml_lightning.report.figure_pages import pages
from qml_lightning.report.figures import draw
from qml_lightning.report.model_page import model_page
from qml_lightning.report.points import compared, plots
from qml_lightning.report.summary import write_report
from qml_lightning.report.viewer import arrows, viewed, viewer_dataset, viewer_script
from small_models import SMALL, crystals, labelled, molecules

SELECTED = "document.getElementById('selected').textContent"
needs_browser = pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def judged():
    """A potential, structures that it has not seen with groups, and its predictions."""
    data = crystals(20)
    data = replace(data, groups=np.array([f"kind {k % 2}" for k in range(20)]))
    train, test = data.split((10, 10), seed=0)
    potential = fit(train, SMALL)
    return potential, test, potential.predict(test.structures)


@pytest.fixture(scope="module")
def report(judged, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, *judged)
    return path


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


def content(page: str) -> dict:
    return json.loads(re.search(r'id="report-data">(.*?)</script>', page, re.DOTALL)[1].replace("<\\/", "</"))


def test_errors_of_each_structure_add_up_to_those_of_the_whole(judged):
    potential, data, prediction = judged
    errors, metrics = compared(data, prediction), evaluate(potential, data)
    assert np.abs(errors.energy).mean() == pytest.approx(metrics.energy_per_atom.mae)
    assert errors.force.mean() == pytest.approx(metrics.forces.mae)
    by_plot = {plot["name"]: plot for plot in plots(data, prediction)}
    assert by_plot["forces"]["mae"] == pytest.approx(metrics.forces.mae)
    assert by_plot["stress"]["total"] == 60
    assert errors.stress.mean() == pytest.approx(metrics.stress.mae)
    assert {kind["name"] for kind in by_plot["energy"]["kinds"]} == {"kind 0", "kind 1"}


def test_the_worst_come_first_and_stay_when_points_are_left_out(judged):
    _, data, prediction = judged
    forces = prediction.forces.clone()
    forces[17] += 5.0
    wrong = replace(prediction, forces=forces)
    errors = compared(data, wrong)
    assert errors.worst("force", 3)[0] == int(data.structures.structure_of_atom[17])
    plot = next(one for one in plots(data, wrong, most=40) if one["name"] == "forces")
    assert len(plot["x"]) == 40
    assert plot["total"] == 120
    assert max(abs(a - b) for a, b in zip(plot["x"], plot["y"])) == pytest.approx(5.0, abs=0.5)


def test_a_page_holds_as_many_structures_as_it_may_the_worst_among_them(judged, monkeypatch):
    _, data, _ = judged
    assert viewed(data, [3]) == list(range(10))
    monkeypatch.setattr("qml_lightning.report.viewer.MOST_ATOMS", 12)
    assert viewed(data, [7, 3]) == [0, 3, 7]


def test_it_says_not_seen_in_training_only_if_fingerprints_tell(judged):
    potential, data, prediction = judged
    header = header_of(potential)
    assert "10 structures not seen in training" in model_page(potential, data, prediction, header)
    unknown = replace(potential, trained_on=None)
    assert "not seen in training" not in model_page(unknown, data, prediction, header)


def test_missing_labels_are_left_out(judged):
    potential, data, prediction = judged
    some = replace(data, labels=replace(data.labels, energies=None, stress=None), groups=None)
    page = model_page(potential, some, prediction, header_of(potential))
    assert [plot["name"] for plot in content(page)["plots"]] == ["forces"]
    assert "By group" not in page
    worst = page.partition("Worst structures")[2].partition("</section>")[0]
    assert "force MAE" in worst
    assert "energy error" not in worst


def test_uncertainties_stand_beside_the_errors_where_predictions_have_them(judged):
    potential, data, prediction = judged
    assert "Uncertainty against error" not in model_page(potential, data, prediction, header_of(potential))
    error = (prediction.forces - data.labels.forces).abs().max(1).values
    page = model_page(potential, data, replace(prediction, force_uncertainty=error), header_of(potential))
    part = page.partition("Uncertainty against error")[2].partition("</section>")[0]
    assert part.count('<td class="number">100%') == 8  # every component is within the largest of its atom
    assert "100% within two" in part
    assert "Sparsification" in part
    assert "log-likelihood of an error" in part
    energies = (prediction.energies - data.labels.energies).abs() / 2
    page = model_page(potential, data, replace(prediction, energy_uncertainty=energies), header_of(potential))
    part = page.partition("Uncertainty against error")[2].partition("</section>")[0]
    assert part.count('<td class="number">0%') == 8  # every error is twice what was told


def test_errors_are_spread_by_element_and_by_group(judged):
    potential, data, prediction = judged
    page = model_page(potential, data, prediction, header_of(potential))
    part = page.partition("Distributions of errors")[2].partition("</section>")[0]
    for words in ("force error on Cu", "force error on Au", "kind 0", "|energy error| (meV/atom)", "stress component"):
        assert words in part
    # an element has one colour in all plots of a page
    colours = {kind["name"]: kind["colour"] for kind in content(page)["plots"][1]["kinds"]}
    for name in ("Cu", "Au"):
        drawn = part.partition(f"force error on {name}")[2].partition("</figure>")[0]
        assert f"var({colours[name]})" in drawn
    worst = page.partition("Worst structures")[2].partition("</section>")[0]
    assert [worst.count(words) for words in ("energy error (meV", "force MAE (meV", "stress MAE (GPa)")] == [1, 1, 1]
    assert "stress (GPa)" in page.partition("MAE by group")[2]
    alone = model_page(potential, replace(data, groups=None), prediction, header_of(potential))
    assert "By group" not in alone.partition("Distributions of errors")[2].partition("</section>")[0]


def test_ranges_lie_where_the_quantiles_are():
    drawn = ranges({"a": np.geomspace(1e-3, 1e3, 1001), "empty": np.full(3, np.nan)}, "error")
    low, high = (float(x) for x in re.search(r'd="M([\d.]+) [\d.]+H([\d.]+)" stroke="var\(--one\)"', drawn).groups())
    middle = float(re.search(r'<circle cx="([\d.]+)"', drawn)[1])
    assert middle == pytest.approx((low + high) / 2, abs=0.2)
    assert "empty" not in drawn
    assert "10⁻⁵" not in drawn


def test_errors_of_rounding_do_not_stretch_the_ranges():
    drawn = ranges({"symmetric": np.geomspace(1e-15, 1e-12, 50), "warm": np.geomspace(1.0, 100.0, 50)}, "error")
    assert "symmetric" in drawn
    assert not re.search("10⁻([789]|¹)", drawn)


def test_energies_of_various_compositions_are_shown_less_their_elements(judged):
    potential, data, prediction = judged
    past = replace(potential, baseline=replace(potential.baseline, energies=torch.tensor([1e4, -1e4]).double()))
    numbers = data.structures.numbers.clone()
    numbers[0] = 79  # another composition than the others
    data = replace(data, structures=replace(data.structures, numbers=numbers))
    total = past.baseline.total(data.structures)
    data = replace(data, labels=replace(data.labels, energies=data.labels.energies + total))
    prediction = replace(prediction, energies=prediction.energies + total)
    plain, less = plots(data, prediction)[0], plots(data, prediction, baseline=past.baseline)[0]
    assert np.ptp(plain["x"]) > 1000
    assert np.ptp(less["x"]) < 10
    assert less["words"] == "energy − elements"
    assert less["mae"] == pytest.approx(plain["mae"], rel=1e-6)
    page = model_page(past, data, prediction, header_of(potential))
    assert np.ptp(content(page)["plots"][0]["x"]) < 10
    assert "reference energies of the elements" in page
    for label in [axes.get_title(loc="left") for axes in draw(data, prediction, past.baseline).axes]:
        assert "median" not in label


def test_molecules_lie_across_the_view_and_cells_keep_right_angles(judged):
    data = molecules(4)
    shown = viewer_dataset(data, compared(data, evaluated(data)), range(4), "ethanol")["structures"]
    for s, one in enumerate(shown):
        own = slice(9 * s, 9 * s + 9)
        placed = np.array([one["x"], one["y"], one["z"]]).T
        spread = placed.std(0)
        assert spread[0] > spread[1] > spread[2]
        original = data.structures.positions[own].numpy()
        turn = np.linalg.lstsq(original - original.mean(0), placed - placed.mean(0), rcond=None)[0]
        assert np.linalg.det(turn) == pytest.approx(1.0, abs=1e-2)  # no mirror image
    slab = crystals(1)
    cells = slab.structures.cells.clone()
    cells[0] = torch.diag(torch.tensor([3.0, 4.0, 20.0]))
    slab = replace(slab, structures=replace(slab.structures, cells=cells))
    one = viewer_dataset(slab, compared(slab, evaluated(slab)), [0], "slab")["structures"][0]
    assert np.reshape(one["cell"], (3, 3)) == pytest.approx(np.array([[0, 3, 0], [0, 0, 4], [20, 0, 0]]))


def evaluated(data):
    """Predictions without an error."""
    zeros = torch.zeros(data.structures.n_atoms, dtype=torch.float64)
    return Prediction(data.labels.energies, zeros, data.labels.forces, data.labels.stress)


def test_labels_of_a_logarithmic_axis_do_not_touch():
    x = np.array([1.8e-9, 5.7e-9, 1.8e-8])
    drawn = curves({"": (x, np.array([1.04, 1.0, 1.01]))}, "ridge", "error")
    found = re.findall(r'<text x="([\d.]+)" y="165" text-anchor="middle">([^<]*)</text>', drawn)
    assert len(found) > 1
    for (left, first), (right, second) in pairwise(found):
        assert float(right) - float(left) > 2.5 * (len(first) + len(second))


def test_names_from_files_are_not_html(judged):
    potential, data, prediction = judged
    data = replace(data, groups=np.array(["</script><b>"] * 10), source=replace(data.source, name="<i>name</i>"))
    page = model_page(potential, data, prediction, header_of(potential))
    assert "<i>name" not in page
    assert "</script><b>" not in page
    assert content(page)["facts"]["group"][0] == "</script><b>"


def test_without_chemiscope_the_page_says_what_is_missing(judged, monkeypatch):
    monkeypatch.setattr(report_page, "viewer_script", lambda: None)
    page = model_page(*judged, header_of(judged[0]))
    assert "qml-lightning[report]" in page
    assert len(page) < 300_000


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


def test_commands_write_pages_and_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    fit(molecules(8), SMALL).save("m.safetensors")
    from qml_lightning.datasets import write_extxyz

    data = molecules(4, seed=50)
    write_extxyz("test.extxyz", data.structures, energies=data.labels.energies, forces=data.labels.forces)
    assert main(["report", "m.safetensors", "test.extxyz", "-o", "r.html", "--png", "r.png", "--pdf", "r.pdf"]) == 0
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "r-errors.png").read_bytes().startswith(b"\x89PNG")
    assert b"/Count 2" in (tmp_path / "r.pdf").read_bytes()  # pages
    (tmp_path / "r.png").unlink()
    assert main(["report", "m.safetensors", "test.extxyz", "--png", "r.png"]) == 2
    assert "r-errors.png exists" in capsys.readouterr().err
    assert b"/Subtype /Type3" not in (tmp_path / "r.pdf").read_bytes()  # journals refuse such fonts
    assert main(["evaluate", "m.safetensors", "test.extxyz", "--report", "e.html"]) == 0
    assert content((tmp_path / "e.html").read_text()) == content((tmp_path / "r.html").read_text())
    assert main(["report", "m.safetensors", "test.extxyz"]) == 2
    assert main(["report", "m.safetensors", "test.extxyz", "-o", "r.pdf"]) == 2
    assert "ends in .html" in capsys.readouterr().err


def test_a_report_of_a_model_with_a_committee_tells_uncertainties_times_and_a_learning_curve(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit(molecules(12), SMALL, committee=4).save("m.safetensors")
    from qml_lightning.datasets import write_extxyz

    data = molecules(4, seed=50)
    write_extxyz("test.extxyz", data.structures, energies=data.labels.energies, forces=data.labels.forces)
    (tmp_path / "curve.json").write_text(json.dumps(CURVE))
    assert main(["report", "m.safetensors", "test.extxyz", "-o", "r.html", "--curve", "curve.json"]) == 0
    page = (tmp_path / "r.html").read_text().partition('id="report-data"')[0]
    for words in ("Uncertainty against error", "µs per atom", "More data would help.", "8 features"):
        assert words in page
    (tmp_path / "curve.json").write_text("[]")
    assert main(["report", "m.safetensors", "test.extxyz", "-o", "s.html", "--curve", "curve.json"]) == 2


def test_no_kind_of_points_hides_the_others_in_a_figure(judged):
    figure = draw(*judged[1:])
    drawn = [line for line in figure.axes[1].get_lines() if line.get_linestyle() == "None" and len(line.get_xdata())]
    shapes = [line.get_marker() for line in drawn]
    assert sum(len(line.get_xdata()) for line in drawn) == 120
    assert len(set(shapes)) == 2
    # each kind is the upper one in some layer
    assert len({second for first, second in pairwise(shapes) if first != second}) == 2


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


def test_components_and_arrows_are_those_of_the_forces(judged):
    _, data, prediction = judged
    plot = plots(data, prediction)[1]
    k = 3 * 11 + 2
    assert plot["axes"][plot["axis"][k]] == "z"
    assert plot["x"][k] == pytest.approx(float(data.labels.forces[11, 2]), abs=1e-5)
    some = plots(data, prediction, most=40)[1]
    whole = data.labels.forces.numpy()[np.array(some["structure"]) * 4 + np.array(some["atom"]), np.array(some["axis"])]
    assert some["x"] == pytest.approx(whole, abs=1e-5)
    drawn = arrows(data, prediction, [2])
    lengths = np.linalg.norm(np.reshape(drawn["predicted"][0], (-1, 3)), axis=1)
    assert lengths == pytest.approx(1e3 * prediction.forces[8:12].norm(dim=1).numpy(), abs=2)


def test_the_title_names_the_data_and_the_training_set_stands_below(judged):
    potential, data, prediction = judged
    data = replace(data, source=replace(data.source, name="hot.extxyz"))
    header = header_of(potential)
    header["provenance"]["data"] = {"name": "cold.extxyz"}
    page = model_page(potential, data, prediction, header)
    assert "<h1>hot.extxyz: errors of a QML-Lightning potential</h1>" in page
    assert "the model was trained on 10 structures of cold.extxyz" in page


def test_a_card_names_the_smallest_uncertainties_only_where_they_are_not_zero(judged):
    def card(noise: float) -> str:
        about = {"members": 8, "calibrations": {kind: {"noise": noise} for kind in ("energies", "forces")}}
        return model_card({**header_of(judged[0]), "committee": about})["committee"]

    assert card(0.0) == "8 members, for uncertainties"
    assert "12 meV per √atom (energies) and 12 meV/Å (forces)" in card(0.0125)
