"""sGDML: gradient-domain kernels with the symmetries of the molecule; sigma 20 as in its examples, no search."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from peer import best_of, errors, main, model_path, per_atom
from sgdml.predict import GDMLPredict
from sgdml.train import GDMLTrain
from sgdml.utils import io

SIGMA, RIDGE = 20, 1e-10


def dataset(data: dict[str, np.ndarray], prefix: str = "") -> dict[str, Any]:
    out = {
        "type": "d", "name": np.array("molecule"), "theory": np.array("unknown"), "z": data["numbers"].astype(np.uint8),
        "R": data[f"{prefix}positions"], "E": data[f"{prefix}energies"], "F": data[f"{prefix}forces"],
    }  # fmt: skip
    out["md5"] = io.dataset_md5(out)
    return out


def train(task: dict[str, Any], data: dict[str, np.ndarray]) -> dict[str, Any]:
    threads = task["threads"]
    start = time.perf_counter()
    trainer = GDMLTrain(max_processes=threads)
    n = len(data["energies"])
    # its last frames would be for the choice of sigma: here they only have to be there
    todo = trainer.create_task(dataset(data), n, dataset(data, "test_"), 1, SIGMA, RIDGE)
    model = trainer.train(todo)
    seconds = time.perf_counter() - start
    np.savez(model_path(task, ".sgdml.npz"), **model)
    predictor = GDMLPredict(model, max_processes=threads)
    told = predictor.predict(data["test_positions"].reshape(len(data["test_positions"]), -1))
    return {"seconds": seconds, "sigma": SIGMA, **errors(told, data)}


def predict(task: dict[str, Any], data: dict[str, np.ndarray]) -> dict[str, Any]:
    with np.load(model_path(task, ".sgdml.npz", there=True), allow_pickle=True) as file:
        predictor = GDMLPredict(dict(file), max_processes=task["threads"])
    flat = data["positions"].reshape(len(data["positions"]), -1)
    predictor.prepare_parallel(n_bulk=len(flat))
    return per_atom(best_of(lambda: predictor.predict(flat), 2), data)


if __name__ == "__main__":
    main(train=train, predict=predict)
