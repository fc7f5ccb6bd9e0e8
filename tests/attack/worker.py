"""One worker of the attack: reads commands as JSON lines, runs them in this process, answers with JSON lines."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys
import warnings

from qml_lightning import api, datasets  # noqa: F401
from qml_lightning.cli import main
from qml_lightning.training import equations_file  # noqa: F401

# Bytes that a command may take beyond those of a process that has loaded everything.
MEMORY = 3 * 1024**3


def run(command: list[str]) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
        code = main(command)
    return code, said.getvalue()[-3000:]


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        task = json.loads(line)
        os.chdir(task["folder"])
        code, said = run(task["command"])
        answers.write(json.dumps({"code": code, "said": said}) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
