"""kernelforge: kernel ridge regression and random features on FCHL19, in float64."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from peer import best_of, errors, main, per_atom

OPTIONS = {"rcut": 6, "acut": 6}


def model(task: dict[str, Any], data: dict[str, np.ndarray]) -> Any:
    from kernelforge import LocalKRRModel, LocalRFFModel

    elements = sorted({int(z) for z in data["numbers"]})
    if task["method"] == "krr":
        return LocalKRRModel(elements=elements, repr_params=OPTIONS)
    return LocalRFFModel(d_rff=task["n_features"], elements=elements, repr_params=OPTIONS)


def frames(data: dict[str, np.ndarray], name: str = "positions") -> tuple[list[np.ndarray], list[np.ndarray]]:
    positions = list(data[name].astype(float))
    return positions, [data["numbers"].astype(np.int32)] * len(positions)


def train(task: dict[str, Any], data: dict[str, np.ndarray]) -> dict[str, Any]:
    start = time.perf_counter()
    fitted = model(task, data)
    fitted.fit(*frames(data), energies=data["energies"] - data["energies"].mean(), forces=list(data["forces"]))
    seconds = time.perf_counter() - start
    energies, forces = fitted.predict(*frames(data, "test_positions"))
    return {"seconds": seconds, **errors((energies + data["energies"].mean(), forces), data)}


def predict(task: dict[str, Any], data: dict[str, np.ndarray]) -> dict[str, Any]:
    fitted = model(task, data)
    positions, numbers = frames(data)
    fitted.fit(positions[:5], numbers[:5], energies=data["energies"][:5] - data["energies"].mean())
    return per_atom(best_of(lambda: fitted.predict(positions, numbers), 2), data)


if __name__ == "__main__":
    main(train=train, predict=predict)
