"""Files that are replaced together are all old or all new, whenever the process is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from qml_lightning.errors import ResourceError
from qml_lightning.machine.journal import journal_of, recover, sweep_up_together, together

# System calls between which a process may die.
CALLS = ("open", "close", "replace", "fsync", "chmod", "unlink", "stat")
OLD, NEW = ("old a", "old b"), ("new a, longer", "new b")
MOST_CALLS = 400


def files(folder: Path) -> list[Path]:
    (folder / "other").mkdir()
    paths = [folder / "a", folder / "other" / "b"]
    for path, text in zip(paths, OLD):
        path.write_text(text)
    return paths


def contents(paths: list[Path]) -> tuple[str, ...]:
    return tuple(path.read_text() for path in paths)


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def replace_all(paths: list[Path]) -> None:
    with together(paths) as temporaries:
        for temporary, text in zip(temporaries, NEW):
            temporary.write_text(text)


def _die_at(number: int) -> None:
    """Die as by kill -9 instead of making the system call of this number."""
    calls = 0

    def dying(whole):
        def call(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return whole(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, dying(getattr(os, name)))


def killed_at(number: int, paths: list[Path]) -> bool:
    """Whether a child that replaces the files was killed; False: it came to its end before that call."""
    child = os.fork()
    if child == 0:
        try:
            _die_at(number)
            replace_all(paths)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")
def test_a_kill_at_any_call_leaves_all_old_or_all_new(tmp_path):
    found = []
    for number in range(1, MOST_CALLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths = files(folder)
        if not killed_at(number, paths):
            assert contents(paths) == NEW
            break
        assert all(text in pair for text, pair in zip(contents(paths), zip(OLD, NEW)))  # each is whole at all times
        recover(paths[0])
        sweep_up_together(paths)
        assert contents(paths) in (OLD, NEW)
        assert everything(folder) == {"a", "other/b"}
        found.append(contents(paths))
    assert found == sorted(found, reverse=True)  # old before the point of no return, new after it
    assert {OLD, NEW} == set(found)
    assert len(found) > 10


def test_a_block_that_fails_changes_nothing(tmp_path):
    paths = files(tmp_path)

    def fail():
        with together(paths) as temporaries:
            temporaries[0].write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert contents(paths) == OLD
    assert everything(tmp_path) == {"a", "other/b"}


def cut_short(paths: list[Path]) -> None:
    """Leave the journal and all new files, as a kill right after the point of no return does."""
    child = os.fork()
    if child == 0:
        from qml_lightning.machine import journal

        journal.recover = lambda path: os._exit(0)
        replace_all(paths)
    os.waitpid(child, 0)
    assert journal_of(paths[0]).exists()


def test_a_file_that_someone_changed_meanwhile_is_left_alone(tmp_path):
    paths = files(tmp_path)
    cut_short(paths)
    paths[1].write_text("restored by hand")
    assert recover(paths[0])
    assert contents(paths) == (NEW[0], "restored by hand")
    assert everything(tmp_path) == {"a", "other/b"}


def test_a_folder_may_be_moved_before_the_work_is_finished(tmp_path):
    (tmp_path / "here").mkdir()
    paths = files(tmp_path / "here")
    cut_short(paths)
    (tmp_path / "here").rename(tmp_path / "there")
    assert recover(tmp_path / "there" / "a")
    assert contents([tmp_path / "there" / "a", tmp_path / "there" / "other" / "b"]) == NEW
    assert not recover(tmp_path / "there" / "a")


def test_a_journal_that_makes_no_sense_is_told(tmp_path):
    paths = files(tmp_path)
    journal_of(paths[0]).write_text('[{"target": 3}]')
    with pytest.raises(ResourceError, match="was cut short"):
        recover(paths[0])
    assert contents(paths) == OLD
