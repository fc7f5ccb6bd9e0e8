"""LAMMPS with the pair style of the package."""

from __future__ import annotations

from pathlib import Path

from ase import Atoms

from qml_lightning.adapters.lammps.build import installed as lammps_installed
from qml_lightning.adapters.lammps.run import Processes, run_lammps, script_head, write_structure

lammps_head = script_head


def lammps_structure(atoms: Atoms, path: Path) -> list[str]:
    """Write a data file; symbols of its atom types."""
    return write_structure(atoms, path)[0]


def lammps_run(script: Path, ranks: int, threads: int, plugin: Path) -> str:
    """Output of LAMMPS for a script."""
    return run_lammps(script, Processes(ranks, threads), plugin=plugin)


def lammps_potentials() -> Path:
    """Folder of the potentials that came with LAMMPS."""
    return lammps_installed().headers.parents[1] / "share" / "lammps" / "potentials"
