"""A molecule and a crystal that move, the settings of their run, and what it logged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ase.build import bulk, molecule

from qml_lightning.dynamics.ensembles import MDSettings

NVE = MDSettings("nve", temperature=200.0, timestep=0.25)


def ethanol():
    return molecule("CH3CH2OH")


def alloy():
    atoms = bulk("Cu", a=3.75, cubic=True)
    atoms.symbols[0] = "Au"
    return atoms * (2, 1, 1)


def log_of(path: Path) -> np.ndarray:
    return np.loadtxt(path.with_name(path.name + ".log"))
