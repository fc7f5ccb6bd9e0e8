"""Pictures of reports for README and docs/gallery.md, taken in headless Chromium.

python examples/pictures.py      # needs chromium, matplotlib and chemiscope
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import qml_lightning as qml
from qml_lightning.report.data_page import write_data_page
from qml_lightning.report.summary import write_report
from qml_lightning.study.statistics import statistics_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))
from browser import browser  # noqa: E402  # the path was added above

IMAGES = ROOT / "docs" / "images"
# Heading with which a picture begins, if not at the top of the page.
BEGINS = {"report_phone": "Predictions", "report_errors": "Distributions"}
READY = "document.body.dataset.ready === 'viewer'"


def main(folder: Path) -> None:
    train, test = qml.load_dataset("ethanol:train"), qml.load_dataset("ethanol:test")
    potential = qml.fit(train, qml.recipes.DEFAULT, n_features=2048, committee=8)
    report, data = folder / "report.html", folder / "data.html"
    prediction = potential.predict(test.structures, uncertainty=True)
    write_report(report, potential, test, prediction)
    write_report(IMAGES / "figure.png", potential, test, prediction, overwrite=True)
    write_data_page(data, statistics_of(train))
    # no wider than 960: a page shows pictures at three quarters of that, and their text must stay readable
    shots = [("report", report, 960, 880, False, READY), ("report_phone", report, 390, 844, True, READY)]
    shots += [("report_errors", report, 960, 940, False, READY), ("data", data, 960, 900, False, "true")]
    with browser(folder / "profile") as tab:
        for name, page, width, height, dark, ready in shots:
            tab.open(page, width=width, height=height, dark=dark, scale=1.0 if width < 600 else 1.5)
            tab.wait(ready)
            if name == "report":
                tab.value("document.querySelector('button[data-plot=\"1\"]').click()")
            if name in BEGINS:
                found = f"[...document.querySelectorAll('h2')].find(h => h.textContent.startsWith('{BEGINS[name]}'))"
                tab.value(f"{found}.scrollIntoView()")
            time.sleep(1.0)  # the 3D view turns to its place
            tab.picture(IMAGES / f"{name}.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
