"""What a person sees when something goes wrong: one message, an exit code, no traceback."""

from __future__ import annotations

import errno
import json
import os
import sys

import typer

from ..errors import InputError, ModelError, QMLError, ResourceError, SolveError
from .screen import panel

EXIT_CODES: dict[type[QMLError], int] = {InputError: 2, ResourceError: 3, ModelError: 4, SolveError: 5}
INTERRUPTED = 130


def explain(problem: BaseException, *, as_json: bool) -> int:
    """Tell what happened, on stderr (with --json: on stdout, as JSON), and give the exit code."""
    if isinstance(problem, SystemExit):
        return problem.code if isinstance(problem.code, int) else 1
    if isinstance(problem, OSError) and problem.errno == errno.EPIPE:
        # whoever read our output has gone: nobody is left to be told, and the flush at exit must not complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    code, kind, message = _judged(problem)
    if getattr(problem, "told_elsewhere", False):  # the first of several ranks has had the error, and tells it
        return code
    if as_json:
        print(json.dumps({"error": message, "kind": kind}, ensure_ascii=False))
    else:
        panel("Error" if code != INTERRUPTED else "Interrupted", message, colour="red")
    return code


def _judged(problem: BaseException) -> tuple[int, str, str]:
    """Exit code, name of the kind of error, and the message."""
    for kind, code in EXIT_CODES.items():
        if isinstance(problem, kind):
            return code, kind.__name__, str(problem)
    if isinstance(problem, (KeyboardInterrupt, typer.Abort)):
        return (
            INTERRUPTED,
            "Interrupted",
            "Stopped before the end. Files are written whole or not at all.",
        )
    if hasattr(problem, "format_message"):  # a mistake in the command line, found by typer
        context = getattr(problem, "ctx", None)
        hint = f"\nSee: {context.command_path} --help" if context is not None else ""
        return 2, InputError.__name__, f"{problem.format_message()}{hint}"
    if _out_of_memory(problem):
        return 3, ResourceError.__name__, (
            f"There was not enough memory ({problem}). Use fewer features, fewer structures, or --precision float32."
        )  # fmt: skip
    if isinstance(problem, OSError):
        return 2, InputError.__name__, f"{problem.strerror or problem}: {problem.filename or ''}".rstrip(": ")
    return 1, type(problem).__name__, (
        f"{type(problem).__name__}: {problem}\nThis should not have happened. Run the command again with --debug and "
        "send us what it prints."
    )  # fmt: skip


def _out_of_memory(problem: BaseException) -> bool:
    """Also what torch says, which is no MemoryError."""
    text = str(problem).lower()
    return isinstance(problem, MemoryError) or (
        isinstance(problem, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
    )
