"""i-PI: a driver for path integrals and other advanced dynamics.

In the input of i-PI, without a second process:

    <ffdirect name='qml'> <pes> custom </pes> <pes_path> DRIVER </pes_path>
      <parameters> {model: ethanol.safetensors, template: ethanol.xyz} </parameters> </ffdirect>

or as a client: i-pi-py_driver -m custom -P DRIVER -o model=ethanol.safetensors,template=ethanol.xyz -u -a ADDRESS
where DRIVER is the path of this file (`qml_lightning.adapters.ipi.__file__`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ase.io import read
from ase.units import Bohr, Hartree

# not relative: i-PI loads this file by its path, outside of the package
from qml_lightning.adapters.engine import MovingAtoms

# names by which i-PI finds the driver in a file
__DRIVER_NAME__ = "qml-lightning"
__DRIVER_CLASS__ = "QMLLightningDriver"


class QMLLightningDriver:
    """Driver of i-PI; template: file of a structure with the elements in the order of i-PI, and with its cell."""

    def __init__(self, template: str, model: str, precision: Any = None, verbose: bool = False, **options: Any) -> None:
        atoms: Any = read(template)
        self.verbose = verbose
        self.periodic = bool(atoms.pbc.any())
        self.engine = MovingAtoms(model, atoms.numbers, atoms.pbc, precision=precision)

    def check_parameters(self) -> None:
        """Accept all parameters: i-PI asks for this function, and the constructor has checked them."""

    def compute_structure(self, cell: np.ndarray, pos: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, str]:
        """Potential, forces and virial in atomic units; the columns of i-PI's cell are lattice vectors."""
        lattice = np.asarray(cell).reshape(3, 3).T * Bohr if self.periodic else None
        found = self.engine.evaluate(np.asarray(pos).reshape(-1, 3) * Bohr, lattice)
        virial = np.zeros((3, 3)) if found.virial is None else -found.virial / Hartree
        return found.energy / Hartree, found.forces * (Bohr / Hartree), virial, ""

    def compute(self, cell: Any, pos: Any) -> Any:
        """One structure, or a list of them."""
        if isinstance(cell, list):
            return [self.compute_structure(one, at) for one, at in zip(cell, pos, strict=True)]
        return self.compute_structure(cell, pos)

    __call__ = compute
