"""Progress of long work, told to whoever wants to know."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Callback for long work; `print` will do."""

    def __call__(self, what: str, done: int, of: int, remark: str = "", /) -> None:
        """`done` of `of` steps of `what`. The remark is for people, such as a rate."""


def silent(what: str, done: int, of: int, remark: str = "", /) -> None:
    """Progress that is not shown."""
