"""Files of a run: a trajectory (extended XYZ or ASE's .traj) and a log, each of which can be cut back to a restart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ase import units
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io.extxyz import write_extxyz
from ase.io.trajectory import Trajectory

from ..errors import InputError

if TYPE_CHECKING:
    from ase import Atoms

ENDINGS = (".extxyz", ".xyz", ".traj")
COLUMNS = ("step", "time/ps", "potential/eV", "kinetic/eV", "total/eV", "temperature/K", "pressure/GPa", "volume/A^3")


def check_ending(path: Path) -> None:
    """Raise an InputError unless the name says a format of trajectories."""
    if path.suffix not in ENDINGS:
        raise InputError(f"A trajectory is written to a file that ends with {', '.join(ENDINGS)}, got {path.name}.")


class RunFiles:
    """Trajectory and log of one run, open for writing. `kept`: sizes at the restart to go on from; None: begin anew."""

    def __init__(self, trajectory: Path, log: Path, kept: dict[str, int] | None) -> None:
        self.trajectory, self.log_path = trajectory, log
        self.frames = 0
        self._traj: Any = None
        self._text: TextIO | None = None
        if trajectory.suffix == ".traj":
            self.frames = _cut_frames(trajectory, 0 if kept is None else kept["trajectory"])
            self._traj = Trajectory(trajectory, "a" if self.frames else "w")
        else:
            self._text = _cut_text(trajectory, 0 if kept is None else kept["trajectory"])
        self._log = _cut_text(log, 0 if kept is None else kept["log"])
        if kept is None:
            self._log.write("# " + " ".join(f"{name:>15}" for name in COLUMNS) + "\n")

    def write_frame(self, atoms: Atoms, step: int, time: float) -> None:
        """Add a frame with energy, forces, and stress for a cell; time in fs."""
        frame = atoms.copy()
        frame.info |= {"step": step, "time_fs": time}
        results = {
            name: atoms.calc.results[name] for name in ("energy", "forces", "stress") if name in atoms.calc.results
        }
        frame.calc = SinglePointCalculator(frame, **results)
        if self._traj is not None:
            self._traj.write(frame)
            self.frames += 1
        else:
            write_extxyz(self._text, [frame])

    def write_log(self, atoms: Atoms, step: int, time: float) -> None:
        """Add a line to the log."""
        potential, kinetic = atoms.get_potential_energy(), atoms.get_kinetic_energy()
        values = [time / 1000.0, potential, kinetic, potential + kinetic, atoms.get_temperature()]
        if atoms.pbc.all() and atoms.cell.rank == 3:
            volume = atoms.get_volume()
            stress = atoms.get_stress(voigt=False).trace() / 3
            values += [(2 * kinetic / (3 * volume) - stress) / units.GPa, volume]
        self._log.write(f"{step:17d} " + " ".join(f"{value:15.8f}" for value in values) + "\n")

    def sizes(self) -> dict[str, int]:
        """Bytes (of a .traj file, frames) that are safely on disk."""
        for file in (self._text, self._log):
            if file is not None:
                file.flush()
                os.fsync(file.fileno())
        there = self.frames if self._text is None else self.trajectory.stat().st_size
        return {"trajectory": there, "log": self.log_path.stat().st_size}

    def close(self) -> None:
        for file in (self._text, self._log, self._traj):
            if file is not None:
                file.close()


def _cut_text(path: Path, size: int) -> TextIO:
    """The file with its first `size` bytes, open for more."""
    if size and (not path.is_file() or path.stat().st_size < size):
        raise InputError(f"{path} is shorter than when the restart file was written. Put it back, or begin anew.")
    file = path.open("r+" if size else "w")
    file.truncate(size)
    file.seek(size)
    return file


def _cut_frames(path: Path, count: int) -> int:
    """Leave the first `count` frames in a .traj file. It may have been cut while a later one was written."""
    if count == 0:
        return 0
    with Trajectory(path) as old:
        kept = [old[k] for k in range(count)]
    rest = path.with_name(path.name + ".kept")
    with Trajectory(rest, "w") as new:
        for frame in kept:
            new.write(frame)
    os.replace(rest, path)
    return count
