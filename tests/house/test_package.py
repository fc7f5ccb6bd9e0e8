"""What `import qml_lightning` offers, and that it is quick."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tomllib

import pytest

from places import HELPERS_FOUND, ROOT


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_fit_is_the_function_whatever_was_imported_before():
    import qml_lightning

    importlib.import_module("qml_lightning.training.fit")
    assert callable(qml_lightning.fit)
    first = "import qml_lightning.study.label_check; from qml_lightning import fit as f"
    assert run(f"{first}\nfrom qml_lightning import fit; print(fit is f)") == "True"


def test_every_public_name_is_there_and_listed():
    import qml_lightning

    for name in qml_lightning.__all__:
        assert getattr(qml_lightning, name) is not None
    assert set(qml_lightning.__all__) <= set(dir(qml_lightning))
    assert qml_lightning.__version__.count(".") >= 1
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        qml_lightning.nonsense  # noqa: B018


def test_importing_the_package_and_asking_for_help_do_not_wait_for_torch():
    code = "import sys, qml_lightning.cli as c; c.main([{}]); print('torch' in sys.modules, 'ase' in sys.modules)"
    for arguments in ("", "'train', '--help'", "'--version'"):
        assert run(code.format(arguments)).endswith("False False")


WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None  # an import of it fails
import os, torch
os.environ.pop("TRITON_INTERPRET", None)
from small_models import molecules, recipe
from qml_lightning import fit
from qml_lightning.cli import main
from qml_lightning.model.recipe import SolverSettings
from qml_lightning.model.representations.density import Density

data, density = molecules(8), Density(cutoff=4.5, density_cutoff=4.0, n_pair=5, n_radial=4, n_channels=16)
pairs = SolverSettings("iterative", "compensated", preconditioner_features=16)
one = data.structures.select([0])
for changes in ({}, {"representation": density}, {"solver": pairs, "precision": "float32"}):
    potential = fit(data, recipe(n_features=32, **changes))
    energy = potential.module()(one.positions, one.numbers)
    assert torch.allclose(energy, potential.on(kernels="reference").predict(one).energies)
main(["info"])
print("done", [name for name in sys.modules if name.startswith("triton") and sys.modules[name] is not None])
"""


def test_an_installation_for_the_cpu_needs_no_triton():
    environment = {**os.environ, "PYTHONPATH": HELPERS_FOUND}
    done = subprocess.run([sys.executable, "-c", WITHOUT_TRITON], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("done []")


def test_every_extra_that_is_named_anywhere_can_be_installed():
    there = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    files = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = {name for path in files for name in re.findall(r"qml-lightning\[(\w+)\]", path.read_text(encoding="utf-8"))}
    table = re.search(r"^\| extra .*?\n\n", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE | re.DOTALL)
    named |= {name for row in table[0].strip().splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == there - {"test", "dev"}
