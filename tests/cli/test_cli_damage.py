"""Damaged files, absurd options and failing disks: a word and an exit code, and nothing that a user made is lost."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import ase.io
import numpy as np
import pytest
import torch
from ase.build import molecule
from safetensors.torch import load_file

from altered_files import alter, write_checksum
from qml_lightning import load
from qml_lightning.cli import main
from qml_lightning.machine.tensors import write_tensors
from qml_lightning.model.file import FORMAT, read_header

TINY = ["--features", "128", "--rank", "32", "--ridge", "1e-6", "--no-label-check"]
DEEP = "[" * 500 + "]" * 500


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    files = ["-m", f"{folder}/m.safetensors", "--equations", f"{folder}/m.eq"]
    assert main(["train", "ethanol:train@0:20", *files, *TINY]) == 0
    return folder


@pytest.fixture(scope="module")
def with_committee(tmp_path_factory) -> bytes:
    """A model file with a committee."""
    path = tmp_path_factory.mktemp("committee") / "u.safetensors"
    assert main(["train", "ethanol:train@0:20", "-m", str(path), "--committee", "4", *TINY]) == 0
    return path.read_bytes()


@pytest.fixture
def run(capsys, tmp_path, monkeypatch, made):
    """Exit code and all that is printed by a command, in a folder with copies of a model and its equations."""
    monkeypatch.chdir(tmp_path)
    for file in made.iterdir():
        Path(file.name).write_bytes(file.read_bytes())

    def run_(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return code, "".join(capsys.readouterr())

    return run_


def _set(*path: str, to: object):
    def change(header: dict) -> None:
        for key in path[:-1]:
            header = header[key]
        header[path[-1]] = to

    return change


HEADERS = {
    "rank 0": _set("recipe", "rank", to=0),
    "rank of text": _set("recipe", "rank", to="32"),
    "rank of 10^30": _set("recipe", "rank", to=10**30),
    "half a rank": _set("recipe", "rank", to=32.5),
    "no features": _set("recipe", "features", "n_features", to=0),
    "features of a list": _set("recipe", "features", to=[]),
    "unknown feature map": _set("recipe", "features", "method", to="gauss"),
    "no width": _set("recipe", "features", "sigma", to=0.0),
    "a width that is a list": _set("recipe", "features", "sigma", to=[8.0]),
    "unknown field": _set("recipe", "colour", to="red"),
    "recipe of nothing": _set("recipe", to=None),
    "recipe of text": _set("recipe", to="default"),
    "precision of 16 bits": _set("recipe", "precision", to="float16"),
    "no radial functions": _set("recipe", "representation", "n_radial2", to=-1),
    "cutoff of text": _set("recipe", "representation", "cutoff", to="six"),
    "endless cutoff": _set("recipe", "representation", "cutoff", to=float("inf")),
    "unknown representation": _set("recipe", "representation", "kind", to="soap"),
    "elements of text": _set("elements", to="HCO"),
    "elements in disorder": _set("elements", to=[8, 6, 1]),
    "an element twice": _set("elements", to=[1, 1, 8]),
    "elements of floats": _set("elements", to=[1.0, 6.0, 8.0]),
    "no elements": _set("elements", to=[]),
    "an element of 30 digits": _set("elements", to=[1, 6, 10**30]),
    "element 119": _set("elements", to=[1, 6, 119]),
    "provenance of a list": _set("provenance", to=[1]),
    "a number for provenance": _set("provenance", to=3),
    "data of numbers": _set("provenance", "data", to={"draws": [1]}),
    "a choice of nothing": _set("provenance", "choice", to={}),
    "deep JSON": _set("provenance", to=json.loads(DEEP)),
}


@pytest.mark.parametrize("checksum", ["none", "right"])
@pytest.mark.parametrize("what", HEADERS)
def test_a_model_with_a_strange_header_is_refused_in_words(run, what, checksum):
    alter(Path("m.safetensors"), HEADERS[what], checksum=checksum)
    code, said = run("info", "m.safetensors")
    assert code == 4, said
    assert "m.safetensors" in said


EQUATIONS = {
    "no weights": _set("n_weights", to=0),
    "weights of text": _set("n_weights", to="many"),
    "parts of a list": _set("parts", to=[]),
    "unknown part": _set("parts", "colours", to={"form": "gram", "n": 1, "n_targets": 1, "waiting": 0}),
    "a part without a form": _set("parts", "forces", to={}),
    "negative rows": _set("parts", "forces", "n", to=-3),
    "no targets": _set("parts", "forces", "n_targets", to=0),
    "more structures than there are": _set("structures", to=21),
    "a position of text": _set("position", to="end"),
    "rank 0": _set("recipe", "rank", to=0),
    "no elements": _set("elements", to=[]),
    "atoms of text": _set("atoms", to="many"),
    "data of numbers": _set("data", "draws", to=[1]),
    "a choice of nothing": _set("choice", to={}),
}


@pytest.mark.parametrize("what", EQUATIONS)
def test_equations_with_a_strange_header_are_refused_in_words_and_both_files_stay(run, what):
    alter(Path("m.eq"), EQUATIONS[what])
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    code, said = run("update", "m.safetensors", "ethanol:train@20:22", "--equations", "m.eq", "--no-label-check")
    assert code == 4, said
    assert "m.eq" in said
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_one_flipped_bit_is_told_by_every_command_that_reads_the_file(run):
    for name in ("m.safetensors", "m.eq"):
        raw = bytearray(Path(name).read_bytes())
        raw[-5] ^= 1
        Path(name).write_bytes(raw)
    for arguments in (
        ("info", "m.safetensors"),
        ("info", "m.eq"),
        ("predict", "m.safetensors", "ethanol:test@0:1", "-o", "p.extxyz"),
        ("merge", "m.eq", "m.eq", "-o", "sum.eq"),
    ):
        code, said = run(*arguments)
        assert (code, "is damaged" in said) == (4, True), said
    assert {path.name for path in Path().iterdir()} == {"m.safetensors", "m.eq"}


def test_info_tells_whether_there_is_a_checksum(run):
    assert "sha256, verified" in run("info", "m.safetensors")[1]
    assert "sha256, verified" in run("info", "m.eq")[1]
    alter(Path("m.safetensors"), lambda header: None, checksum="none")
    code, said = run("info", "m.safetensors")
    assert code == 0
    assert "none: an older version wrote this file" in said


def _with_nan(path: str, name: str, value: float) -> None:
    """Put a number into a tensor, with a checksum that is right."""
    tensors = load_file(path)
    raw = Path(path).read_bytes()
    flat = tensors[name].reshape(-1).clone()
    old = tensors[name].contiguous().numpy().tobytes()
    flat[0] = value
    assert raw.count(old) == 1
    Path(path).write_bytes(raw.replace(old, flat.numpy().tobytes()))
    write_checksum(Path(path))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_update_leaves_both_files_alone_when_the_equations_hold_one_nan(run, value):
    _with_nan("m.eq", "forces.moment", value)
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    code, said = run("update", "m.safetensors", "--equations", "m.eq")
    assert code == 4, said
    assert "forces.moment without NaN" in said
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_corrupt_weights_have_the_exit_code_of_a_model_file(run):
    _with_nan("m.safetensors", "weights", float("nan"))
    code, said = run("evaluate", "m.safetensors", "ethanol:test@0:2")
    assert (code, "weights without NaN" in said) == (4, True), said


def test_predictions_that_are_not_finite_are_named_by_their_frames_and_nothing_is_written(run):
    # finite weights whose sum is not: only one element has them
    potential = load("m.safetensors")
    header, tensors = read_header("m.safetensors"), load_file("m.safetensors")
    tensors["baseline"][potential.elements.index(8)] = 1.7e308
    write_tensors("m.safetensors", FORMAT, header, tensors, overwrite=True)
    ase.io.write("in.extxyz", [molecule("CH4"), molecule("O2"), molecule("CH4"), molecule("O3")])
    code, said = run("predict", "m.safetensors", "in.extxyz", "-o", "out.extxyz")
    assert code == 4, said
    assert "2 of 4 predictions are not finite: of frames 1, 3" in said
    assert not Path("out.extxyz").exists()


@pytest.mark.parametrize(
    ("path", "value"),
    [(("size_exponent",), value) for value in (None, "x", [], float("nan"), 10**400)]
    + [(("calibrations", "forces", "noise"), value) for value in (10**12, 1e200, -1.0, "x")],
)
def test_a_strange_committee_is_refused_and_its_numbers_are_finite(run, with_committee, path, value):
    Path("u.safetensors").write_bytes(with_committee)
    alter(Path("u.safetensors"), _set("committee", *path, to=value))
    ase.io.write("in.extxyz", molecule("CH3CH2OH"))
    code, said = run("predict", "u.safetensors", "in.extxyz", "-o", "out.extxyz", "--uncertainty")
    if code == 0:  # a large number is a number
        assert (value, "nan" in Path("out.extxyz").read_text()) == (10**12, False)
    else:
        assert (code, "with a part missing or altered" in said) == (4, True), said
        assert not Path("out.extxyz").exists()


@pytest.mark.parametrize("exponent", [1e300, -1e300])
def test_uncertainties_that_are_not_finite_are_never_written(run, with_committee, exponent):
    Path("u.safetensors").write_bytes(with_committee)
    alter(Path("u.safetensors"), _set("committee", "size_exponent", to=exponent))
    ase.io.write("in.extxyz", molecule("CH3CH2OH"))
    code, said = run("predict", "u.safetensors", "in.extxyz", "-o", "out.extxyz", "--uncertainty")
    assert (code, "1 of 1 predictions are not finite" in said) == (4, True), said
    assert not Path("out.extxyz").exists()


def test_properties_that_are_not_finite_are_never_written(run):
    frames = [molecule("H2O").positions * (1 + 0.01 * k) for k in range(12)]
    np.savez("p.npz", R=np.array(frames), z=[8, 1, 1], size=np.arange(12.0))
    fast = ["--features", "64", "--rank", "32", "--recipe", "default"]
    assert run("properties", "p.npz", "-m", "p.safetensors", "--property", "size", *fast)[0] == 0
    header, tensors = read_header("p.safetensors"), load_file("p.safetensors")
    tensors["baseline"].fill_(1.7e308)
    write_tensors("p.safetensors", FORMAT, header, tensors, overwrite=True)
    ase.io.write("in.extxyz", [molecule("H2O")])
    code, said = run("predict", "p.safetensors", "in.extxyz", "-o", "out.extxyz")
    assert (code, "1 of 1 predictions are not finite" in said) == (4, True), said
    assert not Path("out.extxyz").exists()


def test_train_with_an_enormous_force_leaves_no_model_behind(run):
    from qml_lightning import load_dataset

    data = load_dataset("ethanol:train@0:20")
    force = data.labels.forces.reshape(20, 9, 3).numpy().copy()
    force[3, 2, 1] = 1e200
    np.savez("odd.npz", R=data.structures.positions.reshape(20, 9, 3).numpy(), z=data.structures.numbers[:9].numpy(),
             E=data.labels.energies.numpy(), F=force)  # fmt: skip
    more = ["--energy-unit", "eV", *TINY, "--equations", "new.eq"]
    code, said = run("train", "odd.npz", "-m", "new.safetensors", *more)
    assert code not in (0, 1), said
    assert not Path("new.safetensors").exists()
    assert not Path("new.eq").exists() or bool(torch.isfinite(load_file("new.eq")["forces.moment"]).all())


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--seed", "-1"], "--seed is a number from 0 to"),
        (["--ridge", "inf"], "ridge is a finite number"),
        (["--ridge", "nan"], "ridge is a finite number"),
        (["--sigma", "inf"], "sigma is a finite number"),
        (["--energy-weight", "inf"], "--energy-weight is a finite number"),
        (["--cutoff", "inf"], "--cutoff is a finite number, got inf"),
        (["--rank", "0"], "--rank is at least 1, got 0"),
        (["--threads", "100000"], "too many for"),
        (["--reference-energies", "H=inf,C=1,O=1"], "H=inf"),
    ],
)
def test_an_absurd_option_of_training_is_told_before_the_work(run, options, word):
    code, said = run("train", "ethanol:train@0:20", "-m", "new.safetensors", *options)
    assert (code, word in said) == (2, True), said


@pytest.mark.parametrize(
    "content",
    ["[]", "3", DEEP, '{"format": "qml-lightning-recipe", "recipe": 1}', '{"format": "qml-lightning-recipe"}',
     '{"format": "qml-lightning-recipe", "recipe": {"representation": [], "features": 1}}'],
)  # fmt: skip
def test_a_recipe_file_of_strange_json_is_told_in_words(run, content):
    Path("r.json").write_text(content)
    code, said = run("train", "ethanol:train@0:20", "-m", "new.safetensors", "--recipe", "r.json")
    assert (code, "r.json" in said) == (2, True), said


def test_a_recipe_file_with_fields_of_another_kind_is_told_in_words(run):
    content = {"format": "qml-lightning-recipe", "recipe": read_header("m.safetensors")["recipe"] | {"ridge": "small"}}
    Path("r.json").write_text(json.dumps(content))
    code, said = run("train", "ethanol:train@0:20", "-m", "new.safetensors", "--recipe", "r.json")
    assert (code, "ridge is a number, got 'small'" in said) == (2, True), said


def test_a_read_only_model_is_refused_before_the_fit(run, monkeypatch):
    monkeypatch.setattr("qml_lightning.api.Request.fit", lambda *_: pytest.fail("the fit had begun"))
    Path("m.safetensors").chmod(0o444)
    code, said = run("train", "ethanol:train@0:20", "-m", "m.safetensors", "--overwrite", *TINY)
    assert (code, "is read-only" in said) == (2, True), said


def test_a_fit_is_kept_beside_when_its_folder_is_gone_at_the_end(run, monkeypatch):
    from qml_lightning.training import fit as training

    Path("results").mkdir()
    whole = training.Provenance.here

    def at_the_end(**known):
        Path("results").rmdir()
        return whole(**known)

    monkeypatch.setattr(training.Provenance, "here", at_the_end)
    code, said = run("train", "ethanol:train@0:20", "-m", "results/new.safetensors", *TINY, "--checkpoint", "c")
    assert (code, "Nothing is lost: it is in" in said) == (3, True), said
    assert load("new-1.safetensors").elements == (1, 6, 8)


@pytest.mark.parametrize("step", ["before the journal", "after the journal", "between the two files", "at the end"])
def test_an_update_that_is_killed_leaves_model_and_equations_that_belong_together(run, made, step):
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    arguments = ["ethanol:train@20:24", "--equations", "m.eq", "--no-label-check"]
    child = os.fork()
    if child == 0:
        # the call of `os.replace` at which it dies: both files under temporary names, the journal, equations, model
        die_at = ["before the journal", "after the journal", "between the two files", "at the end"].index(step) + 3
        whole, calls = os.replace, []

        def dying(*paths):
            calls.append(paths)
            if len(calls) == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            whole(*paths)

        os.replace = dying
        if step == "at the end":
            Path.unlink = lambda self, **_: os.kill(os.getpid(), signal.SIGKILL) if "together" in self.name else None
        main(["update", "m.safetensors", *arguments])
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert run("info", "m.eq")[0] == 0  # finishes what was begun
    now = {name: Path(name).read_bytes() for name in before}
    both_old = now == before
    both_new = all(now[name] != before[name] for name in before)
    assert both_old if step == "before the journal" else both_new
    counts = [json.loads(run("info", name, "--json")[1]) for name in before]
    structures = {header.get("structures") or header["provenance"]["structures"] for header in counts}
    assert structures == {20 if both_old else 24}
    assert run("update", "m.safetensors", "ethanol:train@30:32", "--equations", "m.eq", "--no-label-check")[0] == 0
    assert {path.name for path in Path().iterdir()} == before.keys()


def test_equations_whose_folder_is_gone_are_kept_elsewhere_and_the_fit_goes_on(run, monkeypatch):
    from qml_lightning.training.solvers import direct

    Path("results").mkdir()
    whole = direct._gathered

    def gathered(task):
        found = whole(task)
        Path("results").rmdir()
        return found

    monkeypatch.setattr(direct, "_gathered", gathered)
    code, said = run("train", "ethanol:train@0:20", "-m", "new.safetensors", "--equations", "results/new.eq", *TINY)
    assert code == 0, said
    assert "Nothing is lost: it is in" in said
    assert "The fit goes on" in said
    assert "The equations are in" not in said
    assert load("new.safetensors").elements == (1, 6, 8)
    assert "20 with 180 atoms" in run("info", "new-1.eq")[1]
