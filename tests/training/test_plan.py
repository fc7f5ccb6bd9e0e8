"""The plan of a fit: which solver, at what cost, and why, without running anything."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from places import ROOT
from qml_lightning.api import EXACT_EXCLUDES, Request
from qml_lightning.cli import main
from qml_lightning.errors import InputError, ResourceError
from qml_lightning.exact import GPR
from qml_lightning.machine.compute import Compute
from qml_lightning.machine.ranks import Ranks
from qml_lightning.model.recipe import Automatic, SolverSettings
from qml_lightning.training.outputs import Keep
from qml_lightning.training.plan import EXCLUDES, plan_fit
from qml_lightning.training.problem import Problem
from qml_lightning.training.solvers.disk import sizes
from small_models import crystals, molecules, recipe

GIB = 1024**3
EQUATIONS = Keep(equations=Path("e"))
RANKS = Ranks(0, 2, 2, torch.device("cpu"))


def machine(left: int = 16 * GIB, limit: int | None = None, ranks: Ranks | None = None) -> Compute:
    """A machine with that much free memory."""
    return Compute(memory=SimpleNamespace(left=left, limit=limit, scratch=None), ranks=ranks)


def with_solver(method: str = "automatic", **settings):
    return recipe(n_features=512, solver=SolverSettings(method, **settings))


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem.of(molecules(30))


def test_equations_that_fit_in_memory_are_solved_directly(problem):
    plan = plan_fit(problem, with_solver(), machine())
    assert plan.solver == "direct"
    assert plan.reason == "its equations fit in memory"
    assert plan.rows == {"energies": 30, "forces": 30 * 27}
    assert plan.n_weights == 512
    assert plan.costs["direct"].memory == 8 * 512**2 + 512 * 1024**2 + 8 * 512 * 30  # Gram matrix, buffer, energy rows
    assert plan.costs["direct"].operations == 840 * 512**2 + 512**3 / 3
    assert not plan.excluded


def test_each_element_gets_weights_of_its_own_where_they_cost_nothing(problem):
    """An iteration takes as long with them: the plan of a search says so, that of a given recipe never does."""
    iterates = Automatic(with_solver("iterative"))
    plan = plan_fit(problem, iterates, machine())
    assert plan.own_weights
    assert plan.n_weights == 512 * len(problem.elements)
    for shared in (
        iterates.start,
        Automatic(with_solver("direct")),
        iterates.changed({"blocks": False}),
    ):
        plan = plan_fit(problem, shared, machine())
        assert not plan.own_weights
        assert plan.n_weights == 512
    alloy = crystals(3)
    numbers = torch.full_like(alloy.structures.numbers, 29)
    copper = replace(alloy, structures=replace(alloy.structures, numbers=numbers))
    assert not plan_fit(Problem.of(copper), iterates, machine()).own_weights


def test_the_small_model_has_as_many_weights_with_own_and_with_shared_ones(problem):
    settings = with_solver("iterative", preconditioner_features=256)
    assert settings.small_features(4) == 256
    assert settings.with_own_weights().small_features(4) == 64
    assert settings.with_own_weights().small_features(100) == settings.features.unit(settings.rank)  # at least


def test_equations_that_do_not_fit_go_to_disk_and_it_says_why(problem):
    plan = plan_fit(problem, with_solver("direct"), machine(100 * 1024**2), Keep(checkpoint=Path("c")))
    assert plan.solver == "disk"
    assert plan.reason == "equations of 0.50 GiB do not fit in memory"
    assert plan.costs["disk"].disk == 4 * 512**2
    assert "without checkpoints" in plan.remark
    limited = plan_fit(problem, with_solver("direct"), machine(100 * 1024**2, limit=10**8))
    assert limited.reason == "equations of 0.51 GiB do not fit in memory within the limit"
    assert limited.remark == ""


@pytest.mark.parametrize("limit", [None, 10**12])
@pytest.mark.parametrize("n_features", [32, 512, 8192], ids=["tiles decide", "both", "the batch decides"])
def test_the_memory_of_the_disk_solver_is_the_least_with_which_it_runs(problem, n_features, limit):
    settings = replace(with_solver("direct"), features=replace(with_solver().features, n_features=n_features))
    least = plan_fit(problem, settings, machine(limit=limit)).costs["disk"].memory
    sizes(problem, n_features, machine(least, limit).memory)
    with pytest.raises(ResourceError, match="even out of core, needs"):
        sizes(problem, n_features, machine(int(0.999 * least), limit).memory)


def test_the_iteration_is_taken_with_a_limit_of_memory_too_if_it_fits(problem):
    plan = plan_fit(problem, with_solver("iterative"), machine(limit=16 * GIB))
    assert (plan.solver, plan.reason) == ("iterative", "the recipe asks for it")
    with pytest.raises(ResourceError, match=r"The iterative solver needs .* GiB and 0.00 GiB are free"):
        plan_fit(problem, with_solver("iterative"), machine(1000, limit=1000))


def test_a_cheaper_iteration_says_how_much_it_saves(problem, monkeypatch):
    monkeypatch.setattr("qml_lightning.training.choice.rules.SAVES", 0.0)
    plan = plan_fit(problem, with_solver(), machine())
    assert plan.reason.endswith("times fewer operations than the direct solver")
    assert plan_fit(problem, with_solver("direct"), machine()).solver == "direct"
    too_little = plan.costs["iterative"].memory - 1
    assert plan_fit(problem, with_solver(), machine(too_little)).solver != "iterative"


@pytest.mark.parametrize(
    ("wish", "compute", "keep", "settings"),
    [
        ("kept equations", machine(), EQUATIONS, {}),
        ("several ranks", machine(ranks=RANKS), Keep(), {}),
        ("compensated sums of float64, RFF or ORF", machine(), Keep(), {"accumulation": "compensated"}),
    ],
)
def test_a_solver_that_cannot_do_what_is_wanted_is_not_planned(problem, wish, compute, keep, settings, monkeypatch):
    with pytest.raises(InputError, match=f"The iterative solver and {wish} exclude each other, as "):
        plan_fit(problem, with_solver("iterative", **settings), compute, keep)
    monkeypatch.setattr("qml_lightning.training.choice.rules.SAVES", 0.0)
    plan = plan_fit(problem, with_solver(**settings), compute, keep)
    assert plan.solver == "direct"
    assert wish in plan.excluded["iterative"]
    small = replace(compute, memory=SimpleNamespace(left=10**6, limit=None))
    on_disk = wish.replace("sums of float64, RFF or ORF", "accumulation")
    with pytest.raises(ResourceError, match=f"the disk solver and {on_disk} exclude each other"):
        plan_fit(problem, with_solver(**settings), small, keep)


@pytest.mark.parametrize(
    ("capability", "solver", "wanted"),
    [
        ((8, 6), "iterative", "pairs of float32: float64 is slow on a GPU of compute capability 8.6"),
        ((12, 0), "direct", "slices of float32: float64 is slow on a GPU of compute capability 12.0"),
        ((9, 0), "iterative", "float64: it is fast on a GPU of compute capability 9.0"),
        (None, "iterative", "float64: it is fast on the CPU"),
    ],
)
def test_the_plan_tells_how_products_are_added_up_and_why(problem, capability, solver, wanted, monkeypatch):
    monkeypatch.setattr("qml_lightning.machine.compute.room_on", lambda device: 16 * GIB)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: capability)
    device = "cpu" if capability is None else "cuda"
    plan = plan_fit(problem, replace(with_solver(solver), precision="float32"), replace(machine(), device=device))
    assert (plan.solver, plan.sums) == (solver, wanted)
    if capability == (8, 6):
        wide = plan_fit(problem, with_solver(solver), replace(machine(), device=device))
        assert wide.sums.startswith("float64: float64 is slow on a GPU of compute capability 8.6, but pairs")


def test_every_process_of_a_machine_counts(problem):
    alone, shared = (plan_fit(problem, with_solver(), machine(ranks=ranks)) for ranks in (None, RANKS))
    assert shared.costs["direct"].memory == 2 * alone.costs["direct"].memory


def test_explicit_kernels_refuse_what_they_cannot_have(tmp_path):
    wishes = {"memory_limit": 10**9, "equations": tmp_path / "e", "checkpoint": tmp_path / "c"}
    for name, value in wishes.items():
        with pytest.raises(InputError, match="Explicit kernels run in the memory of one process"):
            Request.of(GPR, **{name: value})
    assert Request.of(GPR).plan(Problem.of(molecules(3))) is None


def test_an_option_that_does_not_exist_is_told_with_those_that_do():
    with pytest.raises(TypeError, match=r"fit has no option memory\. It has .*targets, .*memory_limit"):
        Request.of(recipe(), memory=3)


def test_train_tells_the_plan_and_stops(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = ["train", "ethanol:train@0:60", "--features", "256", "--plan"]
    assert main(asked) == 0
    told = capsys.readouterr().out
    assert "direct: its equations fit in memory" in told
    assert "iterative" in told
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["rows"] == {"energies": 60, "forces": 60 * 27}
    assert main([*asked, "-m", "m.safetensors"]) == 0
    assert capsys.readouterr().out == told
    assert list(tmp_path.iterdir()) == []
    assert main(asked[:-1]) == 2
    assert "Name the file to write: --model model.safetensors" in " ".join(capsys.readouterr().err.split())


def test_the_docs_show_what_excludes_what():
    page = (ROOT / "docs" / "scaling.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.replace("\\|", " ").splitlines()
        if line[:1] == "|"
    ]
    solvers = rows[0][1:]
    shown = {(solver, row[0]): cell for row in rows for solver, cell in zip(solvers, row[1:]) if len(row) == 5}
    words = {"kept equations": "--equations", "several ranks": "torchrun", "a limit of memory": "--memory"}
    words |= {"a checkpoint": "checkpoint", "the basis of another model": "--basis"}
    excluded = EXCLUDES | {(solvers[-1], wish): why for wish, why in EXACT_EXCLUDES.items()}
    for (solver, wish), why in excluded.items():
        (told,) = (cell for (name, row), cell in shown.items() if name == solver and words.get(wish, wish) in row)
        assert told == f"no: {why}"
    assert sum(cell.startswith("no: ") for cell in shown.values()) == len(excluded) + 1  # and checkpoints on disk
