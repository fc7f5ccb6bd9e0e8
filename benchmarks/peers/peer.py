"""Parts that the scripts of all peers share: a task is read, done, and answered; numpy is all that they need.

A task is "train" (seconds of a fit; errors on the test frames if the model can tell) or "predict" (µs for each atom).
Energies are eV, lengths Å. The arrays: numbers (atoms,), positions (frames, atoms, 3), and for training energies,
forces, test_positions, test_energies, test_forces; cell (3, 3) if the system is periodic.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def best_of(function: Callable[[], Any], repeats: int) -> float:
    """Seconds of the fastest call, after one that is not counted."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def errors(predicted: Any, data: dict[str, np.ndarray]) -> dict[str, float]:
    """MAE of (energies, forces) on the test frames, in meV and meV/Å."""
    energies, forces = (np.asarray(part) for part in predicted)
    return {
        "energy_mae_mev": float(np.abs(energies.ravel() - data["test_energies"]).mean() * 1e3),
        "force_mae_mev_per_angstrom": float(
            np.abs(forces.reshape(data["test_forces"].shape) - data["test_forces"]).mean() * 1e3
        ),
    }


def per_atom(seconds: float, data: dict[str, np.ndarray]) -> dict[str, float]:
    """A time as µs for each atom of all frames."""
    return {"us_per_atom": seconds * 1e6 / data["positions"].shape[0] / len(data["numbers"]), "seconds": seconds}


def model_path(task: dict[str, Any], suffix: str, *, there: bool = False) -> Path:
    """Path of the model of a molecule, from training to prediction; with `there`, it must exist."""
    path = Path(task["models"]) / f"{task['molecule']}_{task['n_train']}{suffix}"
    if there and not path.exists():
        sys.exit(f"there is no model of {task['n_train']} {task['molecule']} structures: run the training times first")
    return path


def main(**tasks: Callable[[dict[str, Any], dict[str, np.ndarray]], dict[str, Any]]) -> None:
    """Do the task that the folder on the command line describes."""
    folder = Path(sys.argv[1])
    task = json.loads((folder / "task.json").read_text())
    with np.load(folder / "data.npz") as file:
        data = dict(file)
    if task["task"] not in tasks:
        sys.exit(f"cannot {task['task']}: {task.get('why_not', 'not offered by this peer')}")
    (folder / "answer.json").write_text(json.dumps(tasks[task["task"]](task, data)))
