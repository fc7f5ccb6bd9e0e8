"""TorchANI: a network of the shape of ANI-1x with random weights (the trained ones are a download), one of eight."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torchani
from ase.data import chemical_symbols
from peer import best_of, main, per_atom

MOST_ATOMS = 2100  # at once: the list of all pairs grows with the square of a molecule, not of the batch


def predict(task: dict[str, Any], data: dict[str, np.ndarray]) -> dict[str, Any]:
    torch.set_num_threads(task["threads"])
    numbers = data["numbers"].astype(int)
    symbols = [chemical_symbols[z] for z in sorted(set(numbers))]
    large = len(numbers) > MOST_ATOMS
    model = torchani.arch.simple_ani(symbols, lot="wb97x-631gd", neighborlist="cell_list" if large else "all_pairs")
    n_at_once = max(1, MOST_ATOMS // len(numbers))
    positions = torch.tensor(data["positions"], dtype=torch.float32)
    cell = torch.tensor(data["cell"], dtype=torch.float32) if "cell" in data else None
    periodic = None if cell is None else torch.ones(3, dtype=torch.bool)

    def run() -> None:
        for part in positions.split(n_at_once):
            part = part.clone().requires_grad_(True)
            species = torch.tensor(numbers).expand(len(part), -1)
            energies = model((species, part), cell=cell, pbc=periodic).energies
            torch.autograd.grad(energies.sum(), part)

    return {**per_atom(best_of(run, 2), data), "options": "simple_ani, one network, random weights, float32"}


if __name__ == "__main__":
    main(predict=predict)
