"""Elements that are in very few structures are told when a data set is read."""

from __future__ import annotations

from ase import Atoms

from qml_lightning.datasets import from_ase


def molecules(n_water: int, n_ammonia: int) -> list[Atoms]:
    water = Atoms("OH2", [[0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]])
    ammonia = Atoms("NH3", [[0, 0, 0.1], [0, 0.94, -0.3], [0.81, -0.47, -0.3], [-0.81, -0.47, -0.3]])
    frames = [water.copy() for _ in range(n_water)] + [ammonia.copy() for _ in range(n_ammonia)]
    for k, atoms in enumerate(frames):
        atoms.rattle(0.01, seed=k)
        atoms.info["energy"] = float(k)
    return frames


def test_an_element_in_very_few_structures_is_told():
    (note,) = from_ase(molecules(60, 2)).source.notes
    assert note.startswith("N is in 2 of 62 structures")


def test_elements_of_a_small_or_balanced_set_are_not():
    assert not from_ase(molecules(20, 2)).source.notes
    assert not from_ase(molecules(60, 20)).source.notes
