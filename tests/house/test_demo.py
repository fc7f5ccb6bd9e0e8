"""The demo runs to its end and leaves a model and a summary."""

from __future__ import annotations

import subprocess
import sys

from places import ROOT
from qml_lightning import load


def test_the_demo_trains_a_model_and_says_what_comes_next(tmp_path):
    # fewer features: the same lines in a second
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'examples')!r}); import demo; from pathlib import Path; "
    code += f"demo.N_FEATURES = 256; demo.main(Path({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Next:" in done.stdout
    assert load(tmp_path / "ethanol.safetensors").recipe.features.n_features == 256
    assert (tmp_path / "summary.html").stat().st_size > 10_000
