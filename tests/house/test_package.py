"""What `import qml_lightning` offers, and that it is quick."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest


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
