"""Signs that a trajectory is no longer physical: atoms that fly away, collapse, or heat up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import SolveError

if TYPE_CHECKING:
    from ase import Atoms

FASTEST = 0.3  # Å in one step
HOT, HOTTER = 10.0, 3000.0  # times the temperature that is wanted, plus K
ADVICE = (
    "Use a shorter time step or a lower temperature, relax the structure first, or train on structures like the last "
    "frames."
)


class Unphysical(SolveError):
    """A trajectory that left the range of the potential."""


@dataclass(frozen=True)
class Watch:
    """Limits of a run."""

    temperature: float  # K
    timestep: float  # in ASE's unit of time
    together: float  # Å: an atom without a neighbour so near has left; 0 if there was one at the beginning

    @classmethod
    def of(cls, atoms: Atoms, temperature: float, timestep: float, cutoff: float) -> Watch:
        """Limits for a run that begins with these atoms."""
        whole = len(atoms) > 1 and _farthest(atoms) < cutoff
        return cls(max(temperature, atoms.get_temperature()), timestep, cutoff if whole else 0.0)

    def look(self, atoms: Atoms, step: int) -> None:
        """Raise an error that names the atom that is lost."""
        moved = np.linalg.norm(atoms.get_velocities(), axis=1) * self.timestep
        if not np.isfinite(moved).all() or moved.max() > FASTEST:
            worst = int(np.argmax(np.where(np.isfinite(moved), moved, np.inf)))
            raise Unphysical(
                f"Step {step}: atom {worst} ({atoms.symbols[worst]}) moves {moved[worst]:.3g} Å in one step, more than "
                f"{FASTEST} Å. The atoms fly apart. {ADVICE}"
            )
        if (found := atoms.get_temperature()) > HOT * self.temperature + HOTTER:
            raise Unphysical(f"Step {step}: the temperature is {found:.0f} K. The atoms fly apart. {ADVICE}")
        if self.together and (apart := _farthest(atoms)) > self.together:
            raise Unphysical(
                f"Step {step}: an atom is {apart:.2f} Å from all others, beyond the cutoff of {self.together:g} Å. "
                f"It has left the others. {ADVICE}"
            )


def _farthest(atoms: Atoms) -> float:
    """Largest distance of an atom to its nearest neighbour; 0 where there are too many atoms to look, or a cell."""
    if atoms.pbc.any() or len(atoms) > 1000:
        return 0.0
    distances = np.linalg.norm(atoms.positions[:, None] - atoms.positions[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    return float(distances.min(1).max())
