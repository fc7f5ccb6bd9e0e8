"""Uncertainties: a committee from every solver, its calibration, its file, and its predictions in every back-end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from ase.build import molecule

from qml_lightning import fit, load, recipes
from qml_lightning.atoms.neighbours import element_indices
from qml_lightning.errors import InputError
from qml_lightning.kernels.native.predictor import NativePredictor
from qml_lightning.linear.posterior import Calibration
from qml_lightning.machine.compute import Compute
from qml_lightning.model.committee import Committee, committee_columns, committee_features
from qml_lightning.model.recipe import SolverSettings
from qml_lightning.training.outputs import Keep
from qml_lightning.training.problem import Problem
from qml_lightning.training.solvers.direct import solved
from qml_lightning.training.sweep import equations_of
from qml_lightning.training.uncertainty import _calibrating, _groups, _rows_of, _with_calibrations
from small_models import crystals, molecules, recipe

ITERATIVE = SolverSettings("iterative", preconditioner_features=256, held_out=0.25, tolerance=1e-4)
DIRECT = recipe(n_features=256, ridge=1e-4)
SOLVERS = {
    "direct": DIRECT,
    "dual": recipe(n_features=2048, ridge=1e-4),
    "iterative": recipe(n_features=512, ridge=1e-4, solver=ITERATIVE),
    "paired": recipe(n_features=512, ridge=1e-4, paired=True, precision="float32"),
    "blocks": recipe(n_features=256, ridge=1e-4, blocks=True),
    "iterative blocks": recipe(n_features=512, ridge=1e-4, solver=ITERATIVE, blocks=True),
}


@pytest.fixture(scope="module")
def fitted():
    data = molecules(60)
    return {name: fit(data, settings, committee=8) for name, settings in SOLVERS.items()}


@pytest.mark.parametrize("name", SOLVERS)
def test_a_committee_leaves_the_weights_as_they_are(name, fitted):
    assert torch.equal(fitted[name].weights, fit(molecules(60), SOLVERS[name]).weights)
    assert len(fitted[name].committee) == 8


@pytest.mark.parametrize("name", SOLVERS)
def test_errors_on_new_structures_lie_within_the_intervals(name, fitted):
    new = molecules(60, seed=500)
    found = fitted[name].predict(new.structures, uncertainty=True)
    of_forces = (found.forces - new.labels.forces).abs() / found.force_uncertainty[:, None]
    of_energies = (found.energies - new.labels.energies).abs() / found.energy_uncertainty
    # few structures calibrate these fits
    for normalised, allowed in ((of_forces, 0.15), (of_energies, 0.25)):
        for k, part in ((1, 0.683), (2, 0.954)):
            assert float((normalised < k).double().mean()) == pytest.approx(part, abs=allowed)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_back_end_tells_the_same_uncertainty_and_a_file_keeps_it(name, fitted, tmp_path):
    potential, new = fitted[name], molecules(5, seed=500).structures
    found = potential.predict(new, uncertainty=True)
    plain = potential.on(kernels="reference", precision="float64").predict(new, uncertainty=True)
    potential.save(str(tmp_path / "model"))
    again = load(tmp_path / "model").predict(new, uncertainty=True)
    without = potential.predict(new)
    assert torch.equal(found.forces, without.forces)
    assert torch.equal(found.atom_energies, without.atom_energies)
    for field in ("energy_uncertainty", "atom_energy_uncertainty", "force_uncertainty"):
        mine, wanted = getattr(found, field), getattr(plain, field)
        assert float((mine - wanted).abs().max()) < 0.02 * float(wanted.mean()), field
        assert torch.equal(mine, getattr(again, field))
        assert getattr(without, field) is None


@pytest.mark.parametrize("n_structures", [1, 5])
@pytest.mark.parametrize("paired", [False, True])
def test_members_of_an_explicit_map_are_those_of_the_reference(paired, n_structures):
    data = molecules(20)
    potential = fit(data, recipe(n_features=200, method="rff", ridge=1e-4, paired=paired), committee=5)
    new = molecules(n_structures, seed=500).structures
    found = potential.on(precision="float64").predict(new, uncertainty=True)
    wanted = potential.on(kernels="reference", precision="float64").predict(new, uncertainty=True)
    for field in ("energy_uncertainty", "atom_energy_uncertainty", "force_uncertainty"):
        torch.testing.assert_close(getattr(found, field), getattr(wanted, field), rtol=1e-7, atol=1e-10)


def test_forces_of_members_are_those_of_models_with_other_weights(fitted):
    potential, structures = fitted["direct"], crystals(1).structures
    potential = fit(crystals(12), recipe(n_features=256, ridge=1e-4), committee=4)
    committee = potential.committee
    members = [replace(potential, weights=potential.weights + one, committee=None) for one in committee.deviations]
    base = potential.predict(structures)
    forces = torch.stack([member.predict(structures).forces - base.forces for member in members[:2]])
    energies = torch.stack([member.predict(structures).atom_energies - base.atom_energies for member in members])
    found = potential.predict(structures, uncertainty=True)
    wanted = committee.of_forces(forces, structures.numbers), committee.of_atom_energies(energies)
    torch.testing.assert_close(found.force_uncertainty, wanted[0], rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(found.atom_energy_uncertainty, wanted[1], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("representation", [recipes.FCHL19.representation, recipes.DEFAULT.representation])
@pytest.mark.parametrize("force_members", [0, 1, 2, 5])
def test_any_number_of_members_share_one_pass_back(representation, force_members, fitted):
    """Cotangents are taken three or four at once, and a pass of several is that of each alone."""
    settings = replace(recipe(n_features=256, ridge=1e-4), representation=representation)
    potential, structures = fit(molecules(12), settings, committee=5), molecules(3, seed=500).structures
    potential = replace(potential, committee=replace(potential.committee, force_members=force_members))
    committee = potential.committee
    members = [replace(potential, weights=potential.weights + one, committee=None) for one in committee.deviations]
    base = potential.on(precision="float64").predict(structures)
    found = potential.on(precision="float64").predict(structures, uncertainty=True)
    assert torch.equal(found.forces, base.forces)
    if force_members == 0:
        assert bool(found.force_uncertainty.isnan().all())
        return
    of_members = [member.on(precision="float64").predict(structures).forces for member in members[:force_members]]
    wanted = committee.of_forces(torch.stack(of_members) - base.forces, structures.numbers)
    torch.testing.assert_close(found.force_uncertainty, wanted, rtol=1e-7, atol=1e-10)


def test_every_part_of_a_calibration_counts_in_the_library_too(fitted, tmp_path):
    calibrations = {"energies": Calibration(1.7, 0.03, 0.8), "forces": Calibration(1.3, 0.02, 0.7)}
    of_elements = {1: Calibration(0.6, 0.05, 0.9)}
    committee = fitted["direct"].committee
    committee = replace(committee, calibrations=calibrations, of_elements=of_elements, size_exponent=0.5)
    potential, new = replace(fitted["direct"], committee=committee), molecules(3, seed=500).structures
    wanted = potential.on(kernels="reference", precision="float64").predict(new, uncertainty=True)
    potential.save(str(tmp_path / "model"))
    found = potential.on(kernels="native", precision="float64").predict(new, uncertainty=True)
    given = new.offsets, element_indices(new.numbers, potential.elements), new.positions, new.cells, new.periodic
    reader = NativePredictor.load(tmp_path / "model", torch.float64)
    _, of_file = reader.predict_uncertain(*given, forces=True, virial=False)
    names = "energy_uncertainty", "atom_energy_uncertainty", "force_uncertainty"
    for name, read in zip(names, of_file, strict=True):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(read, getattr(wanted, name), rtol=1e-9, atol=1e-12)


def test_many_members_tell_the_exact_variance_of_the_posterior():
    data, settings = molecules(30), recipe(n_features=256, ridge=1e-4)
    potential = fit(data, settings, committee=64)
    committee, problem = potential.committee, Problem.of(data)
    basis = potential.basis.ready(Compute())
    rows, _ = _rows_of(basis, problem, settings)
    # the shift of the posterior is at least the ridge, and the same for all members
    energies = rows[: len(data)]
    sampled = (energies @ committee.deviations.T).square().mean(1)
    whole = rows.T @ rows
    exact = [
        torch.einsum("ij,jk,ik->i", energies, torch.linalg.inv(whole + shift * torch.eye(256)), energies)
        for shift in np.logspace(-6, 2, 60)
    ]
    ratio = min(abs(float((sampled / one).mean()) - 1) for one in exact)
    assert ratio < 0.1
    best = min(exact, key=lambda one: abs(float((sampled / one).mean()) - 1))
    assert float((sampled / best - 1).abs().mean()) < 0.25  # √(2 / 64) and some


def test_far_structures_are_more_uncertain_than_near_ones(fitted):
    near = molecules(10, seed=500)
    far = molecule("CH3CH2OH")
    far.set_distance(2, 3, 2.5, fix=0)  # the O-H bond
    for name in ("dual", "iterative", "paired"):
        known = fitted[name].predict(near.structures, uncertainty=True)
        unknown = fitted[name].predict(far, uncertainty=True)
        assert float(unknown.energy_uncertainty) > 1.8 * float(known.energy_uncertainty.mean()), name
        assert float(unknown.force_uncertainty.max()) > 1.4 * float(known.force_uncertainty.mean()), name


def test_columns_of_a_committee_are_the_first_features_of_each_map():
    assert committee_columns(4, 8, 16, paired=True).tolist() == [0, 1, 4, 5, 8, 9, 12, 13]
    assert committee_columns(4, 8, 8, paired=False).tolist() == [0, 1, 2, 3]


def test_small_models_have_small_committees_of_whole_blocks():
    assert [committee_features(n, 128) for n in (256, 2048, 4096, 65536)] == [256, 512, 1024, 1024]
    assert committee_features(2048, 512) == 1024


def test_the_noise_of_an_energy_grows_with_the_number_of_atoms():
    calibrations = {"energies": Calibration(2.0, 0.1), "forces": Calibration(1.0, 0.0)}
    committee = Committee(torch.zeros(4, 8), 8, 2, 0.5, calibrations)
    members = torch.zeros(4, 2, dtype=torch.float64)
    found = committee.of_energies(members, torch.tensor([4, 16]))
    torch.testing.assert_close(found, torch.tensor([0.2, 0.4], dtype=torch.float64))


def test_a_model_file_keeps_the_power_of_a_calibration(fitted, tmp_path):
    calibrations = {"energies": Calibration(2.0, 0.1), "forces": Calibration(1.5, 0.01, 0.6)}
    of_elements = {1: Calibration(1.0, 0.02, 0.7), 8: Calibration(3.0, 0.0)}
    committee = replace(fitted["direct"].committee, calibrations=calibrations, of_elements=of_elements)
    replace(fitted["direct"], committee=committee).save(str(tmp_path / "model"))
    again = load(tmp_path / "model").committee
    assert (again.calibrations, again.of_elements) == (calibrations, of_elements)
    header = committee.header()
    del header["of_elements"]  # as in older files
    assert Committee.from_header(header, committee.deviations).of_elements == {}


def test_a_model_without_a_committee_says_how_to_get_one():
    potential = fit(molecules(12), DIRECT)
    with pytest.raises(InputError, match="--committee 8"):
        potential.predict(molecule("CH3CH2OH"), uncertainty=True)
    with pytest.raises(InputError, match="2 to 64 members"):
        fit(molecules(12), DIRECT, committee=1)


def test_small_fits_calibrate_on_all_of_their_structures_and_large_ones_on_a_part(monkeypatch):
    problem = Problem.of(molecules(30))
    assert len(_calibrating(problem, seed=0)) == 30
    monkeypatch.setattr("qml_lightning.training.uncertainty.CALIBRATION_STRUCTURES", 15)
    assert len(_calibrating(problem, seed=0)) == 15


def test_rows_of_calibration_are_those_of_the_fit():
    data = molecules(6)
    problem = Problem.of(data)
    settings = recipe(n_features=64)
    basis = fit(data, settings).basis.ready(Compute())
    rows, targets = _rows_of(basis, problem, settings)
    assert len(rows) == len(targets) == problem.n_rows
    groups = _groups(problem)
    assert sorted(torch.cat(groups).tolist()) == list(range(problem.n_rows))


@pytest.mark.parametrize("name", ["direct", "dual", "paired"])
def test_equations_solved_again_draw_the_committee_of_a_fit_to_all(name, fitted):
    settings, data = SOLVERS[name], molecules(60)
    earlier = fit(data.select(np.arange(40)), settings, committee=8, basis=fitted[name].basis)
    equations = equations_of(data, settings, basis=fitted[name].basis)
    again = solved(equations, committee=earlier.committee)
    torch.testing.assert_close(again.committee.deviations, fitted[name].committee.deviations, rtol=1e-3, atol=1e-6)
    assert again.committee.calibrations == earlier.committee.calibrations
    found, before = (one.predict(data.structures, uncertainty=True) for one in (again, earlier))
    assert float(found.energy_uncertainty[40:].mean()) < float(before.energy_uncertainty[40:].mean())


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_gradients_of_the_density_side_by_side_are_those_one_after_the_other(precision):
    settings = replace(recipes.DEFAULT, ridge=1e-4, features=replace(recipes.DEFAULT.features, n_features=256))
    potential, new = fit(crystals(12), settings, committee=8), crystals(2, seed=500).structures
    for n in (1, 2, 3, 4, 6, 8):  # beside those of the model: one pass, two, and passes that are not full
        one = replace(potential, committee=replace(potential.committee, force_members=n))
        found = one.on(precision=precision).predict(new, uncertainty=True)
        wanted = one.on(kernels="reference", precision="float64").predict(new, uncertainty=True)
        tolerance = {"float32": 1e-3, "float64": 1e-8}[precision]
        for field in ("forces", "force_uncertainty"):
            mine, right = getattr(found, field), getattr(wanted, field)
            assert float((mine - right).abs().max()) < tolerance * float(right.abs().max()), (n, field)


def test_an_iteration_with_a_committee_holds_out_enough_to_calibrate_it():
    wanted = {(60, 0.25): 15, (100, 0.03): 10, (200, 0.03): 20, (316, 0.03): 30, (2000, 0.03): 60}
    assert {case: Keep(committee=8).held_out(*case) for case in wanted} == wanted
    assert Keep().held_out(100, 0.03) == 3
    settings = replace(SOLVERS["iterative"], solver=replace(ITERATIVE, held_out=0.03))
    potential = fit(molecules(40), settings, committee=2)
    assert potential.provenance.solution["held_out_structures"] == 10
    assert len(potential.committee) == 2


def test_an_iteration_of_few_structures_refuses_a_committee_before_it_begins(monkeypatch):
    monkeypatch.setattr("qml_lightning.training.solvers.iterative.prepared", None)
    few = molecules(19)
    with pytest.raises(InputError, match=r"10 structures that are held out.*got 19 in all"):
        fit(few, SOLVERS["iterative"], committee=2)
    automatic = replace(SOLVERS["iterative"], solver=SolverSettings(preconditioner_features=256))
    assert fit(few, automatic, committee=2).provenance.plan["solver"] == "direct"


def test_forces_of_each_element_have_a_calibration_of_their_own_if_it_has_many():
    problem, settings = Problem.of(molecules(60)), recipe(n_features=64)
    numbers, random = problem.structures.numbers, torch.Generator().manual_seed(0)
    true = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 2.0], dtype=torch.float64)[numbers]  # H, C, O
    members = torch.randn(problem.n_rows, 2, generator=random, dtype=torch.float64)
    errors = torch.randn(problem.n_rows, generator=random, dtype=torch.float64)
    errors[len(problem.structures) :] *= settings.weight_of("forces") * true.repeat_interleave(3)
    plain = Committee(torch.zeros(2, 64), 64, 2)
    found = _with_calibrations(plain, problem, settings, errors, members)
    assert set(found.of_elements) == {1, 6}  # 180 components of O are too few
    told = found.of_forces(members[60:].T.reshape(2, -1, 3) / settings.weight_of("forces"), numbers)
    for z, allowed in ((1, 0.1), (6, 0.1)):
        normalised = (errors[60:].view(-1, 3) / settings.weight_of("forces") / told[:, None])[numbers == z].abs()
        assert float((normalised < 1).double().mean()) == pytest.approx(0.683, abs=allowed), z
        assert float(told[numbers == z].median()) == pytest.approx(float(true[numbers == z][0]), rel=0.3), z
    whole = replace(found, of_elements={})
    assert torch.equal(told[numbers == 8], whole.of_forces(members[60:].T.reshape(2, -1, 3), numbers)[numbers == 8])
