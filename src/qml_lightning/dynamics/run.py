"""A run of molecular dynamics with trajectory, log and restart file: a killed run goes on to the same bits."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ase import units

from ..adapters.ase import QMLLightning
from ..errors import InputError
from ..machine.progress import Progress, silent
from ..machine.tensors import checksum_of
from .ensembles import CellRescaling, MDSettings, first_velocities, integrator
from .files import RunFiles, check_ending
from .known_ground import KnownGround
from .replicas import ReplicaCalculator, apart, side_by_side
from .restart import RestartPoint, random_from, random_state, read_restart
from .watch import Unphysical, Watch

if TYPE_CHECKING:
    from ase import Atoms

    from ..model.recipe import Precision

LOOK_EVERY = 10  # steps


@dataclass(frozen=True)
class RunPlan:
    """Length of a run, and files that it writes."""

    steps: int
    trajectory: Path
    every: int = 10  # steps between two frames, and two lines of the log
    restart_every: int = 1000  # steps between two restart files
    resume: bool = False
    replicas: int = 1

    @property
    def trajectories(self) -> list[Path]:
        """The trajectory, or those of the replicas: run.extxyz becomes run.0.extxyz, run.1.extxyz …"""
        name = self.trajectory
        numbered = [name.with_name(f"{name.stem}.{k}{name.suffix}") for k in range(self.replicas)]
        return numbered if self.replicas > 1 else [name]

    @property
    def logs(self) -> list[Path]:
        return [one.with_name(one.name + ".log") for one in self.trajectories]

    @property
    def restart(self) -> Path:
        return self.trajectory.with_name(self.trajectory.name + ".restart")

    def check(self) -> None:
        """Raise an InputError if a number is too small or the ending of the trajectory is not known."""
        check_ending(self.trajectory)
        for name in ("steps", "every", "restart_every", "replicas"):
            if getattr(self, name) < 1:
                raise InputError(f"{name.replace('_', ' ')} must be at least 1, got {getattr(self, name)}.")


@dataclass(frozen=True)
class RunResult:
    """Numbers of a finished run."""

    steps: int  # of the whole trajectory
    seconds: float  # of this run
    steps_per_second: float
    ns_per_day: float  # of all replicas together
    drift: float  # eV per atom and ps: slope of the total energy, in NVE
    temperature: float  # K, mean over what was logged in this run
    largest_uncertainty: float | None = None  # eV/Å, of a force, where it was looked at
    flagged: tuple[int, ...] = ()  # steps at which it was beyond the limit


class Run:
    """Atoms with a calculator and an integrator, at one step of their trajectory.

    Replica k has the velocities and the random numbers of a run alone whose seed is larger by k.
    """

    def __init__(
        self,
        model: Path,
        atoms: Atoms,
        settings: MDSettings,
        precision: Precision | None = None,
        ground: KnownGround | None = None,
        replicas: int = 1,
    ) -> None:
        settings.check(atoms, replicas)
        self.model, self.settings, self.replicas = model, settings, replicas
        if replicas > 1 and ground is not None:
            raise InputError("The uncertainty is looked at in a run without replicas.")
        self.atoms = side_by_side(atoms, replicas) if replicas > 1 else atoms
        self.calculator = (
            ReplicaCalculator(model, replicas, precision=precision)
            if replicas > 1
            else QMLLightning(model, precision=precision)
        )
        self._precision = precision
        self.ground = ground
        if ground is not None:
            ground.check(self.calculator.predictor)
        self.step = 0
        self.generators = [np.random.default_rng(settings.seed + k) for k in range(replicas)]
        self.atoms.calc = self.calculator

    def begin(self, plan: RunPlan) -> list[dict[str, int]] | None:
        """Set velocities, or go on from a restart file; sizes of the files that it belongs to."""
        kept = None
        if plan.resume and plan.restart.is_file():
            point = read_restart(plan.restart, self.atoms)
            given = (self.settings.as_dict(), checksum_of(self.model), self.replicas)
            if given != (point.settings, point.model, len(point.random)):
                raise InputError(f"{plan.restart} belongs to a run with another model or other settings. Begin anew.")
            self.step, kept = point.step, point.files
            self.generators = [random_from(state) for state in point.random]
        elif not self.atoms.get_momenta().any():
            self._first_velocities()
        self.integrator: Any = integrator(self.atoms, self.settings, self.generators)
        if isinstance(self.integrator, CellRescaling):
            self.integrator.steps_done = self.step
        return kept

    def _first_velocities(self) -> None:
        momenta = []
        for one, rng in zip(apart(self.atoms, self.replicas), self.generators, strict=True):
            first_velocities(one, self.settings.temperature, rng)
            momenta.append(one.get_momenta())
        self.atoms.set_momenta(np.concatenate(momenta))

    def systems(self) -> list[Atoms]:
        """The atoms, or those of each replica, with their results."""
        return apart(self.atoms, self.replicas)

    def afresh(self) -> np.ndarray:
        """Forces from a new neighbour list, as after a restart: the order of the list changes the last bits of sums."""
        skin = self.calculator.predictor.skin
        self.calculator.predictor = self.calculator.potential.on(precision=self._precision, skin=skin)
        self.calculator.results = {}
        forces: np.ndarray = self.atoms.get_forces(md=True)
        return forces

    def save(self, plan: RunPlan, files: list[RunFiles], model: str) -> None:
        """Write the restart file of this step."""
        random, sizes = [random_state(rng) for rng in self.generators], [one.sizes() for one in files]
        point = RestartPoint(self.step, self.settings.as_dict(), model, random, sizes)
        point.write(plan.restart, self.atoms)


def run_dynamics(run: Run, plan: RunPlan, tell: Progress = silent) -> RunResult:
    """Go to the last step of the plan. An `Unphysical` error, with the last frame written, if atoms fly apart."""
    plan.check()
    if plan.replicas != run.replicas:
        raise InputError(f"The plan has {plan.replicas} replicas, the run {run.replicas}.")
    kept, model = run.begin(plan), checksum_of(run.model)
    step, cutoff = run.settings.timestep * units.fs, run.calculator.predictor.cutoff
    watches = [Watch.of(one, run.settings.temperature, step, cutoff) for one in run.systems()]
    sizes = [None] * run.replicas if kept is None else kept
    files = [RunFiles(*paths) for paths in zip(plan.trajectories, plan.logs, sizes, strict=True)]
    totals: list[tuple[float, float, float]] = []
    forces = run.afresh()
    first, started = run.step, time.perf_counter()

    def frames(log: bool = True) -> None:
        now = run.step * run.settings.timestep
        for some, one in zip(files, run.systems(), strict=True):
            some.write_frame(one, run.step, now)
            if log:
                some.write_log(one, run.step, now)

    def note() -> None:
        frames()
        now = run.step * run.settings.timestep / 1000
        totals.append((now, run.atoms.get_total_energy(), run.atoms.get_temperature()))

    try:
        if kept is None:
            note()
        while run.step < plan.steps:
            forces = _one_step(run, forces)
            if run.step % LOOK_EVERY == 0 or run.step == plan.steps:
                _look(run, watches)
            if run.step % plan.every == 0:
                note()
                tell("dynamics", run.step, plan.steps, _rate(run, first, started))
            if run.step % plan.restart_every == 0 or run.step == plan.steps:
                forces = run.afresh()
                run.save(plan, files, model)
    except Unphysical:
        frames(log=False)
        raise
    finally:
        for some in files:
            some.close()
    return _result(run, first, time.perf_counter() - started, totals)


def _look(run: Run, watches: list[Watch]) -> None:
    """Raise an `Unphysical` error, which names the replica, if one has left what is physical or what is known."""
    for k, (watch, one) in enumerate(zip(watches, run.systems(), strict=True)):
        try:
            watch.look(one, run.step)
        except Unphysical as problem:
            if run.replicas == 1:
                raise
            raise Unphysical(f"Replica {k}: {problem}") from problem
    if run.ground is not None:
        run.ground.look(run.calculator.predictor, run.atoms, run.step)


def _one_step(run: Run, forces: np.ndarray) -> np.ndarray:
    run.step += 1
    try:
        new: np.ndarray = run.integrator.step(forces)
    except InputError as problem:  # two atoms on one spot, coordinates that are no numbers
        raise Unphysical(f"Step {run.step}: {problem} The trajectory has left what the model knows.") from problem
    return new


def _rate(run: Run, first: int, started: float) -> str:
    per_second = (run.step - first) / max(time.perf_counter() - started, 1e-9)
    return f"{_ns_per_day(run, per_second):.3g} ns/day"


def _ns_per_day(run: Run, steps_per_second: float) -> float:
    return steps_per_second * run.replicas * run.settings.timestep * 86400e-6


def _result(run: Run, first: int, seconds: float, totals: list[tuple[float, float, float]]) -> RunResult:
    rate = (run.step - first) / max(seconds, 1e-9)
    drift = 0.0
    if len(totals) > 2:
        times, energies, _ = np.array(totals).T
        drift = float(np.polyfit(times - times[0], energies - energies[0], 1)[0] / len(run.atoms))
    mean = float(np.mean([temperature for _, _, temperature in totals])) if totals else run.atoms.get_temperature()
    ground = run.ground
    known = (None, ()) if ground is None else (ground.worst, tuple(ground.flagged))
    return RunResult(run.step, seconds, rate, _ns_per_day(run, rate), drift, mean, *known)
