"""A small part of `make attack`: it notices what it looks for, and finds nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT

# Cases of the attack that are repeated here; those with data are left to the whole one.
FIRST = 40


@pytest.fixture(scope="module")
def attack(tmp_path_factory):
    """Modules of the attack and the folder of its sound files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tests" / "attack"))
        import cases
        import victims
        import worker

        folder = tmp_path_factory.mktemp("sound")
        before = Path.cwd()
        victims.make(folder)
        os.chdir(before)
        yield cases, worker, folder


def result_of_sound_files(attack, kind: str, folder: Path, monkeypatch) -> str:
    cases, worker, sound = attack
    shutil.copytree(sound, folder)
    monkeypatch.chdir(folder)
    code, said = worker.run(cases.Case(kind, 0, 0)._command(cases.NAMES[kind], None))
    assert code == 0, said
    return cases.result_of(folder)


def test_damaged_models_equations_and_checkpoints_are_refused_in_words(attack, tmp_path, monkeypatch):
    cases, worker, sound = attack
    wanted = {kind: result_of_sound_files(attack, kind, tmp_path / kind, monkeypatch) for kind in cases.GUARDED}
    outcomes = []
    for case in (cases.Case.of(0, number) for number in range(FIRST)):
        if not case.kind.startswith("data"):
            here = tmp_path / str(case.number)
            command = case.prepare(sound, here)
            monkeypatch.chdir(here)
            verdict = cases.judge(case, command, here, wanted, *worker.run(command))
            assert verdict.outcome in ("refused in words", "works, other numbers"), verdict
            assert verdict.outcome == "refused in words" or case.kind not in wanted
            outcomes.append(verdict.outcome)
    assert outcomes.count("refused in words") > FIRST / 2


@pytest.mark.parametrize(
    ("program", "says"),
    [("while True: pass", "processor time"), ("import time; time.sleep(60)", "stood still"), ("print(1)", "")],
)
def test_the_attack_tells_a_hang_by_processor_time(attack, program, says):
    import workers

    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        said = workers._hang(process, limit=1.0, still=2.0 if says == "processor time" else 5.0)
        assert (says in said) if says else not said
    finally:
        process.kill()
        process.communicate()


def test_the_attack_notices_silent_changes_unexplained_exits_and_half_written_files(attack, tmp_path):
    cases, _, _ = attack
    case = cases.Case("model", 0, 0)
    judge = lambda code, said: cases.judge(case, ["predict"], tmp_path, {"model": "other"}, code, said).outcome  # noqa: E731
    assert judge(1, "ValueError: this is a bug") == "unexplained exit"
    assert judge(4, "") == "unexplained exit"
    assert judge(4, "Error: damaged") == "refused in words"
    (tmp_path / "out.extxyz").write_text("half")
    assert judge(4, "Error: damaged") == "lost"
    assert judge(0, "done") == "silent change"
