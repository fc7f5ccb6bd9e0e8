"""Fingerprints of geometries find a structure again, whatever its labels and rounding."""

from __future__ import annotations

from dataclasses import replace

import torch

from qml_lightning import load_dataset
from qml_lightning.atoms.fingerprints import geometry_fingerprints, repeats_in, shared_with


def test_a_structure_keeps_its_fingerprint_when_coordinates_are_written_with_eight_digits():
    structures = load_dataset("ethanol:train@0:50").structures
    rounded = replace(structures, positions=(structures.positions * 1e8).round() / 1e8)
    moved = replace(structures, positions=structures.positions + 0.01)
    own = geometry_fingerprints(structures)
    assert len(shared_with(geometry_fingerprints(rounded), own)) == 50
    assert len(shared_with(geometry_fingerprints(moved), own)) == 0


def test_other_elements_or_another_cell_make_another_structure():
    structures = load_dataset("ethanol:train@0:3").structures
    numbers, cells = structures.numbers.clone(), structures.cells.clone()
    numbers[0] = 7
    cells[1], periodic = 20.0 * torch.eye(3, dtype=torch.float64), structures.periodic.clone()
    periodic[1] = True
    changed = replace(structures, numbers=numbers, cells=cells, periodic=periodic)
    assert shared_with(geometry_fingerprints(changed), geometry_fingerprints(structures)).tolist() == [2]


def test_every_repetition_is_told_with_its_first_occurrence():
    found = repeats_in(torch.tensor([5, 7, 5, 9, 7, 5]))
    assert found.first.tolist() == [0, 1, 0]
    assert found.again.tolist() == [2, 4, 5]
