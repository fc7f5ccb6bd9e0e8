"""One structure through LAMMPS: energy, forces and stress of the pair style, in the units and axes of ASE."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError
from .build import INSTALL
from .folder import PLUGIN, plugin_folder

if TYPE_CHECKING:
    from ase import Atoms

BAR = 1.6021765e6  # bar in 1 eV/Å³, as LAMMPS has it in units metal
# xx, yy, zz, xy, xz, yz of LAMMPS as a matrix
_AS_MATRIX = np.array([[0, 3, 4], [3, 1, 5], [4, 5, 2]])


@dataclass(frozen=True)
class Processes:
    """MPI ranks of a run, and threads in each of them."""

    ranks: int = 1
    threads: int = 1


ALONE = Processes()


@dataclass(frozen=True)
class LammpsResult:
    """Results of one structure, in the order of its atoms."""

    energy: float  # eV
    energies: np.ndarray  # (atoms,) eV
    forces: np.ndarray  # (atoms, 3) eV/Å
    stress: np.ndarray  # (3, 3) eV/Å³, tension positive
    virials: np.ndarray  # (3, 3) sum of the virials of the atoms over the volume, with the sign of a stress
    log: str


def program(name: str) -> str:
    """Path of `lmp` or `mpiexec` of this Python environment, or else of the shell."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise InputError(f"There is no program {name}. {INSTALL}")
    return found


def environment(folder: str | Path | None = None) -> dict[str, str]:
    """Environment in which LAMMPS loads the plugin of `folder`, or of the folder where `lammps build` puts it."""
    where = Path(folder or plugin_folder()).resolve()
    if not (where / PLUGIN).is_file():
        raise InputError(
            f"The plugin for LAMMPS is not built: there is no {where / PLUGIN}. Run: qml-lightning lammps build"
        )
    return {**os.environ, "LAMMPS_PLUGIN_PATH": str(where)}


def run_lammps(
    script: Path, processes: Processes = ALONE, *, plugin: str | Path | None = None, variables: Sequence[str] = ()
) -> str:
    """Output of LAMMPS for an input script, in whose folder it runs; an InputError with the words of LAMMPS."""
    command = [program("lmp"), "-in", script.name, "-log", "none", "-nocite", *variables]
    if processes.ranks > 1:
        command = [program("mpiexec"), "-n", str(processes.ranks), *command]
    given = {**environment(plugin), "OMP_NUM_THREADS": str(processes.threads)}
    done = subprocess.run(command, cwd=script.parent, env=given, capture_output=True, text=True)
    if done.returncode:
        said = re.findall(r"ERROR(?: on proc \d+)?: (.*)", done.stdout + done.stderr)
        raise InputError(f"LAMMPS stopped: {said[0] if said else _without_words(done)}")
    return done.stdout


def _without_words(done: subprocess.CompletedProcess[str]) -> str:
    """Message for a run that ended without an error message of LAMMPS."""
    return (
        f"no error was told, and the exit code is {done.returncode}, as when a rank is killed. Is there memory for all "
        f"ranks, or did a queue end the run? The last lines were:\n{(done.stdout + done.stderr)[-1000:]}"
    )


def write_structure(atoms: Atoms, path: Path) -> tuple[list[str], Any]:
    """Write a data file; symbols of the atom types, and the rotation that LAMMPS wants of the cell."""
    from ase.calculators.lammps import Prism
    from ase.io.lammpsdata import write_lammps_data

    boxed = atoms.copy()
    if boxed.cell.rank < 3:  # directions without a cell: a box around the atoms
        length = np.ptp(boxed.positions, axis=0).max() + 20.0
        boxed.set_cell(boxed.cell.complete() * np.where(boxed.cell.any(1), 1.0, length)[:, None])
        boxed.center()
    prism = Prism(boxed.cell.array, pbc=boxed.pbc)
    symbols = sorted(set(boxed.get_chemical_symbols()))
    with path.open("w") as file:
        write_lammps_data(file, boxed, specorder=symbols, prismobj=prism, units="metal", masses=True, force_skew=True)
    return symbols, prism


def script_head(atoms: Atoms, symbols: Sequence[str], model: str | Path, style: str = "") -> str:
    """Input of LAMMPS that reads structure.data and sets the pair style."""
    boundary = " ".join("p" if periodic else "f" for periodic in atoms.pbc)
    return f"""units metal
atom_style atomic
boundary {boundary}
newton on
box tilt large
read_data structure.data
pair_style qml/lightning {style}
pair_coeff * * "{Path(model).resolve()}" {" ".join(symbols)}
"""


_MEASURE = """compute pe all pe/atom
compute virial all pressure NULL virial
compute stress all stress/atom NULL virial
compute total all reduce sum c_stress[1] c_stress[2] c_stress[3] c_stress[4] c_stress[5] c_stress[6]
dump all all custom 1 forces.dump id fx fy fz c_pe
dump_modify all sort id format float %.17g
thermo_style custom step pe vol c_virial[1] c_virial[2] c_virial[3] c_virial[4] c_virial[5] c_virial[6] &
  c_total[1] c_total[2] c_total[3] c_total[4] c_total[5] c_total[6]
thermo_modify format float %.17g
run 0
"""


def single_point(
    atoms: Atoms,
    model: str | Path,
    processes: Processes = ALONE,
    *,
    style: str = "",
    plugin: str | Path | None = None,
) -> LammpsResult:
    """Energy, forces and stress of a structure as LAMMPS has them; `style`: options of the pair style."""
    with TemporaryDirectory(prefix="qml-lightning-lammps-") as folder:
        script = Path(folder) / "in.lammps"
        symbols, prism = write_structure(atoms, Path(folder) / "structure.data")
        script.write_text(script_head(atoms, symbols, model, style) + _MEASURE)
        log = run_lammps(script, processes, plugin=plugin)
        table = np.loadtxt(Path(folder) / "forces.dump", skiprows=9, ndmin=2)
    row = next(line for line in log.splitlines() if re.match(r"\s+0\s+\S+", line) and len(line.split()) == 15)
    values = np.array([float(word) for word in row.split()[1:]])
    return LammpsResult(
        values[0],
        table[:, 4],
        prism.vector_to_ase(table[:, 1:4]),
        prism.tensor2_to_ase(-values[2:8][_AS_MATRIX] / BAR),
        prism.tensor2_to_ase(values[8:14][_AS_MATRIX] / BAR / values[1]),
        log,
    )
