"""Worker processes of the attack: many commands in each, under limits of memory and time."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty, Queue

from cases import GUARDED, NAMES, Case, Verdict, judge, result_of

# Seconds of processor time that a command may take, and seconds for which it may stand still: a machine that has other
# work to do makes a command slow, and that is no hang.
SECONDS = 120
# Part of the clock that is processor time: less is standing still.
STILL = 0.002
# Commands after which a worker is replaced by a fresh one.
COMMANDS = 250


class Worker:
    """A process that runs one command after another; one that dies or hangs is replaced."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._done = 0

    def run(self, command: list[str], folder: Path) -> tuple[int | str, str]:
        """Exit code, or "crash" or "hang", and what the command said."""
        if self._process is None or self._done >= COMMANDS:
            self.end()
            program = [sys.executable, str(Path(__file__).with_name("worker.py"))]
            self._process, self._done = (
                subprocess.Popen(
                    program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
                ),
                0,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        self._done += 1
        process.stdin.write(json.dumps({"command": command, "folder": str(folder)}) + "\n")
        process.stdin.flush()
        if reason := _hang(process):
            self.end()
            return "hang", reason
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self._process = None
            return "crash", f"the process ended with {code}"
        answer = json.loads(line)
        return answer["code"], answer["said"]

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _hang(process: subprocess.Popen[str], limit: float = SECONDS, still: float = SECONDS) -> str:
    """Waits for an answer of the process; why that is given up, or empty if there is one or the process has ended."""
    assert process.stdout is not None
    began = used = _processor_seconds(process.pid)
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while not ready.select(still):
            before, used = used, _processor_seconds(process.pid)
            if used - began > limit:
                return f"over {limit:.0f} s of processor time"
            if used - before < STILL * still:
                return f"stood still for {still:.0f} s"
    return ""


def _processor_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_cases(cases: Sequence[Case], victims: Path, folder: Path, jobs: int) -> Iterator[Verdict]:
    """Verdicts on all cases, several at a time."""
    wanted = _sound_results(victims, folder)
    left: Queue[Case] = Queue()
    for case in cases:
        left.put(case)
    found: Queue[Verdict | None] = Queue()

    def work() -> None:
        worker = Worker()
        try:
            while True:
                case = left.get_nowait()
                here = folder / f"case{case.number}"
                command = case.prepare(victims, here)
                code, said = worker.run(command, here)
                if isinstance(code, str):
                    found.put(Verdict(case.kind, f"case {case.number} ({' '.join(command)})", code, said))
                else:
                    found.put(judge(case, command, here, wanted, code, said))
                shutil.rmtree(here)
        except Empty:
            pass
        finally:
            worker.end()
            found.put(None)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    running, number = jobs, 0
    while running:
        verdict = found.get()
        if verdict is None:
            running -= 1
            continue
        number += 1
        if number % 100 == 0:
            print(f"  {number} of {len(cases)} files", file=sys.stderr, flush=True)
        yield verdict


def _sound_results(victims: Path, folder: Path) -> dict[str, str]:
    """Kind of file → digest of the numbers that its command gives while it is sound; damage must not change them."""
    worker, wanted = Worker(), {}
    for kind in GUARDED:
        here = folder / f"sound {kind}"
        shutil.copytree(victims, here)
        code, said = worker.run(Case(kind, 0, 0)._command(NAMES[kind], None), here)  # type: ignore[arg-type]
        if code != 0:
            raise RuntimeError(f"The sound {kind} does not work ({code}): {said}")
        wanted[kind] = result_of(here)
    worker.end()
    return wanted
