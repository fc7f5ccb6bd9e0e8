"""Several files replaced together: all of them or none, even if the process is killed at any moment."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import ResourceError
from .files import check_output, flush, settle, sweep_up, temporary_beside, write_atomically


@contextlib.contextmanager
def together(paths: Sequence[str | os.PathLike[str]]) -> Iterator[list[Path]]:
    """Temporary paths, one for each of `paths`. They take their places together when the block ends well.

    A journal beside the first path is the point of no return. Until it is there, no file has changed. Once it is there,
    `recover` finishes the work, here or in the next process that asks for the first path.
    """
    targets = [check_output(path, overwrite=True) for path in paths]
    temporaries = [temporary_beside(target) for target in targets]
    journal = journal_of(targets[0])
    try:
        yield temporaries
        for temporary, target in zip(temporaries, targets, strict=True):
            settle(temporary, target)
        write_atomically(journal, json.dumps(_steps(journal.parent, temporaries, targets)).encode())
    except BaseException:
        if not journal.exists():
            for temporary in temporaries:
                temporary.unlink(missing_ok=True)
            raise
        recover(targets[0])  # a signal came just after the point of no return
        raise
    try:
        recover(targets[0])
    except BaseException:
        recover(targets[0])
        raise


def recover(path: str | os.PathLike[str]) -> bool:
    """Finish a replacement that was cut short, if there is a journal beside `path`. Returns whether there was one.

    A file that someone has changed since then stays as it is.
    """
    journal = journal_of(Path(os.path.realpath(Path(path).expanduser())))
    if not journal.exists():
        return False
    try:
        for step in json.loads(journal.read_text(encoding="utf-8")):
            target = Path(os.path.normpath(journal.parent / step["target"]))
            temporary = target.with_name(Path(step["temporary"]).name)
            if temporary.exists() and _identity(target) == step["replaces"]:
                with contextlib.suppress(FileNotFoundError):  # another process was quicker
                    os.replace(temporary, target)
            else:
                temporary.unlink(missing_ok=True)
            flush(target.parent)
        journal.unlink(missing_ok=True)
        flush(journal.parent)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ResourceError(
            f"An update of {path} was cut short, and it cannot be finished as {journal} says ({problem}). Files whose "
            "names begin with a dot beside it hold the new content."
        ) from problem
    return True


def sweep_up_together(paths: Sequence[str | os.PathLike[str]]) -> None:
    """Finish or undo replacements of `paths` that a killed process left. Only for files that nobody else writes."""
    recover(paths[0])
    for path in paths:
        sweep_up(path)


def journal_of(path: Path) -> Path:
    """Path of the journal of files that are replaced together with `path`."""
    return path.with_name(f".{path.name}.together")


def _steps(folder: Path, temporaries: Sequence[Path], targets: Sequence[Path]) -> list[dict[str, Any]]:
    """One entry for each file, with paths that stay right if the folder is moved."""
    return [
        {"target": os.path.relpath(target, folder), "temporary": temporary.name, "replaces": _identity(target)}
        for temporary, target in zip(temporaries, targets, strict=True)
    ]


def _identity(path: Path) -> list[int] | None:
    """Numbers that tell whether a file is still the one that was there; None if there is none."""
    try:
        its = path.stat()
    except FileNotFoundError:
        return None
    return [its.st_ino, its.st_size, its.st_mtime_ns]
