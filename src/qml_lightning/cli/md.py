"""`qml-lightning md`: molecular dynamics with a trained potential."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from ..machine.files import check_output
from .options import Debug, Json, MachineOptions, ModelFile, Overwrite, checked_precision, spread
from .screen import facts, progress, show, show_json, teaching, warnings_shown

if TYPE_CHECKING:
    from ..dynamics.ensembles import MDSettings
    from ..dynamics.run import RunPlan, RunResult

HELP = teaching(
    """Run molecular dynamics of a structure.

Written are a trajectory (.extxyz or .traj) with energies, forces and velocities, a log (OUTPUT.log) and a restart file
(OUTPUT.restart). A run that was killed goes on with --resume: in NVE to the same bits as if nothing had happened, with
a thermostat with the same random numbers. --resume with more --steps makes a run longer.

[bold]Ensembles[/bold]

nve: constant energy. langevin, bussi: constant temperature, with friction or by rescaling velocities. npt: bussi with a
barostat (stochastic rescaling of the cell, isotropic).

--replicas 32 runs that many copies of a small molecule together, each with velocities, random numbers and files of its
own (run.0.extxyz, run.1.extxyz …): several times faster than one after the other.

A model with a committee (train --committee 8) tells how uncertain its forces are: with --uncertainty-limit 0.3 a run
stops where the force on an atom is uncertain by more, and names the atom.

[bold]Examples[/bold]

  qml-lightning md ethanol.safetensors ethanol.xyz -o run.extxyz \\
      --temperature 300 --steps 20000
  qml-lightning md ethanol.safetensors ethanol.xyz -o run.extxyz \\
      --temperature 300 --steps 20000 --resume
  qml-lightning md water.safetensors box.extxyz -o npt.traj --ensemble npt \\
      --pressure 0.0001 --timestep 0.5
"""
)
DYNAMICS = "Dynamics"


@dataclass(frozen=True)
class DynamicsOptions:
    """Ensemble and time step."""

    ensemble: Annotated[str, Option(help="nve, langevin, bussi or npt.", rich_help_panel=DYNAMICS)] = "bussi"
    temperature: Annotated[float, Option(help="K; with nve of the first velocities.", rich_help_panel=DYNAMICS)] = 300.0
    timestep: Annotated[float, Option(help="fs", rich_help_panel=DYNAMICS)] = 0.5
    friction: Annotated[float, Option(help="1/fs, of langevin.", rich_help_panel=DYNAMICS)] = 0.01
    relaxation: Annotated[float, Option(help="fs, of bussi and npt.", rich_help_panel=DYNAMICS)] = 100.0
    pressure: Annotated[float, Option(help="GPa, of npt.", rich_help_panel=DYNAMICS)] = 0.0
    pressure_relaxation: Annotated[float, Option(help="fs, of npt.", rich_help_panel=DYNAMICS)] = 1000.0
    compressibility: Annotated[
        float, Option(help="1/GPa, of npt: scales its relaxation.", rich_help_panel=DYNAMICS)
    ] = 0.45
    seed: Annotated[int, Option(min=0, help="Of velocities and thermostats.", rich_help_panel=DYNAMICS)] = 0

    def settings(self) -> MDSettings:
        """Settings of the run."""
        from ..dynamics.ensembles import MDSettings

        return MDSettings(**asdict(self))


@spread
def command(
    model: ModelFile,
    structure: Annotated[Path, Argument(help="File with a structure.", metavar="STRUCTURE", show_default=False)],
    output: Annotated[Path, Option("--output", "-o", help="Trajectory to write: .extxyz, .xyz or .traj.")],
    dynamics: DynamicsOptions,
    machine: MachineOptions,
    steps: Annotated[int, Option(min=1, help="Steps of the whole trajectory.")] = 1000,
    every: Annotated[int, Option(min=1, help="Steps between two frames.")] = 10,
    restart_every: Annotated[int, Option(min=1, help="Steps between two restart files.")] = 1000,
    replicas: Annotated[
        int, Option(min=1, help="Copies with other velocities, computed together: run.0.extxyz …", metavar="N")
    ] = 1,
    resume: Annotated[bool, Option("--resume", help="Go on from the restart file, if there is one.")] = False,
    uncertainty_limit: Annotated[
        float | None,
        Option(help="eV/Å: stop where the force on an atom is more uncertain (a model with a committee).", metavar="F"),
    ] = None,
    beyond: Annotated[str, Option(help="Beyond that limit: stop, or flag and go on.", metavar="stop|flag")] = "stop",
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    from ..dynamics.known_ground import KnownGround
    from ..dynamics.run import Run, RunPlan, run_dynamics

    plan = RunPlan(steps, output, every, restart_every, resume, replicas)
    plan.check()
    for path in () if resume else plan.trajectories:
        check_output(path, overwrite, [model, structure])
    machine.prepare()
    if machine.device != "cpu" or machine.kernels is not None:
        raise InputError("md runs on the CPU with the best kernels. Leave out --device and --kernels.")
    ground = None if uncertainty_limit is None else KnownGround(uncertainty_limit, beyond)  # type: ignore[arg-type]
    atoms = first_structure(structure)
    settings = dynamics.settings()
    settings.check(atoms, replicas)
    with progress(shown=not as_json) as tell, warnings_shown():
        run = Run(model, atoms, settings, checked_precision(machine.precision), ground, replicas)
        done = run_dynamics(run, plan, tell)
    if as_json:
        return show_json({"output": str(output), "trajectories": [*map(str, plan.trajectories)], **asdict(done)})
    told = {
        "trajectory": f"{_named(plan)}, {done.steps:,} steps, {done.steps * settings.timestep / 1000:g} ps",
        "log": f"{plan.logs[0]}{' …' if replicas > 1 else ''}",
        "speed": f"{done.steps_per_second:.3g} steps/s, {done.ns_per_day:.3g} ns/day",
        "mean temperature": f"{done.temperature:.1f} K",
        "drift": f"{1000 * done.drift:.3g} meV per atom and ps" if settings.ensemble == "nve" else "",
        "uncertainty": _uncertainty(done, uncertainty_limit),
        "restart file": f"{plan.restart} (--resume --steps N goes on)",
    }
    copies = f"{replicas} replicas of " if replicas > 1 else ""
    show(facts(f"Molecular dynamics of {copies}{len(atoms)} atoms, {settings.ensemble}", told))


def _named(plan: RunPlan) -> str:
    """The trajectory, or the first and the last of the replicas."""
    names = [str(path) for path in plan.trajectories]
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _uncertainty(done: RunResult, limit: float | None) -> str:
    """Largest uncertainty of a force, and how often it was beyond the limit; empty if nobody looked."""
    if done.largest_uncertainty is None:
        return ""
    told = f"of forces at most {done.largest_uncertainty:.3g} eV/Å"
    if not done.flagged:
        return f"{told}, never beyond {limit:g}"
    return f"{told}; beyond {limit:g} eV/Å at {len(done.flagged)} looks, first at step {done.flagged[0]}"


def first_structure(path: Path) -> Any:
    """First structure of a file, without labels; an InputError if it cannot be read."""
    from ase.io import read

    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        atoms: Any = read(path, index=0)
    except Exception as problem:  # ASE raises anything for files that it cannot read
        raise InputError(f"{path} cannot be read as a structure: {problem}") from problem
    if len(atoms) == 0:
        raise InputError(f"{path} has no atoms.")
    atoms.calc = None
    return atoms
