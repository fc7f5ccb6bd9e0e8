"""Every installed package is listed, with its version and its hashes."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest

from places import ROOT

# The tool that a virtual environment begins with, this package, and torch: a file of the machine (.ci/lock.py).
NOT_LISTED = {"pip", "qml-lightning", "torch"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def versions(text: str) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s\\]+)", text, re.MULTILINE)
    return {normal(name): version for name, version in found}


CONSTRAINTS = versions((ROOT / "constraints.txt").read_text())
LOCK = (ROOT / "requirements.lock").read_text()


@pytest.mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="not the environment of `make setup`")
def test_nothing_is_installed_that_is_not_listed():
    installed = {normal(one.metadata["Name"]): one.version for one in distributions()}
    assert {name: version for name, version in installed.items() if name not in NOT_LISTED} == {
        name: version for name, version in CONSTRAINTS.items() if name in installed and name not in NOT_LISTED
    }


def test_the_lock_file_has_the_versions_of_the_constraints_and_a_hash_for_each():
    assert versions(LOCK) == {name: version for name, version in CONSTRAINTS.items() if name not in NOT_LISTED}
    for block in re.split(r"\n(?=\S)", LOCK):
        if "==" in block:
            assert re.findall(r"--hash=sha256:[0-9a-f]{64}", block), block


def test_every_dependency_and_the_build_backend_are_listed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    names = {normal(re.match(r"[A-Za-z0-9_.-]+", one)[0]) for one in wanted}
    assert names <= CONSTRAINTS.keys()


def test_setup_asks_for_hashes():
    recipe = (ROOT / "Makefile").read_text()
    assert "--require-hashes --requirement requirements.lock" in recipe
    assert "--no-build-isolation" in recipe  # the build backend is one of those listed
