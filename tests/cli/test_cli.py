"""The command line: each command, its JSON, its exit codes, and a clear word for every kind of bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import ase.io
import numpy as np
import pytest
import torch
from ase import Atoms
from safetensors.torch import load_file, save_file

from qml_lightning import load_dataset
from qml_lightning.cli import main
from qml_lightning.cli.screen import teaching
from qml_lightning.model.file import read_header

TINY = ["--features", "256", "--rank", "64", "--train-size", "40", "--ridge", "1e-8"]


def frames(n: int = 3) -> list[Atoms]:
    data = load_dataset(f"ethanol:test@0:{n}").structures
    return [Atoms(data.numbers[:9].numpy(), r) for r in data.positions.view(-1, 9, 3).numpy()]


# ---- train -----------------------------------------------------------------------------------------------------------


def test_train_writes_a_model_and_tells_the_errors_on_other_structures(run):
    code, out, err = run("train", "ethanol:train", "-m", "m.safetensors", "--valid", "ethanol:test@0:20", *TINY)
    assert code == 0, err
    assert Path("m.safetensors").is_file()
    for word in (
        "40 with 360 atoms",
        "256 SORF",
        "unexplained variance",
        "Errors on ethanol:test@0:20",
        "meV/Å",
        "on H",
    ):
        assert word in out
    assert "\x1b" not in out + err


def test_train_and_info_tell_how_many_ridges_were_compared(run):
    more = ["--features", 4096, "--rank", 64, "--train-size", 40, "--no-label-check"]  # more weights than equations
    code, out, err = run("train", "ethanol:train", "-m", "m.safetensors", *more)
    assert code == 0, err
    solution = read_header(Path("m.safetensors"))["provenance"]["solution"]
    told = f", the best of {len(solution['ridges'])} on held-out structures"
    assert told in out
    assert told in run("info", "m.safetensors")[1]
    assert ", the best of" not in run("train", "ethanol:train", "-m", "given.safetensors", *more, "--ridge", 1e-8)[1]


def test_train_json_is_one_object_with_the_header_and_the_errors(run):
    code, out, _ = run("train", "ethanol:train", "-m", "m.safetensors", "--json", *TINY)
    assert code == 0
    told = json.loads(out)
    assert told["model"] == "m.safetensors"
    assert told["elements"] == [1, 6, 8]
    assert told["recipe"]["features"]["n_features"] == 256
    assert told["provenance"]["targets"] == {"energies": 40, "forces": 1080}
    assert told["training"]["forces"]["mae"] > 0
    assert set(told["explained_variance"]) == {"H", "C", "O"}
    assert told["label_check"]["ok"] is True


def test_every_option_of_the_recipe_arrives_in_the_model(run):
    code, _, err = run(
        "train", "ethanol:train@0:30", "-m", "m.safetensors", "--no-label-check", "--recipe", "angular-pair",
        "--features", 200, "--method", "rff", "--sigma", 5, "--ridge", 1e-7, "--seed", 7, "--rank", 48, "--cutoff", 4.5,
        "--energy-weight", 2, "--force-weight", 0.5, "--precision", "float32", "--targets", "forces,energies",
        "--reference-energies", "H=-13.6, C=-1030, O=-2040", "--threads", 1, "--kernels", "reference",
        "--accumulation", "compensated",
    )  # fmt: skip
    assert code == 0, err
    header = read_header("m.safetensors")
    recipe = header["recipe"]
    assert recipe["features"] | {"n_features": 200, "method": "rff", "sigma": 5.0} == recipe["features"]
    assert recipe["representation"]["angular"] == "pair"
    assert recipe["representation"]["cutoff"] == 4.5
    wanted = {"ridge": 1e-7, "seed": 7, "rank": 48, "energy_weight": 2.0, "force_weight": 0.5, "precision": "float32"}
    assert recipe | wanted == recipe
    assert header["provenance"]["kernels"] == "reference"
    assert header["provenance"]["threads"] == 1
    assert recipe["solver"]["accumulation"] == header["provenance"]["solution"]["accumulation"] == "compensated"
    assert load_file("m.safetensors")["baseline"].tolist() == [-13.6, -1030.0, -2040.0]


def test_the_same_seed_gives_the_same_model_and_another_seed_another(run):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        options = [*TINY, "--no-label-check", "--seed", seed]
        assert run("train", "ethanol:train", "-m", f"{name}.safetensors", *options)[0] == 0
    weights = {name: load_file(f"{name}.safetensors")["weights"] for name in "abc"}
    assert torch.equal(weights["a"], weights["b"])
    assert not torch.equal(weights["a"], weights["c"])


def test_a_report_is_written_as_picture_or_page(run):
    for name, opening in (("s.png", b"\x89PNG"), ("s.html", b"<!doctype html>")):
        options = ["--report", name, "--overwrite", *TINY, "--no-label-check"]
        assert run("train", "ethanol:train", "-m", "m.safetensors", *options)[0] == 0
        assert Path(name).read_bytes().startswith(opening)
    code, _, err = run("train", "ethanol:train", "-m", "n.safetensors", "--report", "s.doc")
    assert (code, Path("n.safetensors").exists()) == (2, False)
    assert ".html or .png or .pdf" in err


def test_reference_energies_come_from_a_json_file_too(run):
    Path("atoms.json").write_text('{"H": -13.6, "6": -1030, "O": -2040}')
    options = ["--reference-energies", "atoms.json", *TINY, "--no-label-check"]
    assert run("train", "ethanol:train", "-m", "m.safetensors", *options)[0] == 0
    assert load_file("m.safetensors")["baseline"].tolist() == [-13.6, -1030.0, -2040.0]


# ---- evaluate, predict, info, datasets -------------------------------------------------------------------------------


def test_evaluate_tells_the_errors_that_an_independent_sum_gives(run, model):
    code, out, _ = run("evaluate", model, "ethanol:test@0:25", "--json")
    assert code == 0
    told = json.loads(out)
    assert run("predict", model, "ethanol:test@0:25", "-o", "p.extxyz")[0] == 0
    predicted = ase.io.read("p.extxyz", ":")
    truth = load_dataset("ethanol:test@0:25").labels
    energy = np.array([a.get_potential_energy() for a in predicted]) - truth.energies.numpy()
    forces = np.concatenate([a.get_forces() for a in predicted]) - truth.forces.numpy()
    numbers = np.concatenate([a.numbers for a in predicted])
    assert (told["structures"], told["atoms"], told["stress"]) == (25, 225, None)
    assert told["energy"]["mae"] == pytest.approx(np.abs(energy).mean(), rel=1e-6)
    assert told["energy_per_atom"]["rmse"] == pytest.approx(np.sqrt((energy**2).mean()) / 9, rel=1e-6)
    assert told["forces"]["rmse"] == pytest.approx(np.sqrt((forces**2).mean()), rel=1e-6)
    assert told["forces_by_element"]["O"]["mae"] == pytest.approx(np.abs(forces[numbers == 8]).mean(), rel=1e-6)
    assert set(told["forces_by_element"]) == {"H", "C", "O"}


def test_evaluate_prints_a_table_with_units(run, model):
    code, out, _ = run("evaluate", model, "ethanol:test@0:5")
    assert code == 0
    for word in ("5 structures, 45 atoms", "MAE", "RMSE", "energy per atom", "meV/Å", "on C"):
        assert word in out


def test_predict_needs_no_labels_and_writes_stress_where_there_is_a_cell(run, model):
    molecule, crystal = frames(2)
    crystal.cell, crystal.pbc = [9.0, 9.0, 9.0], True
    ase.io.write("mixed.extxyz", [molecule, crystal])
    code, out, err = run("predict", model, "mixed.extxyz", "-o", "p.extxyz", "--json")
    assert code == 0, err
    assert json.loads(out) == {"output": "p.extxyz", "structures": 2, "atoms": 18}
    free, periodic = ase.io.read("p.extxyz", ":")
    assert periodic.get_stress().shape == (6,)
    assert "stress" not in free.calc.results
    assert free.get_potential_energies().sum() == pytest.approx(free.get_potential_energy())


def test_a_lone_atom_has_an_energy_and_no_force(run, model):
    ase.io.write("atom.xyz", Atoms("C"))
    assert run("predict", model, "atom.xyz", "-o", "p.extxyz")[0] == 0
    atom = ase.io.read("p.extxyz")
    assert np.isfinite(atom.get_potential_energy())
    assert not atom.get_forces().any()


def test_info_tells_of_a_model_and_of_the_installation(run, model):
    code, out, _ = run("info", model)
    assert code == 0
    for word in ("H, C, O", "256 SORF", "ethanol:train", "native" if "native" in out else "reference", "doi:"):
        assert word in out
    assert json.loads(run("info", model, "--json")[1])["format"] == "qml-lightning"
    code, out, _ = run("info")
    assert code == 0
    for word in ("torch", "threads", "reference", "why not", "angular-pair"):
        assert word in out
    told = json.loads(run("info", "--json")[1])
    assert {"name", "available", "why_not"} <= set(told["backends"][0])


def test_datasets_lists_the_catalogue(run):
    code, out, _ = run("datasets")
    assert code == 0
    assert "ethanol" in out
    assert "built in" in out
    assert json.loads(run("datasets", "--json")[1])["datasets"][0]["name"] == "ethanol"


# ---- bad input -------------------------------------------------------------------------------------------------------


def nan_coordinates() -> str:
    Path("bad.xyz").write_text("2\n\nC 0 0 0\nO 0 0 nan\n")
    return "NaN"


def one_spot() -> str:
    ase.io.write("bad.xyz", [*frames(2), Atoms("CO", [[0, 0, 0], [0, 0, 0]])])
    return "one spot"


def stranger() -> str:
    ase.io.write("bad.xyz", Atoms("AuH", [[0, 0, 0], [0, 0, 1.5]]))
    return "Au"


def empty_file() -> str:
    Path("bad.xyz").write_text("")
    return "empty"


def empty_structure() -> str:
    Path("bad.xyz").write_text("0\n\n")
    return "no atoms"


def no_cell() -> str:
    Path("bad.xyz").write_text('2\nProperties=species:S:1:pos:R:3 pbc="T T T"\nC 0 0 0\nO 0 0 1.2\n')
    return "periodic"


def torn_file() -> str:
    Path("bad.xyz").write_text("9\n\nC 0 0 0\nO 0 0 1.2\n")
    return "bad.xyz"


@pytest.mark.parametrize(
    "spoil", [nan_coordinates, one_spot, stranger, empty_file, empty_structure, no_cell, torn_file]
)
def test_structures_that_cannot_be_used_are_refused_and_nothing_is_written(run, model, spoil):
    word = spoil()
    code, out, err = run("predict", model, "bad.xyz", "-o", "p.extxyz")
    assert code == 2
    assert word in err
    assert "Traceback" not in err
    assert out == ""
    assert not Path("p.extxyz").exists()


def test_the_structure_that_is_named_is_counted_from_the_start_of_the_file(run, model):
    ase.io.write("many.xyz", [*frames(3) * 100, Atoms("CO", [[0, 0, 0], [0, 0, 0]])])
    for kernels in ([], ["--kernels", "reference"]):
        code, _, err = run("predict", model, "many.xyz", "-o", "p.extxyz", *kernels)
        assert code == 2
        assert "Structure 300" in err


def arrays(**changes) -> dict[str, np.ndarray]:
    data = load_dataset("ethanol:train@0:60")
    whole = {
        "nuclear_charges": data.structures.numbers[:9].numpy(),
        "coords": data.structures.positions.view(-1, 9, 3).numpy(),
        "energies": data.labels.energies.numpy(),
        "forces": data.labels.forces.view(-1, 9, 3).numpy(),
    }
    return whole | changes


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"forces": np.zeros((60, 8, 3))}, "shape"),
        ({"coords": np.zeros((60, 9, 2))}, "shape"),
        ({"energies": np.full(60, np.nan)}, "NaN"),
        ({"nuclear_charges": np.zeros(7, int)}, "shape"),
    ],
)
def test_arrays_of_wrong_shape_or_without_a_number_are_refused(run, changes, word):
    np.savez("bad.npz", **arrays(**changes))
    code, _, err = run("train", "bad.npz", "-m", "m.safetensors", "--energy-unit", "eV")
    assert code == 2
    assert word in err
    assert not Path("m.safetensors").exists()


def test_a_file_without_units_is_not_guessed(run):
    np.savez("mine.npz", **arrays())
    code, _, err = run("train", "mine.npz", "-m", "m.safetensors")
    assert code == 2
    assert "--energy-unit" in err


def test_mixed_units_are_refused_with_the_remedy_and_trained_when_insisted(run):
    np.savez("mixed.npz", **(arrays() | {"energies": arrays()["energies"] * 23.0605}))
    options = ["--energy-unit", "eV", *TINY]
    code, _, err = run("train", "mixed.npz", "-m", "m.safetensors", *options)
    assert code == 2
    assert "energies in kcal/mol and forces in eV/Å" in err.replace("\n", " ")
    assert "--no-label-check" in err
    assert not Path("m.safetensors").exists()
    assert run("train", "mixed.npz", "-m", "m.safetensors", "--no-label-check", *options)[0] == 0


def test_shuffled_energies_bring_a_warning_but_a_model(run):
    np.savez("mixed.npz", **(arrays() | {"energies": np.random.default_rng(0).permutation(arrays()["energies"])}))
    code, _, err = run("train", "mixed.npz", "-m", "m.safetensors", "--energy-unit", "eV", *TINY[:4])
    assert code == 0
    assert "Warning" in err
    assert "unrelated" in err


def truncated(model: Path) -> None:
    Path("m.safetensors").write_bytes(model.read_bytes()[: model.stat().st_size // 2])


def foreign(model: Path) -> None:
    save_file({"x": torch.zeros(3)}, "m.safetensors")


def newer(model: Path) -> None:
    header = read_header(model) | {"format_version": 99}
    save_file(load_file(model), "m.safetensors", {"qml-lightning": json.dumps(header)})


def incomplete(model: Path) -> None:
    tensors = load_file(model)
    del tensors["weights"]
    save_file(tensors, "m.safetensors", {"qml-lightning": json.dumps(read_header(model))})


def text(model: Path) -> None:
    Path("m.safetensors").write_text("this is no model\n" * 100)


@pytest.mark.parametrize("spoil", [truncated, foreign, newer, incomplete, text])
def test_a_model_file_that_cannot_be_used_has_an_exit_code_of_its_own(run, model, spoil):
    spoil(model)
    for arguments in (("evaluate", "m.safetensors", "ethanol:test@0:2"), ("info", "m.safetensors")):
        code, _, err = run(*arguments)
        assert code == 4, err
        assert "m.safetensors" in err


@pytest.mark.parametrize(
    ("path", "word"), [("there.safetensors", "--overwrite"), ("no/folder/m.safetensors", "mkdir"), ("/proc/m", "write"),
                       (".", "folder")]
)  # fmt: skip
def test_an_output_that_cannot_be_written_is_found_out_before_anything_is_read(run, monkeypatch, path, word):
    Path("there.safetensors").write_text("precious")
    monkeypatch.setattr("qml_lightning.datasets.load", lambda *_, **__: pytest.fail("data were read"))
    for arguments in (("train", "ethanol:train", "-m", path), ("predict", "other.safetensors", "x.xyz", "-o", path)):
        code, _, err = run(*arguments)
        assert code == 2
        assert word in err
    assert Path("there.safetensors").read_text() == "precious"


def test_more_memory_than_there_is_is_told_before_it_is_taken(run, monkeypatch):
    monkeypatch.setattr("qml_lightning.machine.memory.available_memory", lambda: 10**6)
    code, _, err = run("train", "ethanol:train", "-m", "m.safetensors", "--no-label-check")
    assert code == 3
    assert "GiB" in err
    assert "fewer features" in err
    assert not Path("m.safetensors").exists()


def test_equations_that_cannot_be_solved_say_which_ridge_would_do(run):
    np.savez("twice.npz", **{k: v if k == "nuclear_charges" else np.concatenate([v, v]) for k, v in arrays().items()})
    options = ["--energy-unit", "eV", "--features", 2048, "--rank", 64, "--ridge", 0, "--targets", "energies"]
    code, _, err = run("train", "twice.npz", "-m", "m.safetensors", "--no-label-check", *options)
    assert code == 5
    assert "ridge of" in err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--features", "300"], "multiple"),
        (["--method", "magic"], "sorf, rff, orf"),
        (["--rank", "100"], "128"),
        (["--recipe", "cake"], "default"),
        (["--angular", "spline"], "series"),
        (["--targets", "colour"], "energies,forces,stress"),
        (["--device", "abacus"], "--device cpu"),
        (["--device", "cuda:7"], "--device cpu"),
        (["--kernels", "magic"], "reference"),
        (["--precision", "float16"], "float64"),
        (["--ridge", "-1"], "negative"),
        (["--solver", "oracle"], "iterative"),
        (["--accumulation", "abacus"], "compensated"),
        (["--accumulation", "compensated", "--solver", "iterative", "--precision", "float64"], "pairs of float32"),
        (["--reference-energies", "Xx=1"], "H=-13.6"),
        (["--reference-energies", "H=-13.6"], "missing"),
        (["--train-size", "5000"], "fewer"),
        (["--valid", "nowhere.xyz"], "no file"),
        (["--energy-unit", "furlong"], "Known are"),
        (["--threads", "0"], "--threads"),
        (["--nonsense"], "--help"),
    ],
)
def test_an_option_that_makes_no_sense_is_explained(run, arguments, word):
    code, _, err = run("train", "ethanol:train", "-m", "m.safetensors", "--no-label-check", *arguments)
    assert code == 2
    assert word in err
    assert not Path("m.safetensors").exists()


def test_an_element_of_the_validation_set_that_is_not_trained_is_found_before_training(run, monkeypatch):
    monkeypatch.setattr("qml_lightning.api.Request.fit", lambda *_, **__: pytest.fail("training began"))
    ase.io.write("gold.extxyz", Atoms("Au2", [[0, 0, 0], [0, 0, 2.5]], info={"energy": 1.0}))
    code, _, err = run("train", "ethanol:train", "-m", "m.safetensors", "--valid", "gold.extxyz", "--no-label-check")
    assert code == 2
    assert "Au" in err


def test_json_errors_are_one_object_on_standard_output(run):
    for arguments in (("evaluate", "none.safetensors", "ethanol", "--json"), ("train", "--json")):
        code, out, err = run(*arguments)
        told = json.loads(out)
        assert code == 2
        assert told["kind"] == "InputError"
        assert told["error"]
        assert err == ""


def test_what_nobody_foresaw_is_no_traceback_unless_asked_for(run, model, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("qml_lightning.api.load", broken)
    code, _, err = run("evaluate", model, "ethanol:test")
    assert code == 1
    assert "--debug" in err
    with pytest.raises(ZeroDivisionError):
        main(["evaluate", str(model), "ethanol:test", "--debug"])


def test_running_out_of_memory_midway_is_told_as_such(run, model, monkeypatch):
    def hungry(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried …")

    monkeypatch.setattr("qml_lightning.api.load", hungry)
    assert run("evaluate", model, "ethanol:test")[0] == 3


# ---- as a program ----------------------------------------------------------------------------------------------------


def program(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "qml_lightning", *arguments], capture_output=True, text=True, check=False, **options
    )


def test_help_of_every_command_teaches_with_examples():
    for command in ("train", "evaluate", "predict", "tune", "update", "merge", "info", "datasets"):
        done = program(command, "--help")
        assert done.returncode == 0
        assert f"qml-lightning {command} " in done.stdout.split("Examples")[1]
        assert "\x1b" not in done.stdout
    done = program()
    assert done.returncode == 0
    assert "First steps" in done.stdout


def test_help_fits_in_80_columns_and_asks_for_no_value_of_a_flag():
    done = program("train", "--help", env={**os.environ, "COLUMNS": "80"})
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("--[no-]repulsion " in line and "Let atoms repel each other" in line for line in lines)
    assert any(re.search(r"--plan +Only print", line) for line in lines)
    assert any("--features INT " in line for line in lines)


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "Stopped before"), (signal.SIGTERM, 143, "Stopped by SIGTERM"),
                                 (signal.SIGHUP, 129, "Stopped by SIGHUP")],
)  # fmt: skip
def test_a_signal_ends_a_command_with_its_code_and_a_word_and_leaves_nothing_behind(tmp_path, number, code, word):
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    started = subprocess.Popen(
        [sys.executable, "-c", "from qml_lightning import api, cli; import time, sys\n"
         "from qml_lightning.machine.files import atomic\n"
         "def fit(*_):\n"
         "    with atomic('half') as path:\n"
         "        path.write_text('half')\n"
         "        print('working', flush=True)\n"
         "        time.sleep(60)\n"
         "api.Request.fit = fit\n"
         "sys.exit(cli.main(['train', 'ethanol:train', '-m', 'm.safetensors', '--no-label-check']))"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # what runs in the background ignores some
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline() == "working\n"
    started.send_signal(number)
    _, err = started.communicate(timeout=60)
    assert started.returncode == code
    assert "Interrupted" in err
    assert word in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_is_no_error_message(model):
    done = subprocess.run(
        f"{sys.executable} -m qml_lightning info {model} --json | head -1", shell=True, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout == "{\n"
    assert done.stderr == ""


def test_paragraphs_of_help_are_joined_and_examples_kept():
    assert teaching("One\ntwo.\n\n  an example\n  another\n\nThree\n") == "One two.\n\n  an example\n  another\n\nThree"
