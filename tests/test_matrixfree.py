"""Products without rows are the products with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernel_tables import ON_CPU
from qml_lightning.atoms.structures import Labels
from qml_lightning.datasets import Dataset
from qml_lightning.model.baseline import fit_baseline
from qml_lightning.model.basis import draw, make_basis
from qml_lightning.training.row_operator import matrix_free
from qml_lightning.training.rows import labelled_rows, targets_of
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
    import qml_lightning.training.row_operator as module

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
    v = torch.from_numpy(random.normal(size=len(operator.factor)))
    assert torch.allclose(operator.transposed_times(v), z.T @ v[known], atol=1e-10)


@pytest.mark.parametrize("changes", [{}, {"paired": True}, {"blocks": True, "paired": True}])
def test_the_parts_of_the_features_make_up_the_whole(changes):
    chosen = recipe(n_features=512, **changes)
    basis, structures, targets = _prepared("reference", chosen)
    operator, _ = matrix_free(basis, structures, targets, chosen)
    parted = operator.parted(128)
    random = np.random.default_rng(1)
    small, rest = (torch.from_numpy(random.normal(size=part.n_columns)) for part in (parted.small, parted.rest))
    whole = parted.joined(small * parted.share**0.5, rest * (1 - parted.share) ** 0.5)
    together = parted.share * parted.small.times(small) + (1 - parted.share) * parted.rest.times(rest)
    assert torch.allclose(operator.times(whole), together, atol=1e-10)
    v = torch.from_numpy(random.normal(size=len(operator.factor)))
    parts = (
        parted.small.transposed_times(v) * parted.share**0.5,
        parted.rest.transposed_times(v) * (1 - parted.share) ** 0.5,
    )
    assert torch.allclose(operator.transposed_times(v), parted.joined(*parts), atol=1e-10)
    assert operator.parted(512).rest is None
