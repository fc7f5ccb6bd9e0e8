"""A potential as a torch module: energies, gradients by autograd, operators that torch.compile takes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from qml_lightning import fit
from qml_lightning.errors import InputError
from qml_lightning.model.representations.density import Density
from small_models import crystals, molecules, recipe

DOUBLE = torch.float64
DENSITY = Density(cutoff=4.5, density_cutoff=4.0, n_pair=5, n_radial=4, n_channels=16)


@pytest.fixture(scope="module")
def molecular():
    data = molecules(12)
    return fit(data, recipe(n_features=128)), data.structures


@pytest.fixture(scope="module")
def crystalline():
    data = crystals(8)
    return fit(data, recipe(n_features=128)), data.structures


@pytest.fixture(scope="module")
def with_everything():
    """The density, weights of its own for each element, a committee, repulsion and crowding."""
    data = molecules(8)
    potential = fit(data, recipe(n_features=64, representation=DENSITY, blocks=True), committee=4)
    assert potential.repulsion is not None
    return potential, data.structures


def arguments(structures, index):
    """Arguments of the module for some structures."""
    part = structures.select(index)
    return part.positions.clone(), part.numbers, part.cells.clone(), part.structure_of_atom, part.periodic


def test_energies_and_gradients_are_those_of_a_prediction(molecular):
    potential, structures = molecular
    positions, *rest = arguments(structures, [0, 3, 5])
    positions.requires_grad_()
    found = potential.predict(structures.select([0, 3, 5]))
    energies = potential.module()(positions, *rest)
    torch.testing.assert_close(energies, found.energies, rtol=0, atol=1e-12)
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)
    (weights * energies).sum().backward()
    expected = -found.forces * weights[rest[2]][:, None]
    torch.testing.assert_close(positions.grad, expected, rtol=0, atol=1e-12)


def test_one_molecule_needs_positions_and_numbers_alone(molecular):
    potential, structures = molecular
    positions, numbers, *_ = arguments(structures, [1])
    assert torch.equal(potential.module()(positions, numbers), potential.predict(structures.select([1])).energies)


@pytest.mark.parametrize("which", ["positions", "cells"])
def test_gradients_by_positions_and_cells_are_finite_differences(crystalline, which):
    potential, structures = crystalline
    module = potential.module()
    positions, numbers, cells, batch, periodic = arguments(structures, [0, 2])
    given = {"positions": positions, "cells": cells}
    given[which].requires_grad_()
    weights = torch.tensor([1.0, 3.0], dtype=DOUBLE)

    def total() -> torch.Tensor:
        return (weights * module(positions, numbers, cells, batch, periodic)).sum()

    total().backward()
    slope = given[which].grad
    for place in [(0, 1), (3, 2)] if which == "positions" else [(0, 0, 0), (1, 2, 1), (1, 0, 2)]:
        ends = []
        for by in (-1e-4, 1e-4):
            with torch.no_grad():
                given[which][place] += by
                ends.append(float(total()))
                given[which][place] -= by
        assert float(slope[place]) == pytest.approx((ends[1] - ends[0]) / 2e-4, rel=1e-5, abs=1e-6)


def test_operators_pass_the_checks_of_torch(molecular, crystalline, with_everything):
    for potential, structures in (molecular, crystalline, with_everything):
        module = potential.module()
        positions, numbers, cells, batch, periodic = arguments(structures, [0, 1])
        given = (positions.requires_grad_(), cells.requires_grad_(), numbers, batch, periodic, module._number)
        torch.library.opcheck(torch.ops.qml_lightning.energies.default, given, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("closer", [1.0, 0.5], ids=["as learnt", "too close and too crowded"])
@pytest.mark.parametrize("model", ["molecular", "with_everything"])
def test_it_compiles_into_one_graph_with_what_stands_around_it(model, closer, request):
    potential, structures = request.getfixturevalue(model)
    module = potential.module()
    positions, *rest = arguments(structures, [0, 1])
    positions *= closer

    def loss(x: torch.Tensor) -> torch.Tensor:
        return (module(2 * x - x, *rest) ** 2).sum() + x.sum()

    slopes = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        x = positions.clone().requires_grad_()
        function(x).backward()
        slopes.append(x.grad)
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-12, atol=1e-9)
    assert torch._dynamo.explain(loss)(positions).graph_break_count == 0


def test_second_derivatives_are_refused_and_not_zero(molecular):
    potential, structures = molecular
    positions, numbers, *_ = arguments(structures, [0])
    positions.requires_grad_()
    energy = potential.module()(positions, numbers).sum()
    (slope,) = torch.autograd.grad(energy, positions, create_graph=True)
    with pytest.raises(InputError, match="first derivatives"):
        slope.square().sum().backward()


def test_copies_and_pickles_serve(molecular):
    potential, structures = molecular
    module = potential.module()
    positions, numbers, *_ = arguments(structures, [0])
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(positions, numbers), module(positions, numbers))


def test_wrong_arguments_are_told(molecular):
    potential, structures = molecular
    module = potential.module()
    positions, numbers, cells, batch, _ = arguments(structures, [0, 1])
    with pytest.raises(InputError, match="one atomic number for each"):
        module(positions, numbers[:-1])
    with pytest.raises(InputError, match="batch must ascend"):
        module(positions, numbers, cells, batch.flip(0), torch.zeros(2, 3, dtype=torch.bool))
    with pytest.raises(InputError, match="zeros for molecules"):
        module(positions, numbers, batch=batch)
    with pytest.raises(InputError, match="not among those of the model"):
        module(positions, torch.full_like(numbers, 17))


def test_a_batch_of_copies_relaxes_under_a_torch_optimizer(molecular):
    potential, structures = molecular
    module = potential.module()
    positions, *rest = arguments(structures, [0, 1, 2])
    positions.requires_grad_()
    optimizer = torch.optim.SGD([positions], lr=0.002)
    totals = []
    for _ in range(5):
        optimizer.zero_grad()
        total = module(positions, *rest).sum()
        total.backward()
        optimizer.step()
        totals.append(float(total.detach()))
    assert all(np.diff(totals) < 0)
