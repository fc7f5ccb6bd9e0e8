"""Systems that are predicted: one and many molecules, a framework, water, a protein."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from ase import Atoms

from qml_lightning import Potential, Recipe, Structures, load_dataset, recipes, structures_from_ase

from . import internals
from .models import with_features
from .places import SHARED_DATA

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
    """All atoms of a system, frame by frame."""
    source, times = SYSTEMS[name]
    structures = load_dataset(source, data_folder=SHARED_DATA, labels="ignored").structures
    if isinstance(times, int):
        return structures.select(np.arange(times))
    cell = Atoms(structures.numbers.numpy(), structures.positions.numpy(), cell=structures.cells[0].numpy(), pbc=True)
    return structures_from_ase(cell * times)


def small(name: str) -> Structures:
    """A frame or a few, or one cell: environments that determine the axes."""
    source, times = SYSTEMS[name]
    structures = load_dataset(source, data_folder=SHARED_DATA, labels="ignored").structures
    return structures if not isinstance(times, int) else structures.select(np.arange(min(len(structures), 40)))


def liquid_water(n_atoms: int) -> Structures:
    """Liquid water of about `n_atoms` atoms: a frame of 192 repeated, every atom then moved a little."""
    data = np.load(SHARED_DATA / "water" / "water_pbe0ts.npz")
    frame = Atoms(data["charges"][:192], data["coords"][:192].astype(float), cell=data["cell"][0], pbc=True)
    times = [1, 1, 1]
    while len(frame) * np.prod(times) < 0.97 * n_atoms:
        times[times.index(min(times))] += 1
    box = frame * tuple(times)
    box.positions += np.random.default_rng(0).normal(scale=0.02, size=box.positions.shape)
    return structures_from_ase(box)


def single_precision(n_features: int, recipe: Recipe = recipes.FCHL19) -> Recipe:
    """A recipe in float32, with so many features and axes from few environments."""
    return replace(with_features(recipe, n_features), precision="float32", projection_samples=300)


def untrained(name: str, n_features: int, recipe: Recipe = recipes.FCHL19) -> Potential:
    """A potential for that system with random weights: the time of a prediction does not depend on them."""
    return internals.untrained(small(name), single_precision(n_features, recipe))
