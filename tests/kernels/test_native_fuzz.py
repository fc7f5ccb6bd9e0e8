"""No argument crashes the native library: it gives the right result, or a code and a sentence."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys

import pytest
import torch

from native_header import declared_functions
from places import HELPERS
from qml_lightning.kernels import native

pytestmark = pytest.mark.skipif(
    (_why := native.why_not(torch.device("cpu"), torch.float32)) is not None, reason=f"native kernels: {_why}"
)

GROUPS = ["features", "tangents", "environments", "predictor", "load", "small"]
SEED = int(os.environ.get("QML_FUZZ_SEED", "0"))


@functools.cache
def calls() -> dict[str, tuple[list[dict[str, str]], str]]:
    """By group: what the program that makes the calls said, and how it ended where it crashed."""
    said: dict[str, tuple[list[dict[str, str]], str]] = {}
    calls_in = str(HELPERS / "native_fuzz_calls.py")
    while len(said) < len(GROUPS):
        program = [sys.executable, calls_in, str(SEED), *GROUPS[len(said) :]]
        done = subprocess.run(program, capture_output=True, text=True)
        for line in map(json.loads, done.stdout.splitlines()):
            if "group" in line:
                said[line["group"]] = ([], "")
            else:
                said[GROUPS[len(said) - 1]][0].append(line)
        if done.returncode == 0:
            break
        assert said, done.stderr
        crashed = GROUPS[len(said) - 1]
        said[crashed] = (said[crashed][0], f"exit code {done.returncode}\n{done.stderr[-3000:]}")
    return said


@pytest.mark.parametrize("group", GROUPS)
def test_every_call_is_right_or_refused_in_words(group):
    lines, crash = calls()[group]
    begun = [line for line in lines if "begun" in line]
    assert begun, crash
    assert not crash, f"{begun[-1]['function']} ended the process: {begun[-1]['begun']}\n{crash}"
    assert [line for line in lines if "wrong" in line] == []


def test_no_function_of_the_header_is_left_out():
    called = {line["function"] for lines, _ in calls().values() for line in lines if "function" in line}
    assert set(declared_functions()) <= called
