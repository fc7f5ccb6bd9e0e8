"""Install the newest wheel of a folder into a fresh environment without a compiler, train and predict there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
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


# What systems of a manylinux_2_28 tag have at least (PEP 600): versions of symbols of glibc and of the C++ runtime.
# libgomp.so.1 is not among them: torch, which is required, brings it.
OLDEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}


def check_tag(wheel: Path) -> None:
    """Refuse a wheel whose library needs a newer system than its name says."""
    if "manylinux_2_28" not in wheel.name:
        raise SystemExit(f"{wheel.name} is not tagged manylinux_2_28. Build it with: make wheel.")
    with zipfile.ZipFile(wheel) as archive:
        library = archive.read("qml_lightning/_native/libqml_lightning.so")
    for name, oldest in OLDEST.items():
        found = re.findall(rb"\0%s_([0-9.]+)(?=\0)" % name.encode(), library)
        newest = max((tuple(int(part) for part in version.split(b".")) for version in found), default=(0,))
        print(f"needs {name} {'.'.join(map(str, newest))}, there is {'.'.join(map(str, oldest))}")
        if newest > oldest:
            raise SystemExit(f"{wheel.name} needs {name} {newest}, newer than its tag allows: {oldest}.")


def main() -> None:
    wheels = sorted(Path(sys.argv[1]).glob("*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        raise SystemExit(f"There is no wheel in {sys.argv[1]}. Build one: make wheel.")
    print(f"{wheels[-1].name}, {wheels[-1].stat().st_size / 1e6:.1f} MB")
    check_tag(wheels[-1])
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
