"""Cells: bounds on periodic images and neighbours, told in words before any search."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from .structures import Structures

# An atom with more neighbours than this stands in no matter that exists: it would be fifty times as dense as diamond.
MOST_NEIGHBOURS = 20_000
# Images of a cell within the cutoff. More: the cell is nearly flat, or very skewed.
MOST_IMAGES = 300_000
# Atoms in a cube of this edge, where nothing is periodic.
CUBE, MOST_IN_CUBE = 1.5, 2000  # Å
_CUBES = 2**21  # along a direction, at most: no coordinate is beyond a million Å


def check_cells(structures: Structures, cutoff: float, first: int = 0) -> None:
    """Raise an InputError if a search for neighbours would not end: cells that are tiny, nearly flat or overfull.

    `first` is the number that the error gives to the first structure.
    """
    periodic: np.ndarray = structures.periodic.numpy()
    if periodic.any():
        rows = np.flatnonzero(periodic.any(1))
        cells, counts = structures.cells.numpy()[rows], structures.counts.numpy()[rows]
        images, neighbours = _images(cells, periodic[rows], cutoff), _neighbours(cells, periodic[rows], counts, cutoff)
        if (neighbours > MOST_NEIGHBOURS).any():
            s = int((neighbours > MOST_NEIGHBOURS).argmax())
            raise InputError(
                f"Structure {first + rows[s]}: {counts[s]} atoms in a cell of {_volume(cells[s]):.3g} Å³ would have "
                f"{neighbours[s]:,.0f} neighbours each within {cutoff:.3g} Å. No matter is so dense: check the cell "
                "and its unit of length."
            )
        if (images > MOST_IMAGES).any():
            s = int((images > MOST_IMAGES).argmax())
            raise InputError(
                f"Structure {first + rows[s]}: the cell {cells[s].round(6).tolist()} has {images[s]:,.0f} images "
                f"within {cutoff:.3g} Å: it is nearly flat or very skewed. Check it, or reduce it (ASE: "
                "ase.build.niggli_reduce)."
            )
    _check_crowds(structures, first)


def _images(cells: np.ndarray, periodic: np.ndarray, cutoff: float) -> np.ndarray:
    """Number of images of each cell that a sphere of radius `cutoff` can reach, (cells,).

    Cells whose periodic vectors are not independent count as 1: the neighbour list refuses them with an error.
    """
    _, heights = heights_of(cells, periodic)
    images: np.ndarray = np.where(periodic, 2 * np.ceil(cutoff / heights) + 1, 1.0).prod(1)
    return np.where(np.isnan(images), math.inf, images)


def heights_of(cells: np.ndarray, periodic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverse of each cell, (cells, 3, 3), and its extent across the other two lattice vectors in Å, (cells, 3).

    Directions that are not periodic have unit vectors in place of lattice vectors, and so have flat cells.
    """
    filled = _filled(cells, periodic)
    with np.errstate(all="ignore"):
        flat = np.linalg.det(filled) == 0
        inverse: np.ndarray = np.linalg.inv(np.where(flat[:, None, None], np.eye(3), filled))
        return inverse, 1 / np.sqrt((inverse * inverse).sum(1))


def _neighbours(cells: np.ndarray, periodic: np.ndarray, counts: np.ndarray, cutoff: float) -> np.ndarray:
    """Mean number of atoms within `cutoff` of an atom, where three directions are periodic; else 0, (cells,)."""
    with np.errstate(all="ignore"):
        sphere = 4 / 3 * math.pi * cutoff**3
        found: np.ndarray = counts * sphere / np.abs(np.linalg.det(cells))
    return np.where(periodic.all(1), np.where(np.isnan(found), math.inf, found), 0.0)


def expected_neighbours(structures: Structures, cutoff: float) -> Tensor:
    """Neighbours of an atom of each structure within `cutoff`, (structures,) float64: about as many, or more.

    All other atoms of a molecule. In a cell also those of its images: as many as fill the sphere evenly.
    """
    cells, periodic, counts = structures.cells.numpy(), structures.periodic.numpy(), structures.counts.numpy()
    _, heights = heights_of(cells, periodic)
    # a sphere meets this many cells; along other directions there is one
    images = np.where(periodic, 2 * cutoff / heights, 1.0).prod(1) * (math.pi / 6) ** (periodic.sum(1) == 3)
    return torch.from_numpy(counts * np.maximum(1.0, images))


def _filled(cells: np.ndarray, periodic: np.ndarray) -> np.ndarray:
    """Cells whose other directions are unit vectors across the periodic ones."""
    some = np.asarray(periodic.any(1))
    out: np.ndarray = np.where(some[:, None, None], np.where(periodic[..., None], cells, 0.0), np.eye(3))
    for s in np.flatnonzero(some & ~periodic.all(1)):
        known = periodic[s]
        out[s, ~known] = np.linalg.svd(out[s])[2][known.sum() :]  # rows that are orthogonal to all lattice vectors
    return out


def _volume(cell: np.ndarray) -> float:
    return float(abs(np.linalg.det(cell)))


def _check_crowds(structures: Structures, first: int) -> None:
    """Refuse large structures with thousands of atoms on almost one spot."""
    for s in (structures.counts > MOST_IN_CUBE).nonzero()[:, 0].tolist():
        x, y, z = (structures.positions[structures.offsets[s] : structures.offsets[s + 1]] / CUBE).floor().long().T
        cubes = ((x * _CUBES + y) * _CUBES + z).sort().values
        if bool((cubes[MOST_IN_CUBE:] == cubes[:-MOST_IN_CUBE]).any()):
            atoms = int(cubes.unique(return_counts=True)[1].max())
            raise InputError(
                f"Structure {first + s}: {atoms:,} atoms stand in a cube of {CUBE} Å. No matter is so dense: "
                "check the coordinates and their unit of length."
            )
