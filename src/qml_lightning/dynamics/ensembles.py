"""Ensembles of molecular dynamics, made of the integrators of ASE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from ase import units
from ase.md.bussi import Bussi
from ase.md.langevin import Langevin
from ase.md.verlet import VelocityVerlet

from ..errors import InputError
from .replicas import BussiOfReplicas, Draws

if TYPE_CHECKING:
    from ase import Atoms

Ensemble = Literal["nve", "langevin", "bussi", "npt"]
ENSEMBLES = get_args(Ensemble)


@dataclass(frozen=True)
class MDSettings:
    """Settings of a run that decide its trajectory."""

    ensemble: Ensemble = "bussi"
    temperature: float = 300.0  # K; in NVE of the first velocities only
    timestep: float = 0.5  # fs
    friction: float = 0.01  # 1/fs, of Langevin
    relaxation: float = 100.0  # fs, of the Bussi thermostat
    pressure: float = 0.0  # GPa
    pressure_relaxation: float = 1000.0  # fs
    compressibility: float = 0.45  # 1/GPa, about that of water; it only scales pressure_relaxation
    seed: int = 0

    def check(self, atoms: Atoms, replicas: int = 1) -> None:
        """Raise an InputError unless these settings suit the atoms."""
        if self.ensemble not in ENSEMBLES:
            raise InputError(f"The ensemble is one of {', '.join(ENSEMBLES)}, got {self.ensemble!r}.")
        for name in ("timestep", "friction", "relaxation", "pressure_relaxation", "compressibility"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise InputError(f"The {name.replace('_', ' ')} must be positive, got {getattr(self, name)}.")
        if not (self.temperature >= 0 and math.isfinite(self.temperature) and math.isfinite(self.pressure)):
            raise InputError(f"Wanted a temperature of 0 K or more and a pressure, got {self.temperature} K.")
        if self.temperature == 0 and self.ensemble != "nve":
            raise InputError("A thermostat needs a temperature above 0 K. Use the ensemble nve.")
        if self.ensemble == "npt" and replicas > 1:
            raise InputError("Replicas share one cell, which NPT changes. Use langevin or bussi.")
        if self.ensemble == "npt" and not (atoms.pbc.all() and atoms.cell.rank == 3):
            raise InputError("NPT needs a cell that is periodic in all directions. Use langevin or bussi.")

    def as_dict(self) -> dict[str, Any]:
        """All fields, for a JSON header."""
        return asdict(self)


class CellRescaling(Bussi):  # type: ignore[misc]  # ASE has no types
    """NPT: the Bussi thermostat and stochastic rescaling of the volume (Bernetti and Bussi 2020), isotropic.

    d ln V = −(β/τ) (P₀ − P) dt + √(2 kT β / (V τ)) dW; positions are scaled with the cell, momenta against it. There is
    no state besides atoms and random numbers.
    """

    EVERY = 5  # steps between two changes of the cell: each costs one more evaluation of the forces

    def __init__(self, atoms: Atoms, settings: MDSettings, rng: np.random.Generator, **options: Any) -> None:
        step, relaxation = settings.timestep * units.fs, settings.relaxation * units.fs
        super().__init__(atoms, step, settings.temperature, relaxation, rng=rng, **options)  # type: ignore[no-untyped-call]
        self.beta = settings.compressibility / units.GPa
        self.taup, self.p0 = settings.pressure_relaxation * units.fs, settings.pressure * units.GPa
        self.kt = settings.temperature * units.kB
        self.steps_done = 0

    def step(self, forces: np.ndarray | None = None) -> np.ndarray:
        new: np.ndarray = super().step(forces)  # type: ignore[no-untyped-call]
        self.steps_done += 1
        if self.steps_done % self.EVERY == 0:
            self.rescale_cell()
            new = self.atoms.get_forces(md=True)
        return new

    def rescale_cell(self) -> None:
        """Change volume, positions and momenta."""
        atoms, dt = self.atoms, self.EVERY * self.dt
        volume = atoms.get_volume()
        pressure = -np.trace(atoms.get_stress(voigt=False)) / 3 + 2 * atoms.get_kinetic_energy() / (3 * volume)
        noise = math.sqrt(2 * self.kt * self.beta * dt / (volume * self.taup)) * self.rng.standard_normal()
        scale = math.exp((-self.beta / self.taup * (self.p0 - pressure) * dt + noise) / 3)
        atoms.set_cell(atoms.cell.array * scale, scale_atoms=True)
        atoms.set_momenta(atoms.get_momenta() / scale)


def integrator(atoms: Atoms, settings: MDSettings, generators: Sequence[np.random.Generator]) -> Any:
    """The integrator of ASE for these settings; `generators`: random numbers of each replica."""
    step, many = settings.timestep * units.fs, len(generators) > 1
    rng: Any = Draws(generators) if many else generators[0]
    if settings.ensemble == "nve":
        return VelocityVerlet(atoms, step)
    if settings.ensemble == "langevin":
        friction = settings.friction / units.fs
        return Langevin(atoms, step, temperature_K=settings.temperature, friction=friction, fixcm=False, rng=rng)
    relaxation = settings.relaxation * units.fs
    if settings.ensemble == "bussi" and many:
        return BussiOfReplicas(atoms, step, settings.temperature, relaxation, generators)
    if settings.ensemble == "bussi":
        return Bussi(atoms, step, settings.temperature, relaxation, rng=rng)
    return CellRescaling(atoms, settings, rng)


def first_velocities(atoms: Atoms, temperature: float, rng: np.random.Generator) -> None:
    """Velocities of that temperature, without motion of the whole and, for a molecule, without its rotation."""
    from ase.md.velocitydistribution import Stationary, ZeroRotation

    momenta = rng.standard_normal((len(atoms), 3)) * np.sqrt(atoms.get_masses() * units.kB * temperature)[:, None]
    atoms.set_momenta(momenta)
    Stationary(atoms, preserve_temperature=False)
    if not atoms.pbc.any() and len(atoms) > 2:
        ZeroRotation(atoms, preserve_temperature=False)
    found = atoms.get_temperature()
    if found > 0:
        atoms.set_momenta(atoms.get_momenta() * math.sqrt(temperature / found))
