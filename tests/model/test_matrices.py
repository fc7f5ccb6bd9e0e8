"""Environments and features of a potential as matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase.build import molecule

from qml_lightning import fit
from small_models import crystals, molecules, recipe


@pytest.mark.parametrize("blocks", [False, True])
def test_features_times_weights_are_the_energy_past_the_references(blocks):
    data = crystals(6)
    potential = fit(data, recipe(blocks=blocks), repulsion=False)
    features = potential.features(data.structures)
    assert features.shape == (6, len(potential.weights))
    learnt = features @ potential.weights + potential.baseline.total(data.structures)
    np.testing.assert_allclose(learnt, potential.predict(data.structures).energies, rtol=0, atol=1e-9)


def test_environments_have_a_row_for_each_atom_and_do_not_change_by_rotation():
    potential = fit(molecules(5), recipe())
    atoms = molecule("CH3CH2OH")
    turned = atoms.copy()
    turned.rotate(50, (1, 2, 3))
    one, other = potential.environments(atoms), potential.environments([turned, turned])
    assert one.shape == (9, 32)
    assert other.shape == (18, 32)
    torch.testing.assert_close(one, other[:9])
    torch.testing.assert_close(one, other[9:])
