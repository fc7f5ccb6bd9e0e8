"""Cells that no search for neighbours would survive are refused in words; all others are searched."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk
from ase.neighborlist import neighbor_list

import qml_lightning as qml
from qml_lightning.atoms.cells import check_cells
from qml_lightning.atoms.neighbours import check_distances, pairs_within
from qml_lightning.atoms.structures import Structures, structures_from_ase
from qml_lightning.errors import InputError
from small_models import crystals, recipe
from structures_for_tests import kinds

FLAT = [[10, 0, 0], [10, 1e-5, 0], [0, 0, 10]]
BAD = [
    (FLAT, r"No matter is so dense"),
    (1e-3 * np.eye(3), r"No matter is so dense"),
    (0.2 * np.eye(3), r"1 atoms in a cell of 0.008 Å³ would have 268,083 neighbours each within 8 Å"),
    ([[10, 0, 0], [2e4, 1e-2, 0], [0, 0, 10]], r"nearly flat or very skewed|does not span"),
    (1e200 * np.eye(3), r"a cell of 1e\+200 Å, more than 1e\+06 Å"),
    (1e9 * np.eye(3), r"a cell of 1e\+09 Å, more than"),
    (np.full((3, 3), np.nan), r"a cell that is NaN or infinite"),
]


@pytest.mark.parametrize(("cell", "says"), BAD)
def test_a_cell_that_cannot_be_searched_is_refused_in_words(cell, says):
    with pytest.raises(InputError, match=says):
        pairs_within(structures_from_ase(Atoms("H", [[0, 0, 0]], cell=cell, pbc=True)), 8.0, (1,))


def test_the_structure_is_named_by_its_number_in_the_whole_set():
    frames = [bulk("Cu"), bulk("Cu"), Atoms("Cu", [[0, 0, 0]], cell=FLAT, pbc=True)]
    with pytest.raises(InputError, match=r"Structure 2: the cell"):
        check_distances(structures_from_ase(frames))


def test_prediction_refuses_such_cells_on_every_path():
    potential = qml.fit(crystals(4), recipe(n_features=64))
    bad = Structures(
        torch.tensor([29]),
        torch.zeros(1, 3, dtype=torch.float64),
        torch.tensor([0, 1]),
        0.15 * torch.eye(3, dtype=torch.float64)[None],
        torch.ones(1, 3, dtype=torch.bool),
    )
    for kernels in (None, "reference"):
        with pytest.raises(InputError, match=r"No matter is so dense"):
            potential.on("cpu", kernels=kernels).predict(bad)


def test_thousands_of_atoms_on_one_spot_are_refused():
    crowd = np.random.default_rng(0).uniform(0, 1, (3000, 3))
    with pytest.raises(InputError, match=r"3,000 atoms stand in a cube of 1.5 Å"):
        check_cells(structures_from_ase(Atoms("H3000", crowd)), 8.0)


@pytest.mark.parametrize("name", kinds())
def test_every_usual_kind_of_cell_is_searched_and_has_the_pairs_of_ase(name):
    atoms = kinds()[name]
    structures = structures_from_ase(atoms)
    pairs = pairs_within(structures, 8.0, structures.elements)
    assert len(pairs.centre) == len(neighbor_list("i", atoms, 8.0))


def test_dense_matter_that_exists_is_searched():
    diamond = structures_from_ase(bulk("C", a=2.6))  # three times as dense as diamond
    check_cells(diamond, 12.0)
