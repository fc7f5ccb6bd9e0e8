"""Reference energies come back where compositions tell them, and stay tame where they do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule

from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.errors import InputError
from qml_lightning.model.baseline import Baseline, found_baseline, given_baseline

TRUE = {1: -13.6, 6: -1029.0, 8: -2042.0}


def _molecules(names):
    return structures_from_ase([molecule(name) for name in names])


def _energies(structures):
    return torch.tensor(
        [
            sum(TRUE[int(z)] for z in structures.numbers[a:b])
            for a, b in zip(structures.offsets, structures.offsets[1:])
        ],
        dtype=torch.float64,
    )


def test_reference_energies_are_found_from_different_compositions():
    structures = _molecules(["CH4", "H2O", "CO2", "CH3OH", "H2"])
    baseline = found_baseline(structures, _energies(structures), (1, 6, 8)).baseline
    assert baseline.energies.tolist() == pytest.approx([TRUE[1], TRUE[6], TRUE[8]])


def test_a_single_molecule_shares_its_energy_out_and_reproduces_the_total():
    structures = _molecules(["CH3CH2OH"] * 3)
    baseline = found_baseline(structures, _energies(structures), (1, 6, 8)).baseline
    assert baseline.total(structures).tolist() == pytest.approx(_energies(structures).tolist())
    assert bool((baseline.energies <= 0).all())


def test_structures_without_an_energy_do_not_count():
    structures = _molecules(["CH4", "H2O", "CO2", "CH3OH", "H2", "CO"])
    energies = _energies(structures)
    energies[5] = np.nan
    assert found_baseline(structures, energies, (1, 6, 8)).baseline.energies.tolist() == pytest.approx(
        list(TRUE.values())
    )


def test_without_energies_the_baseline_is_zero():
    assert found_baseline(_molecules(["CH4"]), None, (1, 6)).baseline.energies.tolist() == [0.0, 0.0]


def test_atoms_add_up_to_the_total():
    structures = _molecules(["CH4", "CO2"])
    baseline = Baseline((1, 6, 8), torch.tensor(list(TRUE.values()), dtype=torch.float64))
    assert baseline.per_atom(structures).sum() == pytest.approx(float(baseline.total(structures).sum()))


def test_a_missing_reference_energy_is_named():
    with pytest.raises(InputError, match=r"missing for the atomic numbers \[6\]"):
        given_baseline({1: -13.6}, (1, 6))


@pytest.mark.parametrize("in_a_box", [False, True])
def test_free_atoms_in_the_data_are_the_reference_energies(in_a_box):
    names = ["CH4", "H2O", "CO2", "CH3OH", "H2"]
    free = [Atoms(symbol, [[0, 0, 0]], cell=[10, 10, 10] if in_a_box else None, pbc=in_a_box) for symbol in "HCO"]
    structures = structures_from_ase([*(molecule(name) for name in names), *free])
    energies = _energies(structures)
    energies[:5] -= 4.0 * structures.counts[:5]  # molecules are bound: least squares would share this out
    found = found_baseline(structures, energies, (1, 6, 8))
    assert found.baseline.energies.tolist() == list(TRUE.values())
    assert found.fixed
    assert found.words == "free atoms of the data (H, C, O)"


def test_an_element_without_a_free_atom_has_least_squares_beside_the_others():
    structures = structures_from_ase([molecule("CH4"), molecule("CO2"), molecule("H2O"), Atoms("H")])
    found = found_baseline(structures, _energies(structures), (1, 6, 8))
    assert found.baseline.energies.tolist() == pytest.approx(list(TRUE.values()))
    assert found.words == "free atoms of the data (H), others by least squares"


def test_one_atom_in_a_small_cell_is_a_crystal_and_no_free_atom():
    structures = structures_from_ase([bulk("Cu", a=a) for a in (3.5, 3.6, 3.7)])
    energies = torch.tensor([-3.4, -3.5, -3.3], dtype=torch.float64)
    found = found_baseline(structures, energies, (29,))
    assert not found.fixed
    assert float(found.baseline.energies) == pytest.approx(-3.4)


def test_one_energy_that_is_far_off_does_not_move_the_reference_energies():
    structures = _molecules(["CH4", "H2O", "CO2", "CH3OH", "H2"] * 40)
    energies = _energies(structures) + 0.05 * torch.from_numpy(np.random.default_rng(0).normal(size=200))
    clean = found_baseline(structures, energies, (1, 6, 8)).baseline
    energies[17] += 500.0
    found = found_baseline(structures, energies, (1, 6, 8))
    assert found.baseline.energies.tolist() == pytest.approx(clean.energies.tolist(), abs=2e-3)
    assert "1 energies that are far off do not count" in found.words


def test_a_part_of_the_structures_with_high_energies_counts_like_the_rest():
    structures = _molecules(["CH4", "H2O"] * 50)
    energies = _energies(structures) + 0.05 * torch.from_numpy(np.random.default_rng(0).normal(size=100))
    energies[:10] += 30.0  # strained, not wrong
    found = found_baseline(structures, energies, (1, 6, 8))
    counts = Baseline.composition(structures, (1, 6, 8)) / structures.counts[:, None]
    wanted = torch.linalg.lstsq(counts, (energies / structures.counts)[:, None], driver="gelsd").solution[:, 0]
    assert found.baseline.energies.tolist() == pytest.approx(wanted.tolist())
    assert not found.fixed


def test_one_composition_is_told_to_give_no_single_reference_energies():
    structures = _molecules(["CH3CH2OH"] * 3)
    assert "single values have no meaning" in found_baseline(structures, _energies(structures), (1, 6, 8)).words
    structures = _molecules(["CH4", "H2O", "CO2", "CH3OH"])
    assert found_baseline(structures, _energies(structures), (1, 6, 8)).words == "least squares"


@pytest.mark.parametrize("energies", [{1: np.inf}, {1: -13.6, 119: 0.0}])
def test_reference_energies_that_cannot_be_are_refused(energies):
    with pytest.raises(InputError, match=r"Wanted reference energies in eV by atomic number"):
        given_baseline(energies, (1,))


def test_free_atoms_with_another_zero_are_not_used_and_told():
    free = structures_from_ase([molecule("CH4"), molecule("H2O"), molecule("CH3OH"), *map(Atoms, "HCO")])
    energies = _energies(free)
    energies[3:] = 0.0  # as some programs count from free atoms
    with pytest.warns(UserWarning, match=r"free atoms of the data \(H, C, O\) are not used.* eV per atom"):
        found = found_baseline(free, energies, (1, 6, 8))
    assert not found.fixed
