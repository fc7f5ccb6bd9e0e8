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
# With wheels, and without.
LOCKS = [(ROOT / name).read_text() for name in ("requirements.lock", "requirements-source.lock")]


@pytest.mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="not the environment of `make setup`")
def test_nothing_is_installed_that_is_not_listed():
    installed = {normal(one.metadata["Name"]): one.version for one in distributions()}
    assert {name: version for name, version in installed.items() if name not in NOT_LISTED} == {
        name: version for name, version in CONSTRAINTS.items() if name in installed and name not in NOT_LISTED
    }


def test_the_lock_file_has_the_versions_of_the_constraints_and_a_hash_for_each():
    wheels, sources = map(versions, LOCKS)
    assert wheels | sources == {name: version for name, version in CONSTRAINTS.items() if name not in NOT_LISTED}
    assert not wheels.keys() & sources.keys()
    for block in re.split(r"\n(?=\S)", "\n".join(LOCKS)):
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
    # build backends are among those listed
    assert "--no-build-isolation --require-hashes --requirement requirements-source.lock" in recipe
    assert "--no-build-isolation --editable ." in recipe


def test_nothing_brings_torch_from_the_index_or_a_build_for_gpus():
    """torch comes by its version alone, and no package that is listed is CUDA for it."""
    assert "--no-deps" in (ROOT / "Makefile").read_text()
    assert "torch" not in {name for lock in LOCKS for name in versions(lock)}
    assert not [name for name in CONSTRAINTS if name.startswith(("nvidia-", "cuda-"))]
