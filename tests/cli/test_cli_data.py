"""Messages about data: notes and warnings, formats of predictions, harmless names, reasons for every refusal."""

from __future__ import annotations

import json
from pathlib import Path

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import qml_lightning as qml
from qml_lightning.cli.screen import harmless
from qml_lightning.datasets import load
from qml_lightning.model.file import read_header
from structures_for_tests import rattled

TINY = ["--features", "256", "--rank", "64", "--train-size", "40", "--ridge", "1e-8", "--no-label-check"]


# formats of predictions


@pytest.mark.parametrize("name", ["p.extxyz", "p.xyz", "p.xyz.gz", "p.traj", "p.db", "p.json", "p.npz"])
def test_predictions_have_the_format_of_their_ending(run, model, name):
    code, out, err = run("predict", model, "ethanol:test@0:4", "-o", name)
    assert code == 0, err
    wanted = qml.load(model).predict(load("ethanol:test@0:4").structures)
    ours = load(name, labels="required")
    assert np.allclose(ours.labels.energies, wanted.energies, atol=1e-6)
    assert np.allclose(ours.labels.forces, wanted.forces, atol=1e-6)
    assert f"are in {name}" in out
    if name != "p.npz":
        frames = ase.io.read(name, ":")
        assert [len(atoms) for atoms in frames] == [9] * 4
        assert frames[2].get_potential_energy() == pytest.approx(float(wanted.energies[2]))


@pytest.mark.parametrize("name", ["p.cif", "p", "p.xyzz", "p.safetensors"])
def test_a_format_that_is_not_written_is_refused_at_the_door_with_the_list(run, monkeypatch, name):
    monkeypatch.setattr("qml_lightning.cli.options.load_potential", lambda _: pytest.fail("too late"))
    code, _, err = run("predict", "m.safetensors", "ethanol", "-o", name)
    assert code == 2
    assert ".extxyz, .xyz" in err
    assert ".traj, .db, .json, .npz" in err
    assert not Path(name).exists()


def test_a_file_that_exists_is_replaced_only_when_asked_in_every_format(run, model):
    for name in ("p.traj", "p.db", "p.npz"):
        assert run("predict", model, "ethanol:test@0:4", "-o", name)[0] == 0
        assert run("predict", model, "ethanol:test@0:2", "-o", name)[0] == 2
        assert run("predict", model, "ethanol:test@0:2", "-o", name, "--overwrite")[0] == 0
        assert len(load(name)) == 2


# names that steer a terminal

ESCAPE = "\x1b]0;owned\x07\x1b[31mred\x9b31m\u202egnp"


def with_header(model: Path, target: Path, change) -> Path:
    with safe_open(model, "pt") as file:
        metadata = file.metadata()
    header = json.loads(metadata["qml-lightning"])
    header.pop("checksum", None)
    change(header)
    save_file(load_file(model), target, {"qml-lightning": json.dumps(header)})
    return target


def test_escape_codes_of_a_model_header_do_not_reach_the_terminal(run, model):
    def change(header):
        header["provenance"]["data"] |= {"name": ESCAPE, "citation": ESCAPE, "references": ESCAPE}
        header["provenance"]["versions"] = {ESCAPE: ESCAPE}

    path = with_header(model, Path("m.safetensors"), change)
    for extra in ([], ["--json"]):
        code, out, err = run("info", path, *extra)
        assert code == 0, err
        assert "owned" in out
        for steering in "\x1b\x07\x9b\u202e":
            assert steering not in out + err


def test_escape_codes_of_data_do_not_reach_the_terminal(run, model):
    name = f"{ESCAPE}.extxyz".replace("/", "")
    atoms = molecule("CH3CH2OH")
    atoms.info[f"key{ESCAPE}"] = 1.0
    atoms.calc = EMT()
    atoms.get_forces()
    ase.io.write("plain.extxyz", [atoms])
    Path("plain.extxyz").rename(name)
    for arguments in (["evaluate", model, name], ["train", name, "-m", "x.safetensors", "--targets", "stress"]):
        _, out, err = run(*arguments)
        assert "owned" in out + err
        for steering in "\x1b\x07\x9b\u202e":
            assert steering not in out + err


def test_ordinary_text_is_left_as_it_is():
    assert harmless("σ = 4 Å³ — naïve 水\n\tx") == "σ = 4 Å³ — naïve 水\n\tx"
    assert harmless("a\x1bb\x9bc\u202ed") == "a\\x1bb\\x9bc\\u202ed"


def test_a_model_keeps_name_and_checksum_of_its_data_and_no_path(run, tmp_path):
    folder = tmp_path / "private"
    folder.mkdir()
    frames = []
    for k in range(12):
        atoms = rattled(molecule("CH3OH"), k, 0.05)
        atoms.calc = EMT()
        atoms.get_forces()
        frames.append(atoms)
    ase.io.write(folder / "mine.extxyz", frames)
    code, _, err = run("train", folder / "mine.extxyz", "-m", "m.safetensors", "--equations", "m.equations", *TINY[:4],
                       "--ridge", "1e-8", "--no-label-check")  # fmt: skip
    assert code == 0, err
    data = read_header("m.safetensors")["provenance"]["data"]
    assert data["name"] == data["path"] == "mine.extxyz"
    assert len(data["sha256"]) == 64
    for file in ("m.safetensors", "m.equations"):
        assert str(folder).encode() not in Path(file).read_bytes()


# told before the fit


def test_notes_and_warnings_of_the_data_come_before_the_fit(run, monkeypatch):
    frames = []
    for k in range(6):
        atoms = rattled(molecule("CH3OH"), k, 0.05)
        atoms.calc = EMT()
        atoms.get_forces()
        atoms.info |= {"charge": k % 2, "dipole_size": 1.0}
        frames.append(atoms)
    ase.io.write("mine.extxyz", frames)
    monkeypatch.setattr("qml_lightning.api.Request.fit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    code, _, err = run("train", "mine.extxyz", "-m", "m.safetensors", "--no-label-check")
    assert code == 130
    assert "Warning: mine.extxyz: charge differs between frames (0 … 1)" in err
    assert "not read: dipole_size" in err


def test_train_and_info_tell_how_reference_energies_were_found(run, model):
    _, out, _ = run("info", model)
    assert "single values have no meaning" in " ".join(out.split())
    free = {"H": -13.6, "C": -1029.8, "O": -2041.3}
    frames = [Atoms(symbol, info={"energy": energy, "config_type": "IsolatedAtom"}) for symbol, energy in free.items()]
    for k in range(12):
        atoms = rattled(molecule(("CH3OH", "H2O", "CH4")[k % 3]), k, 0.05)
        atoms.calc = EMT()
        labels = {"energy": atoms.get_potential_energy() - 3.0 * len(atoms), "forces": atoms.get_forces()}
        labels["energy"] += sum(free[symbol] for symbol in atoms.symbols)
        atoms.calc = SinglePointCalculator(atoms, **labels)
        frames.append(atoms)
    ase.io.write("mine.extxyz", frames)
    code, out, err = run(
        "train", "mine.extxyz", "-m", "m.safetensors", *TINY[:4], "--ridge", "1e-8", "--no-label-check"
    )
    assert code == 0, err
    assert "free atoms of the data (H, C, O)" in out
    assert load_file("m.safetensors")["baseline"].tolist() == [-13.6, -1029.8, -2041.3]


# options that make no sense


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--seed", "-1"], "--seed is a number from 0"),
        (["--seed", "99999999999999999999"], "--seed is a number from 0"),
        (["--ridge", "inf"], "--ridge is a finite number"),
        (["--ridge", "nan"], "--ridge is a finite number"),
        (["--energy-weight", "inf"], "--energy-weight is a finite number"),
        (["--sigma", "inf"], "--sigma is a finite number"),
        (["--rank", "0", "--method", "rff"], "--rank is at least 1"),
        (["--threads", "100000"], "--threads 100000 is too many"),
        (["--reference-energies", "H=inf,C=1,O=1"], "got H=inf"),
        (["--reference-energies", "H=-13,C=-1000,O=-2000,119=1"], "got 119=1"),
        (["--reference-energies", "deep.json"], "deep.json cannot be read as JSON"),
        (["--reference-energies", "types.json"], "wanted an element and its energy"),
        (["--cutoff", "1e300"], "--cutoff is a length"),
        (["--method", "gauss"], "Unknown feature map 'gauss'"),
        (["--stress-unit", "furlong"], "Unknown stress unit 'furlong'. Known are eV/Å³, GPa, kbar"),
    ],
)
def test_an_option_out_of_range_is_explained(run, options, says):
    Path("deep.json").write_text("[" * 100_000 + "]" * 100_000)
    Path("types.json").write_text('{"H": [1], "C": null}')
    code, _, err = run("train", "ethanol:train@0:20", "-m", "m.safetensors", *options)
    assert code == 2
    assert says in err
    assert "bug" not in err
    assert not Path("m.safetensors").exists()


def test_a_setting_is_refused_when_it_is_made():
    from qml_lightning.errors import InputError
    from qml_lightning.model.features import FeatureSettings

    with pytest.raises(InputError, match=r"Unknown feature map 'gauss'"):
        FeatureSettings(method="gauss")  # type: ignore[arg-type]


def test_the_home_of_nobody_is_refused_wherever_it_stands(run, model):
    for arguments in (
        ["evaluate", model, "~nobody-of-that-name/x.extxyz"],
        ["predict", model, "ethanol@0:1", "-o", "~nobody-of-that-name/x.extxyz"],
        ["train", "ethanol@0:9", "-m", "~nobody-of-that-name/x.safetensors"],
    ):
        code, _, err = run(*arguments)
        assert code == 2, err
        assert "user" in err


@pytest.mark.parametrize(
    ("key", "value"),
    [("structures", "many"), ("targets", 5), ("versions", []), ("seconds", {}), ("data", {"parts": 3})],
)
def test_a_header_of_wrong_types_is_an_unusable_model(run, model, key, value):
    path = with_header(model, Path("m.safetensors"), lambda header: header["provenance"].update({key: value}))
    assert run("info", path)[0] == 4


def test_the_data_sets_are_there_before_anything_was_read():
    import subprocess
    import sys

    code = "import qml_lightning as qml; print(qml.datasets.load('ethanol', limit=1).source.name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "ethanol"


def test_no_command_replaces_the_data_that_it_reads(run, model):
    assert run("predict", model, "ethanol:test@0:6", "-o", "d.extxyz")[0] == 0
    Path("m.safetensors").write_bytes(model.read_bytes())
    Path("e.eq").write_text("equations")
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    for arguments in (
        ["train", "d.extxyz", "-m", "d.extxyz"],
        ["train", "d.extxyz@0:3", "-m", "d.extxyz"],
        ["train", ".", "-m", "d.extxyz"],
        ["train", "ethanol:train", "--valid", "d.extxyz", "-m", "d.extxyz"],
        ["train", "d.extxyz", "-m", "new.safetensors", "--equations", "d.extxyz"],
        ["train", "d.extxyz", "-m", "new.safetensors", "--checkpoint", "d.extxyz"],
        ["predict", "m.safetensors", "d.extxyz", "-o", "d.extxyz"],
        ["update", "m.safetensors", "d.extxyz", "--equations", "e.eq", "-o", "d.extxyz"],
        ["merge", "e.eq", "m.safetensors", "-o", "e.eq"],
        ["properties", "d.extxyz", "--property", "energy", "-m", "d.extxyz"],
        ["select", "d.extxyz", "-n", "2", "--equations", "e.eq", "-o", "d.extxyz"],
        ["tune", "d.extxyz", "-o", "d.extxyz"],
        ["md", "m.safetensors", "d.extxyz", "-o", "d.extxyz"],
    ):
        code, _, err = run(*arguments, "--overwrite")
        assert (code, "is read by this command" in " ".join(err.split())) == (2, True), (arguments, err)
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before
