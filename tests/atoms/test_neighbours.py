"""Pairs of atoms are those that ASE's own neighbour list finds, in every kind of cell."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.neighborlist import neighbor_list

from qml_lightning.atoms.neighbours import pairs_within
from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.errors import InputError
from structures_for_tests import kinds, rattled


def _as_set(i, j, shift):
    return sorted(map(tuple, np.column_stack([i, j, shift]).astype(int).tolist()))


@pytest.mark.parametrize("cutoff", [2.5, 6.0, 9.0])
@pytest.mark.parametrize("kind", kinds())
def test_pairs_are_those_of_ase(kind, cutoff):
    atoms = kinds()[kind]
    structures = structures_from_ase(atoms)
    pairs = pairs_within(structures, cutoff, structures.elements)
    i, j, shift, vector = neighbor_list("ijSD", atoms, cutoff)
    assert _as_set(pairs.centre, pairs.neighbour, pairs.shift) == _as_set(i, j, shift)
    assert np.allclose(np.sort(pairs.vector.norm(dim=1)), np.sort(np.linalg.norm(vector, axis=1)))


def test_a_batch_gives_the_pairs_of_each_structure_and_no_pair_between_them():
    frames = list(kinds().values())
    structures = structures_from_ase(frames)
    pairs = pairs_within(structures, 5.0, structures.elements)
    owner = structures.structure_of_atom
    assert torch.equal(owner[pairs.centre], owner[pairs.neighbour])
    for s, atoms in enumerate(frames):
        assert int((owner[pairs.centre] == s).sum()) == len(neighbor_list("i", atoms, 5.0))


def test_pairs_are_sorted_by_centre_and_element_as_the_segments_say():
    structures = structures_from_ase(list(kinds().values()))
    elements = structures.elements
    pairs = pairs_within(structures, 5.0, elements)
    assert int(pairs.segments[-1]) == len(pairs.centre)
    for atom in range(structures.n_atoms):
        for e, number in enumerate(elements):
            first, last = pairs.segments[atom * len(elements) + e : atom * len(elements) + e + 2]
            assert (pairs.centre[first:last] == atom).all()
            assert (structures.numbers[pairs.neighbour[first:last]] == number).all()


def test_pairs_of_a_longer_cutoff_cut_down_are_the_pairs_of_the_shorter():
    structures = structures_from_ase(list(kinds().values()))
    cut = pairs_within(structures, 6.0, structures.elements).within(4.0)
    direct = pairs_within(structures, 4.0, structures.elements)
    assert torch.equal(cut.segments, direct.segments)
    assert _as_set(cut.centre, cut.neighbour, cut.shift) == _as_set(direct.centre, direct.neighbour, direct.shift)


def test_a_large_molecule_and_a_small_one_are_treated_alike():
    large = rattled(Atoms("He125", np.stack(np.meshgrid(*[np.arange(5.0) * 2] * 3), -1).reshape(-1, 3)))
    structures = structures_from_ase(large)
    pairs = pairs_within(structures, 4.0, (2,))
    i, j = neighbor_list("ij", large, 4.0)
    assert sorted(zip(pairs.centre.tolist(), pairs.neighbour.tolist())) == sorted(zip(i.tolist(), j.tolist()))


def test_a_lone_atom_has_no_neighbours():
    pairs = pairs_within(structures_from_ase(Atoms("He")), 6.0, (2,))
    assert len(pairs.centre) == 0
    assert pairs.segments.tolist() == [0, 0]


def test_two_atoms_on_one_spot_are_refused_by_name():
    structures = structures_from_ase([Atoms("H"), Atoms("H2")])
    with pytest.raises(InputError, match=r"Structure 1: atoms 0 and 1 are 0 Å apart"):
        pairs_within(structures, 6.0, (1,))


def test_an_element_that_is_not_there_is_named():
    with pytest.raises(InputError, match="Elements O are not among those of the model, H"):
        pairs_within(structures_from_ase(Atoms("OH", [[0, 0, 0], [0, 0, 1]])), 6.0, (1,))
