"""Things that a fit keeps besides the weights: equations and checkpoints in files, and a committee in the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import InputError
from ..machine.compute import Compute
from ..machine.files import check_output

# Seconds between two checkpoints: so much work is lost at most, and writing takes little of it.
SECONDS = 180.0
# Fewest structures that calibrate a committee: a standard deviation from so few is uncertain by a quarter. Rather so
# many, if they are no more than this part of all.
FEWEST_STRUCTURES, BETTER_STRUCTURES, BETTER_PART = 10, 30, 0.1


@dataclass(frozen=True)
class Keep:
    """Files to write during a fit and to resume from, and the size of a committee."""

    equations: Path | None = None  # for `update` and `merge`
    checkpoint: Path | None = None
    seconds: float = SECONDS
    resume: bool = False
    overwrite: bool = False  # replace an equations file that exists
    committee: int = 0  # members drawn from the posterior that the model keeps

    def checked(self, compute: Compute) -> Keep:
        """These files with the paths of this rank; an InputError if one cannot be written or must not be replaced.

        Call it before any work.
        """
        equations, checkpoint = self.equations, self.checkpoint
        if equations is not None:
            compute.on_first(lambda: check_output(equations, self.overwrite))
        if checkpoint is not None and compute.ranks is not None and compute.ranks.rank > 0:
            checkpoint = checkpoint.with_name(f"{checkpoint.name}.{compute.ranks.rank}")
        if checkpoint is not None:
            checkpoint = check_output(checkpoint, overwrite=True)
            if checkpoint.exists() and not self.resume:
                raise InputError(
                    f"There is a checkpoint {checkpoint} of a fit that did not end. Go on from it with --resume "
                    "(resume=True), or delete it to begin anew."
                )
        return replace(self, checkpoint=checkpoint)

    def held_out(self, n: int, part: float) -> int:
        """Structures of `n` that an iteration holds out: this part of them, and more if they calibrate a committee.

        An InputError if fewer would be left to learn from than to calibrate with.
        """
        wanted = min(n - 1, round(part * n))
        if not self.committee:
            return wanted
        wanted = max(wanted, FEWEST_STRUCTURES, min(BETTER_STRUCTURES, round(BETTER_PART * n)))
        if n < wanted + FEWEST_STRUCTURES:
            raise InputError(
                f"The uncertainties of an iterative fit are calibrated on {wanted} structures that are held out, and "
                f"{FEWEST_STRUCTURES} or more must be left to learn from: got {n} in all. Use more structures, or the "
                "direct solver."
            )
        return wanted

    def remove_checkpoint(self) -> None:
        """Delete the checkpoint of a fit that has ended."""
        if self.checkpoint is not None:
            self.checkpoint.unlink(missing_ok=True)
