"""What numbers look like: hints for errors about units, never a decision about them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..atoms.units import ENERGY_IN_EV, LENGTH_IN_ANGSTROM
from .content import Content

# force against length of X–H bonds in molecules: C–H 31, N–H 40, O–H 48 eV/Å²
XH_SLOPE = (25.0, 48.0)
LONGEST_XH = 1.6  # Å


@dataclass(frozen=True)
class HydrogenBonds:
    """Bonds of hydrogen to its nearest heavier atom, in the units of the content."""

    length: np.ndarray  # (bonds,)
    pull: np.ndarray  # (bonds,) force on the hydrogen along the bond; NaN without forces
    kind: np.ndarray  # (bonds,) equal numbers: the same atom of the same molecule


def bonds_of_hydrogen(content: Content, n_frames: int = 1000) -> HydrogenBonds:
    """From evenly spread molecules; periodic and very large structures are left out."""
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
    return HydrogenBonds(np.concatenate(lengths), np.concatenate(pulls), np.concatenate(kinds))


def hydrogen_slope(bonds: HydrogenBonds) -> float:
    """Minus the slope of force against length over X–H bonds; NaN if there are too few, or they are not stretched.

    Each bond is compared with itself in other frames: C–H and O–H have different lengths at rest.
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


def likely_force_unit(slope: float) -> str:
    """Force unit in which an X–H slope of this size would be usual, coordinates being in Å; empty if there is none."""
    usual = math.sqrt(XH_SLOPE[0] * XH_SLOPE[1])
    units = {f"{energy}/Å": ENERGY_IN_EV[energy] for energy in ("eV", "meV", "kcal/mol", "kJ/mol", "Hartree")}
    units["Hartree/Bohr"] = ENERGY_IN_EV["Hartree"] / LENGTH_IN_ANGSTROM["Bohr"]
    away = {unit: abs(math.log(slope * factor / usual)) for unit, factor in units.items() if slope > 0}
    best = min(away, key=away.__getitem__, default="")
    return best if best and away[best] < math.log(1.6) else ""


def likely_energy_unit(content: Content) -> str:
    """Unit in which the energies would be total energies of all electrons, or empty: a guess for an error message."""
    ratio = total_energy_ratio(content)
    if not ratio > 0:
        return ""
    found = {unit: abs(math.log(ratio * ENERGY_IN_EV[unit])) for unit in ("eV", "kcal/mol", "kJ/mol", "Hartree")}
    best = min(found, key=found.__getitem__)
    return best if found[best] < math.log(1.4) else ""


def total_energy_ratio(content: Content) -> float:
    """Median of energy over the total energy in eV that atoms of these numbers have, about -Z^2.4 / 2 Hartree."""
    if content.energies is None:
        return math.nan
    starts = np.concatenate([[0], np.cumsum(content.counts)[:-1]]).astype(int)
    atoms = -0.5 * np.asarray(content.numbers, np.float64) ** 2.4 * ENERGY_IN_EV["Hartree"]
    return float(np.nanmedian(content.energies / np.add.reduceat(atoms, starts)))


def unit_hint(content: Content) -> str:
    """A sentence about what the numbers look like, or empty."""
    slope = hydrogen_slope(bonds_of_hydrogen(content))
    unit = likely_force_unit(slope)
    if unit:
        return (
            f" Only a hint: the force on hydrogen falls by {slope:.3g} per unit of bond length, as it would "
            f"for forces in {unit}."
        )
    unit = likely_energy_unit(content)
    return f" Only a hint: the energies have the size of total energies in {unit}." if unit else ""


def unusual_length(content: Content) -> str:
    """A sentence if the X–H bonds are too long or too short for Å, else empty."""
    lengths = bonds_of_hydrogen(content, n_frames=20).length
    if len(lengths) < 5:
        return ""
    usual = float(np.median(lengths))
    if 0.7 < usual < LONGEST_XH:
        return ""
    fits = [unit for unit, factor in LENGTH_IN_ANGSTROM.items() if 0.9 < usual * factor < 1.25]
    looks = f" {usual:.3g} {fits[0]} would be usual." if fits else ""
    return f"the bonds of hydrogen are {usual:.3g} long, which is not usual in Å.{looks}"
