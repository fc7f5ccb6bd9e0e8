"""A small fit with checkpoints, killed as `kill -9` does it at each of several moments: python killed_fit.py FOLDER."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch

import qml_lightning.linear.normal_equations
import qml_lightning.machine.files
import qml_lightning.machine.tensors
import qml_lightning.training.rows
from qml_lightning import fit
from small_models import crystals, recipe

SETTINGS = recipe(ridge=1e-6, n_features=64)
# chunks of two structures, and three chunks of force rows (24 each) wait for one product
SIZES = (
    (qml_lightning.training.rows, "BATCH_NUMBERS", 2 * 19 * 64),
    (qml_lightning.linear.normal_equations, "BUFFER_BYTES", 8 * 64 * 80),
)


def data():
    """Energies that stay rows, forces and virials that become Gram matrices."""
    return crystals(30)


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _at_call(module: object, name: str, number: int) -> None:
    """Die instead of making the call of this number."""
    whole, calls = getattr(module, name), []

    def counted(*arguments: object, **options: object) -> object:
        calls.append(None)
        return _die() if len(calls) == number else whole(*arguments, **options)

    setattr(module, name, counted)


def _when(what: str, least: int) -> Callable[..., None]:
    return lambda now, done, *_: _die() if now == what and done >= least else None


MOMENTS: dict[str, Callable[[], Callable[..., None] | None]] = {
    "before the first checkpoint": lambda: _when("equations", 2),
    "between two checkpoints": lambda: _when("equations", 16),
    "in the middle of writing a checkpoint": lambda: _at_call(qml_lightning.machine.tensors, "_write", 30),
    "before a checkpoint takes its place": lambda: _at_call(qml_lightning.machine.files.os, "replace", 3),
    "while solving": lambda: _when("solving", 0),
}


def main(folder: Path) -> None:
    """One child for each moment, with its checkpoint in a folder of its own; prints how they ended."""
    for module, name, value in SIZES:
        setattr(module, name, value)
    ends, threads = {}, torch.get_num_threads()
    for number, moment in enumerate(MOMENTS):
        (folder / str(number)).mkdir()
        child = os.fork()  # nothing has been computed yet: no thread is lost by this
        if child == 0:
            torch.set_num_threads(threads)  # a forked process has one otherwise, and other bits
            fit(
                data(),
                SETTINGS,
                checkpoint=checkpoint_of(folder, moment),
                checkpoint_seconds=0.0,
                progress=MOMENTS[moment](),
            )
            os._exit(0)
        ends[moment] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps(ends))


def checkpoint_of(folder: Path, moment: str) -> Path:
    return folder / str(list(MOMENTS).index(moment)) / "fit.checkpoint"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
