"""The pictures of README and gallery show the reports as they are now."""

from __future__ import annotations

import importlib.util

from places import ROOT


def test_pictures_were_taken_of_the_code_that_is_there():
    place = ROOT / "examples" / "pictures.py"
    spec = importlib.util.spec_from_file_location("pictures", place)
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    taken = pictures.RECORD.read_text(encoding="utf-8").strip()
    assert taken == pictures.fingerprint(), (
        "report/ has changed: take the pictures anew with python examples/pictures.py"
    )
    for name in [*pictures.SHOTS, "figure", "figure-errors", "figure-uncertainty"]:
        assert (pictures.IMAGES / f"{name}.png").is_file()
