"""Reference energies come back where compositions tell them, and stay tame where they do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase.build import molecule

from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.errors import InputError
from qml_lightning.model.baseline import Baseline, fit_baseline, given_baseline

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
    baseline = fit_baseline(structures, _energies(structures), (1, 6, 8))
    assert baseline.energies.tolist() == pytest.approx([TRUE[1], TRUE[6], TRUE[8]])


def test_a_single_molecule_shares_its_energy_out_and_reproduces_the_total():
    structures = _molecules(["CH3CH2OH"] * 3)
    baseline = fit_baseline(structures, _energies(structures), (1, 6, 8))
    assert baseline.total(structures).tolist() == pytest.approx(_energies(structures).tolist())
    assert bool((baseline.energies <= 0).all())


def test_structures_without_an_energy_do_not_count():
    structures = _molecules(["CH4", "H2O", "CO2", "CH3OH", "H2", "CO"])
    energies = _energies(structures)
    energies[5] = np.nan
    assert fit_baseline(structures, energies, (1, 6, 8)).energies.tolist() == pytest.approx(list(TRUE.values()))


def test_without_energies_the_baseline_is_zero():
    assert fit_baseline(_molecules(["CH4"]), None, (1, 6)).energies.tolist() == [0.0, 0.0]


def test_atoms_add_up_to_the_total():
    structures = _molecules(["CH4", "CO2"])
    baseline = Baseline((1, 6, 8), torch.tensor(list(TRUE.values()), dtype=torch.float64))
    assert baseline.per_atom(structures).sum() == pytest.approx(float(baseline.total(structures).sum()))


def test_a_missing_reference_energy_is_named():
    with pytest.raises(InputError, match=r"missing for the atomic numbers \[6\]"):
        given_baseline({1: -13.6}, (1, 6))
