"""Several processes give the model of one, share its errors, and end when one of them dies."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from places import HELPERS_FOUND
from qml_lightning import fit
from qml_lightning.atoms.structures import Labels
from qml_lightning.cli import main
from qml_lightning.machine.ranks import Ranks
from qml_lightning.model.recipe import Automatic
from qml_lightning.training.equations_file import load_equations
from qml_lightning.training.problem import Problem
from qml_lightning.training.shared_gather import share
from qml_lightning.training.solvers.direct import solved
from small_models import crystals, molecules, recipe

LONGEST = 120  # seconds after which a hang is a failure

DATA = {
    "normal": (crystals(30), recipe(ridge=1e-4)),
    "dual": (molecules(5), recipe(ridge=1e-4)),
    "more ranks than structures": (molecules(1), recipe(ridge=1e-4)),
    "chosen by the first": (molecules(40), Automatic(recipe(n_features=128), ("sigma", "ridge"))),
}
# Runs on each rank, all cases in one process; what a rank finds is one JSON object in a file: pipes fill up.
SCRIPT = """
import json, os, signal, sys
import torch
import qml_lightning.linear.normal_equations as normal_equations
import qml_lightning.machine.ranks as distributed
import qml_lightning.training.rows as rows
import qml_lightning.training.shared_gather as shared_gather
from qml_lightning import fit
from qml_lightning.errors import QMLError
from small_models import argon, molecules, recipe
from test_distributed import DATA

shared_gather.MESSAGE_BYTES = 8 * 256 * 7  # several messages, and the last one smaller
rank, found = distributed.own_rank(), {}
cases = {
    **DATA,
    "singular": (argon(20), recipe(ridge=0.0, n_features=1024)),
    "different": (molecules(5, seed=rank), recipe(ridge=1e-4)),
    "killed": (molecules(20), recipe(ridge=1e-4)),
    "stopped": DATA["normal"],
    "resumed": DATA["normal"],
}
options = {"checkpoint": sys.argv[1] + ".checkpoint", "checkpoint_seconds": 0.0, "resume": True}
options["checkpoint"] = options["checkpoint"].replace("rank1", "rank0")  # all are given the same
with distributed.joined(torch.device("cpu")) as ranks:
    for case in sys.argv[2:]:
        first = []
        def tell(what, done, of, remark=""):
            if case == "killed" and rank == 1 and what == "adding up":
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "equations":
                first.append(done)
            if case == "stopped" and what == "equations" and done > 8:
                raise QMLError("stopped")

        stopping = case in ("stopped", "resumed")
        # a structure at a time, and no rows that wait
        rows.BATCH_NUMBERS = 256 * 19 if stopping else 32_000_000
        normal_equations.BUFFER_BYTES = 8 * 256 * 12 if stopping else 512 * 1024**2
        try:
            potential = fit(*cases[case], ranks=ranks, progress=tell, **(options if stopping else {}))
            found[case] = {"weights": potential.weights.tolist(), **potential.provenance.solution["ranks"],
                           "axes": potential.projection.matrices.flatten().tolist(),
                           "rows": potential.provenance.targets, "first": first[0]}
        except QMLError as error:
            silent = getattr(error, "told_elsewhere", False)
            found[case] = {"error": str(error), "kind": type(error).__name__, "silent": silent}
        open(sys.argv[1], "w").write(json.dumps(found))
"""


def _free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> list[tuple[int, dict]]:
    """Exit code and findings of each of two ranks that went through all cases, the second one killed in the last."""
    folder = tmp_path_factory.mktemp("ranks")
    cases = (*DATA, "singular", "different", "stopped", "resumed", "killed")
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _free_port()}
    common |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([HELPERS_FOUND, str(Path(__file__).parent)])}
    files = [folder / f"rank{rank}.json" for rank in range(2)]
    ranks = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, str(file), *cases], env={**common, "RANK": str(rank)})
        for rank, file in enumerate(files)
    ]
    try:
        for rank in ranks:
            rank.wait(timeout=LONGEST)
    finally:
        for rank in ranks:
            rank.kill()
    return [
        (rank.returncode, json.loads(file.read_text()) if file.exists() else {}) for rank, file in zip(ranks, files)
    ]


@pytest.fixture
def found(both) -> list[dict]:
    """What each rank found."""
    return [found for _, found in both]


def alone_with_one_thread(data, settings):
    """The fit by one process with the thread count of the ranks: axes differ in the last bits with another one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return fit(data, settings)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("case", DATA)
def test_two_ranks_find_the_weights_of_one(case, found):
    alone = alone_with_one_thread(*DATA[case])
    for of_rank in found:
        assert (torch.tensor(of_rank[case]["weights"]) - alone.weights).abs().max() < 1e-7 * alone.weights.abs().max()
        assert of_rank[case]["axes"] == alone.projection.matrices.flatten().tolist()
        assert of_rank[case]["rows"] == alone.provenance.targets
        assert of_rank[case]["size"] == 2


def test_ranks_that_were_stopped_go_on_each_from_its_own_checkpoint(found):
    alone = alone_with_one_thread(*DATA["normal"])
    for of_rank in found:
        assert of_rank["stopped"]["error"] == "stopped"
        assert of_rank["resumed"]["first"] >= 8
        weights = torch.tensor(of_rank["resumed"]["weights"])
        assert (weights - alone.weights).abs().max() < 1e-7 * alone.weights.abs().max()
        assert of_rank["resumed"]["rows"] == alone.provenance.targets


def test_half_of_the_gram_matrix_of_forces_is_sent_and_the_few_rows_of_other_kinds(found):
    n, targets, sent = 256, 1 + len(DATA["normal"][0].structures.elements), found[1]["normal"]["bytes_sent_by_each"]
    # 7 rows at a time, each up to the diagonal of the last one; Zᵀy and yᵀy
    gram = 8 * (n + 1) + sum(8 * min(7, n - k) * min(k + 7, n) for k in range(0, n, 7))
    assert gram < 0.54 * 8 * n**2
    assert sent == gram + 8 * 15 * (n + targets + 6 * (n + 1))  # of 15 structures: energies, virials


def test_an_error_of_the_first_rank_is_that_of_all_and_told_once(found):
    for rank, of_rank in enumerate(found):
        assert "A ridge of" in of_rank["singular"]["error"]
        assert of_rank["singular"]["kind"] == "SolveError"
        assert of_rank["singular"]["silent"] == (rank > 0)


def test_ranks_with_different_data_are_refused(found):
    for of_rank in found:
        assert "different data" in of_rank["different"]["error"]


def test_a_rank_that_is_killed_ends_the_other_with_a_clear_error(both):
    (code, survivor), (killed, _) = both
    assert killed == -signal.SIGKILL
    assert code == 0
    assert survivor["killed"]["kind"] == "ResourceError"
    assert "Rank 0 of 2 has lost touch with another one" in survivor["killed"]["error"]


def test_shares_are_disjoint_whole_and_about_equal():
    data = crystals(23)
    forces = data.labels.forces.clone()
    forces[: 4 * 10] = torch.nan  # the first ten structures have no forces: fewer rows
    problem = Problem(data.structures, Labels(data.labels.energies, forces), fit(data, recipe()).baseline)
    shares = [share(problem, Ranks(rank, 3, 3, torch.device("cpu"))) for rank in range(3)]
    assert torch.equal(torch.cat([part.structures.positions for part in shares]), data.structures.positions)
    assert len(shares[0].structures) > len(shares[2].structures)
    known = [sum(int(y.isfinite().sum()) for y in part.targets.values()) for part in shares]
    cost = [rows + part.structures.n_atoms for rows, part in zip(known, shares)]
    assert max(cost) - min(cost) <= 2 * (4 + 1 + 12)  # a structure more at either end


def test_torchrun_writes_the_model_once_and_only_the_first_rank_speaks(tmp_path):
    options = ["--features", "256", "--rank", "64", "--train-size", "30", "--ridge", "1e-5", "--no-label-check"]
    assert main(["train", "ethanol:train", "-m", str(tmp_path / "one.safetensors"), *options]) == 0
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    command += ["qml_lightning", "train", "ethanol:train", "-m", str(tmp_path / "two.safetensors"), "--json", *options]
    command += ["--equations", str(tmp_path / "two.equations")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LONGEST, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)  # one object: the other rank said nothing
    assert told["provenance"]["solution"]["ranks"]["size"] == 2
    one, two = (load_file(tmp_path / f"{name}.safetensors")["weights"] for name in ("one", "two"))
    assert (one - two).abs().max() < 1e-4 * one.abs().max()  # features are float32: batches of rows differ
    again = solved(load_equations(tmp_path / "two.equations")).weights  # what the first rank kept is of both
    assert (again - two).abs().max() < 1e-6 * two.abs().max()
    names = ["one.safetensors", "two.equations", "two.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
