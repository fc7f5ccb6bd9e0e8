"""Linked cells find the pairs that vesin finds, to the bit, wherever the positions are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule
from ase.neighborlist import neighbor_list
from scipy.spatial import cKDTree

from qml_lightning.atoms import linked_cells, neighbours
from qml_lightning.atoms.neighbours import Pairs, SkinnedPairs, check_distances, pairs_within
from qml_lightning.atoms.structures import Structures, structures_from_ase
from qml_lightning.errors import InputError
from structures_for_tests import kinds, rattled


def zoo() -> dict[str, Atoms]:
    """Structures of every kind, also those on which a cell list stumbles."""
    crowd = rattled(bulk("Cu", cubic=True) * (3, 3, 3), 5)  # 108 atoms, hundreds of neighbours
    far = crowd.copy()
    far.positions += np.random.default_rng(6).integers(-3, 4, (len(far), 3)) @ far.cell.array
    drop = rattled(Atoms("He343", np.stack(np.meshgrid(*[np.arange(7.0) * 2.1] * 3), -1).reshape(-1, 3)), 7)
    half = crowd.copy()
    half.pbc = [True, False, True]
    return {
        **kinds(),
        "lone atom": Atoms("He", [[3.0, -2.0, 1e5]]),
        "lone atom in a cell": Atoms("He", cell=np.eye(3) * 2.2, pbc=True),
        "dimer": Atoms("HF", [[0, 0, 0], [0, 0, 0.92]]),
        "dimer in a wide box": Atoms("HF", [[0, 0, 49.9], [0, 0, 0.4]], cell=np.eye(3) * 50, pbc=True),
        "hundreds of neighbours": crowd,
        "atoms of other images": far,
        "open along one direction": half,
        "large molecule": drop,
        "perfect crystal": bulk("NaCl", "rocksalt", a=5.6, cubic=True) * (3, 3, 3),
        "thin and skewed": Atoms(
            "Si2", [[0, 0, 0], [1.2, 1.3, 1.1]], cell=[[9, 0, 0], [7, 2.5, 0], [6, 1, 2.6]], pbc=True
        ),
    }


@pytest.fixture
def linked(monkeypatch):
    """Call a function as on a device that vesin does not know."""

    def call(function, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(neighbours, "VESIN_ON", ())
            return function(*arguments)

    return call


def equal(found: Pairs, wanted: Pairs) -> bool:
    """Whether both have the same segments, and the same pairs in them to the bit; their order in a segment is free."""
    one, other = (np.column_stack([p.centre, p.neighbour, p.shift, p.vector]) for p in (found, wanted))
    one, other = (rows[np.lexsort(rows.T[:5])] for rows in (one, other))
    return torch.equal(found.segments, wanted.segments) and np.array_equal(one, other)


@pytest.mark.parametrize("cutoff", [2.5, 5.6, 6.0, 8.5])
@pytest.mark.parametrize("kind", zoo())
def test_pairs_are_those_of_vesin_to_the_bit(kind, cutoff, linked):
    structures = structures_from_ase(zoo()[kind])
    given = (structures, cutoff, structures.elements)
    assert equal(linked(pairs_within, *given), pairs_within(*given))


@pytest.mark.parametrize("most", [2**22, 20_000, 1])
def test_a_mixed_batch_has_the_pairs_of_vesin_in_any_number_of_parts(most, linked, monkeypatch):
    frames = [*zoo().values(), *(rattled(molecule("CH3CH2OH"), seed) for seed in range(3))]
    structures = structures_from_ase(frames if most > 1 else frames[:5])
    monkeypatch.setattr(linked_cells, "MOST_CANDIDATES", most)
    given = (structures, 5.0, structures.elements)
    assert equal(linked(pairs_within, *given), pairs_within(*given))


@pytest.mark.parametrize("seed", range(40))
def test_random_cells_have_the_pairs_of_vesin(seed, linked):
    random = np.random.default_rng(seed)
    periodic = random.random(3) < 0.6
    cell = np.diag(random.uniform(2.0, 14.0, 3)) + random.normal(scale=0.5, size=(3, 3))
    n = 1 + int(0.1 * abs(np.linalg.det(cell)))
    atoms = Atoms(f"Ar{n}", random.uniform(-0.5, 1.5, (n, 3)) @ cell, cell=cell, pbc=periodic)
    i, j = neighbor_list("ij", atoms, 0.3)
    del atoms[sorted(set(j[i < j].tolist()))]
    structures = structures_from_ase(atoms)
    given = (structures, float(random.uniform(1.0, 5.0)), structures.elements)
    assert equal(linked(pairs_within, *given), pairs_within(*given))


@pytest.mark.parametrize("far", [[900.0, -2e4, 3.0], [5e3, 5e3, 0.0], [3.0, 0.0, 8e5]])
@pytest.mark.parametrize("cutoff", [1.5, 6.0])
def test_flat_structures_of_any_extent_have_their_pairs_on_every_device(far, cutoff, linked):
    """vesin ended the process with a division by zero."""
    atoms = rattled(zoo()["large molecule"], 3)
    atoms.positions[::2] += far
    structures = structures_from_ase(atoms)
    wanted = cKDTree(atoms.positions).query_pairs(cutoff)
    both = {(i, j) for i, j in wanted} | {(j, i) for i, j in wanted}
    for pairs in (pairs_within(structures, cutoff, (2,)), linked(pairs_within, structures, cutoff, (2,))):
        assert set(zip(pairs.centre.tolist(), pairs.neighbour.tolist(), strict=True)) == both
        assert len(pairs.centre) == len(both)


def test_nothing_has_no_pairs(linked):
    nothing = Structures(
        torch.zeros(0, dtype=torch.int64),
        torch.zeros(0, 3, dtype=torch.float64),
        torch.zeros(1, dtype=torch.int64),
        torch.zeros(0, 3, 3, dtype=torch.float64),
        torch.zeros(0, 3, dtype=torch.bool),
    )
    assert equal(linked(pairs_within, nothing, 5.0, (1,)), pairs_within(nothing, 5.0, (1,)))


def test_a_kept_list_gives_the_pairs_of_the_moment(linked):
    before = structures_from_ase([kinds()["slab"], kinds()["molecule"]])
    after = structures_from_ase([rattled(kinds()["slab"], 8, 0.05), rattled(kinds()["molecule"], 9, 0.05)])
    kept = linked(SkinnedPairs.of, before, 4.0, 1.0, before.elements)
    assert kept.serve(after)
    assert equal(kept.now(after), pairs_within(after, 4.0, after.elements))


def test_two_atoms_on_one_spot_are_refused_by_name_as_elsewhere(linked):
    structures = structures_from_ase([Atoms("H"), Atoms("HeH2", [[2, 0, 0], [0, 0, 0], [0, 0, 0.01]])])
    for call in (lambda: linked(pairs_within, structures, 6.0, (1, 2)), lambda: linked(check_distances, structures)):
        with pytest.raises(InputError, match=r"Structure 1: atoms 1 and 2 are 0.01 Å apart"):
            call()
