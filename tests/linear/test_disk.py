"""Training within a limit of memory: the same weights from a matrix on disk, a bounded process, a full disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import qml_lightning.linear.disk.solve as outofcore
import qml_lightning.machine.memory
from full_disk import files_up_to
from qml_lightning import fit
from qml_lightning.cli import main
from qml_lightning.errors import InputError, ResourceError, SolveError
from qml_lightning.linear.disk.solve import Layout, OutOfCore, layout
from qml_lightning.linear.disk.tiles import TileFile
from qml_lightning.linear.normal_equations import append
from qml_lightning.machine.memory import bytes_from, resident_memory
from qml_lightning.training.checkpoint import CheckpointWarning
from small_models import molecules, recipe

MIB = 1024**2


def _solution(z, y, ridge, chosen):
    with OutOfCore(chosen) as equations:
        for run in np.array_split(np.arange(len(z)), 7):
            append(equations, torch.from_numpy(z[run]), torch.from_numpy(y[run]))
        return equations.solve(ridge).numpy(), equations.disk


def _least_squares(z, y, ridge):
    n = z.shape[1]
    return np.linalg.lstsq(
        np.concatenate([z, np.sqrt(ridge) * np.eye(n)]), np.concatenate([y, np.zeros(n)]), rcond=None
    )[0]


@pytest.mark.parametrize("width", [8, 24, 128], ids=lambda width: f"{width} at once")
@pytest.mark.parametrize("shape", [(150, 61), (61, 64), (64, 64), (45, 61), (7, 61), (16, 17)], ids=str)
def test_weights_are_those_of_least_squares_for_any_size(shape, width, tmp_path):
    random = np.random.default_rng(0)
    z, y = random.normal(size=shape), random.normal(size=shape[0])
    found, _ = _solution(z, y, 1e-2, Layout(*shape, 8, width, tmp_path))
    expected = _least_squares(z, y, 1e-2)
    assert np.abs(found - expected).max() < 1e-10 * np.abs(expected).max()


def test_a_tile_comes_back_as_it_was_written_while_others_stream(tmp_path):
    with TileFile(19, 19, 4, tmp_path, symmetric=True) as file:
        places = [(i, j) for i in range(5) for j in range(i + 1)]
        for i, j in places:
            file.write((i, j), torch.full((4 if i < 4 else 3, 4 if j < 4 else 3), 10.0 * i + j, dtype=torch.float64))
        for _, tile in file.stream(places, keep=True):
            tile += 0.5
        for (i, j), tile in file.stream(places[::-1]):
            assert tile.shape == (4 if i < 4 else 3, 4 if j < 4 else 3)
            assert bool((tile == 10.0 * i + j + 0.5).all())
        assert file.bytes_written == 2 * file.bytes_read // 2 == 2 * 8 * (10 * 16 + 4 * 12 + 9)
        assert os.listdir(tmp_path) == []  # it has no name: nothing is left however the process ends


def test_more_memory_moves_fewer_bytes(tmp_path):
    random = np.random.default_rng(0)
    z, y = random.normal(size=(120, 48)), random.normal(size=120)
    moved = [sum(_solution(z, y, 1.0, Layout(120, 48, 8, width, tmp_path))[1]) for width in (8, 24, 48)]
    assert moved[0] > moved[1] > moved[2]


def test_a_layout_keeps_within_its_memory_and_is_refused_where_none_does(tmp_path):
    for memory in (100 * MIB, 500 * MIB, 3000 * MIB):
        chosen = layout(100_000, 32768, memory, tmp_path)
        panel = 8 * chosen.width * (32768 + chosen.tile)
        assert chosen.width % chosen.tile == 0
        assert panel + 8 * outofcore.TILES_AT_ONCE * chosen.tile**2 < memory
        assert panel > memory / 8  # and makes use of it
    with pytest.raises(ResourceError, match=r"needs 0\.08 GiB and 0\.03 GiB are free"):
        layout(100_000, 32768, 30 * MIB, tmp_path)


def test_a_matrix_that_is_not_positive_definite_asks_for_a_larger_ridge(tmp_path):
    z = np.random.default_rng(0).normal(size=(50, 10))
    z = np.concatenate([z, z], 1)  # every column twice: singular
    with pytest.raises(SolveError, match=r"size 20 plus ridge 0 is not positive definite to rounding\. Use a larger"):
        _solution(z, np.ones(50), 0.0, Layout(50, 20, 8, 16, tmp_path))
    z[3, 2] = np.nan
    with pytest.raises(SolveError, match="not finite"):
        _solution(z, np.ones(50), 1.0, Layout(50, 20, 8, 16, tmp_path))


@pytest.mark.parametrize(
    ("n", "memory_limit"), [(30, 800_000), (6, 500_000)], ids=["more rows than features", "fewer rows"]
)
def test_a_fit_on_disk_is_the_fit_in_memory(n, memory_limit, monkeypatch, tmp_path):
    data, settings = molecules(n), recipe(ridge=1e-4)
    inside = fit(data, settings)
    monkeypatch.setattr(outofcore, "LARGEST_TILE", 40)
    monkeypatch.setattr(outofcore, "SMALLEST_TILE", 40)
    monkeypatch.setattr(outofcore, "RESERVE", 0)
    monkeypatch.setattr(qml_lightning.machine.memory, "resident_memory", lambda: 0)
    outside = fit(data, settings, memory_limit=memory_limit, scratch=tmp_path)
    assert "out_of_core" not in inside.provenance.solution
    assert outside.provenance.solution["solver"] == "disk"
    assert outside.provenance.solution["out_of_core"]["tile"] == 40
    assert outside.provenance.solution["out_of_core"]["dual"] == (n == 6)
    assert outside.provenance.targets == inside.provenance.targets
    assert torch.allclose(inside.weights, outside.weights, rtol=0, atol=1e-8 * float(inside.weights.abs().max()))


def test_a_machine_that_is_too_small_goes_to_disk_by_itself_and_a_limit_that_is_large_changes_nothing(
    monkeypatch, tmp_path
):
    data, settings = molecules(30), recipe(ridge=1e-4)
    plenty = fit(data, settings, memory_limit=1 << 40)
    assert torch.equal(plenty.weights, fit(data, settings).weights)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(qml_lightning.machine.memory, "available_memory", lambda: 300 * MIB)
    assert "out_of_core" in fit(data, settings).provenance.solution


def test_within_a_limit_equations_are_kept_checkpoints_written_and_iterations_run(tmp_path):
    data, settings = molecules(30), recipe(ridge=1e-4)
    kept = {"equations": tmp_path / "e", "checkpoint": tmp_path / "c", "checkpoint_seconds": 0.0}
    limited, free = fit(data, settings, memory_limit=1 << 40, **kept), fit(data, settings)
    assert torch.equal(limited.weights, free.weights)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "e"]
    iterative = replace(settings, solver=replace(settings.solver, method="iterative", preconditioner_features=128))
    assert torch.equal(fit(data, iterative, memory_limit=1 << 40).weights, fit(data, iterative).weights)


def test_what_does_not_go_together_is_refused_before_the_data_is_read(tmp_path, capsys):
    train = ["train", "missing.npz", "-m", str(tmp_path / "m.safetensors"), "--solver", "iterative"]
    assert main([*train, "--equations", str(tmp_path / "m.equations")]) == 2
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "The iterative solver and kept equations exclude each other" in told


def test_equations_on_disk_have_no_checkpoints_and_say_so(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(qml_lightning.machine.memory, "available_memory", lambda: 300 * MIB)
    with pytest.warns(CheckpointWarning, match="on disk, without checkpoints"):
        fit(molecules(30), recipe(ridge=1e-4), checkpoint=tmp_path / "m.checkpoint")
    with pytest.raises(ResourceError, match="the disk solver and kept equations exclude each other"):
        fit(molecules(30), recipe(ridge=1e-4), equations=tmp_path / "m.equations")
    assert list(tmp_path.iterdir()) == []


# Rows are drawn as they are added, so that the process holds only what the equations hold.
BOUNDED = r"""
import json, re, sys
from pathlib import Path
import torch
from qml_lightning.linear.normal_equations import append
from qml_lightning.linear.disk.solve import OutOfCore, layout
from qml_lightning.machine.memory import resident_memory
memory, folder, columns = int(sys.argv[1]), Path(sys.argv[2]), 2900
before = resident_memory()
draw = torch.Generator().manual_seed(0)
for rows in (2500, 3000):
    with OutOfCore(layout(rows, columns, memory, folder)) as equations:
        for _ in range(rows // 50):
            z = torch.randn(50, columns, generator=draw, dtype=torch.float64)
            append(equations, z, z.sum(1))
        weights = equations.solve(1e-6)
    del equations
# not getrusage: its peak is that of the parent, until the process is larger than that
peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
print(json.dumps({"peak": peak - before, "error": float((weights - 1).abs().max())}))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is asked from Linux")
def test_the_process_stays_within_its_limit_in_the_dual_form_and_with_normal_equations(tmp_path):
    limit = 72 * MIB  # the matrix in memory would be 64 MiB, and as much again the rows
    arguments = [sys.executable, "-c", BOUNDED, str(limit), str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["peak"] < limit
    assert told["error"] < 1e-6  # targets are the sum of all columns: every weight is 1


def test_a_full_disk_is_told_before_the_work_begins_and_nothing_is_left(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()
    options = ["--features", "512", "--rank", "64", "--train-size", "40", "--no-label-check", "--scratch", "scratch"]
    options += ["--memory", f"{resident_memory() // MIB + 200}MiB"]
    with files_up_to(MIB):
        assert main(["train", "ethanol:train", "-m", "m.safetensors", *options]) == 3
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "A matrix on disk needs 0.01 GiB in scratch" in told
    assert "File too large" in told
    assert list(tmp_path.iterdir()) == [tmp_path / "scratch"]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_command_line_tells_what_went_to_disk(tmp_path, capsys):
    options = ["--features", "512", "--rank", "64", "--train-size", "40", "--ridge", "1e-8", "--no-label-check"]
    options += ["--memory", f"{resident_memory() // MIB + 200}MiB", "--scratch", str(tmp_path)]
    assert main(["train", "ethanol:train", "-m", str(tmp_path / "m.safetensors"), *options]) == 0
    assert "disk: 0.0 GiB of scratch files" in capsys.readouterr().out
    assert main(["train", "ethanol:train", "-m", str(tmp_path / "n.safetensors"), "--memory", "much"]) == 2


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(InputError, match="Cannot write in the folder"):
        TileFile(8, 8, 4, Path(tmp_path / "missing"))


def test_amounts_of_memory_are_read_in_the_usual_units():
    assert bytes_from("4GiB") == 4 * 1024**3
    assert bytes_from("0.5 gib") == 512 * MIB
    assert bytes_from("800MB") == 800_000_000
    assert bytes_from("1e9") == 10**9
    for text in ("", "lots", "4 apples", "-1GiB", "0", "1.2.3G"):
        with pytest.raises(InputError, match="such as 4GiB"):
            bytes_from(text)
