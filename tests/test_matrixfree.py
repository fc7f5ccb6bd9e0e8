"""Products without rows are the products with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernel_tables import ON_CPU
from qml_lightning.baseline import fit_baseline
from qml_lightning.basis import draw, make_basis
from qml_lightning.datasets import Dataset
from qml_lightning.design import labelled_rows, targets_of
from qml_lightning.matrixfree import matrix_free
from qml_lightning.structures import Labels
from small_models import crystals, recipe


def _prepared(name: str, chosen):
    data = crystals(5)
    energies = data.labels.energies.clone()
    energies[2] = torch.nan  # a label that is not known
    data = Dataset(data.structures, Labels(energies, data.labels.forces, data.labels.stress), data.source)
    structures = data.structures
    projection, maps = draw(structures, chosen, np.random.default_rng(0))
    basis = make_basis(structures.elements, chosen, projection, maps, "cpu", name)
    targets = targets_of(structures, data.labels, fit_baseline(structures, energies, structures.elements))
    return basis, structures, targets


def _dense(basis, structures, targets, chosen):
    """Rows and targets with their weights, kind after kind."""
    rows = {kind: [] for kind in targets}
    values = {kind: [] for kind in targets}
    for kind, z, y, _ in labelled_rows(
        basis,
        structures,
        targets,
        chosen.size_exponent,
        lambda kind, n: torch.full((min(n, 10), basis.n_weights), torch.nan, dtype=torch.float64),  # ten rows at a time
        weight_of=chosen.weight_of,
    ):
        rows[kind].append(z)
        values[kind].append(y)
    return torch.cat([torch.cat(z) for z in rows.values()]), torch.cat([torch.cat(y) for y in values.values()])


@pytest.mark.parametrize("name", ON_CPU)
@pytest.mark.parametrize("changes", [{}, {"paired": True}, {"blocks": True}, {"method": "orf"}], ids=str)
def test_products_are_those_of_the_rows(changes, name, monkeypatch):
    import qml_lightning.matrixfree as module

    monkeypatch.setattr(module, "ATOMS_AT_ONCE", 9)  # several batches
    chosen = recipe(**changes)
    basis, structures, targets = _prepared(name, chosen)
    operator, y = matrix_free(basis, structures, targets, chosen)
    z, expected_y = _dense(basis, structures, targets, chosen)
    known = operator.factor != 0
    assert torch.allclose(y[known], expected_y)
    assert int((~known).sum()) == 1
    random = np.random.default_rng(1)
    weights = torch.from_numpy(random.normal(size=operator.n_columns))
    assert torch.allclose(operator.times(weights)[known], z @ weights, atol=1e-10)
    v = torch.from_numpy(random.normal(size=operator.n_rows))
    assert torch.allclose(operator.transposed_times(v), z.T @ v[known], atol=1e-10)


def test_the_first_features_alone_are_the_rows_of_a_smaller_map():
    chosen = recipe(n_features=512)
    basis, structures, targets = _prepared("reference", chosen)
    operator, _ = matrix_free(basis, structures, targets, chosen)
    small = operator.with_first(128)
    weights = torch.from_numpy(np.random.default_rng(1).normal(size=128))
    wide = torch.zeros(512, dtype=torch.float64)
    wide[:128] = weights * 2.0  # √(512/128): the amplitude of a map of 128 features
    assert torch.allclose(small.times(weights), operator.times(wide), atol=1e-10)
