"""The program of `make sanitize-threads` builds and runs, here without the sanitizer: it follows the C interface."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kernel_tables import ON_CPU
from places import ROOT
from qml_lightning.kernels.native.library import library

COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")

pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler"),
    pytest.mark.skipif("native" not in ON_CPU, reason="the native kernels are not built"),
    pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitized library needs its runtime"),
]


def test_threads_get_the_numbers_of_one_alone_and_share_a_predictor_until_it_is_destroyed(tmp_path):
    path, program = Path(library()._name).resolve(), tmp_path / "native_threads"
    source = ROOT / "tests" / "kernels" / "native_threads.cpp"
    built = subprocess.run(
        [str(COMPILER), "-std=gnu++17", "-O1", f"-I{ROOT / 'native' / 'include'}", str(source), str(path),
         f"-Wl,-rpath,{path.parent}", "-Wl,--allow-shlib-undefined", "-pthread", "-o", str(program)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert "found the numbers of one alone" in done.stdout
