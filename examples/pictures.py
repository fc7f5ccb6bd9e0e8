"""Pictures of reports for README and docs/gallery.md, taken in headless Chromium.

python examples/pictures.py      # needs chromium, matplotlib and chemiscope
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

import qml_lightning as qml
from qml_lightning.report.data_page import write_data_page
from qml_lightning.report.summary import write_report
from qml_lightning.study.statistics import statistics_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))
from browser import browser  # noqa: E402  # the path was added above

IMAGES = ROOT / "docs" / "images"
# The code that the pictures show, as it was when they were taken: tests/house/test_pictures.py compares.
RECORD = IMAGES / "made_from.txt"
READY = "document.body.dataset.ready === 'viewer'"
# Picture → page, width, dark, headings of the first and the last section; None: from the top of the page.
SHOTS: dict[str, tuple[str, int, bool, str | None, str]] = {
    "report": ("report", 960, False, None, "Predictions"),
    "report_phone": ("report", 390, True, "Predictions", "Predictions"),
    "report_errors": ("report", 960, False, "Distributions", "Distributions"),
    "report_uncertainty": ("report", 960, False, "Uncertainty", "Uncertainty"),
    "data": ("data", 960, False, None, "Energies"),
}
EDGE = 16  # pixels around the sections


def fingerprint() -> str:
    """Checksum of the code that makes pages and figures."""
    report = ROOT / "src" / "qml_lightning" / "report"
    code = sorted([*report.glob("*.py"), *(report / "static").iterdir()])
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in code)).hexdigest()


def main(folder: Path) -> None:
    train, test = qml.load_dataset("ethanol:train"), qml.load_dataset("ethanol:test")
    potential = qml.fit(train, qml.recipes.DEFAULT, n_features=2048, committee=8)
    pages = {name: folder / f"{name}.html" for name in ("report", "data")}
    prediction = potential.predict(test.structures, uncertainty=True)
    write_report(pages["report"], potential, test, prediction)
    write_report(IMAGES / "figure.png", potential, test, prediction, overwrite=True)
    write_data_page(pages["data"], statistics_of(train))
    with browser(folder / "profile") as tab:
        for name, (page, width, dark, first, last) in SHOTS.items():
            # no wider than 960: a page shows pictures at three quarters of that, and their text must stay readable
            scale = 1.0 if width < 600 else 1.5
            # a high window: beyond it, pictures may have white spots beside the 3D view
            tab.open(pages[page], width=width, height=2200, dark=dark, scale=scale)
            tab.wait(READY if page == "report" else "true")
            if name == "report":
                tab.value("document.querySelector('button[data-plot=\"1\"]').click()")
            time.sleep(1.5)  # the 3D view turns to its place
            top = 0.0 if first is None else tab.value(f"{_section(first)}.top") - EDGE
            bottom = tab.value(f"{_section(last)}.bottom") + EDGE
            tab.picture(folder / "whole.png", whole=True)
            whole = Image.open(folder / "whole.png")
            cut = whole.crop((0, round(scale * max(0.0, top)), whole.width, round(scale * bottom)))
            cut.save(IMAGES / f"{name}.png", optimize=True)
    RECORD.write_text(f"{fingerprint()}\n", encoding="utf-8")


def _section(heading: str) -> str:
    """Box of a section of a page, as JavaScript."""
    found = f"[...document.querySelectorAll('h2')].find(h => h.textContent.startsWith('{heading}'))"
    return f"{found}.closest('section').getBoundingClientRect()"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
