"""Checks of a potential before molecular dynamics: holes, gradients, and conservation of energy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np
from ase import Atoms, units
from ase.data import chemical_symbols, covalent_radii
from ase.md.verlet import VelocityVerlet

from ..atoms.structures import structures_from_ase
from ..model.crowding_fit import lattices
from ..model.repulsion import OUTER
from .ensembles import first_velocities
from .watch import Unphysical, Watch

if TYPE_CHECKING:
    from ..model.potential import Model

NEAREST = 0.3  # Å
HOLE = 1.0  # eV: two atoms alone are no structure of the data, and may attract each other by a little
# Of the sum of covalent radii: triple bonds have 0.77 to 0.8 of it (N₂, CO, C₂H₂). Until there two atoms alone may
# attract each other: in PBE, C and O fall by 1.6 eV from the shortest distance in ethanol to that of carbon monoxide.
SHORTEST_BOND = 0.75
BARRIER = 10.0  # eV per atom: what lies behind it is not reached by stretching
COMPRESSED, STRETCHED = np.arange(1.0, 0.29, -0.02), np.arange(1.0, 1.51, 0.05)  # scales
LATTICE = 0.85  # scale above which a lattice of the same element may be at equilibrium: silicon has 0.89
EQUILIBRIUM = 0.9  # scale above which a structure may still gain energy: it need not be relaxed
FALL = 0.1  # eV per atom that the energy may fall on compression
GRADIENT = 1e-5  # relative difference of forces and stress from finite differences that rounding explains
STEPS, TIMESTEP, TEMPERATURE = 400, 0.25, 300.0  # of the short run: fs, K
DRIFT = 1.0  # meV per atom and ps that is allowed in it


@dataclass(frozen=True)
class Finding:
    """Outcome of one check."""

    name: str
    passed: bool
    words: str


def check_model(model: Model, atoms: Atoms | None = None) -> list[Finding]:
    """Results of all checks. Checks that need a structure are made only if one is given."""
    predictor = model.on(precision="float64")

    def energy(one: Atoms) -> float:
        return predictor.predict(one, forces=False).energies.item()

    found = [_dimer(model, energy, *pair) for pair in combinations_with_replacement(model.elements, 2)]
    if atoms is not None:
        found += [_compressed(atoms, energy), *_lattices(atoms, energy), _stretched(atoms, energy)]
        found += [_gradients(model, atoms), _conservation(model, atoms)]
    return found


def _dimer(model: Model, energy: Callable[[Atoms], float], z: int, other: int) -> Finding:
    """Energy of two atoms, from the shortest distance of the data (or a bond length) down to NEAREST."""
    i, j = model.elements.index(z), model.elements.index(other)
    bond = float(covalent_radii[z] + covalent_radii[other])
    begin = bond if model.repulsion is None else float(model.repulsion.outer[i, j]) / OUTER
    distances = np.arange(begin, NEAREST, -0.02)
    curve = [energy(Atoms([z, other], [[0, 0, 0], [0, 0, r]])) for r in distances]
    name = f"dimer {chemical_symbols[z]}–{chemical_symbols[other]}"
    lowest = int(np.argmin(curve))
    depth = float(curve[0] - curve[lowest])
    bound = f", after a bond of {depth:.2g} eV at {distances[lowest]:.2f} Å" if depth > HOLE else ""
    if depth > HOLE and distances[lowest] < SHORTEST_BOND * bond:
        return Finding(name, False, f"attractive down to {distances[lowest]:.2f} Å, by {depth:.3g} eV")
    hole = first_hole(curve[lowest:], np.inf)
    if hole is None:
        fall = float((np.maximum.accumulate(curve[lowest:]) - curve[lowest:]).max())
        but = f", but for a fall of {fall:.2g} eV" if fall > 0.01 else ""
        return Finding(name, True, f"repulsive from {distances[lowest]:.2f} to {NEAREST} Å{bound}{but}")
    return Finding(name, False, f"attractive below {distances[lowest + hole]:.2f} Å")


def first_hole(curve: Sequence[float], barrier: float) -> int | None:
    """Place from which a curve falls by more than HOLE, before it has risen by `barrier`; None if there is none."""
    highest = curve[0]
    for k, value in enumerate(curve):
        if value < highest - HOLE:
            return k
        highest = max(highest, value)
        if highest - curve[0] > barrier:
            return None
    return None


def _scaled(atoms: Atoms, energy: Callable[[Atoms], float], factors: np.ndarray) -> np.ndarray:
    """Energies per atom of the structure scaled evenly."""
    curve = []
    for factor in factors:
        one = atoms.copy()
        if atoms.pbc.any():
            one.set_cell(atoms.cell.array * factor, scale_atoms=True)
        else:
            one.positions = atoms.positions * factor
        curve.append(energy(one) / len(atoms))
    return np.array(curve)


def _compressed(atoms: Atoms, energy: Callable[[Atoms], float]) -> Finding:
    """From equilibrium on, the energy must rise all the way."""
    factors = COMPRESSED[COMPRESSED * _shortest(atoms) > NEAREST]
    curve = _scaled(atoms, energy, factors)
    begin = int(curve[factors > EQUILIBRIUM].argmin())
    falls = np.maximum.accumulate(curve[begin:]) - curve[begin:]
    deepest, at = float(falls.max()), float(factors[begin:][falls.argmax()])
    rises = f"rises by {curve.max() - curve[begin]:.3g} eV/atom down to a scale of {factors[-1]:.2f}"
    if deepest < FALL:
        return Finding("compressed", True, rises if deepest < 0.01 else f"{rises}, but for a fall of {deepest:.2g}")
    below = f", {curve[begin] - curve.min():.3g} below the structure" if curve.min() < curve[begin] else ""
    return Finding("compressed", False, f"falls by {deepest:.3g} eV/atom to a hole at a scale of {at:.2f}{below}")


def _lattices(atoms: Atoms, energy: Callable[[Atoms], float]) -> list[Finding]:
    """Simple lattices of a crystal of one element, from its volume per atom on: the energy must rise."""
    found = []
    for kind, crystal in lattices(structures_from_ase(atoms)).items():
        name = f"compressed {kind}"
        curve = _scaled(crystal, energy, COMPRESSED)
        begin = int(curve[COMPRESSED > LATTICE].argmin())
        falls = np.maximum.accumulate(curve[begin:]) - curve[begin:]
        deepest, at = float(falls.max()), float(COMPRESSED[begin:][falls.argmax()])
        below = energy(atoms) / len(atoms) - float(curve[begin])
        if below > HOLE:
            found.append(Finding(name, False, f"{below:.3g} eV/atom below the structure"))
        elif deepest > HOLE:  # they are no structures of the data either
            found.append(Finding(name, False, f"falls by {deepest:.3g} eV/atom to a hole at a scale of {at:.2f}"))
        else:
            found.append(Finding(name, True, f"rises by {curve.max() - curve[begin]:.3g} eV/atom"))
    return found


def _shortest(atoms: Atoms) -> float:
    """Shortest distance in a structure, Å."""
    from ase.neighborlist import neighbor_list

    found = neighbor_list("d", atoms, 6.0)
    return float(found.min()) if len(found) else 6.0


def _stretched(atoms: Atoms, energy: Callable[[Atoms], float]) -> Finding:
    """A hole is an energy far below that of the structure, before a barrier."""
    curve = _scaled(atoms, energy, STRETCHED)
    relative = curve - curve[0]
    reached = np.maximum.accumulate(relative) < BARRIER
    lowest, at = float(relative[reached].min()), float(STRETCHED[reached][relative[reached].argmin()])
    words = f"highest {relative.max():.3g}, lowest {lowest:.3g} eV/atom before a barrier of {BARRIER:g}"
    passed = lowest > -1.0
    return Finding("stretched", passed, words if passed else f"{words}: a hole at a scale of {at:.2f}")


def _gradients(model: Model, atoms: Atoms) -> Finding:
    """Forces and stress beside finite differences of the energy."""
    from ase.calculators.fd import calculate_numerical_forces, calculate_numerical_stress

    one = atoms.copy()
    one.positions += np.random.default_rng(0).normal(scale=0.05, size=one.positions.shape)
    one.calc = model.calculator(precision="float64", skin=0.0)
    some = list(range(min(len(one), 5)))
    forces = one.get_forces()[some]
    off = np.abs(forces - calculate_numerical_forces(one, eps=1e-4, iatoms=some)).max() / max(1.0, np.abs(forces).max())
    worst = {"forces": float(off)}
    if one.pbc.any() and one.cell.rank == 3:
        stress, exact = one.get_stress(), calculate_numerical_stress(one, eps=1e-5)
        worst["stress"] = float(np.abs(stress - exact).max() / max(np.abs(exact).max(), 1e-3))
    words = ", ".join(f"{name} differ by {value:.1e}" for name, value in worst.items())
    return Finding("finite differences", max(worst.values()) < GRADIENT, f"{words} of the largest")


def _conservation(model: Model, atoms: Atoms) -> Finding:
    """Drift of the total energy in a short run at constant energy."""
    one = atoms.copy()
    one.calc = model.calculator(precision="float64")
    first_velocities(one, TEMPERATURE, np.random.default_rng(0))
    steps, watch = VelocityVerlet(one, TIMESTEP * units.fs), Watch.of(one, TEMPERATURE, TIMESTEP * units.fs, 0.0)
    energies, forces = [one.get_total_energy()], one.get_forces(md=True)
    for k in range(STEPS):
        forces = steps.step(forces)
        energies.append(one.get_total_energy())
        try:
            watch.look(one, k)
        except Unphysical as problem:
            return Finding("NVE", False, str(problem))
    times = np.arange(STEPS + 1) * TIMESTEP / 1000
    drift = 1000 * float(np.polyfit(times, energies, 1)[0]) / len(one)
    words = (
        f"drift {drift:.2g} meV per atom and ps in {STEPS * TIMESTEP:g} fs, {one.get_temperature():.0f} K at the end"
    )
    return Finding("NVE", abs(drift) < DRIFT, words)
