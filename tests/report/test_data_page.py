"""The page of a data set in a browser: in light and dark, on a phone, without an error or a request."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from browser import browser, chromium
from qml_lightning.report.data_page import data_page
from qml_lightning.study.statistics import statistics_of
from small_models import crystals

PLAIN = "read energy, forces; not read: magmoms, tags"
DOUBTFUL = "read energy, forces; not read: dft_energy"


def page_with(note: str) -> str:
    data = crystals(12)
    data = replace(data, groups=np.array([f"kind {k % 3}" for k in range(12)]))
    return data_page(statistics_of(replace(data, source=replace(data.source, notes=(note,)))))


def test_arrays_that_are_not_labels_are_told_without_a_warning():
    assert f'<p class="soft">made in memory: {PLAIN}</p>' in page_with(PLAIN)
    assert "Look at these first" not in page_with(PLAIN)
    assert f'<p class="warning">made in memory: {DOUBTFUL}</p>' in page_with(DOUBTFUL)


@pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")
def test_it_opens_without_an_error_in_any_light_and_width(tmp_path):
    path = tmp_path / "data.html"
    path.write_text(page_with(DOUBTFUL))
    with browser(tmp_path / "profile") as tab:
        for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
            tab.open(path, width=width, dark=dark)
            assert tab.value("document.documentElement.scrollWidth") <= width
            ink, paper = (tab.value(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
            light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
            assert (light[0] > light[1]) == dark
            assert abs(light[0] - light[1]) > 400  # readable
        assert tab.problems == []
        assert tab.requests == []
