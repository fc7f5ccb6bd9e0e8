"""The command `properties`, and the commands that take its models."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ase.build import molecule
from ase.io import read, write

from structures_for_tests import rattled

NAMES = ("CH3OH", "H2O", "CH4")
FIT = ["--features", "256", "--rank", "64", "--sigma", "8", "--representation", "cosine-series"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Molecules with a sum over atoms, a mean over atoms and a vector in their headers."""
    frames = [rattled(molecule(NAMES[k % 3]), k, 0.05) for k in range(45)]
    for atoms in frames:
        total = float(np.exp(-(atoms.get_all_distances() ** 2)).sum())
        charges = np.where(atoms.numbers == 1, 0.3, -0.6)
        atoms.info.update(alpha=total, gap=total / len(atoms), mu=(charges - charges.mean()) @ atoms.positions)
    path = tmp_path_factory.mktemp("properties") / "set.extxyz"
    write(path, frames)
    return path


@pytest.fixture(scope="module")
def trained(data):
    from qml_lightning.cli import main

    path = data.with_name("model.safetensors")
    wanted = ["--property", "alpha,gap", "--intensive", "gap", "--dipole", "mu"]
    assert main(["properties", str(data), "-m", str(path), *wanted, *FIT]) == 0
    return path


def test_several_properties_are_learnt_and_their_errors_on_held_out_structures_told(run, data):
    code, out, error = run(
        "properties", data, "-m", "m.safetensors", "--property", "alpha,gap", "--intensive", "gap", "--valid", "0.2",
        *FIT, "--json",
    )  # fmt: skip
    assert code == 0, error
    told = json.loads(out)
    assert [one["kind"] for one in told["properties"]] == ["extensive", "intensive"]
    assert told["provenance"]["structures"] == 36
    assert 0 < told["validation"]["alpha"]["mae"] < 0.1


def test_predict_writes_properties_under_their_names(run, data, trained):
    assert run("predict", trained, data, "-o", "out.extxyz")[0] == 0
    wanted, found = read(data, ":"), read("out.extxyz", ":")
    for name in ("alpha", "gap", "mu"):
        difference = np.array([a.info[name] - b.info[name] for a, b in zip(wanted, found, strict=True)])
        assert 0 < np.abs(difference).max() < 0.05
    for ending in ("npz", "traj"):
        assert run("predict", trained, data, "-o", f"out.{ending}")[0] == 0
    assert np.load("out.npz")["mu"].shape == (45, 3)
    assert run("predict", trained, data, "-o", "again.extxyz", "--uncertainty")[0] == 2


def test_evaluate_and_info_take_the_model(run, data, trained):
    code, out, _ = run("evaluate", trained, data, "--json")
    assert code == 0
    assert json.loads(out)["properties"].keys() == {"alpha", "gap", "mu"}
    code, out, _ = run("info", trained)
    assert code == 0
    assert "mu (dipole)" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--property"),
        (["--property", "alpha", "--intensive", "gap"], "--intensive names gap"),
        (["--property", "alpha,beta"], "beta"),
        (["--property", "mu", "--dipole", "mu"], "not by both"),
        (["--property", "alpha", "--method", "gpr"], "--method"),
        (["--property", "alpha", "--baseline", "gap"], "--baseline"),
    ],
)
def test_wrong_wishes_are_refused_in_words(run, data, arguments, words):
    code, _, error = run("properties", data, "-m", "m.safetensors", *arguments)
    assert code == 2
    assert words in " ".join(error.split())


def test_a_model_of_properties_runs_no_dynamics(run, data, trained):
    code, _, error = run("md", trained, data, "-o", "run.extxyz", "--steps", "2")
    assert code == 2
    assert "model of properties" in " ".join(error.split())
