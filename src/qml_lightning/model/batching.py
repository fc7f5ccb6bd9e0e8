"""Portions: runs of structures that are worked on at once, as many as the memory of the device holds."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..atoms.cells import expected_neighbours
from ..atoms.structures import Structures, batches
from ..machine.memory import room_on
from .basis import ReadyBasis

# Part of the free memory of a device that a portion may take.
PART = 4
# Bytes of a pair: indices, shift and vector in float64, once as found and once as sorted, with what marks and sorts
# them; vector and gradient as the kernels have them. Candidates that are no pairs have a bound of their own.
PAIR_BYTES = 400
# Arrays of the size of a representation, of a projected environment and of a projected Jacobian that there are at once.
REPRESENTATIONS, PROJECTED, JACOBIANS = 3, 8, 4


def portions(
    basis: ReadyBasis, structures: Structures, most_atoms: int, *, tangents: bool = False, more: int = 0
) -> Iterator[Tensor]:
    """Indices of the structures of each portion that is worked on at once.

    In the memory of the host a portion has up to `most_atoms` atoms. A device with a memory of its own is faster with
    larger portions: there it has as many as fit in a part of the free memory. `tangents`: whether projected Jacobians
    are formed. `more`: further bytes for each atom.
    """
    room = room_on(basis.device)
    if room is None:
        return batches(structures.counts, most_atoms)
    return batches(bytes_of(basis, structures, tangents=tangents, more=more), max(1, room // PART))


def bytes_of(basis: ReadyBasis, structures: Structures, *, tangents: bool = False, more: int = 0) -> Tensor:
    """Bytes of each structure while its environments are worked on, (structures,) float64."""
    number = torch.finfo(basis.projections.dtype).bits // 8
    _, size, rank = basis.projections.shape
    pair = PAIR_BYTES + (JACOBIANS * 3 * rank * number if tangents else 0)
    atom = number * (REPRESENTATIONS * size + PROJECTED * rank) + more
    return structures.counts * (atom + pair * expected_neighbours(structures, basis.arguments.cutoff))
