"""Tables are measured cell by cell and never twice; every benchmark of the paper runs; the page tells its results."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from small_models import molecules

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import results_page  # noqa: E402
import runner  # noqa: E402
from environments import PEERS, PeerFailed, _called  # noqa: E402
from reproduce import BENCHMARKS, FEATURES, PREDICTION, TRAINING, bpa  # noqa: E402

QUICK = runner.Options(quick=True)


def _counting(tried: list[str], fails: str = "") -> runner.Benchmark:
    """A benchmark that notes what it is asked to measure."""
    import drawing

    def measure(cell, options):
        tried.append(runner.key_of(cell))
        if cell["molecule"] == fails:
            raise ValueError("no such molecule")
        return {"error": float(cell["size"])}

    return runner.Benchmark(
        name="counting",
        title="Counting",
        text="",
        cells=lambda options: [{"molecule": m, "size": n} for m in ("ethanol", "uracil") for n in (10, 20)],
        measure=measure,
        tables=lambda told: "",
        draw=lambda told: drawing.panels(1)[0],
    )


def test_a_cell_that_is_there_is_not_measured_again_unless_asked(tmp_path):
    tried: list[str] = []
    benchmark = _counting(tried)
    runner.run(benchmark, QUICK, only=[["molecule=uracil"], ["10", "size=11"]], folder=tmp_path)
    assert tried == ["uracil 10"]
    runner.run(benchmark, QUICK, folder=tmp_path)
    assert sorted(tried) == ["ethanol 10", "ethanol 20", "uracil 10", "uracil 20"]
    runner.run(benchmark, QUICK, only=[["ethanol"]], again=True, folder=tmp_path)
    assert tried[4:] == ["ethanol 10", "ethanol 20"]
    told = runner.entries(benchmark, tmp_path)
    assert [runner.key_of(entry["cell"]) for entry in told] == ["ethanol 10", "ethanol 20", "uracil 10", "uracil 20"]
    assert [entry["error"] for entry in told] == [10.0, 20.0, 10.0, 20.0]


def test_a_cell_that_fails_is_shown_as_such_and_tried_again_while_the_others_stay(tmp_path):
    tried: list[str] = []
    runner.run(_counting(tried, fails="ethanol"), QUICK, folder=tmp_path)
    told = runner.entries(_counting(tried), tmp_path)
    assert [entry.get("failed") for entry in told] == ["ValueError: no such molecule"] * 2 + [None] * 2
    tried.clear()
    runner.run(_counting(tried), QUICK, folder=tmp_path)
    assert tried == ["ethanol 10", "ethanol 20"]


def test_what_a_peer_that_fails_says_is_kept():
    with pytest.raises(PeerFailed, match=r"sgdml failed: .*no numpy here"):
        _called([sys.executable, "-c", "raise SystemExit('no numpy here')"], "sgdml failed", 60)
    with pytest.raises(PeerFailed, match="not done after 0 s"):
        _called([sys.executable, "-c", "import time; time.sleep(60)"], "sgdml failed", 0.2)


def test_a_peer_that_is_stopped_takes_with_it_what_it_started(tmp_path):
    started = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {started}; wait"
    with pytest.raises(PeerFailed, match="not done"):
        _called(["bash", "-c", script], "quippy failed", 1.0)
    state = Path(f"/proc/{started.read_text().strip()}/stat")
    deadline = time.monotonic() + 30
    while state.exists() and state.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "what the peer started is still running"
        time.sleep(0.05)


@pytest.mark.parametrize("peer", PEERS.values(), ids=lambda peer: peer.name)
def test_every_peer_has_its_script(peer):
    assert peer.script.is_file()


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_every_benchmark_of_the_paper_runs_and_draws_on_small_sizes(benchmark, tmp_path):
    if benchmark.missing:
        pytest.skip(f"{', '.join(benchmark.missing)} not in {runner.SHARED_DATA}")
    path = runner.run(benchmark, QUICK, folder=tmp_path)
    told = json.loads(path.read_text())["results"]
    assert [entry["cell"] for entry in told] == benchmark.cells(QUICK)
    assert not [entry["failed"] for entry in told if "failed" in entry]
    assert benchmark.tables(told).startswith("| ")
    assert (tmp_path / f"{benchmark.name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_the_cells_of_a_table_have_names_of_their_own(benchmark):
    keys = [runner.key_of(cell) for cell in benchmark.cells(runner.Options())]
    assert len(keys) == len(set(keys))


def test_the_page_of_results_is_that_of_the_result_files():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert results_page.page() == text, "run python benchmarks/results_page.py"


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_what_was_measured_has_a_picture(benchmark):
    measured = [entry for entry in runner.entries(benchmark) if "failed" not in entry]
    assert (runner.FIGURES / f"{benchmark.name}.png").is_file() == bool(measured)


def _words(figure) -> list[str]:
    return [text.get_text() for axis in figure.axes for text in axis.texts]


def test_what_failed_is_in_the_picture_as_such():
    sorf = {"cell": {"molecule": "ethanol", "n_train": 1000, "method": "SORF-16384"}, "seconds": 41.0}
    late = {"cell": {**sorf["cell"], "method": "sGDML"}, "failed": "PeerFailed: sgdml failed: not done after 300 s"}
    large = {"cell": {**sorf["cell"], "method": "GPR"}, "failed": "ResourceError: needs 52 GiB and 22 GiB are free."}
    broken = {"cell": {**sorf["cell"], "method": "GAP"}, "failed": "PeerFailed: quippy failed: it has no hands"}
    words = _words(TRAINING.draw([sorf, late, large, broken]))
    assert words[:4] == ["41", "> 300", "not enough memory", "failed"]
    there = {"cell": {"system": "MOF", "program": "mace", "n_features": None}, "us_per_atom": 3000.0}
    failed = {"cell": {"system": "MOF", "program": "torchani", "n_features": None}, "failed": "KeyError: 'Zn'"}
    also = {"cell": {**failed["cell"], "system": "water"}, "us_per_atom": 176.0}
    assert _words(PREDICTION.draw([there, failed, also])) == ["failed"]


def test_times_on_other_machines_are_told_by_what_these_could_have_done():
    errors = {"energy_mae_mev": 1.0, "force_mae_mev_per_angstrom": 7.0}
    cell = {"molecule": "ethanol", "n_train": 1000, "method": "SORF-16384"}
    told = TRAINING.tables([{"cell": cell, "seconds": 40.0, "matrix_product_gflops_float64": 100.0, **errors}])
    row = next(line for line in told.splitlines() if "SORF-16384, 1000 ethanol" in line)
    assert [word.strip() for word in row.split("|")[2:-1]] == ["4", "11.2", "100", "465"]  # 40 s, and the paper's 24 s
    assert "TFLOP" not in TRAINING.tables([{"cell": cell, "seconds": 40.0, **errors}])


def test_what_other_frames_would_change_is_what_a_bootstrap_finds():
    test, n = molecules(80), 80
    random = np.random.default_rng(0)
    size = random.gamma(2.0, 0.01, (n, 1))  # frames differ
    energies, forces = (
        torch.from_numpy(size * random.normal(size=(n, m))) for m in (1, 3 * test.structures.n_atoms // n)
    )
    found = SimpleNamespace(
        energies=test.labels.energies + energies[:, 0], forces=test.labels.forces + forces.view(-1, 3)
    )
    told = bpa._by_frames(SimpleNamespace(predict=lambda _: found), test)
    for values, error in zip((energies, forces), told.values(), strict=True):
        squares = values.square().mean(1).numpy()
        drawn = np.sqrt(squares[random.integers(n, size=(4000, n))].mean(1))
        assert error == pytest.approx(1e3 * drawn.std(), rel=0.1)


def test_a_figure_of_the_paper_may_be_missed_by_less_than_chance():
    reached, near, far = (runner.Beside("", here, 10.0, error=1.0) for here in (10.0, 10.9, 11.1))
    assert [pair.reached for pair in (reached, near, far)] == [True, False, False]
    assert [pair.by_chance for pair in (reached, near, far)] == [False, True, False]


def test_cells_of_the_recipe_that_a_benchmark_draws_come_first_whichever_was_measured_last():
    told = [{"cell": cell} for recipe in ("paper", "default") for cell in FEATURES.cells(runner.Options(recipe=recipe))]
    ordered = runner._in_order(FEATURES, runner.Options(recipe="paper"), told)
    recipes = [entry["cell"]["recipe"] for entry in ordered]
    assert recipes == ["default"] * (len(told) // 2) + ["paper"] * (len(told) // 2)
