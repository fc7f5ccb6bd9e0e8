"""Linked cells find the pairs that vesin finds, in the same order and to the bit, wherever the positions are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule

from operators_for_tests import Waits
from qml_lightning.atoms import linked_cells, neighbours
from qml_lightning.atoms.neighbours import SkinnedPairs, check_distances, pairs_within
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
    apart = drop.copy()
    apart.positions[::2] += [900.0, -2e4, 3.0]
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
        "two drops far apart": apart,
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


def equal(found, wanted) -> bool:
    return all(torch.equal(getattr(found, name), getattr(wanted, name)) for name in vars(wanted))


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


@pytest.mark.parametrize("seed", range(25))
def test_random_cells_have_the_pairs_of_vesin(seed, linked):
    random = np.random.default_rng(seed)
    n, periodic = int(random.integers(1, 220)), random.random(3) < 0.6
    cell = np.diag(random.uniform(2.0, 14.0, 3)) + random.normal(scale=0.8, size=(3, 3))
    points = random.uniform(-0.5, 1.5, (4 * n, 3)) @ cell
    atoms = Atoms(f"Ar{len(points)}", points, cell=cell, pbc=periodic)
    near = pairs_closer_than(atoms, 0.3)
    del atoms[sorted({int(j) for i, j in near if i <= j})]
    if len(atoms):
        structures = structures_from_ase(atoms)
        given = (structures, float(random.uniform(1.0, 6.0)), structures.elements)
        assert equal(linked(pairs_within, *given), pairs_within(*given))


def pairs_closer_than(atoms: Atoms, cutoff: float) -> np.ndarray:
    from ase.neighborlist import neighbor_list

    return np.column_stack(neighbor_list("ij", atoms, cutoff))


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


def test_a_list_of_molecules_waits_once_and_one_of_cells_twice_for_the_device(linked):
    """Once for the number of pairs, and before that for the number of candidates if there are several bins.

    The host's own work (elements, cells, sizes) is done before: only what comes after the first bin counts.
    """
    for names, wanted in ((("molecule", "dimer"), 1), (("skewed cell", "slab"), 1), (("perfect crystal",), 2)):
        structures = structures_from_ase([zoo()[name] for name in names])
        plan = linked_cells.Grid.of(structures, 5.0)
        at = linked_cells._Binned.of(structures, plan)
        blocks, known = int(plan.blocks[structures.structure_of_atom].sum()), plan.known[structures.structure_of_atom]
        exact = int(known.sum()) if bool((known > 0).all()) else None
        structures.structure_of_atom  # noqa: B018 (made on the host)
        with Waits() as waits:
            found = at.candidates(0, structures.n_atoms, blocks, exact)
            n = sum(waits.found.values())
        with Waits() as more:
            neighbours._near(structures, structures, found, 5.0)
        # reading several counts at once is one copy; the mode sees one item for each
        assert n == wanted - 1
        assert set(more.found) <= {"_local_scalar_dense", "is_nonzero"}
