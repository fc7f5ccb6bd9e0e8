"""Small data sets and models that train in a second, for tests of behaviour rather than of accuracy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from ase.calculators.emt import EMT
from ase.calculators.lj import LennardJones

from qml_lightning.atoms.dataset import Source
from qml_lightning.atoms.structures import Labels, structures_from_ase
from qml_lightning.atoms.units import INTERNAL
from qml_lightning.datasets import Dataset
from qml_lightning.model.predictor import Prediction
from qml_lightning.model.recipe import FCHL19, Recipe

SMALL = replace(
    FCHL19,
    energy_weight=3.0,
    rank=32,
    ridge=1e-8,
    precision="float64",
    representation=replace(FCHL19.representation, n_radial2=8, n_radial3=6, cutoff=4.5),
    features=replace(FCHL19.features, n_features=256, sigma=4.0, paired=False),
)


def recipe(**changes) -> Recipe:
    """SMALL with other features or recipe fields."""
    names = set(SMALL.features.__dataclass_fields__)
    features = {name: value for name, value in changes.items() if name in names}
    rest = {name: value for name, value in changes.items() if name not in names}
    return replace(SMALL, features=replace(SMALL.features, **features), **rest)


def labelled(frames, calculator=None) -> Dataset:
    """Frames with energies, forces and stress from a simple force field: real labels that belong together."""
    energies, forces, stresses = [], [], []
    for atoms in frames:
        atoms = atoms.copy()
        atoms.calc = calculator if calculator is not None else EMT()
        energies.append(atoms.get_potential_energy())
        forces.append(atoms.get_forces())
        stresses.append(atoms.get_stress(voigt=False) if atoms.pbc.all() else np.full((3, 3), np.nan))
    stress = torch.from_numpy(np.array(stresses))
    structures = structures_from_ase(frames)
    return Dataset(
        structures,
        Labels(
            torch.tensor(energies, dtype=torch.float64),
            torch.from_numpy(np.concatenate(forces)),
            stress if bool(stress.isfinite().any()) else None,
        ),
        Source("made in memory", "", "", INTERNAL, len(frames)),
    )


def molecules(n: int = 20, seed: int = 0) -> Dataset:
    """Distorted ethanol with EMT labels."""
    from ase.build import molecule

    from structures_for_tests import rattled

    return labelled([rattled(molecule("CH3CH2OH"), seed + k, 0.1) for k in range(n)])


def crystals(n: int = 12, seed: int = 0) -> Dataset:
    """Strained and distorted copper-gold cells with EMT labels, stress among them."""
    from ase.build import bulk

    from structures_for_tests import rattled

    random = np.random.default_rng(seed)
    frames = []
    for k in range(n):
        atoms = bulk("Cu", cubic=True)
        atoms.symbols[k % 4] = "Au"
        atoms.set_cell(atoms.cell.array @ (np.eye(3) + random.normal(scale=0.03, size=(3, 3))), scale_atoms=True)
        frames.append(rattled(atoms, seed + k, 0.1))
    return labelled(frames)


def argon(n: int = 10) -> Dataset:
    """One element: the representation is shorter than the rank."""
    from ase.build import bulk

    from structures_for_tests import rattled

    frames = [rattled(bulk("Ar", a=5.2, cubic=True), k, 0.15) for k in range(n)]
    return labelled(frames, LennardJones(sigma=3.4, epsilon=0.0104, rc=4.5, smooth=True))


def evaluated(data: Dataset) -> Prediction:
    """Predictions without an error."""
    zeros = torch.zeros(data.structures.n_atoms, dtype=torch.float64)
    return Prediction(data.labels.energies, zeros, data.labels.forces, data.labels.stress)
