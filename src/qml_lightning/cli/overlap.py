"""Notes on structures that occur twice: in a training set, or in a training set and the set that judges it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..model.potential import Model

NAMED = 3


def repeats_note(data: Dataset) -> str:
    """Sentence about repetitions in `data`; empty if there are none."""
    from ..atoms.fingerprints import geometry_fingerprints, repeats_in

    found = repeats_in(geometry_fingerprints(data.structures))
    if not len(found):
        return ""
    pairs = zip(found.first[:NAMED].tolist(), found.again[:NAMED].tolist())
    first = ", ".join(f"{data.name_of(again)} is the same as {data.name_of(before)}" for before, again in pairs)
    more = ", …" if len(found) > NAMED else ""
    many = f"repeat{'s' if len(found) == 1 else ''} an earlier one and count{'s' if len(found) == 1 else ''}"
    return (
        f"{len(found):,} of {len(data):,} structures of {data.source.name} {many} twice: {first}{more} (counted "
        "from 0)."
    )


def shared_note(potential: Model, data: Dataset) -> str:
    """Sentence about structures of `data` that the model was trained on; empty if there are none, or none are known."""
    from ..atoms.fingerprints import geometry_fingerprints, shared_with

    if potential.trained_on is None:
        return ""
    shared = shared_with(geometry_fingerprints(data.structures), potential.trained_on)
    if not len(shared):
        return ""
    first = ", ".join(data.name_of(s) for s in shared[:NAMED].tolist())
    return (
        f"The model was trained on {len(shared):,} of the {len(data):,} structures of {data.source.name} (first: "
        f"{first}, counted from 0). Errors on them do not tell how it does on new structures."
    )
