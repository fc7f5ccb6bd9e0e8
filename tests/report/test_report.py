"""The report of a model: numbers that are right, and words for what is known only."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from qml_lightning import evaluate, fit
from qml_lightning.api import header_of
from qml_lightning.cli import main
from qml_lightning.report import model_page as report_page
from qml_lightning.report.card import model_card
from qml_lightning.report.drawing import curves, ranges
from qml_lightning.report.figures import draw
from qml_lightning.report.model_page import model_page
from qml_lightning.report.points import compared, plots
from qml_lightning.report.viewer import arrows, viewed, viewer_dataset
from small_models import SMALL, crystals, evaluated, molecules


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
    models = [{"features": 8, "structures": n, "seed": 0, "energy_mae": 1 / n, "forces_mae": 2 / n} for n in (2, 4, 8)]
    (tmp_path / "curve.json").write_text(json.dumps({"models": models, "advice": "More data would help."}))
    assert main(["report", "m.safetensors", "test.extxyz", "-o", "r.html", "--curve", "curve.json"]) == 0
    page = (tmp_path / "r.html").read_text().partition('id="report-data"')[0]
    for words in ("Uncertainty against error", "µs per atom", "More data would help.", "8 features"):
        assert words in page
    (tmp_path / "curve.json").write_text("[]")
    assert main(["report", "m.safetensors", "test.extxyz", "-o", "s.html", "--curve", "curve.json"]) == 2


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
