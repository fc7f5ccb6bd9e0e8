"""Arrays of a file that are not read: named in a note, and refused if one looks like a label that is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..errors import InputError

# Names that people give to a total energy or to forces, besides the usual ones of each format.
LOOKS_LIKE = {
    "energies": re.compile(r"energ|etot|toten|^(e|u|u0|e0|epot|e_tot|e_pot|e_dft|e_ref|e_total)$", re.IGNORECASE),
    "forces": re.compile(r"forc|grad|^(f|frc|f_dft|f_ref|dedr|de_dr)$", re.IGNORECASE),
}
# Parts of names of other numbers: weights, error bars, parts of an energy.
ANOTHER = re.compile(
    r"weight|sigma|std|unit|error|uncert|varian|per_?atom|kinetic|atomic|isolated|zpe|gap|fermi|homo|lumo|free_atom"
    r"|interaction|correlation|nuclear|constant|(^|_)(max|norm|rms|tol|id|index|converged|threshold)($|_)",
    re.IGNORECASE,
)
OPTION = {"energies": "energy", "forces": "forces"}
# Names in a note, at most; words before them.
NAMED, NOT_READ = 8, "; not read: "


def looks_like(kind: str, key: str) -> bool:
    """Whether an array with this name may hold labels of this kind ("energies" or "forces")."""
    return bool(LOOKS_LIKE[kind].search(key)) and not ANOTHER.search(key)


def refuse_ignored(name: str, kind: str, found: Iterable[str]) -> None:
    """Raise an InputError if labels of a kind have no usual name, but some array looks like them."""
    found = sorted(found)
    if not found:
        return
    option = OPTION[kind]
    sign = " (a gradient is minus the force: save it with the other sign)" if "grad" in found[0].lower() else ""
    raise InputError(
        f"{name} has no {kind} under a usual name, but {' and '.join(found[:NAMED])} may hold them{sign}. Add "
        f'--{option}-key {found[0]} to read {"them" if len(found) == 1 else "one"}, or --{option}-key "" to do without '
        f"({option}_key= in Python)."
    )


def usage_note(keys: Mapping[str, str], unused: Iterable[str]) -> tuple[str, ...]:
    """One note with the arrays that are read as labels and those that are not; none if all are read."""
    unused = sorted(unused, key=lambda name: (not _like_any(name), name.lower()))  # what may matter comes first
    if not unused:
        return ()
    more = f" and {len(unused) - NAMED} more" if len(unused) > NAMED else ""
    read = ", ".join(keys.values()) or "no labels"
    return (f"read {read}{NOT_READ}{', '.join(unused[:NAMED])}{more}",)


def is_plain(note: str) -> bool:
    """Whether a note only tells what was read, and no array that was left out looks like a label."""
    read, found, unused = note.partition(NOT_READ)
    return bool(found) and not read.endswith("read no labels") and not any(map(_like_any, unused.split(", ")))


def _like_any(key: str) -> bool:
    name = key.partition(" (")[0]  # a key of a calculator says so in brackets
    return "stress" in name.lower() or "virial" in name.lower() or any(looks_like(kind, name) for kind in LOOKS_LIKE)
