"""Fingerprints of structures without their labels: they tell whether two files share a structure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from .structures import Structures

GRID = 1e-3  # Å: files that round coordinates differently share a structure still; steps of dynamics are larger


def geometry_fingerprints(structures: Structures) -> Tensor:
    """64 bits for elements, coordinates and cell of each structure, (structures,) int64."""
    numbers, periodic = structures.numbers.numpy(), structures.periodic.numpy()
    positions, cells = (np.rint(x.numpy() / GRID).astype(np.int64) for x in (structures.positions, structures.cells))
    out = np.empty(len(structures), np.int64)
    for s, (first, last) in enumerate(pairwise(structures.offsets.tolist())):
        digest = hashlib.blake2b(digest_size=8)
        # a cell that is not periodic changes nothing
        for values in (numbers[first:last], positions[first:last], periodic[s], cells[s] * periodic[s][:, None]):
            digest.update(np.ascontiguousarray(values).tobytes())
        out[s] = np.frombuffer(digest.digest(), np.int64)[0]
    return torch.from_numpy(out)


@dataclass(frozen=True)
class Repeats:
    """Structures of a set that occur before in the same set."""

    first: Tensor  # (repeats,) number of the first occurrence
    again: Tensor  # (repeats,) number of the repetition

    def __len__(self) -> int:
        return len(self.again)


def repeats_in(fingerprints: Tensor) -> Repeats:
    """All repetitions in a list of fingerprints, in order."""
    known: dict[int, int] = {}
    pairs = [(known[p], s) for s, p in enumerate(fingerprints.tolist()) if known.setdefault(p, s) != s]
    table = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
    return Repeats(table[:, 0], table[:, 1])


def shared_with(fingerprints: Tensor, known: Tensor) -> Tensor:
    """Numbers of the structures whose fingerprints are among the known ones."""
    return torch.isin(fingerprints, known).nonzero()[:, 0]
