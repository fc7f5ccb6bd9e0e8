"""Failures of a command as the user sees them: one message and an exit code, no traceback."""

from __future__ import annotations

import errno
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from ..errors import InputError, ModelError, QMLError, ResourceError, SolveError
from .screen import as_json_text, panel

EXIT_CODES: dict[type[QMLError], int] = {InputError: 2, ResourceError: 3, ModelError: 4, SolveError: 5}
INTERRUPTED = 130
# Signals by which batch systems and closed terminals stop a job. SIGINT raises KeyboardInterrupt by itself.
SIGNALS = ("SIGTERM", "SIGHUP")
# Seconds after a signal in which a further one is ignored: it must not disturb the cleaning up.
CLEANING_UP = 5.0


class Stopped(BaseException):
    """A signal asked this process to end: raised where it was at work, so that everything is left in order."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise `Stopped` on the signals that ask a process to end. Signals that are ignored (nohup) stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return
    ours = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    ours = [number for number in ours if signal.getsignal(number) is signal.SIG_DFL]

    last = -math.inf

    def stop(number: int, _: FrameType | None) -> None:
        nonlocal last
        since, last = time.monotonic() - last, time.monotonic()
        if since > CLEANING_UP:
            raise Stopped(number)

    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def explain(problem: BaseException, *, as_json: bool) -> int:
    """Print what happened on stderr (with --json: on stdout, as JSON), and return the exit code."""
    if isinstance(problem, SystemExit):
        return problem.code if isinstance(problem.code, int) else 1
    if isinstance(problem, OSError) and problem.errno == errno.EPIPE:
        # the program that read our output has ended: print nothing, not even when Python flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    code, kind, message = _described(problem)
    if getattr(problem, "told_elsewhere", False):  # with several ranks, the first one prints the error
        return code
    if as_json:
        print(as_json_text({"error": message, "kind": kind}, indent=None))
    else:
        panel("Interrupted" if kind == "Interrupted" else "Error", message, colour="red")
    return code


def _described(problem: BaseException) -> tuple[int, str, str]:
    """Exit code, kind of error, and message."""
    for kind, code in EXIT_CODES.items():
        if isinstance(problem, kind):
            return code, kind.__name__, str(problem)
    if isinstance(problem, Stopped):
        name = signal.Signals(problem.number).name
        return 128 + problem.number, "Interrupted", f"Stopped by {name} before the end. No file was left half written."
    if isinstance(problem, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED, "Interrupted", "Stopped before the end. No file was left half written."
    if hasattr(problem, "format_message"):  # a mistake in the command line, found by typer
        context = getattr(problem, "ctx", None)
        hint = f"\nSee: {context.command_path} --help" if context is not None else ""
        return 2, InputError.__name__, f"{problem.format_message()}{hint}"
    if _out_of_memory(problem):
        return 3, ResourceError.__name__, (
            f"Not enough memory ({problem}). Use fewer features, fewer structures, or --precision float32."
        )  # fmt: skip
    if isinstance(problem, RuntimeError) and "home directory" in str(problem):
        return 2, InputError.__name__, "A path begins with ~ and the name of no user. Write the whole path."
    if isinstance(problem, OSError):
        return 2, InputError.__name__, f"{problem.strerror or problem}: {problem.filename or ''}".rstrip(": ")
    return 1, type(problem).__name__, (
        f"{type(problem).__name__}: {problem}\nThis is a bug. Please run the command again with --debug and send us "
        "the output."
    )  # fmt: skip


def _out_of_memory(problem: BaseException) -> bool:
    """Whether memory ran out. torch raises a RuntimeError for it, not a MemoryError."""
    text = str(problem).lower()
    return isinstance(problem, MemoryError) or (
        isinstance(problem, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
    )
