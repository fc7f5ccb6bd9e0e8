"""Hints about the units of a file from the size of its numbers, for error messages only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..atoms.units import ENERGY_IN_EV, LENGTH_IN_ANGSTROM
from .content import Content

# Range of force constants of X–H bonds in molecules, in eV/Å²: C–H 31, N–H 40, O–H 48.
FORCE_CONSTANTS = (25.0, 48.0)
LONGEST_XH = 1.6  # Å


@dataclass(frozen=True)
class BondsToHydrogen:
    """Bonds between hydrogen and the nearest heavier atom, in the units of the content."""

    length: np.ndarray  # (bonds,)
    pull: np.ndarray  # (bonds,) force on the hydrogen atom along the bond; NaN without forces
    kind: np.ndarray  # (bonds,) number of the bond: equal for one atom of one molecule in all frames


def bonds_to_hydrogen(content: Content, n_frames: int = 1000) -> BondsToHydrogen:
    """X–H bonds of evenly spaced frames, without periodic and very large structures."""
    lengths, pulls, kinds = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, int)]
    known: dict[bytes, int] = {}
    offsets = np.concatenate([[0], np.cumsum(content.counts)])
    for frame in np.unique(np.linspace(0, len(content.counts) - 1, n_frames).astype(int)):
        atoms = slice(offsets[frame], offsets[frame + 1])
        numbers, positions = content.numbers[atoms], np.asarray(content.positions[atoms], np.float64)
        light, heavy = (numbers == 1).nonzero()[0], (numbers > 1).nonzero()[0]
        if len(light) == 0 or len(heavy) == 0 or len(numbers) > 500 or content.periodic[frame].any():
            continue
        vectors = positions[light, None] - positions[None, heavy]
        distances = np.linalg.norm(vectors, axis=2)
        nearest = distances.argmin(1)
        length = distances[np.arange(len(light)), nearest]
        direction = vectors[np.arange(len(light)), nearest] / np.maximum(length, 1e-12)[:, None]
        forces = np.full((len(light), 3), np.nan) if content.forces is None else content.forces[atoms][light]
        lengths.append(length)
        pulls.append((direction * forces).sum(1))
        kinds.append(1000 * known.setdefault(numbers.tobytes(), len(known)) + light)
    return BondsToHydrogen(np.concatenate(lengths), np.concatenate(pulls), np.concatenate(kinds))


def force_constant(bonds: BondsToHydrogen) -> float:
    """Force constant of X–H bonds: minus the slope of force against length.

    NaN if there are too few bonds, or their lengths do not vary. Each bond is compared with itself in other frames,
    because C–H and O–H bonds have different lengths at rest.
    """
    if len(bonds.length) == 0:
        return math.nan
    bonded = np.isfinite(bonds.pull) & (bonds.length < 1.3 * np.median(bonds.length))
    length, pull = bonds.length[bonded], bonds.pull[bonded]
    _, kind, count = np.unique(bonds.kind[bonded], return_inverse=True, return_counts=True)
    length = length - (np.bincount(kind, length) / count)[kind]
    pull = pull - (np.bincount(kind, pull) / count)[kind]
    if len(length) < 10 or length.std() < 0.003 * np.median(bonds.length):
        return math.nan
    return -float((length @ pull) / (length @ length))


def likely_force_unit(constant: float) -> str:
    """Force unit in which this X–H force constant would be usual, for coordinates in Å; empty if there is none."""
    usual = math.sqrt(FORCE_CONSTANTS[0] * FORCE_CONSTANTS[1])
    units = {f"{energy}/Å": ENERGY_IN_EV[energy] for energy in ("eV", "meV", "kcal/mol", "kJ/mol", "Hartree")}
    units["Hartree/Bohr"] = ENERGY_IN_EV["Hartree"] / LENGTH_IN_ANGSTROM["Bohr"]
    away = {unit: abs(math.log(constant * factor / usual)) for unit, factor in units.items() if constant > 0}
    best = min(away, key=away.__getitem__, default="")
    return best if best and away[best] < math.log(1.6) else ""


def likely_energy_unit(content: Content) -> str:
    """Unit in which the energies would be total energies of all electrons; empty if there is none."""
    ratio = total_energy_ratio(content)
    if not ratio > 0:
        return ""
    found = {unit: abs(math.log(ratio * ENERGY_IN_EV[unit])) for unit in ("eV", "kcal/mol", "kJ/mol", "Hartree")}
    best = min(found, key=found.__getitem__)
    return best if found[best] < math.log(1.4) else ""


def total_energy_ratio(content: Content) -> float:
    """Median ratio of the energies to the total energies of the free atoms in eV, about -Z^2.4 / 2 Hartree each."""
    if content.energies is None:
        return math.nan
    starts = np.concatenate([[0], np.cumsum(content.counts)[:-1]]).astype(int)
    atoms = -0.5 * np.asarray(content.numbers, np.float64) ** 2.4 * ENERGY_IN_EV["Hartree"]
    return float(np.nanmedian(content.energies / np.add.reduceat(atoms, starts)))


@dataclass(frozen=True)
class LikelyUnits:
    """Units that the size of the numbers suggests, for coordinates in Å; empty where they suggest none."""

    energy: str
    force: str
    constant: float  # force constant of X–H bonds in the units of the content; NaN if it is not known

    @property
    def options(self) -> str:
        """Options of the command line that state these units; empty if there are none."""
        energy = self.energy or self.force.rpartition("/")[0]
        if not energy:
            return ""
        mixed = self.force not in ("", f"{energy}/Å")
        return f"--energy-unit {energy}" + (f" --force-unit {self.force}" if mixed else "")


def likely_units(content: Content) -> LikelyUnits:
    """Units that the numbers suggest: of forces by bonds to hydrogen, of energies by total energies of electrons."""
    constant = force_constant(bonds_to_hydrogen(content))
    return LikelyUnits(likely_energy_unit(content), likely_force_unit(constant), constant)


def unit_hint(likely: LikelyUnits) -> str:
    """Sentence with the unit that the numbers suggest; empty if they suggest none."""
    if likely.force:
        return (
            f" Only a hint: the force constant of bonds to hydrogen is {likely.constant:.3g} in the units of the file, "
            f"as is usual for forces in {likely.force}."
        )
    if likely.energy:
        return f" Only a hint: the energies have the size of total energies in {likely.energy}."
    return ""


def doubt_about_ev(content: Content) -> str:
    """Sentence about numbers that were read in eV and Å, and look like another unit; empty if they do not."""
    likely = likely_units(content)
    if not likely.force or FORCE_CONSTANTS[0] / 2.5 < likely.constant < 2.5 * FORCE_CONSTANTS[1]:
        return ""
    return (
        f"is read in eV and Å, as is usual for its format, but the force constant of bonds to hydrogen is "
        f"{likely.constant:.3g}, as is usual for forces in {likely.force}. Try {likely.options}."
    )


def doubt_about_lengths(content: Content) -> str:
    """Sentence about coordinates that were read in Å, and look like Bohr; empty if they do not."""
    lengths = bonds_to_hydrogen(content, n_frames=20).length
    unusual = unusual_length(content)
    # most bonds, not the median alone: hydrogen may be far from all else
    if "Bohr" not in unusual or np.percentile(lengths, 90) > 1.4 * np.median(lengths):
        return ""
    energy = " --energy-unit Hartree" if content.labelled else ""
    return f"is read in eV and Å, as is usual for its format, but {unusual} Try --length-unit Bohr{energy}."


def unusual_length(content: Content) -> str:
    """Sentence about X–H bonds that are too long or too short for Å; empty if they are usual."""
    lengths = bonds_to_hydrogen(content, n_frames=20).length
    if len(lengths) < 5:
        return ""
    usual = float(np.median(lengths))
    if 0.7 < usual < LONGEST_XH:
        return ""
    fits = [unit for unit, factor in LENGTH_IN_ANGSTROM.items() if 0.9 < usual * factor < 1.25]
    looks = f" {usual:.3g} {fits[0]} would be usual." if fits else ""
    return f"the bonds of hydrogen are {usual:.3g} long, which is not usual in Å.{looks}"
