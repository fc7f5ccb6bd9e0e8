"""Functions in processes of their own, so that their peaks of memory do not mix, or by several ranks of torchrun."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .places import ROOT


def apart(function: Callable[..., Any], *arguments: Any, ranks: int = 1, threads: int | None = None) -> Any:
    """The answer of `function(*arguments)` in another process, or of the first of several ranks.

    The function stands in a module of this package; arguments and answer go through JSON.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        task = {
            "module": function.__module__,
            "function": function.__name__,
            "arguments": arguments,
            "threads": threads or torch.get_num_threads(),
            "answer": str(answer),
        }
        start = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m"] if ranks > 1 else []
        command = [sys.executable, "-m", *start, __name__, json.dumps(task)]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
        return json.loads(answer.read_text())


def main() -> None:
    """Do the task on the command line; ranks other than the first answer nothing."""
    task = json.loads(sys.argv[1])
    torch.set_num_threads(task["threads"])
    answer = getattr(importlib.import_module(task["module"]), task["function"])(*task["arguments"])
    if answer is not None:
        Path(task["answer"]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
