"""A lock for threads that share an object: they use it one after the other."""

from __future__ import annotations

import os
from threading import RLock
from types import TracebackType


class Turn:
    """A lock that is copied and pickled as a new one, and is free in a forked process.

    A forked process has no thread that could release a lock of its parent.
    """

    def __init__(self) -> None:
        self._lock, self._process = RLock(), os.getpid()

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self.__init__()  # type: ignore[misc]
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
