"""Worker processes: one function applied to many tasks, several at a time."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, connection, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

import torch

from ..errors import ResourceError

Task = TypeVar("Task")
Result = TypeVar("Result")

# A fit makes good use of this many threads: processes with fewer gain little.
FEWEST_THREADS = 4
# Bytes of a process that has loaded the package and done nothing yet.
BYTES_OF_A_PROCESS = 600 * 1024**2

_work: Any = None  # function of a worker process


def jobs_for(n_tasks: int, bytes_of_each: int, free: int) -> int:
    """Number of tasks that memory and threads allow at once."""
    by_memory = free // (bytes_of_each + BYTES_OF_A_PROCESS)
    return max(1, min(n_tasks, by_memory, torch.get_num_threads() // FEWEST_THREADS))


def as_done(work: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Result]]:
    """Each task and its result `work(task)`, in the order in which they finish.

    With several `jobs`, as many processes share the threads. `work` is sent to each process once: it may hold the data.
    They end when this process ends, when the work fails, or when nobody wants more results.
    """
    jobs = min(jobs, len(tasks))
    if jobs <= 1:
        for task in tasks:
            yield task, work(task)
        return
    threads = max(1, torch.get_num_threads() // jobs)
    others = set(active_children())
    # spawn: a fork would inherit locks of threads that it does not have
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (pickle.dumps(work), threads))
    try:
        with _signals_later():  # one in the middle of a start would leave a process that nobody knows
            futures = {pool.submit(_do, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as problem:
        _end(set(active_children()) - others)
        raise ResourceError(
            f"One of {jobs} processes ended before its work was done; most often memory was too short for all of them. "
            "Use fewer at once."
        ) from problem
    except BaseException:
        _end(set(active_children()) - others)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _signals_later() -> Iterator[None]:
    """Let signals that Python handles wait until the block has ended. Other processes do not inherit this."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return
    came: list[int] = []
    known = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: handler for number in known if callable(handler := signal.getsignal(number))}
    for number in before:
        signal.signal(number, lambda one, _: came.append(one))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _end(children: set[BaseProcess]) -> None:
    """End these processes at once: shutting down a pool would wait for the tasks that they are at."""
    for child in children:
        child.terminate()


def _end_with_parent() -> None:
    """Wait until the parent process has ended, by whatever cause, and end this one."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _begin(work: bytes, threads: int) -> None:
    global _work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it silently: the parent reports
    torch.set_num_threads(threads)
    _work = pickle.loads(work)


def _do(task: Any) -> Any:
    return _work(task)
