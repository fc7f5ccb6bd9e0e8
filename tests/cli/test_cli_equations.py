"""Equations on the command line: kept by train, added by merge, grown and shrunk by update."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import torch
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write
from rich.console import Console
from safetensors.torch import load_file

from altered_files import alter_entries, write_checksum
from qml_lightning import Structures, load, load_dataset, structures_from_ase
from qml_lightning.cli import main, screen
from qml_lightning.model.gaps import seen_distances
from qml_lightning.model.potential import Model

# nothing is left to the choice, which another ridge could change
TINY = [
    "--representation", "density", "--sigma", "8", "--features", "256", "--rank", "64", "--ridge", "1e-6",
    "--class-spread", "0", "--no-label-check",
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a fit of 40 structures, one of 20 others in its basis, and one of all of them."""
    folder = tmp_path_factory.mktemp("made")
    first, rest = (
        ["-m", f"{folder}/a.safetensors", "--equations", f"{folder}/a.eq"],
        ["--basis", f"{folder}/a.safetensors"],
    )
    assert main(["train", "ethanol:train@0:40", *first, *TINY]) == 0
    more = ["-m", f"{folder}/b.safetensors", "--equations", f"{folder}/b.eq", *rest, "--no-label-check"]
    assert main(["train", "ethanol:train@40:60", *more]) == 0
    assert main(["train", "ethanol:train@0:60", "-m", f"{folder}/all.safetensors", *rest, "--no-label-check"]) == 0
    return folder


@pytest.fixture
def run(capsys, tmp_path, monkeypatch, made):
    """Exit code, standard output and standard error of a command, in a folder with copies of what was made."""
    monkeypatch.chdir(tmp_path)
    for file in made.iterdir():
        Path(file.name).write_bytes(file.read_bytes())

    def run_(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run_


def same_model(one: str, other: str) -> bool:
    a, b = load_file(one), load_file(other)
    return all((a[key] - b[key]).abs().max() <= 1e-6 * b[key].abs().max() for key in ("weights", "baseline"))


def test_update_equals_training_on_all_with_the_same_basis(run):
    code, out, err = run(
        "update", "a.safetensors", "ethanol:train@40:60", "--equations", "a.eq", "-o", "new.safetensors"
    )
    assert code == 0, err
    assert "60 with 540 atoms" in out
    assert same_model("new.safetensors", "all.safetensors")
    assert not same_model("a.safetensors", "all.safetensors")


def test_update_in_place_and_back_again(run):
    before = Path("a.safetensors").read_bytes()
    assert run("update", "a.safetensors", "ethanol:train@40:60", "--equations", "a.eq")[0] == 0
    assert same_model("a.safetensors", "all.safetensors")
    code, out, err = run("update", "a.safetensors", "ethanol:train@40:60", "--equations", "a.eq", "--remove", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["provenance"]["structures"] == 40
    assert told["provenance"]["data"]["draws"] == ["without 20 of ethanol"]
    Path("before.safetensors").write_bytes(before)
    assert same_model("a.safetensors", "before.safetensors")


def test_update_keeps_a_committee_and_its_calibration(run):
    first = ["-m", "c.safetensors", "--equations", "c.eq", "--committee", "4", "--basis", "a.safetensors"]
    assert run("train", "ethanol:train@0:40", *first, "--no-label-check")[0] == 0
    given = ["--equations", "c.eq", "-o", "new.safetensors", "--no-label-check"]
    assert run("update", "c.safetensors", "ethanol:train@40:60", *given)[0] == 0
    before, after = (load(name).committee for name in ("c.safetensors", "new.safetensors"))
    assert len(after) == 4
    assert after.calibrations == before.calibrations
    assert float(after.deviations.norm()) < float(before.deviations.norm())


def test_merge_then_update_without_data_makes_the_model_of_both(run):
    code, out, err = run("merge", "a.eq", "b.eq", "-o", "both.eq")
    assert code == 0, err
    assert "60 energies, 1,620 forces" in out
    assert run("update", "a.safetensors", "--equations", "both.eq", "-o", "both.safetensors")[0] == 0
    assert same_model("both.safetensors", "all.safetensors")
    assert json.loads(run("info", "both.eq", "--json")[1])["structures"] == 60
    assert "60 with 540 atoms" in run("info", "both.eq")[1]


def known(name: str) -> list[int] | None:
    """Fingerprints of the structures that a model says it was trained on."""
    trained_on = load(name).trained_on
    return None if trained_on is None else sorted(trained_on.tolist())


def test_a_model_of_merged_equations_knows_the_structures_of_both(run):
    assert run("merge", "a.eq", "b.eq", "-o", "both.eq")[0] == 0
    assert run("update", "a.safetensors", "--equations", "both.eq", "-o", "both.safetensors")[0] == 0
    assert known("both.safetensors") == known("all.safetensors")
    code, out, err = run("evaluate", "both.safetensors", "ethanol:train@40:60")
    assert code == 0
    assert "trained on 20 of the 20 structures" in out + err
    taken_out = ["--equations", "both.eq", "--remove", "-o", "without.safetensors"]
    assert run("update", "both.safetensors", "ethanol:train@40:60", *taken_out)[0] == 0
    assert known("without.safetensors") == known("a.safetensors")


def test_equations_of_older_versions_leave_unknown_what_a_model_was_trained_on(run):
    for name in (Path("a.eq"), Path("b.eq")):
        alter_entries(name, lambda entries: entries.update(forgotten=entries.pop("geometries")))
        write_checksum(name)
    assert run("update", "a.safetensors", "--equations", "a.eq", "-o", "same.safetensors")[0] == 0
    assert known("same.safetensors") == known("a.safetensors")
    assert run("merge", "a.eq", "b.eq", "-o", "both.eq")[0] == 0
    assert run("update", "a.safetensors", "--equations", "both.eq", "-o", "both.safetensors")[0] == 0
    assert known("both.safetensors") is None


def closer_structures(scale: float) -> Structures:
    """Write closer.extxyz with a few structures that are pressed together, and give them."""
    data = load_dataset("ethanol:train@60:72")
    numbers, shape = data.structures.numbers.view(len(data), -1).numpy(), (len(data), -1, 3)
    positions, forces = (one.view(shape).numpy() for one in (data.structures.positions, data.labels.forces))
    frames = [Atoms(one, scale * at) for one, at in zip(numbers, positions, strict=True)]
    for atoms, energy, force in zip(frames, data.labels.energies.tolist(), forces, strict=True):
        atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=force)
    write("closer.extxyz", frames)
    return structures_from_ase(frames)


def untouched(model: Model, structures: Structures) -> tuple[bool, bool]:
    """Whether the repulsion of close pairs, and that of crowded atoms, leave the structures alone."""
    repulsion, elements = model.repulsion, model.elements
    apart = (seen_distances(structures, elements, 4.0)[0] >= repulsion.outer).all()
    crowding = repulsion.crowding
    return bool(apart), bool((crowding.most(structures, elements) <= crowding.onset).all())


def test_a_model_of_merged_or_updated_equations_leaves_alone_the_structures_of_both(run):
    closer, first = closer_structures(0.75), load("a.safetensors")
    assert untouched(first, closer) == (False, False)
    assert run("update", "a.safetensors", "--equations", "a.eq", "-o", "same.safetensors")[0] == 0
    before, after = load_file("a.safetensors"), load_file("same.safetensors")
    assert all(torch.equal(before[key], after[key]) for key in before if key.startswith(("repulsion.", "crowding.")))
    more = ["-m", "closer.safetensors", "--equations", "closer.eq", "--basis", "a.safetensors", "--no-label-check"]
    assert run("train", "closer.extxyz", *more)[0] == 0
    assert run("merge", "a.eq", "closer.eq", "-o", "both.eq")[0] == 0
    assert run("update", "a.safetensors", "--equations", "both.eq", "-o", "merged.safetensors")[0] == 0
    added = ["--equations", "a.eq", "-o", "updated.safetensors", "--no-label-check"]
    assert run("update", "a.safetensors", "closer.extxyz", *added)[0] == 0
    assert run("update", "updated.safetensors", "--equations", "a.eq", "-o", "again.safetensors")[0] == 0
    known, reach = load_dataset("ethanol:train@0:40").structures, first.repulsion.crowding.reach
    for name in ("merged", "updated", "again"):
        model = load(f"{name}.safetensors")
        assert untouched(model, closer) == (True, True), name
        assert untouched(model, known) == (True, True), name
        assert (model.repulsion.crowding.strength >= first.repulsion.crowding.strength).all()
        # new structures that are at hand are counted within the reach of the model
        assert torch.equal(model.repulsion.crowding.reach, reach) == (name != "merged")


def test_another_ridge_and_energy_weight_need_no_data(run):
    options = ["--ridge", "1e-3", "--energy-weight", "10"]
    assert run("update", "a.safetensors", "--equations", "a.eq", "-o", "smooth.safetensors", *options)[0] == 0
    train = ["train", "ethanol:train@0:40", "-m", "wanted.safetensors", *TINY, *options]
    assert run(*train)[0] == 0
    assert same_model("smooth.safetensors", "wanted.safetensors")


def test_what_does_not_go_together_is_refused_and_nothing_changes(run):
    other = ["train", "ethanol:train@60:80", "-m", "c.safetensors", "--equations", "c.eq", *TINY]
    assert run(*other)[0] == 0
    before = {file.name: file.read_bytes() for file in Path().iterdir()}
    for arguments, code, word in (
        (["merge", "a.eq", "c.eq", "-o", "no.eq"], 2, "c.eq: Equations in different bases cannot be added"),
        (["merge", "a.eq", "a.eq", "-o", "no.eq"], 2, "40 of 40 structures are in the equations already"),
        (["merge", "a.eq", "-o", "no.eq"], 2, "at least two"),
        (["merge", "a.eq", "b.eq", "-o", "c.eq"], 2, "--overwrite"),
        (["merge", "a.eq", "a.safetensors", "-o", "no.eq"], 4, "not a qml-lightning equations file"),
        (["update", "c.safetensors", "--equations", "a.eq"], 2, "a.eq does not hold the equations of c.safetensors"),
        (["update", "a.safetensors", "ethanol:train@0:5", "--equations", "a.eq"], 2, "in the equations already"),
        (["update", "a.safetensors", "ethanol:test@0:5", "--equations", "a.eq", "--remove"], 2, "not in the equations"),
        (["update", "a.safetensors", "--equations", "a.eq", "-o", "b.safetensors"], 2, "--overwrite"),
        (["update", "a.safetensors", "--equations", "a.eq", "--precision", "float64"], 2, "leave out --precision"),
        (["update", "a.safetensors", "ethanol:train@40:60", "--equations", "a.eq", "--ridge", "-1"], 2, "negative"),
        (["train", "ethanol:train@0:9", "-m", "n.safetensors", "--equations", "a.eq"], 2, "--overwrite"),
        (
            ["train", "ethanol:train@0:9", "-m", "n.safetensors", "--basis", "a.safetensors", "--rank", "32"],
            2,
            "rank is 64",
        ),
    ):
        found, _, err = run(*arguments)
        assert (found, word in " ".join(err.split())) == (code, True), (arguments, err)
    assert {file.name: file.read_bytes() for file in Path().iterdir()} == before


def test_an_update_that_cannot_be_solved_leaves_model_and_equations_as_they_were(run, monkeypatch):
    from qml_lightning.errors import SolveError

    def unsolvable(*_, **__):
        raise SolveError("singular")

    before = {file.name: file.read_bytes() for file in Path().iterdir()}
    monkeypatch.setattr("qml_lightning.training.solvers.direct.solve_terms", unsolvable)
    assert run("update", "a.safetensors", "ethanol:train@40:60", "--equations", "a.eq")[0] == 5
    assert {file.name: file.read_bytes() for file in Path().iterdir()} == before


def test_the_bar_shows_the_rate_of_the_products_and_the_time_left(monkeypatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=110)
    monkeypatch.setattr(screen, "console", lambda **_: terminal)
    from qml_lightning import fit
    from small_models import molecules, recipe

    monkeypatch.setattr("qml_lightning.linear.normal_equations.BUFFER_BYTES", 8 * 64 * 400)
    monkeypatch.setattr("qml_lightning.training.rows.BATCH_NUMBERS", 10 * 28 * 64)
    remarks = []
    with screen.progress() as tell:

        def both(what, done, of, remark=""):
            tell(what, done, of, remark)
            remarks.append((what, done, remark))

        fit(molecules(30), recipe(n_features=64, ridge=1e-4), progress=both)
    assert [done for what, done, _ in remarks if what == "equations"][-1] == 30
    assert remarks[0] == ("equations", 0, "")
    assert remarks[1][2].endswith(" GFLOP/s")
    assert "GFLOP/s" in terminal.file.getvalue()
    assert "left" in terminal.file.getvalue()
