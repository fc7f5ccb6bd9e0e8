"""The systems that are predicted: one and many molecules, a framework, water, a protein."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from ase import Atoms
from common import SHARED_DATA
from prediction import potential_for

from qml_lightning import Potential, Recipe, Structures, load_dataset, recipes, structures_from_ase

# catalogue name, how many frames of it or how often its cell is repeated
SYSTEMS: dict[str, tuple[str, int | tuple[int, int, int]]] = {
    "ethanol": ("rmd17_ethanol:test_01", 1),
    "1000 ethanol": ("rmd17_ethanol:test_01", 1000),
    "aspirin": ("rmd17_aspirin:test_01", 1),
    "1000 aspirin": ("rmd17_aspirin:test_01", 1000),
    "myoglobin": ("myoglobin_1mbn_apo_h", 1),
    "MOF": ("mof_vujbei", (2, 2, 2)),
    "water": ("water_6540", (2, 1, 1)),
}
NEEDS = (
    "rmd17/rmd17_ethanol.npz", "rmd17/rmd17_aspirin.npz", "structures/myoglobin_1mbn_apo_h.extxyz.xz",
    "structures/mof_vujbei.extxyz.xz", "structures/water_6540.extxyz.xz",
)  # fmt: skip


@lru_cache(maxsize=2)
def system(name: str) -> Structures:
    """All of its atoms, frame by frame."""
    source, times = SYSTEMS[name]
    structures = load_dataset(source, data_folder=SHARED_DATA, labels="ignored").structures
    if isinstance(times, int):
        return structures.select(np.arange(times))
    cell = Atoms(structures.numbers.numpy(), structures.positions.numpy(), cell=structures.cells[0].numpy(), pbc=True)
    return structures_from_ase(cell * times)


def small(name: str) -> Structures:
    """Some of its environments, which determine the axes: a frame or a few, or one cell."""
    source, times = SYSTEMS[name]
    structures = load_dataset(source, data_folder=SHARED_DATA, labels="ignored").structures
    return structures if not isinstance(times, int) else structures.select(np.arange(min(len(structures), 40)))


def single_precision(n_features: int) -> Recipe:
    """The default recipe, as it predicts."""
    features = replace(recipes.DEFAULT.features, n_features=n_features)
    return replace(recipes.DEFAULT, precision="float32", features=features, projection_samples=300)


def untrained(name: str, n_features: int) -> Potential:
    """A potential for that system with random weights: time does not depend on them."""
    return potential_for(small(name), single_precision(n_features))
