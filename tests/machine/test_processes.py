"""Work in several processes: the same results, and a process that dies is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qml_lightning.cli.failures import Stopped, signals_raised
from qml_lightning.errors import InputError, ResourceError
from qml_lightning.machine import processes
from qml_lightning.machine.processes import as_done, jobs_for


def tenfold(n: int) -> tuple[int, int]:
    return 10 * n, os.getpid()


def dies(n: int) -> int:
    os._exit(n)


def refuses(n: int) -> int:
    raise InputError(f"Wanted another number than {n}.")


def test_each_task_has_its_result_whether_in_turn_or_in_processes_of_their_own():
    in_turn = [(task, result) for task, (result, process) in as_done(tenfold, [1, 2, 3], 1) if process == os.getpid()]
    assert in_turn == [(1, 10), (2, 20), (3, 30)]
    at_once = list(as_done(tenfold, [1, 2, 3], 2))
    assert sorted((task, result) for task, (result, _) in at_once) == in_turn
    assert os.getpid() not in {process for _, (_, process) in at_once}


@pytest.mark.skipif(sys.platform != "linux", reason="how a process ends")
def test_a_process_that_dies_and_one_that_refuses_are_told():
    with pytest.raises(ResourceError, match=r"One of 2 processes ended before its work was done.*Use fewer"):
        list(as_done(dies, [3, 4], 2))
    with pytest.raises(InputError, match="another number than 3"):
        list(as_done(refuses, [3, 3], 2))


def sleeps(file: str) -> None:
    with open(file, "w") as told:
        told.write(str(os.getpid()))
    time.sleep(600)


def pids(folder, n: int) -> list[int]:
    """Process numbers that the workers wrote, once all of them are at work."""
    while sum(path.stat().st_size > 0 for path in folder.iterdir()) < n:
        time.sleep(0.05)
    return [int(path.read_text()) for path in folder.iterdir()]


def lives(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def wait_for_the_end_of(numbers: list[int]) -> None:
    """Return when none of these processes lives; the test would not end if one did."""
    while any(lives(number) for number in numbers):
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent_however_it_ends(tmp_path, how):
    (tmp_path / "pids").mkdir()
    (tmp_path / "job.py").write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import test_processes\n"
        "from qml_lightning.cli.failures import signals_raised\n"
        "if __name__ == '__main__':\n"
        "    with signals_raised():\n"
        "        list(test_processes.as_done(test_processes.sleeps, sys.argv[2:], 2))\n"
    )
    files = [str(tmp_path / "pids" / str(k)) for k in range(2)]
    here = os.path.dirname(__file__)
    parent = subprocess.Popen([sys.executable, str(tmp_path / "job.py"), here, *files], stderr=subprocess.DEVNULL)
    children = pids(tmp_path / "pids", 2)
    parent.send_signal(how)
    parent.wait()
    wait_for_the_end_of(children)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_signal_while_a_worker_starts_leaves_no_process_behind(tmp_path, monkeypatch):
    from multiprocessing.popen_spawn_posix import Popen

    launch, started = Popen._launch, []

    def launched(self, process) -> None:
        launch(self, process)
        started.append(self.pid)
        os.kill(os.getpid(), signal.SIGTERM)  # before anybody has noted the new process

    monkeypatch.setattr(Popen, "_launch", launched)
    files = [str(tmp_path / str(k)) for k in range(2)]
    with pytest.raises(Stopped), signals_raised():
        list(as_done(sleeps, files, 2))
    assert len(started) == 2  # the signal is heard when all workers are known
    assert not any(map(lives, started))


def test_as_many_at_once_as_memory_and_threads_allow(monkeypatch):
    monkeypatch.setattr(processes.torch, "get_num_threads", lambda: 16)
    each, gib = 1024**3 - processes.BYTES_OF_A_PROCESS, 1024**3
    assert jobs_for(9, each, 100 * gib) == 16 // processes.FEWEST_THREADS
    assert jobs_for(9, each, 3 * gib) == 3
    assert jobs_for(2, each, 100 * gib) == 2
    assert jobs_for(9, each, 0) == 1
