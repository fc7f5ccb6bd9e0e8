"""The native library needs nothing of x86 where the compiler does not say that it is there: so it builds on ARM64."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT

NATIVE = ROOT / "native"
SOURCES = sorted(set((NATIVE / "src").rglob("*.cpp")) - {NATIVE / "src" / "isa" / "glibc.cpp"})  # x86-64 alone
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
ELSEWHERE = ["-U__SSE2__", "-U__SSE__", "-U__MMX__", "-DQML_ISA=baseline", "-DQML_VECTOR_BYTES=16"]

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")


def preprocessed(source: Path, *options: str) -> str:
    folders = [f"-I{NATIVE / 'include'}", f"-I{NATIVE / 'src'}"]
    command = [str(COMPILER), "-E", "-P", "-std=gnu++17", *folders, *options, str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_without_the_macros_of_x86_no_intrinsic_is_reached(source):
    found = preprocessed(source, *ELSEWHERE)
    assert not re.search(r"\b_mm\d*_\w+|__m(128|256|512)\b|__builtin_ia32|__builtin_cpu_supports", found)


def test_the_search_finds_intrinsics_where_there_are_some():
    if os.uname().machine != "x86_64":
        pytest.skip("not on x86")
    found = preprocessed(NATIVE / "src" / "fchl19" / "fchl19.cpp", "-DQML_ISA=baseline", "-DQML_VECTOR_BYTES=16")
    assert re.search(r"_mm_sqrt_ps", found)


def test_a_library_that_cannot_be_used_is_told_and_not_passed_over(tmp_path):
    """Plain torch then serves, many times slower: the reason must be seen."""
    library = tmp_path / "libqml_lightning.so"
    library.write_bytes(b"no library")
    code = "import torch; from qml_lightning.kernels import kernels_for; print(kernels_for('cpu', torch.float32).NAME)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        # tests of the GPU's kernels set this variable, with which those would serve the CPU
        env=os.environ | {"QML_LIGHTNING_LIBRARY": str(library), "TRITON_INTERPRET": "0"},
    )  # fmt: skip
    assert done.stdout == "reference\n"
    assert "Plain torch takes the place of the native kernels" in done.stderr
    assert str(library) in done.stderr
