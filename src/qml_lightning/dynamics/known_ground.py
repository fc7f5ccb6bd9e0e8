"""Known ground: stop or flag a trajectory where forces become too uncertain."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..errors import InputError
from ..model.committee import NO_COMMITTEE
from .watch import Unphysical

if TYPE_CHECKING:
    from ase import Atoms

    from ..model.predictor import Predictor

Action = Literal["stop", "flag"]
ACTIONS: tuple[Action, ...] = ("stop", "flag")


class LeftKnownGround(Unphysical):
    """A trajectory whose forces are too uncertain."""


@dataclass
class KnownGround:
    """Largest uncertainty of a force that is allowed, and what to do beyond it."""

    limit: float  # eV/Å, standard deviation of one component
    action: Action = "stop"
    worst: float = 0.0  # eV/Å, seen so far
    flagged: list[int] = field(default_factory=list)  # steps beyond the limit

    def check(self, predictor: Predictor) -> None:
        """Raise an InputError if the limit makes no sense or the model has no committee."""
        if not self.limit > 0:
            raise InputError(f"The limit of the uncertainty is a force in eV/Å above 0, got {self.limit:g}.")
        if self.action not in ACTIONS:
            raise InputError(f"Beyond the limit of uncertainty one can {' or '.join(ACTIONS)}, got {self.action!r}.")
        if predictor.potential.committee is None:
            raise InputError(NO_COMMITTEE)

    def look(self, predictor: Predictor, atoms: Atoms, step: int) -> None:
        """Stop or flag the run if the force on an atom is too uncertain, and name the atom."""
        found = predictor.predict(atoms, stress=False, uncertainty=True).force_uncertainty
        assert found is not None
        atom = int(found.argmax())
        most = float(found[atom])
        self.worst = max(self.worst, most)
        if most <= self.limit:
            return
        text = (
            f"Step {step}: the force on atom {atom} ({atoms.symbols[atom]}) is uncertain by {most:.3g} eV/Å, more than "
            f"{self.limit:g} eV/Å. The trajectory leaves what the model knows. Label frames like this one and train on "
            "them (qml-lightning update)."
        )
        if self.action == "stop":
            raise LeftKnownGround(text)
        if not self.flagged:
            warnings.warn(text, stacklevel=2)
        self.flagged.append(step)
