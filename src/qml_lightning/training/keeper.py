"""Files that are written every few minutes while a long work goes on, so that it can go on after a stop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path

from ..errors import InputError, QMLError
from ..machine.files import check_output, sweep_up

# Between two checkpoints: at most so much work is lost, and writing takes little of it.
SECONDS = 180.0


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written. The fit goes on."""


def checked_path(path: str | Path, *, resume: bool) -> Path:
    """The path to write checkpoints to; an InputError if one is there that is not to be resumed."""
    path = check_output(path, overwrite=True)
    if path.exists() and not resume:
        raise InputError(
            f"There is a checkpoint {path} of a fit that did not end. Go on from it with --resume (resume=True), or "
            "delete it to begin anew."
        )
    return path


class Keeper:
    """Where and how often the state of a fit is written."""

    def __init__(self, path: str | Path, seconds: float = SECONDS, *, resume: bool = False) -> None:
        self.path = checked_path(path, resume=resume)
        self.seconds = seconds
        self._last = time.monotonic()
        sweep_up(self.path)

    @property
    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() - self._last >= self.seconds

    def write(self, write: Callable[[], None], where: str) -> None:
        """Do `write`; a warning that names `where` the fit is if that fails."""
        try:
            write()
        except (OSError, QMLError) as problem:
            kept = "The last good one is kept" if self.path.exists() else "There is none yet"
            text = f"The checkpoint at {where} failed: {problem} {kept}; the fit goes on."
            warnings.warn(CheckpointWarning(text), stacklevel=2)
        self._last = time.monotonic()

    def refused(self, why: str) -> InputError:
        """The error for a file that is of another fit."""
        return InputError(
            f"The checkpoint {self.path} is not of this fit: {why}. Use the data and the options it was made with, "
            "or delete it to begin anew."
        )
