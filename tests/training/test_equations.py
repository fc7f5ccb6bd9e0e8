"""Equations add, serve every weight, ridge and reference energy, and lose nothing on disk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import qml_lightning.linear.normal_equations
from qml_lightning import fit
from qml_lightning.atoms.dataset import concatenate
from qml_lightning.atoms.structures import Labels
from qml_lightning.datasets import Dataset
from qml_lightning.errors import InputError, ModelError, ResourceError, SolveError
from qml_lightning.linear.normal_equations import Gram, Rows
from qml_lightning.linear.ridge import Ridge
from qml_lightning.model.baseline import found_baseline
from qml_lightning.training.choice.rules import refinement
from qml_lightning.training.chosen_recipe import Chosen
from qml_lightning.training.equations import extended, merged
from qml_lightning.training.equations_file import load_equations, read_equations_header, save_equations
from qml_lightning.training.solvers.direct import solved
from qml_lightning.training.sweep import sweep
from small_models import crystals, labelled, molecules, recipe
from structures_for_tests import rattled

SETTINGS = recipe(ridge=1e-4, n_features=128)


def mixed(n: int, seed: int = 0) -> Dataset:
    """Molecules of different compositions, all of them among H, C and O."""
    from ase.build import molecule

    names = ("CH3CH2OH", "CH3OH", "H2O", "CH4", "H2CO")
    return labelled([rattled(molecule(names[k % len(names)]), seed + k, 0.05) for k in range(n)])


@pytest.fixture
def gathered(tmp_path):
    """The equations that a fit keeps, read back, and its potential."""

    def gathered_(data, settings=SETTINGS, **options):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.equations"
        potential = fit(data, settings, equations=path, **options)
        return load_equations(path), potential

    return gathered_


def close(one, other, tolerance=1e-7) -> bool:
    return float((one.weights - other.weights).abs().max()) <= tolerance * float(other.weights.abs().max())


# ---- what they hold --------------------------------------------------------------------------------------------------


def test_equations_are_those_of_the_rows(gathered):
    """Rows from the design, sums by numpy."""
    from qml_lightning.training.rows import environments, rows_of_kind

    data = crystals(40)
    equations, potential = gathered(data)
    basis, structures = potential.on().basis, data.structures
    at = environments(basis, structures, ("forces", "stress"))
    size = structures.counts.double().sqrt().numpy()
    z = rows_of_kind(basis, at, "energies").numpy() / size[:, None]
    energies = equations.parts["energies"]
    assert isinstance(energies, Rows)
    assert np.allclose(energies.filled()[0], z)
    numbers = structures.numbers.view(40, -1)
    counts = torch.stack([(numbers == element).sum(1) for element in potential.elements], 1)
    assert np.allclose(energies.filled()[1][:, 1:], counts.numpy() / size[:, None])
    z, y = rows_of_kind(basis, at, "forces").numpy(), data.labels.forces.flatten().numpy()
    forces = equations.parts["forces"]
    assert isinstance(forces, Gram)
    assert np.allclose(np.tril(forces.gram), np.tril(z.T @ z))
    assert np.allclose(forces.moment[:, 0], z.T @ y)
    assert float(forces.square) == pytest.approx(float(y @ y))
    assert equations.rows == {"energies": 40, "forces": 480, "stress": 240}


def test_rows_that_cannot_all_wait_come_in_shares_and_those_without_a_label_not_at_all(gathered, monkeypatch):
    from qml_lightning.training.rows import environments, rows_of_kind

    monkeypatch.setattr(
        qml_lightning.linear.normal_equations, "BUFFER_BYTES", 8 * 128 * 5
    )  # a structure has twelve rows of forces
    whole = crystals(40)
    forces = whole.labels.forces.clone()
    forces[::7, 1] = torch.nan
    data = replace(whole, labels=replace(whole.labels, forces=forces))
    equations, potential = gathered(data)
    basis = potential.on().basis
    at = environments(basis, data.structures, ("forces",))
    known = forces.flatten().isfinite()
    z, y = rows_of_kind(basis, at, "forces")[known], forces.flatten()[known]
    part = equations.parts["forces"]
    assert part.n == len(z) == 480 - 23
    assert torch.allclose(part.gram.tril(), (z.T @ z).tril())
    assert torch.allclose(part.moments()[:, 0], z.T @ y)


def test_equations_solve_to_the_potential_of_the_fit(gathered):
    for data in (mixed(30), crystals(20), molecules(3)):
        equations, potential = gathered(data)
        again = solved(equations)
        assert close(again, potential, 1e-9)
        assert torch.equal(again.baseline.energies, potential.baseline.energies)
        assert close(solved(equations, use_up=True), potential, 1e-9)


def test_weights_ridge_and_reference_energies_are_chosen_late(gathered):
    data, given = mixed(30), {1: -1.0, 6: 2.0, 8: -5.0}
    equations, _ = gathered(data)
    other = replace(SETTINGS, ridge=1e-2, energy_weight=0.3, force_weight=2.0)
    assert close(solved(equations, other), fit(data, other))
    assert close(solved(equations, reference_energies=given), fit(data, SETTINGS, reference_energies=given))


def test_reference_energies_from_sums_are_those_of_least_squares(gathered):
    for data in (mixed(30), molecules(5), crystals(8)):
        equations, _ = gathered(data)
        wanted = found_baseline(data.structures, data.labels.energies, data.structures.elements).baseline
        assert equations.baseline().energies.tolist() == pytest.approx(wanted.energies.tolist(), rel=1e-9)


# ---- sweeps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_ridges", [2, 11], ids=["by Cholesky", "by eigenvalues"])
@pytest.mark.parametrize("n", [2, 25], ids=["dual", "normal equations"])
def test_a_sweep_gives_the_fits_of_its_points(gathered, n, n_ridges):
    data = mixed(n)
    equations, _ = gathered(data)
    ridges = np.geomspace(1e-4, 1e-1, n_ridges).tolist()
    points = sweep(equations, [1.0, 10.0], ridges)
    assert [(p.energy_weight, p.ridge) for p in points] == [(w, r) for w in (1.0, 10.0) for r in ridges]
    for point in (points[0], points[1], points[-1]):
        settings = replace(SETTINGS, energy_weight=point.energy_weight, ridge=point.ridge)
        assert point.potential.recipe == settings
        assert close(point.potential, fit(data, settings))
    assert close(solved(equations), fit(data, SETTINGS))  # they are as they were


def test_a_sweep_tells_the_errors_on_the_rows(gathered):
    data = mixed(25)
    equations, _ = gathered(data)
    (point,) = sweep(equations, [2.0], [1e-2])
    prediction = point.potential.predict(data.structures)
    energy = (prediction.energies - data.labels.energies) / data.structures.counts.double().sqrt()
    forces = prediction.forces - data.labels.forces
    assert point.errors["energies"] == pytest.approx(float(energy.square().mean().sqrt()), rel=1e-6)
    assert point.errors["forces"] == pytest.approx(float(forces.square().mean().sqrt()), rel=1e-6)


# ---- adding and taking out -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(2, 3), (3, 30), (30, 3), (40, 160)], ids=str)
def test_adding_structures_equals_training_on_all_of_them(gathered, sizes):
    first, second = mixed(sizes[0]), mixed(sizes[1], seed=1000)
    equations, potential = gathered(first)
    whole = fit(concatenate([first, second]), SETTINGS, basis=potential)
    grown = solved(extended(equations, second))
    assert close(grown, whole)
    assert grown.baseline.energies.tolist() == pytest.approx(whole.baseline.energies.tolist(), rel=1e-9)
    assert grown.provenance.targets == whole.provenance.targets
    assert (grown.provenance.structures, grown.provenance.atoms) == (
        sum(sizes),
        first.structures.n_atoms + second.structures.n_atoms,
    )


@pytest.mark.parametrize("sizes", [(3, 4), (4, 30), (30, 4), (150, 140)], ids=str)
def test_merged_equations_equal_training_on_all_structures(gathered, sizes):
    first, second = mixed(sizes[0]), mixed(sizes[1], seed=1000)
    one, potential = gathered(first)
    two, _ = gathered(second, basis=potential)
    whole = fit(concatenate([first, second]), SETTINGS, basis=potential)
    both = merged(one, two)
    assert close(solved(both), whole)
    assert both.rows == whole.provenance.targets
    assert [part["n_structures"] for part in both.data["parts"]] == list(sizes)


def test_taking_structures_out_equals_never_having_had_them(gathered):
    first, second = mixed(20), mixed(10, seed=1000)
    equations, potential = gathered(concatenate([first, second]))
    without = fit(first, SETTINGS, basis=potential)
    less = extended(equations, second, remove=True)
    assert close(solved(less), without)
    assert less.rows == without.provenance.targets
    assert close(solved(extended(less, second)), potential)


def test_given_reference_energies_stay_when_structures_are_added(gathered):
    given = {1: -1.0, 6: 2.0, 8: -5.0}
    equations, _ = gathered(mixed(6), reference_energies=given)
    assert solved(extended(equations, mixed(6, seed=1000))).baseline.energies.tolist() == [-1.0, 2.0, -5.0]


def test_what_has_fewer_labels_adds_to_those_it_has(gathered):
    data = mixed(20)
    forces_only = Dataset(mixed(5, 99).structures, Labels(forces=mixed(5, 99).labels.forces), data.source)
    equations, _ = gathered(data)
    more = extended(equations, forces_only)
    assert more.rows["energies"] == 20
    assert more.rows["forces"] == 3 * (data.structures.n_atoms + forces_only.structures.n_atoms)


def test_structures_that_are_in_already_or_never_were_are_refused(gathered):
    data = mixed(10)
    equations, _ = gathered(data)
    with pytest.raises(InputError, match="3 of 3 structures are in the equations already"):
        extended(equations, data.select([1, 2, 3]))
    with pytest.raises(InputError, match=r"1 of 2 structures .* are not in the equations"):
        extended(equations, concatenate([data.select([0]), mixed(1, seed=77)]), remove=True)
    moved = Dataset(data.structures, Labels(data.labels.energies + 1.0, data.labels.forces), data.source)
    with pytest.raises(InputError, match="10 of 10 structures"):
        extended(equations, moved, remove=True)
    with pytest.raises(InputError, match="nothing would be left"):
        extended(equations, data, remove=True)
    assert extended(equations, data, repeated=True).rows["energies"] == 20


def test_different_bases_are_refused_with_what_differs(gathered):
    data = mixed(10)
    one, potential = gathered(data)
    for settings, word in (
        (replace(SETTINGS, seed=1), "axes|drawn"),
        (recipe(ridge=1e-4, n_features=256), "features"),
        (replace(SETTINGS, size_exponent=1.0), "size_exponent"),
    ):
        other, _ = gathered(mixed(10, seed=50), settings)
        with pytest.raises(InputError, match=f"different bases cannot be added: .*({word})"):
            merged(one, other)
    with pytest.raises(InputError, match="does not go with the basis"):
        fit(data, replace(SETTINGS, rank=64), basis=potential)
    given, _ = gathered(mixed(10, seed=50), basis=potential, reference_energies={1: 0.0, 6: 0.0, 8: 0.0})
    with pytest.raises(InputError, match="different reference energies"):
        merged(one, given)


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"method": "rff"}, {"blocks": True, "paired": True}], ids=str)
def test_a_file_of_equations_gives_every_number_back(gathered, tmp_path, monkeypatch, changes):
    monkeypatch.setattr(qml_lightning.linear.normal_equations, "GRAM_TILE", 48)  # 128 columns: whole tiles and a rest
    equations, _ = gathered(crystals(30), recipe(ridge=1e-4, n_features=128, **changes))
    save_equations(equations, tmp_path / "again")
    again = load_equations(tmp_path / "again")
    for kind, part in equations.parts.items():
        assert torch.equal(part.moments(), again.parts[kind].moments())
        assert torch.equal(part.squares(), again.parts[kind].squares())
        if isinstance(part, Gram):
            assert torch.equal(part.gram.tril(), again.parts[kind].gram.tril())
    assert torch.equal(solved(equations).weights, solved(again).weights)
    assert (again.recipe, again.elements, again.data) == (equations.recipe, equations.elements, equations.data)
    with pytest.raises(InputError, match="exists"):
        save_equations(equations, tmp_path / "again")


def test_only_the_lower_triangle_is_on_disk(gathered, tmp_path, monkeypatch):
    monkeypatch.setattr(qml_lightning.linear.normal_equations, "GRAM_TILE", 64)
    equations, potential = gathered(mixed(60), recipe(ridge=1e-4, n_features=512), targets=("forces",))
    save_equations(equations, tmp_path / "e")
    potential.save(tmp_path / "m")  # the basis is in both
    assert (tmp_path / "e").stat().st_size - (tmp_path / "m").stat().st_size < 0.6 * 8 * 512**2
    assert read_equations_header(tmp_path / "e")["parts"]["forces"]["form"] == "gram"


def test_files_that_are_no_equations_are_told_apart(gathered, tmp_path):
    equations, potential = gathered(mixed(5))
    potential.save(tmp_path / "model")
    with pytest.raises(ModelError, match="not a qml-lightning equations file; it holds qml-lightning"):
        load_equations(tmp_path / "model")
    save_equations(equations, tmp_path / "whole")
    (tmp_path / "torn").write_bytes((tmp_path / "whole").read_bytes()[:-1000])
    with pytest.raises(ModelError, match="truncated"):
        load_equations(tmp_path / "torn")
    with pytest.raises(InputError, match="no equations file"):
        load_equations(tmp_path / "absent")


def test_too_little_memory_for_the_equations_is_told_before_they_are_read(gathered, tmp_path, monkeypatch):
    save_equations(gathered(mixed(30))[0], tmp_path / "e")
    monkeypatch.setattr("qml_lightning.machine.memory.available_memory", lambda: 1024)
    with pytest.raises(ResourceError, match="Reading equations"):
        load_equations(tmp_path / "e")


def test_equations_and_checkpoints_are_of_the_direct_solver(tmp_path):
    iterative = replace(SETTINGS, solver=replace(SETTINGS.solver, method="iterative"))
    with pytest.raises(InputError, match="iterative solver and kept equations exclude each other, as it forms"):
        fit(mixed(5), iterative, equations=tmp_path / "e")


def test_a_ridge_that_was_chosen_grows_where_it_is_lost_in_rounding_and_one_that_was_given_does_not(gathered):
    wide = recipe(ridge=1e-4, n_features=128, sigma=1e4)  # features that hardly differ
    equations, _ = gathered(molecules(30), wide)
    lost = replace(wide, ridge=1e-15)
    with pytest.raises(SolveError, match="not positive definite"):
        solved(equations, lost, use_up=False)
    chosen = replace(equations, chosen=Chosen(wide, Ridge(wide.ridge, refinement(0.0))))
    with pytest.raises(SolveError, match="not positive definite"):
        solved(chosen, lost, Ridge(lost.ridge), use_up=False)  # as `update --ridge` gives it
    with pytest.warns(UserWarning, match=r"The ridge 1e-15 is lost in rounding; .* was taken"):
        potential = solved(chosen, lost, use_up=True)
    assert 1e-15 < potential.recipe.ridge <= 1e-13
