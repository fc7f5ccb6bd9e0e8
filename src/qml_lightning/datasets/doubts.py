"""Doubts about the content of a file: certain mistakes are refused, possible ones are warned of."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import torch

from ..atoms.structures import Labels, Structures
from ..errors import InputError
from .content import Content

# Volume per atom below which a cell is filled by atoms: a crystal or a liquid, and no molecule in a box.
DENSE = 40.0  # Å³
# Atoms that are farther apart than this in all frames do not interact.
APART = 6.0  # Å
LOOKED_AT = 50  # frames whose distances are measured
FEW_STRUCTURES, MANY_STRUCTURES = 5, 50  # an element in fewer structures is rare, in a set of so many or more
FEWEST_HELD = 5  # frames with atoms that were held fixed, from which on it is no chance


class DataWarning(UserWarning):
    """Content of a data set that may be wrong."""


def states_that_vary(states: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Names of charges and spins that differ between frames."""
    return tuple(name for name, values in states.items() if len(np.unique(values[~np.isnan(values)])) > 1)


def look_at(content: Content, structures: Structures, labels: Labels, name: str) -> tuple[str, ...]:
    """Notes about what is unusual; an InputError for forces that cannot be, a DataWarning for what is likely wrong."""
    notes = (*_states(content, name), *_missing(content), *_open_cells(structures, name), *_rare(structures))
    _distances(structures, name)
    if labels.forces is not None:
        _zero_forces(structures, labels, name)
        _held_atoms(structures, labels, name)
    return notes


def _warn(text: str) -> None:
    warnings.warn(DataWarning(text), stacklevel=4)


def _states(content: Content, name: str) -> tuple[str, ...]:
    vary = states_that_vary(content.states)
    for state in vary:
        known = np.unique(content.states[state][~np.isnan(content.states[state])])
        _warn(
            f"{name}: {state} differs between frames ({known[0]:g} … {known[-1]:g}). Charge and spin are not modelled; "
            "frames that differ only by them look the same to a model. Train on frames of one state."
        )
    rest = {state: values[0] for state, values in content.states.items() if state not in vary and len(values)}
    neutral = {"charge": 0.0, "spin": 0.0, "multiplicity": 1.0}
    odd = [f"{state} {value:g}" for state, value in rest.items() if not np.isnan(value) and value != neutral[state]]
    return (f"all frames have {' and '.join(odd)}: a model holds for this state only",) if odd else ()


def _missing(content: Content) -> tuple[str, ...]:
    """One note about frames without an energy, or without forces, where other frames have them."""
    frames = np.repeat(np.arange(len(content.counts)), content.counts)
    notes = []
    for kind, values in (("energy", content.energies), ("forces", content.forces)):
        if values is None:
            continue
        missing = np.isnan(values).reshape(len(values), -1).any(1).nonzero()[0]
        missing = missing if kind == "energy" else np.unique(frames[missing])
        if len(missing):
            first = ", ".join(map(str, content.rows[missing[:3]]))
            notes.append(f"{len(missing)} of {len(content.counts)} frames have no {kind} (first: {first})")
    return tuple(notes)


def _rare(structures: Structures) -> tuple[str, ...]:
    """One note about each element that is in very few structures."""
    if len(structures) < MANY_STRUCTURES:
        return ()
    from ase.data import chemical_symbols

    notes = []
    for element in structures.elements:
        n = len(structures.structure_of_atom[structures.numbers == element].unique())
        if n < FEW_STRUCTURES:
            notes.append(
                f"{chemical_symbols[element]} is in {n} of {len(structures):,} structures: a model learns little about "
                "it, and its errors are larger. Add structures with it, or leave these out"
            )
    return tuple(notes)


def _open_cells(structures: Structures, name: str) -> tuple[str, ...]:
    """One note about cells of structures that are not periodic; a warning if atoms fill them."""
    volumes = torch.linalg.det(structures.cells).abs()
    open_cell = (volumes > 0) & ~structures.periodic.any(1)
    n = int(open_cell.sum())
    if n == 0:
        return ()
    text = f'{n} of {len(structures)} frames have a cell but pbc="F F F": they are read as molecules without images'
    if bool((volumes[open_cell] / structures.counts[open_cell] < DENSE).any()):
        _warn(f'{name}: {text}, although atoms fill the cell. For a crystal or a liquid write pbc="T T T".')
        return ()
    return (text,)


def _distances(structures: Structures, name: str) -> None:
    """Warn if the atoms of no molecule are near each other."""
    single = ~structures.periodic.any(1) & (structures.counts > 1) & (structures.counts <= 500)
    candidates = single.nonzero()[:, 0]
    if len(candidates) < len(structures):
        return  # crystals, large structures and free atoms: the distances of some do not tell
    closest = float("inf")
    for s in candidates[torch.linspace(0, len(candidates) - 1, min(LOOKED_AT, len(candidates))).long()].tolist():
        positions = structures.positions[structures.offsets[s] : structures.offsets[s + 1]]
        closest = min(closest, float(torch.pdist(positions).min()))
    if closest > APART:
        _warn(
            f"{name}: no two atoms are closer than {closest:.3g} Å, so they do not interact. The coordinates may be in "
            "another unit: give --length-unit (length_unit= in Python)."
        )


def _zero_forces(structures: Structures, labels: Labels, name: str) -> None:
    """Refuse forces that are all zero, unless symmetry may demand it."""
    assert labels.forces is not None
    known = labels.forces[labels.forces.isfinite().all(1)]
    if len(known) == 0 or bool(known.any()) or int(structures.counts.max()) == 1:
        return
    text = (
        f"All forces of {name} are zero: they were probably not computed. Leave them out with --forces-key \"\" "
        '(forces_key="" in Python)'
    )  # fmt: skip
    if len(structures) > 1 and not bool(structures.periodic.any()):
        raise InputError(f"{text}.")
    _warn(f"{text}, unless symmetry makes them zero.")


def _held_atoms(structures: Structures, labels: Labels, name: str) -> None:
    """Warn if in most frames a few atoms have forces of exactly zero, as atoms that were held fixed do."""
    assert labels.forces is not None
    zero = (labels.forces == 0).all(1)
    in_frame = torch.zeros(len(structures), dtype=torch.long).index_add_(0, structures.structure_of_atom, zero.long())
    some = (in_frame > 0) & (2 * in_frame <= structures.counts)  # symmetry makes those of all atoms zero
    n = int(some.sum())
    if n < max(FEWEST_HELD, (len(structures) + 1) // 2):
        return
    frame = int(some.nonzero()[0, 0])
    atom = int(zero[structures.offsets[frame] : structures.offsets[frame + 1]].nonzero()[0, 0])
    _warn(
        f"{name}: in {n} of {len(structures)} frames some atoms have forces of exactly zero, such as atom {atom} of "
        f"frame {frame}. Atoms that were held fixed (FixAtoms of ASE) are written so, and a model learns that nothing "
        "pulls at them. Write the forces without constraints: atoms.get_forces(apply_constraint=False)."
    )
