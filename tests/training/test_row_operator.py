"""Products without rows are the products with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernel_tables import ON_CPU
from qml_lightning.atoms.structures import Labels
from qml_lightning.datasets import Dataset
from qml_lightning.machine.compute import Compute
from qml_lightning.model.basis import Basis
from qml_lightning.training.problem import Problem
from qml_lightning.training.row_operator import matrix_free
from qml_lightning.training.rows import Pass, write_rows
from small_models import crystals, recipe


def _prepared(name: str, chosen):
    data = crystals(5)
    energies = data.labels.energies.clone()
    energies[2] = torch.nan  # a label that is not known
    data = Dataset(data.structures, Labels(energies, data.labels.forces, data.labels.stress), data.source)
    basis = Basis.draw(data.structures, chosen).ready(Compute(kernels=name))
    return basis, Problem.of(data)


class _Listed:
    """A place that takes ten rows at a time, and keeps them in a list."""

    def __init__(self, n_columns):
        self.n_columns, self.rows, self.targets = n_columns, [], []

    def room(self, n):
        self.rows.append(torch.full((min(n, 10), self.n_columns), torch.nan, dtype=torch.float64))
        return self.rows[-1]

    def take(self, targets):
        self.targets.append(targets)


def _dense(basis, problem, chosen):
    """Rows and targets with their weights, kind after kind."""
    places = {kind: _Listed(basis.n_weights) for kind in problem.targets}
    *_, done = write_rows(basis, problem, chosen, places.__getitem__, Pass(weighted=True))
    assert done == len(problem.structures)
    rows, targets = ([x for place in places.values() for x in getattr(place, name)] for name in ("rows", "targets"))
    return torch.cat(rows), torch.cat(targets)


@pytest.mark.parametrize("name", ON_CPU)
@pytest.mark.parametrize("changes", [{}, {"paired": True}, {"blocks": True}, {"method": "orf"}], ids=str)
def test_products_are_those_of_the_rows(changes, name, monkeypatch):
    import qml_lightning.training.environments as module

    monkeypatch.setattr(module, "ATOMS_AT_ONCE", 9)  # several batches
    chosen = recipe(**changes)
    basis, problem = _prepared(name, chosen)
    operator, y = matrix_free(basis, problem, chosen)
    z, expected_y = _dense(basis, problem, chosen)
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
    operator, _ = matrix_free(*_prepared("reference", chosen), chosen)
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
