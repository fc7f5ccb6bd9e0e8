"""Small structures of every kind: molecules, slabs, skewed cells, cells smaller than the cutoff."""

from __future__ import annotations

import ase.io
import numpy as np
from ase import Atoms
from ase.build import bulk, fcc111, molecule
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator

WATER = Atoms("OHH", [[0, 0, 0.1173], [0, 0.7572, -0.4692], [0, -0.7572, -0.4692]])


def rattled(atoms: Atoms, seed: int = 0, by: float = 0.08) -> Atoms:
    atoms = atoms.copy()
    atoms.positions += np.random.default_rng(seed).normal(scale=by, size=atoms.positions.shape)
    return atoms


def strained(atoms: Atoms, a: int, b: int, by: float) -> Atoms:
    """The same atoms under a symmetric strain with the element ab."""
    strain = np.eye(3)
    strain[a, b] += by / 2
    strain[b, a] += by / 2
    moved = atoms.copy()
    moved.set_cell(atoms.cell.array @ strain, scale_atoms=False)
    moved.positions = atoms.positions @ strain
    return moved


def skewed() -> Atoms:
    atoms = bulk("NaCl", "rocksalt", a=5.6) * (2, 1, 1)
    atoms.set_cell(atoms.cell.array @ np.array([[1.0, 0.1, 0.05], [0.0, 1.0, 0.2], [0.0, 0.0, 1.0]]), scale_atoms=True)
    return atoms


def kinds() -> dict[str, Atoms]:
    """One structure of each kind, with broken symmetry."""
    return {
        "molecule": rattled(molecule("CH3CH2OH"), 1),
        "slab": rattled(fcc111("Cu", (2, 2, 2), vacuum=6.0), 2),
        "skewed cell": rattled(skewed(), 3),
        "cell smaller than the cutoff": rattled(bulk("Si", cubic=False) * (1, 1, 2), 4),
        "wire": Atoms("HeNe", [[0, 0, 0.1], [0.2, 0.1, 2.4]], cell=[8, 8, 4.5], pbc=[False, False, True]),
    }


def ethanols(n: int = 4) -> list[Atoms]:
    """Rattled ethanol with energies and forces of EMT."""
    frames = []
    for k in range(n):
        atoms = rattled(molecule("CH3CH2OH"), k, 0.05)
        atoms.calc = EMT()
        labels = {"energy": atoms.get_potential_energy(), "forces": atoms.get_forces()}
        atoms.calc = SinglePointCalculator(atoms, **labels)
        frames.append(atoms)
    return frames


def written(path, frames, **format_):
    """`path`, with these frames in it."""
    ase.io.write(path, frames, **format_)
    return path
