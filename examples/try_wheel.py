"""Install the newest wheel of a folder into a fresh environment without a compiler, train and predict there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
USE = """
import shutil
import qml_lightning as qml
from dataclasses import replace
from qml_lightning.kernels import kernels_for
import torch
assert shutil.which("cc") is None and shutil.which("c++") is None, "there is a compiler"
recipe = qml.recipes.DEFAULT
recipe = replace(recipe, features=replace(recipe.features, n_features=1024))
potential = qml.fit(qml.load_dataset("ethanol:train@0:50"), recipe)
errors = qml.evaluate(potential, qml.load_dataset("ethanol:test@0:50"))
print(f"{kernels_for('cpu', torch.float32).NAME} kernels, force MAE {1000 * errors.forces.mae:.0f} meV/Å")
assert kernels_for("cpu", torch.float32).NAME == "native"
"""


def main() -> None:
    wheels = sorted(Path(sys.argv[1]).glob("*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        raise SystemExit(f"There is no wheel in {sys.argv[1]}. Build one: make wheel.")
    print(f"{wheels[-1].name}, {wheels[-1].stat().st_size / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *constraints]
        subprocess.run([*pip, "torch"], check=True)
        subprocess.run([*pip, str(wheels[-1])], check=True)
        no_compiler = {**os.environ, "PATH": str(Path(folder) / "bin")}
        subprocess.run([python, "-c", USE], check=True, env=no_compiler, cwd=folder)


if __name__ == "__main__":
    main()
