"""An iteration whose sums are pairs of float32 gives the potential of float64 sums."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from qml_lightning import fit
from qml_lightning.kernels import kernels_for, reference
from qml_lightning.kernels.reference import pairs
from qml_lightning.linear import normal_equations
from qml_lightning.machine.compute import Compute
from qml_lightning.model.recipe import SolverSettings
from qml_lightning.training.problem import Problem
from qml_lightning.training.row_operator import matrix_free
from small_models import molecules, recipe

ITERATIVE = SolverSettings("iterative", preconditioner_features=64, held_out=0.2)


def given(accumulation: str):
    solver = replace(ITERATIVE, accumulation=accumulation)
    return recipe(n_features=256, precision="float32", ridge=1e-6, solver=solver)


@pytest.fixture(scope="module")
def fits():
    data = molecules(24)
    return data, {how: fit(data, given(how), kernels="reference") for how in ("float64", "compensated")}


def test_the_report_tells_which_sums_there_were(fits):
    _, found = fits
    for how, potential in found.items():
        assert potential.provenance.solution["accumulation"] == how
    assert found["compensated"].provenance.plan["sums"] == "pairs of float32: the recipe asks for it"


def test_predictions_are_those_of_float64_sums(fits):
    data, found = fits
    one, other = (found[how].predict(data.structures) for how in ("compensated", "float64"))
    scale = other.forces.abs().max()
    assert (one.forces - other.forces).abs().max() < 1e-5 * scale
    assert len(found["compensated"].provenance.solution["history"]) == len(
        found["float64"].provenance.solution["history"]
    )


def test_the_small_model_of_an_iteration_in_pairs_comes_from_slices_of_float32(monkeypatch):
    used = []
    for how, product in normal_equations.PRODUCTS.items():
        noted = lambda *given, how=how, product=product: (used.append(how), product(*given))  # noqa: E731
        monkeypatch.setitem(normal_equations.PRODUCTS, how, noted)
    for how in ("float64", "compensated"):
        del used[:]
        fit(molecules(8), given(how), kernels="reference")
        assert set(used) == {how}


def test_a_model_of_pairs_predicts_in_float64_too(fits):
    data, found = fits
    one, other = (found[how].on(precision="float64").predict(data.structures) for how in ("compensated", "float64"))
    assert (one.energies - other.energies).abs().max() < 1e-5


def test_products_in_pairs_are_a_million_times_closer_to_float64_than_those_in_float32(fits):
    data, found = fits
    potential = found["float64"]
    basis = potential.basis.ready(Compute(kernels="reference"))
    problem = Problem.of(data)
    exact, _ = matrix_free(basis, problem, given("float64"))
    assert exact.sums is reference
    in_pairs, _ = matrix_free(basis, problem, given("compensated"))
    assert in_pairs.sums is pairs
    w = potential.weights
    plain = replace(exact, sums=Narrow())
    v = exact.times(w)
    for product, argument in (("times", w), ("transposed_times", v)):
        wanted, close, far = (getattr(rows, product)(argument) for rows in (exact, in_pairs, plain))
        assert float((close - wanted).norm()) < 1e-6 * float((far - wanted).norm())


class Narrow:
    """The functions of the reference with everything in float32."""

    def __getattr__(self, name: str):
        def called(*arguments):
            narrow = (one.float() if torch.is_tensor(one) and one.is_floating_point() else one for one in arguments)
            found = getattr(reference, name)(*(torch.float32 if one is torch.float64 else one for one in narrow))
            return tuple(one.double() for one in found) if isinstance(found, tuple) else found.double()

        return called


def test_the_cpu_takes_plain_kernels_for_pairs_unless_others_are_named():
    data = molecules(8)
    found = fit(data, replace(given("compensated"), features=replace(given("compensated").features, n_features=64)))
    assert found.provenance.solution["accumulation"] == "compensated"
    assert kernels_for("cpu", torch.float32, "reference") is reference
