"""Files that an older version wrote still serve: a fit goes on from them to the model of that version.

`data/df681ca/make.py` wrote them with the package of commit df681ca; its model is the oracle.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open

from places import ROOT
from qml_lightning import fit, load, load_dataset
from qml_lightning.training.equations_file import load_equations
from qml_lightning.training.solvers.direct import solved

OLD = ROOT / "tests" / "data" / "df681ca"


@pytest.fixture(scope="module")
def model():
    return load(OLD / "model.safetensors")


def weights_agree(found, wanted, tolerance: float) -> bool:
    return bool((found.weights - wanted.weights).norm() < tolerance * wanted.weights.norm())


def test_equations_of_an_older_version_are_solved_to_its_model(model):
    equations = load_equations(OLD / "fit.equations")
    assert equations.rows == {"energies": 20, "forces": 540}
    assert weights_agree(solved(equations, model.recipe), model, 1e-9)


@pytest.mark.parametrize(
    ("solver", "name", "stage", "first", "tolerance"),
    [("direct", "fit.checkpoint", "equations", 12, 1e-9), ("iterative", "fit.restart", "iterations", 6, 1e-6)],
)
def test_a_fit_goes_on_from_a_checkpoint_of_an_older_version(model, solver, name, stage, first, tolerance, tmp_path):
    path = shutil.copy(OLD / name, tmp_path / name)
    recipe = replace(model.recipe, solver=replace(model.recipe.solver, method=solver))
    told: list[tuple] = []
    keep = {"checkpoint": path, "resume": True, "progress": lambda *what: told.append(what)}
    data = load_dataset("ethanol:train@0:20")
    found = fit(data, recipe, basis=model, kernels="reference", repulsion=False, **keep)
    assert min(done for what, done, *_ in told if what == stage) == first  # not from the beginning
    assert weights_agree(found, model, tolerance)


def test_the_restart_file_has_no_directions_and_a_format_of_its_own():
    with safe_open(OLD / "fit.restart", "pt") as file:
        assert "directions" not in file.keys()  # noqa: SIM118
        assert json.loads(file.metadata()["qml_lightning_iteration"])["format_version"] == 3
        assert torch.any(file.get_tensor("images") != 0)
