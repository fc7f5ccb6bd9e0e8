"""Forks commands of the attack and sends them a signal: reads JSON lines, answers with JSON lines."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time

from qml_lightning import api, datasets  # noqa: F401
from qml_lightning.cli import main
from qml_lightning.study import tuning  # noqa: F401
from qml_lightning.training import equations_file  # noqa: F401

# Seconds in which orphans of a killed command must have ended.
GRACE = 3.0


def child(command: list[str], folder: str, output: int) -> None:
    os.setpgid(0, 0)
    os.chdir(folder)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = main(command)
    sys.stdout.flush()
    os._exit(code)


def run(command: list[str], folder: str, seconds: float | None, number: int) -> dict[str, object]:
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            child(command, folder, output.fileno())
        timer = None
        if seconds is not None:
            timer = threading.Timer(seconds, lambda: os.kill(pid, number))
            timer.start()
        _, status, _ = os.wait4(pid, 0)
        if timer is not None:
            timer.cancel()
            if "--jobs" in command:
                time.sleep(GRACE)
        output.seek(0)
        said = output.read().decode(errors="replace")
    return {"code": os.waitstatus_to_exitcode(status), "said": said, "took": time.monotonic() - began}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for line in sys.stdin:
        print(json.dumps(run(**{{"signal": "number"}.get(k, k): v for k, v in json.loads(line).items()})), flush=True)
