"""Training learns what it is given: energies, forces, stress, any mix, and the same thing every time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import qml_lightning.machine.memory
from qml_lightning import evaluate, exact, fit
from qml_lightning.atoms.structures import Labels
from qml_lightning.datasets import Dataset
from qml_lightning.errors import InputError, ResourceError, SolveError
from qml_lightning.linear.normal_equations import Gram
from qml_lightning.model.recipe import AUTOMATIC, SolverSettings
from qml_lightning.training.rows import environments, rows_of_kind
from small_models import SMALL, argon, crystals, molecules, recipe


def _spread(data: Dataset) -> tuple[float, float]:
    """What the mean would err: energy and force MAE of a model that knows nothing."""
    energies, forces = data.labels.energies, data.labels.forces
    return float((energies - energies.mean()).abs().mean()), float(forces.abs().mean())


@pytest.mark.parametrize("targets", [("energies",), ("forces",), ("energies", "forces"), None])
def test_a_model_learns_from_whatever_labels_it_gets(targets):
    train, test = molecules(40), molecules(10, seed=1000)
    metrics = evaluate(fit(train, SMALL, targets=targets), test)
    energy, force = _spread(test)
    if targets == ("energies",):
        assert metrics.energy.mae < 0.5 * energy
    else:
        assert metrics.forces.mae < 0.3 * force
    if targets == ("forces",):  # the zero of energy is unknown, the shape is not
        prediction = fit(train, SMALL, targets=targets).predict(test.structures)
        assert np.corrcoef(prediction.energies, test.labels.energies)[0, 1] > 0.95


def test_stress_labels_improve_the_stress():
    train, test = crystals(30), crystals(10, seed=1000)
    without = evaluate(fit(train, SMALL, targets=("energies",)), test)
    with_stress = evaluate(fit(train, SMALL, targets=("energies", "stress")), test)
    assert with_stress.stress.mae < 0.5 * without.stress.mae


@pytest.mark.parametrize(
    "changes",
    [{"method": "rff"}, {"method": "orf"}, {"paired": True}, {"blocks": True}, {"chi_scaled": True},
     {"n_transforms": 3}, {"precision": "float32", "ridge": 1e-6}, {"blocks": True, "paired": True}],
    ids=str,
)  # fmt: skip
def test_every_feature_map_learns(changes):
    train, test = molecules(40), molecules(10, seed=1000)
    assert evaluate(fit(train, recipe(**changes)), test).forces.mae < 0.35 * _spread(test)[1]


def test_one_element_pads_the_representation_to_the_rank():
    train = argon(10)
    potential = fit(train, recipe(rank=64))
    assert potential.projection.matrices.shape[1] < 64
    assert evaluate(potential, train).forces.mae < 0.2 * _spread(train)[1]


def test_weights_solve_the_stated_least_squares_problem():
    """Rows from the design, weights by numpy's least squares: an independent end of the pipeline."""
    data = crystals(6)
    potential = fit(data, replace(SMALL, ridge=1e-4))
    basis = potential.on().basis
    structures, labels = data.structures, data.labels
    at = environments(basis, structures, ("forces", "stress"))
    size = structures.counts.double().sqrt()
    energy = rows_of_kind(basis, at, "energies") / size[:, None] * SMALL.energy_weight
    force = rows_of_kind(basis, at, "forces")
    virial = rows_of_kind(basis, at, "stress") / size.repeat_interleave(6)[:, None] * SMALL.stress_weight
    sigma = labels.stress * structures.volumes[:, None, None]
    voigt = torch.stack(
        [sigma[:, 0, 0], sigma[:, 1, 1], sigma[:, 2, 2], sigma[:, 1, 2], sigma[:, 0, 2], sigma[:, 0, 1]], 1
    )
    targets = [
        (labels.energies - potential.baseline.total(structures)) / size * SMALL.energy_weight,
        labels.forces.flatten(),
        voigt.flatten() / size.repeat_interleave(6) * SMALL.stress_weight,
    ]
    n = basis.n_weights
    z = torch.cat([energy, force, virial, 1e-2 * torch.eye(n, dtype=torch.float64)]).numpy()
    y = torch.cat([*targets, torch.zeros(n, dtype=torch.float64)]).numpy()
    expected = np.linalg.lstsq(z, y, rcond=None)[0]
    assert np.abs(potential.weights.numpy() - expected).max() <= 1e-6 * np.abs(expected).max()


def test_prediction_is_the_design_times_the_weights():
    data = crystals(4)
    potential = fit(data, SMALL)
    basis = potential.on().basis
    at = environments(basis, data.structures, ("forces", "stress"))
    prediction = potential.predict(data.structures)
    learnt = rows_of_kind(basis, at, "energies") @ potential.weights + potential.baseline.total(data.structures)
    assert torch.allclose(prediction.energies, learnt, rtol=0, atol=1e-9)
    forces = rows_of_kind(basis, at, "forces") @ potential.weights
    assert torch.allclose(prediction.forces.flatten(), forces, rtol=0, atol=1e-9)
    virial = (rows_of_kind(basis, at, "stress") @ potential.weights).view(-1, 6)
    assert torch.allclose(prediction.stress[:, 1, 2], virial[:, 3] / data.structures.volumes, rtol=0, atol=1e-10)


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not():
    data = molecules(10)
    one, two, other = (fit(data, replace(SMALL, seed=seed)) for seed in (3, 3, 4))
    assert torch.equal(one.weights, two.weights)
    assert torch.equal(one.projection.matrices, two.projection.matrices)
    assert not torch.equal(one.weights, other.weights)


def test_few_rows_and_many_features_go_through_the_dual_form_with_the_same_result(monkeypatch):
    # 5 × (1 + 27) = 140 rows against 256 features: dual; the primal form must agree
    data = molecules(5)
    settings = replace(SMALL, ridge=1e-4)
    dual = fit(data, settings)
    monkeypatch.setattr(
        "qml_lightning.training.equations.equations_for", lambda rows, n, device, n_targets: Gram(n, device, n_targets)
    )
    primal = fit(data, settings)
    assert torch.allclose(dual.weights, primal.weights, rtol=1e-6, atol=1e-9)


def test_the_iteration_finds_the_direct_solution():
    data, test = molecules(30), molecules(10, seed=1000)
    settings = recipe(n_features=1024, ridge=1e-4)
    direct = fit(data, settings)
    solver = SolverSettings("iterative", preconditioner_features=512, held_out=0.0, tolerance=1e-9)
    iterative = fit(data, replace(settings, solver=solver))
    assert iterative.provenance.solution["converged"] == "residual below the tolerance"
    one, two = direct.predict(test.structures), iterative.predict(test.structures)
    assert (one.forces - two.forces).abs().max() < 1e-5 * one.forces.abs().max()


def test_the_iteration_stops_by_itself_on_held_out_structures():
    data, test = molecules(60), molecules(10, seed=1000)
    solver = SolverSettings("iterative", preconditioner_features=512, held_out=0.1, tolerance=1e-12)
    potential = fit(data, recipe(n_features=1024, ridge=1e-4, solver=solver))
    assert potential.provenance.solution["held_out_structures"] == 6
    assert potential.provenance.targets["energies"] == 54
    assert evaluate(potential, test).forces.mae < 0.3 * _spread(test)[1]


def test_an_iteration_that_does_not_converge_is_refused_with_the_remedy():
    solver = SolverSettings("iterative", preconditioner_features=32, held_out=0.0, tolerance=1e-12, most_iterations=3)
    with pytest.raises(SolveError, match="has not converged after 3 steps"):
        fit(molecules(30), recipe(n_features=1024, ridge=1e-8, solver=solver))


def test_structures_without_some_label_still_teach_the_others():
    data = molecules(30)
    forces = data.labels.forces.clone()
    forces[: 9 * 15] = torch.nan
    energies = data.labels.energies.clone()
    energies[20:] = torch.nan
    potential = fit(Dataset(data.structures, Labels(energies, forces), data.source), SMALL)
    assert potential.provenance.targets == {"energies": 20, "forces": 15 * 27}
    assert evaluate(potential, molecules(10, seed=1000)).forces.mae < 0.5 * _spread(data)[1]


def test_given_reference_energies_are_used():
    given = {1: -1.0, 6: -2.0, 8: -3.0}
    potential = fit(molecules(5), SMALL, reference_energies=given)
    assert potential.baseline.energies.tolist() == [-1.0, -2.0, -3.0]


def test_more_energy_weight_gives_better_energies_on_the_training_set():
    data = molecules(40)
    light, heavy = (evaluate(fit(data, replace(SMALL, energy_weight=w)), data) for w in (0.1, 100.0))
    assert heavy.energy.mae < light.energy.mae
    assert light.forces.mae < heavy.forces.mae


def test_what_is_missing_is_named():
    data = molecules(3)
    with pytest.raises(InputError, match="Wanted to train on stress; the labels that there are: energies, forces"):
        fit(data, SMALL, targets=("stress",))
    with pytest.raises(InputError, match="Stress alone"):
        fit(crystals(3), SMALL, targets=("stress",))


def test_too_little_memory_is_told_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(qml_lightning.machine.memory, "available_memory", lambda: 1024)
    with pytest.raises(ResourceError, match=r"256 weights, even out of core, needs .* GiB and 0\.00 GiB are free"):
        fit(molecules(3), SMALL)


def test_no_ridge_at_all_says_which_ridge_would_do():
    with pytest.raises(SolveError, match="A ridge of"):
        fit(argon(20), recipe(ridge=0.0, n_features=1024))


def test_settings_by_name_are_those_of_a_recipe():
    data = molecules(8)
    given = fit(data, SMALL, n_features=512, sigma=3.0, cutoff=4.0, seed=2, solver="direct")
    features = replace(SMALL.features, n_features=512, sigma=3.0)
    solver = replace(SMALL.solver, method="direct")
    same = replace(SMALL, features=features, representation=SMALL.representation.within(4.0), seed=2, solver=solver)
    assert given.recipe == same
    assert torch.equal(given.weights, fit(data, same).weights)


def test_a_setting_that_is_given_is_not_chosen_from_the_data():
    search = AUTOMATIC.changed({"sigma": 5.0, "n_features": 512, "cutoff": 5.0})
    assert search.start.features.sigma == 5.0
    assert search.free == ("energy_weight", "rank", "class_spread", "ridge", "blocks")


def test_settings_that_a_recipe_does_not_have_are_refused():
    with pytest.raises(InputError, match="no n_features"):
        fit(molecules(4), exact.OQML, n_features=512)
    with pytest.raises(InputError, match="no representation 'nonsense'"):
        fit(molecules(4), SMALL, representation="nonsense")
    with pytest.raises(TypeError, match="fit has no option n_feature"):
        fit(molecules(4), SMALL, n_feature=512)


def test_structures_of_ase_are_fitted_and_judged_without_a_data_set():
    from ase.build import molecule
    from ase.calculators.emt import EMT

    frames = []
    for k in range(6):
        atoms = molecule("CH3CH2OH")
        atoms.rattle(0.05, seed=k)
        atoms.calc = EMT()
        atoms.get_forces()
        frames.append(atoms)
    potential = fit(frames, SMALL)
    assert evaluate(potential, frames).forces.n == 3 * 9 * 6
