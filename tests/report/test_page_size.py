"""The size of a report of many structures, and what a browser runs before the page is there: it opens at once."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from browser import browser, chromium
from qml_lightning import Dataset, fit
from qml_lightning.api import header_of
from qml_lightning.atoms.structures import Labels, Structures
from qml_lightning.model.predictor import Prediction
from qml_lightning.report.model_page import model_page
from small_models import SMALL, molecules

MOST = 15_000_000  # bytes of a page of 1000 structures
CASES = {
    "molecules of 21 atoms": (1000, 21, None),
    "cells of 200 atoms": (1000, 200, 13.0),
    "large": (20, 10_000, 47.0),
}


@pytest.fixture(scope="module")
def potential():
    return replace(fit(molecules(8), SMALL), trained_on=None)


def page_of(potential, structures: int, atoms: int, edge: float | None) -> str:
    """The page of structures with random labels; with cells of an edge, or without."""
    draw = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=draw)

    cell = torch.eye(3, dtype=torch.float64) * (edge or 0.0)
    made = Structures(
        numbers=torch.tensor([1, 6, 8])[torch.randint(3, (structures * atoms,), generator=draw)],
        positions=(edge or 8.0) * torch.rand(structures * atoms, 3, dtype=torch.float64, generator=draw),
        offsets=atoms * torch.arange(structures + 1),
        cells=cell.expand(structures, 3, 3).clone(),
        periodic=torch.full((structures, 3), edge is not None),
    )
    stress = None if edge is None else random(structures, 3, 3)
    labels = Labels(random(structures), random(structures * atoms, 3), stress)
    source = molecules(1).source
    groups = np.array([f"run {k % 7}" for k in range(structures)])
    data = Dataset(made, labels, source, groups=groups)
    wrong = Prediction(
        labels.energies + 0.01 * random(structures), torch.zeros(structures * atoms, dtype=torch.float64),
        labels.forces + 0.1 * random(structures * atoms, 3), stress,
    )  # fmt: skip
    return model_page(potential, data, wrong, header_of(potential))


@pytest.mark.parametrize("name", CASES)
def test_a_page_of_1000_structures_or_large_cells_is_below_15_mb(potential, name):
    page = page_of(potential, *CASES[name])
    assert len(page.encode()) < MOST
    # before the first picture a browser runs our scripts only: the viewer is a text until the page is there
    run = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert sum(map(len, run)) < 40_000
    assert re.findall(r"<script type=\"([^\"]+)\"", page) == ["application/json", "text/plain"]
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:)", page)


@pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")
def test_the_plot_is_there_before_the_viewer_is_read(potential, tmp_path):
    page = tmp_path / "page.html"
    text = page_of(potential, *CASES["cells of 200 atoms"])
    # at the load event the plot has its points, and nothing of the viewer was run
    seen = "addEventListener('load', () => { window.seen = [qmlReport.places().x.length, typeof window.Chemiscope]; });"
    page.write_text(text.replace("</body>", f"<script>{seen}</script></body>"))
    with browser(tmp_path / "profile") as tab:
        tab.open(page)
        tab.wait("window.seen")
        assert tab.value("window.seen") == [1000, "undefined"]
        tab.wait("document.body.dataset.ready === 'viewer'")
        assert tab.problems == []
