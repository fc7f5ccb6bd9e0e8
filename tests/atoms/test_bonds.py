"""Bonding classes of atoms."""

import numpy as np
import torch
from ase.build import bulk, molecule

from qml_lightning.atoms.bonds import bonding_classes
from qml_lightning.atoms.structures import structures_from_ase


def test_atoms_of_one_element_with_other_bonds_are_of_other_classes():
    ethanol = structures_from_ase(molecule("CH3CH2OH"))
    classes = bonding_classes(ethanol, ethanol.elements)
    carbon, hydrogen = classes[ethanol.numbers == 6], classes[ethanol.numbers == 1]
    assert len(carbon.unique()) == 2  # CH₃ and CH₂
    assert hydrogen.unique(return_counts=True)[1].sort().values.tolist() == [1, 5]  # on O, on C


def test_atoms_of_benzene_are_of_one_class_each_also_when_they_move():
    benzene = molecule("C6H6")
    benzene.positions += np.random.default_rng(0).normal(0, 0.03, benzene.positions.shape)
    structures = structures_from_ase(benzene)
    classes = bonding_classes(structures, structures.elements)
    assert all(len(classes[structures.numbers == z].unique()) == 1 for z in (1, 6))


def test_classes_are_those_of_the_same_atoms_in_a_supercell_and_in_a_batch():
    cell = bulk("Si", cubic=True)
    several = structures_from_ase([cell, cell * (2, 1, 1)])
    assert len(bonding_classes(several, several.elements).unique()) == 1


def test_an_atom_alone_has_a_class():
    atom = structures_from_ase(molecule("O"))
    assert torch.equal(bonding_classes(atom, (8,)), torch.zeros(1, dtype=torch.int64))
